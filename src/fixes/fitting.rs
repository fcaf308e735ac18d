//! Whether a plan fits the machine. Kernel, driver and boot of a container, of WSL or of an image are changed
//! elsewhere, and each distribution has other commands.

use super::command_line::is_kept_with_the_image;
use super::parts::{Family, family, known_family};
use super::spec::{self, Systems};
use crate::checks::{CheckId, Report};
use crate::core::{Change, Finding, FixId, FixPlan, Route, Status};
use crate::machine::{Root, container, os_release};

/// The plan with the obstacle that this machine has for it.
pub(super) fn fitted(root: &Root, report: &Report, mut plan: FixPlan) -> FixPlan {
    let id = plan.id;
    let spec = spec::of(id);
    let is_wsl = report.finding(CheckId::Wsl).is_some_and(|finding| finding.status == Status::Fail);
    let of_the_host = spec.is_of_host;
    let of_the_distribution = spec.systems == Systems::Families;
    // A word of the command line is set by the image's own tool, and that is all that these plans do.
    let words_only =
        matches!(id, FixId::IommuOff | FixId::AcsRedirect | FixId::Ext4Ordered) && is_kept_with_the_image(root);
    let obstacle = if of_the_host && is_wsl {
        Some("this is the Windows Subsystem for Linux: its kernel and its driver are those of Windows, and no direct route can be built in it".to_owned())
    } else if let Some(found) = of_the_host.then(|| container(root)).flatten() {
        Some(format!(
            "this is a container ({}: {}): kernel, driver, mounts and boot are those of its host, so it is done there",
            found.source, found.text
        ))
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
        // Commands of another distribution would only mislead.
        plan.changes.retain(|change| matches!(change, Change::WriteFile { .. }));
        plan.undo_commands.clear();
        let name = os_release(root, "PRETTY_NAME").or_else(|| os_release(root, "ID"));
        Some(name.map_or_else(
            || "/etc/os-release does not say which distribution this is, so its commands are not known".to_owned(),
            |name| {
                format!(
                    "gds-top knows the commands of the families of Debian, RHEL and SUSE, and {name} is of another; use its package manager, boot loader and initramfs tool"
                )
            },
        ))
    } else if matches!(id, FixId::P2pdmaRegistryKeys | FixId::IommuOff)
        && report.verdicts.iter().any(|v| v.possible == Route::C2c)
    {
        Some(
            "this is Grace: disks reach GPU memory over the coherent link, and the IOMMU must be on and translate"
                .to_owned(),
        )
    } else {
        None
    };
    // NVIDIA: the storage driver before nvidia-fs, which is compiled against it.
    let driver_is_missing = |finding: &Finding| {
        matches!(finding.status, Status::Fail | Status::Warn | Status::Info)
            && finding.cause.is_none()
            && finding.fix.is_none_or(|fix| fix == FixId::NvmePatch)
    };
    if id == FixId::NvfsInstall && report.finding(CheckId::NvfsNvmeSymbol).is_some_and(driver_is_missing) {
        plan.why
            .push_str(" For NVMe disks gds-top fix nvme-patch comes first: nvidia-fs must be built after that driver.");
    }
    // An obstacle of the machine comes before one of the plan.
    plan.obstacle = obstacle.or(plan.obstacle);
    plan
}

/// Whether what is written to `/etc` is lost, or refused.
fn makes_etc(root: &Root) -> bool {
    matches!(os_release(root, "ID").as_deref(), Some("nixos" | "talos" | "bottlerocket" | "cos"))
}

/// How a system whose programs come as one image is changed instead.
fn image(root: &Root) -> Option<String> {
    let id = os_release(root, "ID").unwrap_or_default();
    let variant = os_release(root, "VARIANT_ID").unwrap_or_default();
    let how = if id == "rhcos" || (id == "rhel" && variant == "coreos") {
        "on OpenShift NVIDIA's GPU Operator brings driver and nvidia-fs (gds.enabled=true), and a MachineConfig sets words of the kernel"
    } else if os_release(root, "OSTREE_VERSION").is_some() || root.exists("/run/ostree-booted") {
        "packages are layered with 'rpm-ostree install', words of the kernel set with 'rpm-ostree kargs --append=…', the initramfs with 'rpm-ostree initramfs \
         --enable'; else build the image again"
    } else if ["sl-micro", "sle-micro", "opensuse-microos", "opensuse-leap-micro"].contains(&id.as_str()) {
        "the same commands run in 'sudo transactional-update shell', and take effect with the reboot behind it"
    } else {
        match (id.as_str(), family(root)) {
            ("nixos", _) => {
                "its configuration.nix says what is installed, loaded and booted (hardware.nvidia.open, boot.kernelParams)"
            }
            ("flatcar" | "cos" | "bottlerocket" | "talos" | "coreos" | "ubuntu-core", _) => {
                "NVIDIA's GPU Operator or the image's own extension brings driver and nvidia-fs"
            }
            (_, Family::Debian) if root.exists("/run/snapd-core-booted") => "drivers come as a kernel snap",
            _ => return None,
        }
    };
    Some(format!("this is an image-based system, which these commands do not change lastingly: {how}"))
}
