//! The distribution and its release, which determine packages and kernels.

use super::parts::run;
use crate::core::Change;
pub(super) use crate::machine::packages::{dnf, headers, id, release};
use crate::machine::{Root, os_release};

/// Distributions that use the version numbers of RHEL.
const NUMBERED_AS_RHEL: &[&str] =
    &["rhel", "rocky", "almalinux", "centos", "ol", "eurolinux", "circle", "miraclelinux", "springdale", "scientific"];

/// The name for display.
pub(super) fn called(root: &Root) -> String {
    os_release(root, "PRETTY_NAME").or_else(|| os_release(root, "ID")).unwrap_or_else(|| "this system".to_owned())
}

/// The text after `platform:` in `PLATFORM_ID`: `el9`, `f42`, `al8`.
fn platform(root: &Root) -> Option<String> {
    os_release(root, "PLATFORM_ID")?.strip_prefix("platform:").map(str::to_owned)
}

/// The RHEL release of the packages. `None` for distributions with other version numbers that do not state it.
pub(super) fn rhel(root: &Root) -> Option<u32> {
    if NUMBERED_AS_RHEL.contains(&id(root).as_str()) {
        return release(root).map(|(major, _)| major);
    }
    platform(root)?.strip_prefix("el")?.parse().ok()
}

/// The Fedora release, also for distributions that are based on Fedora.
pub(super) fn fedora(root: &Root) -> Option<u32> {
    if id(root) == "fedora" {
        return release(root).map(|(major, _)| major);
    }
    platform(root)?.strip_prefix('f')?.parse().ok()
}

/// A note about packages that are not in NVIDIA's lists for this distribution. It is empty if they are. NVIDIA's
/// guide (branch 620) names the driver packages for Amazon Linux 2023 and Azure Linux 4, but no nvidia-gds for these
/// or for SUSE.
pub(super) fn not_confirmed(root: &Root, package: &str) -> String {
    match (id(root).as_str(), release(root)) {
        ("amzn", _) if package == "nvidia-open" => String::new(),
        ("amzn", _) => format!(
            " It is not confirmed that NVIDIA's repository for {} has {package}: run 'dnf list {package}'.",
            called(root)
        ),
        ("azurelinux", Some((3, _))) => format!(
            " It is not confirmed that NVIDIA's repository for {} has {package}: run 'tdnf list {package}'. Microsoft's repository has the open driver built \
             for each kernel (azurelinux-repos-nvidia, then cuda-open); then build nvidia-fs with that one.",
            called(root)
        ),
        ("azurelinux", _) if package == "nvidia-open" => String::new(),
        ("azurelinux", _) => format!(
            " It is not confirmed that NVIDIA's repository for {} has {package}: run 'dnf list {package}'.",
            called(root)
        ),
        (name, _) if package != "nvidia-open" && (name.starts_with("sle") || name.starts_with("opensuse")) => format!(
            " It is not confirmed that NVIDIA's repository for {} has {package}: run 'zypper search {package}'.",
            called(root)
        ),
        _ => String::new(),
    }
}

/// The commands that add a package source with DKMS, if the distribution does not include DKMS.
pub(super) fn dkms_source(root: &Root) -> Vec<Change> {
    let Some(major) = rhel(root) else { return Vec::new() };
    let arch = root.read_text("/proc/sys/kernel/arch").ok().map(|arch| arch.trim().to_owned());
    let arch = arch.filter(|arch| !arch.is_empty()).unwrap_or_else(|| "x86_64".to_owned());
    match id(root).as_str() {
        "rhel" => vec![
            run(&format!("sudo subscription-manager repos --enable=codeready-builder-for-rhel-{major}-{arch}-rpms")),
            run(&format!(
                "sudo dnf install -y https://dl.fedoraproject.org/pub/epel/epel-release-latest-{major}.noarch.rpm"
            )),
        ],
        "ol" => vec![run(&format!("sudo dnf install -y oracle-epel-release-el{major}"))],
        _ => {
            let builder = if major == 8 { "powertools" } else { "crb" };
            vec![
                run(&format!("sudo dnf config-manager --set-enabled {builder}")),
                run("sudo dnf install -y epel-release"),
            ]
        }
    }
}
