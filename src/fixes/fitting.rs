//! Whether a plan fits where it is asked for: kernel, driver and boot of a container, of WSL or of an image are changed elsewhere, and the commands of one
//! distribution are not those of another.

use super::command_line::is_kept_with_the_image;
use super::recipes::{Family, family, known_family};
use crate::checks::Report;
use crate::domain::{Change, Finding, FixPlan, Route, Status};
use crate::host::{Root, container, os_release};

/// Fixes of the kernel, the driver, the mounts and the boot: they belong to the host of a container.
const OF_THE_HOST: &[&str] = &[
    "nvidia-driver-open",
    "nvidia-driver-proprietary",
    "nvidia-fabricmanager",
    "nvfs-install",
    "nvfs-load",
    "nvfs-dkms",
    "secure-boot-key",
    "nvme-patch",
    "iommu-off",
    "acs-redirect",
    "ext4-ordered",
    "nvme-multipath-off",
    "p2pdma-registry-keys",
    "initramfs",
    "md-udev",
    "nvfs-stats",
    "bar1-large",
    "memlock",
    "kernel-p2pdma",
];
/// Fixes by package manager, initramfs or boot loader: each distribution has its own, and images have none.
const OF_THE_DISTRIBUTION: &[&str] = &[
    "nvidia-repository",
    "nvidia-driver-open",
    "nvidia-driver-proprietary",
    "nvidia-fabricmanager",
    "nvfs-install",
    "libcufile-install",
    "nvfs-dkms",
    "secure-boot-key",
    "nvme-patch",
    "iommu-off",
    "acs-redirect",
    "nvme-multipath-off",
    "p2pdma-registry-keys",
    "initramfs",
    "kernel-p2pdma",
];

/// Fixes that are files in `/etc` and no more: they last on every system but those that make `/etc` anew from something else.
const OF_FILES: &[&str] = &["nvfs-load", "md-udev", "memlock", "ext4-ordered"];

/// The plan with what stands in its way here.
pub(super) fn fitted(root: &Root, report: &Report, mut plan: FixPlan) -> FixPlan {
    let id = plan.id.as_str();
    let is_wsl = report.finding("wsl").is_some_and(|finding| finding.status == Status::Fail);
    let of_the_host = OF_THE_HOST.contains(&id);
    let of_the_distribution = OF_THE_DISTRIBUTION.contains(&id);
    // A word of the command line is set by the image's own tool, and that is all that these plans do.
    let words_only = matches!(id, "iommu-off" | "acs-redirect" | "ext4-ordered") && is_kept_with_the_image(root);
    let obstacle = if of_the_host && is_wsl {
        Some("this is the Windows Subsystem for Linux: its kernel and its driver are those of Windows, and no direct route can be built in it".to_owned())
    } else if let Some(found) = of_the_host.then(|| container(root)).flatten() {
        Some(format!(
            "this is a container ({}: {}): kernel, driver, mounts and boot are those of its host, so it is done there",
            found.source, found.text
        ))
    } else if let Some(how) = image(root)
        .filter(|_| !words_only)
        .filter(|_| of_the_distribution || (OF_FILES.contains(&id) && makes_etc(root)))
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
                    "{name} is neither of the families of Debian, RHEL or SUSE, whose commands gds-top knows; its own package manager, boot loader and \
                     initramfs do the same"
                )
            },
        ))
    } else if matches!(id, "p2pdma-registry-keys" | "iommu-off")
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
            && finding.fix.as_deref().is_none_or(|fix| fix == "nvme-patch")
    };
    if id == "nvfs-install" && report.finding("nvfs-nvme-symbol").is_some_and(driver_is_missing) {
        plan.why
            .push_str(" For NVMe disks gds-top fix nvme-patch comes first: nvidia-fs must be built after that driver.");
    }
    // Where it is the wrong place altogether, nothing smaller matters.
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
         --enable'; else the image itself is built anew"
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
