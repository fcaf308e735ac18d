//! Checks whether a plan is possible on the machine. The kernel, driver and boot of a container, of WSL or of an
//! image-based system are changed elsewhere, and each distribution has other commands.

use super::command_line::{is_kept_with_the_image, is_of_grub, is_unknown};
use super::held;
use super::parts::{Family, family, known_family};
use super::spec::{self, Systems};
use crate::checks::Report;
use crate::core::{Change, CheckId, Finding, FixId, FixPlan, Route, Status};
use crate::machine::{ImageHost, Kept, Root, container, image_host, is_vgpu_guest, kept, os_release};

/// Adds the obstacle on this machine to a plan.
pub(super) fn fitted(root: &Root, report: &Report, mut plan: FixPlan) -> FixPlan {
    let id = plan.id;
    let spec = spec::of(id);
    let is_wsl = report.finding(CheckId::Wsl).is_some_and(|finding| finding.status == Status::Fail);
    let of_the_host = spec.is_of_host;
    let of_the_distribution = spec.systems == Systems::Families;
    // These plans only set a kernel argument. The tool of the image can do that.
    let words_only =
        matches!(id, FixId::IommuOff | FixId::AcsRedirect | FixId::Ext4Ordered) && is_kept_with_the_image(root);
    let obstacle = if of_the_host && is_wsl {
        Some(
            "the Windows Subsystem for Linux uses the kernel and driver of Windows, so no direct route is possible"
                .to_owned(),
        )
    } else if let Some(found) = of_the_host.then(|| container(root)).flatten() {
        Some(format!(
            "this is a container ({}: {}): change kernel, driver, mounts and boot on its host",
            found.source, found.text
        ))
    } else if matches!(id, FixId::NvidiaDriverOpen | FixId::NvidiaDriverProprietary) && is_vgpu_guest(root) {
        plan.changes.clear();
        Some(
            "this is a vGPU: only the guest driver of the host's vGPU release fits, from the provider of this machine"
                .to_owned(),
        )
    } else if is_of_operator(id) && image_host(root) == Some(ImageHost::DriverContainer) {
        Some(
            "NVIDIA's GPU Operator runs the driver of this node in a container: change its ClusterPolicy (driver, gds.enabled, driver.kernelModuleConfig)"
                .to_owned(),
        )
    } else if let Some(how) = image(root)
        .filter(|_| !words_only)
        .filter(|_| of_the_distribution || (spec.systems == Systems::KeepEtc && makes_etc(root)))
    {
        if !known_family(root) {
            plan.changes.retain(|change| matches!(change, Change::WriteFile { .. }));
            plan.undo_commands.clear();
        }
        Some(how)
    } else if of_the_distribution && !words_only && !known_family(root) {
        // The commands of the plan are for other distributions, so they are removed.
        plan.changes.retain(|change| matches!(change, Change::WriteFile { .. }));
        plan.undo_commands.clear();
        let name = os_release(root, "PRETTY_NAME").or_else(|| os_release(root, "ID"));
        Some(name.map_or_else(
            || "/etc/os-release does not name the distribution, so its commands are not known".to_owned(),
            |name| {
                format!(
                    "gds-top supports the families of Debian, RHEL and SUSE, but not {name}; use its package manager, boot loader and initramfs tool"
                )
            },
        ))
    } else if id == FixId::P2pdmaRegistryKeys && has_small_bar1(report) {
        // With a static mapping the driver rejects a BAR1 that does not cover the memory (kbusInitBar1 in NVIDIA's open
        // kernel modules).
        Some(format!(
            "BAR1 of a GPU is smaller than its memory: with these registry keys the driver can reject the GPU at the next boot. Make BAR1 large first: gds-top fix {}",
            FixId::Bar1Large
        ))
    } else if matches!(id, FixId::P2pdmaRegistryKeys | FixId::IommuOff)
        && report.verdicts.iter().any(|v| v.possible == Route::C2c)
    {
        Some("Grace uses the coherent link between CPU and GPU (c2c), which needs an IOMMU that translates".to_owned())
    } else {
        None
    };
    // nvidia-fs is compiled against the storage driver, so the storage driver must be installed first (NVIDIA's
    // guide).
    let driver_is_missing = |finding: &Finding| {
        matches!(finding.status, Status::Fail | Status::Warn | Status::Info)
            && finding.cause.is_none()
            && finding.fix.is_none_or(|fix| fix == FixId::NvmePatch)
    };
    if id == FixId::NvfsInstall && report.finding(CheckId::NvfsNvmeSymbol).is_some_and(driver_is_missing) {
        plan.why
            .push_str(" For NVMe disks run gds-top fix nvme-patch first: nvidia-fs must be built after that driver.");
    }
    let outcomes = plan.changes.iter().filter_map(|change| match change {
        Change::WriteFile { path, .. } => Some((path.display().to_string(), kept(root, &path.to_string_lossy()))),
        Change::Run { .. } => None,
    });
    let outcomes: Vec<(String, Kept)> = outcomes.collect();
    let place_of = |kind: Kept| outcomes.iter().find(|(_, kept)| *kept == kind).map(|(path, _)| path.clone());
    if let Some(path) = place_of(Kept::Outside) {
        plan.obstacle = plan.obstacle.or(Some(format!(
            "{path} is mounted from outside this container: make the change at its source, then start the container again"
        )));
    } else if let Some(path) = place_of(Kept::Lost) {
        plan.remaining.push(format!(
            "make the same change in the image, or mount {path} from outside, because the change is lost with this container"
        ));
    }
    if plan.changes.iter().any(is_of_grub) && is_unknown(root) {
        plan.changes.retain(|change| !is_of_grub(change));
        plan.undo_commands.clear();
        plan.obstacle = plan.obstacle.or(Some(
            "no file shows the boot loader of this machine: change its settings by hand (with U-Boot, the variable bootargs or the boot script)"
                .to_owned(),
        ));
    }
    // An obstacle of the machine overrides one of the plan.
    plan.obstacle = obstacle.or(plan.obstacle);
    held::lifted(root, plan)
}

/// Whether BAR1 of a GPU does not cover its memory.
fn has_small_bar1(report: &Report) -> bool {
    let is_small = |finding: &Finding| matches!(finding.status, Status::Fail | Status::Warn);
    report.findings.iter().any(|finding| finding.id == CheckId::GpuBar1Size && is_small(finding))
}

/// Whether the GPU Operator does this itself on nodes whose driver runs in a container.
const fn is_of_operator(id: FixId) -> bool {
    matches!(
        id,
        FixId::NvidiaDriverOpen
            | FixId::NvidiaDriverProprietary
            | FixId::NvidiaRepository
            | FixId::NvidiaFabricmanager
            | FixId::NvfsInstall
            | FixId::NvfsLoad
            | FixId::NvfsDkms
            | FixId::P2pdmaRegistryKeys
    )
}

/// Whether changes of `/etc` are lost or rejected.
fn makes_etc(root: &Root) -> bool {
    matches!(os_release(root, "ID").as_deref(), Some("nixos" | "talos" | "bottlerocket" | "cos"))
}

/// How to change an image-based system. `None` for other systems.
fn image(root: &Root) -> Option<String> {
    let id = os_release(root, "ID").unwrap_or_default();
    let variant = os_release(root, "VARIANT_ID").unwrap_or_default();
    let how = if id == "rhcos" || (id == "rhel" && variant == "coreos") {
        "on OpenShift use NVIDIA's GPU Operator for driver and nvidia-fs (gds.enabled=true), and a MachineConfig for kernel arguments"
    } else if os_release(root, "OSTREE_VERSION").is_some() || root.exists("/run/ostree-booted") {
        "use 'rpm-ostree install' for packages, 'rpm-ostree kargs --append=…' for kernel arguments and 'rpm-ostree initramfs --enable', or build the image again"
    } else if ["sl-micro", "sle-micro", "opensuse-microos", "opensuse-leap-micro"].contains(&id.as_str()) {
        "run the commands in 'sudo transactional-update shell', then reboot"
    } else {
        match (id.as_str(), family(root)) {
            ("nixos", _) => "change its configuration.nix (hardware.nvidia.open, boot.kernelParams)",
            ("flatcar" | "cos" | "bottlerocket" | "talos" | "coreos" | "ubuntu-core", _) => {
                "use NVIDIA's GPU Operator or an extension of the image for driver and nvidia-fs"
            }
            (_, Family::Debian) if root.exists("/run/snapd-core-booted") => "use a kernel snap with the drivers",
            _ => return None,
        }
    };
    Some(format!("these commands have no lasting effect on this image-based system: {how}"))
}
