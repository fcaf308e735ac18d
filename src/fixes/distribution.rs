//! Which release of which distribution a machine runs, as far as packages and kernels go.

use super::recipes::{Family, file, run};
use crate::domain::Change;
use crate::host::{Root, os_release};

/// Distributions that are rebuilt from RHEL and numbered as it is.
const NUMBERED_AS_RHEL: &[&str] =
    &["rhel", "rocky", "almalinux", "centos", "ol", "eurolinux", "circle", "miraclelinux", "springdale", "scientific"];

fn id(root: &Root) -> String {
    os_release(root, "ID").unwrap_or_default()
}

/// The name for people.
pub(super) fn called(root: &Root) -> String {
    os_release(root, "PRETTY_NAME").or_else(|| os_release(root, "ID")).unwrap_or_else(|| "this system".to_owned())
}

/// The first numbers of the release: (22, 4) of `22.04`.
pub(super) fn release(root: &Root) -> Option<(u32, u32)> {
    let version = os_release(root, "VERSION_ID")?;
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    let major = parts.next()??;
    Some((major, parts.next().flatten().unwrap_or(0)))
}

/// What follows `platform:` in `PLATFORM_ID`: `el9`, `f42`, `al8`.
fn platform(root: &Root) -> Option<String> {
    os_release(root, "PLATFORM_ID")?.strip_prefix("platform:").map(str::to_owned)
}

/// The release of RHEL that the packages are those of; none for distributions that count their releases in a way of their own and do not say.
pub(super) fn rhel(root: &Root) -> Option<u32> {
    if NUMBERED_AS_RHEL.contains(&id(root).as_str()) {
        return release(root).map(|(major, _)| major);
    }
    platform(root)?.strip_prefix("el")?.parse().ok()
}

/// The release of Fedora, or of the one that it is made of.
pub(super) fn fedora(root: &Root) -> Option<u32> {
    if id(root) == "fedora" {
        return release(root).map(|(major, _)| major);
    }
    platform(root)?.strip_prefix('f')?.parse().ok()
}

/// The package manager of the family of RHEL: Azure Linux has a smaller one.
pub(super) fn dnf(root: &Root) -> &'static str {
    if id(root) == "azurelinux" && release(root).is_none_or(|(major, _)| major < 4) { "tdnf" } else { "dnf" }
}

/// What is said of packages whose names were not seen in NVIDIA's own lists for this distribution; empty elsewhere. Its guide (branch 620) names the
/// driver's for Amazon Linux 2023 and those of Azure Linux 4, and no nvidia-gds for either.
pub(super) fn not_confirmed(root: &Root, package: &str) -> String {
    match (id(root).as_str(), release(root)) {
        ("amzn", _) if package == "nvidia-open" => String::new(),
        ("amzn", _) => format!(
            " That NVIDIA's repository for {} has {package} is not confirmed: 'dnf list {package}' tells.",
            called(root)
        ),
        ("azurelinux", Some((3, _))) => format!(
            " That NVIDIA's repository for {} has {package} is not confirmed: 'tdnf list {package}' tells. Microsoft's own repository has the open driver built \
             for each kernel (azurelinux-repos-nvidia, then cuda-open), and nvidia-fs is built against that one then.",
            called(root)
        ),
        ("azurelinux", _) if package == "nvidia-open" => String::new(),
        ("azurelinux", _) => format!(
            " That NVIDIA's repository for {} has {package} is not confirmed: 'dnf list {package}' tells.",
            called(root)
        ),
        _ => String::new(),
    }
}

/// The packages that a module is compiled against for a kernel.
pub(super) fn headers(root: &Root, family: Family, kernel: &str) -> String {
    match family {
        Family::Debian => format!("linux-headers-{kernel}"),
        Family::RedHat if kernel.contains("uek") => format!("kernel-uek-devel-{kernel}"),
        Family::RedHat if kernel.ends_with("+64k") => {
            format!("kernel-64k-devel-{} kernel-headers", kernel.trim_end_matches("+64k"))
        }
        // Amazon Linux names the packages of its later kernels for them: kernel6.12-devel.
        Family::RedHat if id(root) == "amzn" && !kernel.starts_with("6.1.") => {
            let branch: Vec<&str> = kernel.split('.').take(2).collect();
            format!("kernel{}-devel-{kernel}", branch.join("."))
        }
        // The newer of the two kernels of Azure Linux 3 has packages of its own.
        Family::RedHat if id(root) == "azurelinux" && release(root) == Some((3, 0)) && !kernel.starts_with("6.6.") => {
            format!("kernel-hwe-devel-{kernel}")
        }
        Family::RedHat => format!("kernel-devel-{kernel} kernel-headers"),
        Family::Suse => {
            // As NVIDIA's guide pins it; the packages provide this version without the count of their rebuilds.
            let (version, flavour) = kernel.rsplit_once('-').unwrap_or((kernel, "default"));
            format!("kernel-{flavour}-devel={version}")
        }
    }
}

/// How a kernel of 6.2 or later is installed, or why this release has none.
pub(super) fn newer_kernel(root: &Root, family: Family) -> Result<Vec<Change>, String> {
    let none = |newest: &str, instead: &str| {
        Err(format!("{} has no such kernel: its newest is {newest}. {instead}", called(root)))
    };
    let unknown = || Err(format!("which kernels {} has is not known to gds-top", called(root)));
    match family {
        Family::Debian => debian(root),
        Family::RedHat => match (id(root).as_str(), release(root).map(|(major, _)| major), rhel(root)) {
            ("amzn", Some(2023), _) => Ok(vec![
                run("sudo dnf install kernel6.12"),
                Change::Run {
                    argv: [
                        "sudo",
                        "sh",
                        "-c",
                        "grubby --set-default=\"$(ls /boot/vmlinuz-6.12* | sort -V | tail -n 1)\"",
                    ]
                    .map(str::to_owned)
                    .to_vec(),
                },
            ]),
            ("amzn", ..) => none("5.15", "Move to Amazon Linux 2023, which has 6.12."),
            ("azurelinux", Some(3..), _) => Ok(vec![run("sudo tdnf upgrade kernel")]),
            (_, _, Some(..=8)) => none("4.18", "Move to release 9.6 or 10 (leapp upgrade)."),
            // P2PDMA came with 9.6, so the release itself is what has to be newer.
            (_, _, Some(9)) => Ok(vec![run("sudo dnf upgrade --refresh")]),
            (_, _, Some(_)) => Ok(vec![run("sudo dnf upgrade kernel")]),
            _ if fedora(root).is_some() => Ok(vec![run("sudo dnf upgrade kernel")]),
            _ => unknown(),
        },
        Family::Suse => match release(root) {
            Some((..=14, _)) => none("of branch 4 or 5", "Move to 15 SP6 or later."),
            Some((15, ..=5)) if id(root) == "sles" => Ok(vec![run("sudo zypper migration")]),
            Some((15, ..=5)) => none("5.14", "Move to 15.6: sudo zypper --releasever=15.6 dup."),
            _ => Ok(vec![run("sudo zypper update kernel-default")]),
        },
    }
}

fn debian(root: &Root) -> Result<Vec<Change>, String> {
    let arm = root.read_text("/proc/sys/kernel/arch").is_ok_and(|arch| arch.trim() == "aarch64");
    let image = if arm { "linux-image-arm64" } else { "linux-image-amd64" };
    let id = id(root);
    let codename = os_release(root, "UBUNTU_CODENAME");
    // A distribution made of Ubuntu has the kernels of the one that it names.
    let ubuntu = match (id.as_str(), codename.as_deref()) {
        ("ubuntu", _) => release(root),
        (_, Some("bionic")) => Some((18, 4)),
        (_, Some("focal")) => Some((20, 4)),
        (_, Some("jammy")) => Some((22, 4)),
        (_, Some("noble")) => Some((24, 4)),
        (_, Some(_)) => Some((26, 4)),
        _ => None,
    };
    if let Some(version) = ubuntu {
        return match version {
            (..=21, _) => {
                Err(format!("{} has no such kernel: its newest is 5.15. Move to Ubuntu 24.04.", called(root)))
            }
            (22, 4) => Ok(vec![run("sudo apt-get install linux-generic-hwe-22.04")]),
            (24, 4) => Ok(vec![run("sudo apt-get install linux-generic-hwe-24.04")]),
            _ => Ok(vec![run("sudo apt-get install linux-generic")]),
        };
    }
    let of_debian =
        match os_release(root, "VERSION_CODENAME").or_else(|| os_release(root, "DEBIAN_CODENAME")).as_deref() {
            Some("buster") => Some(10),
            Some("bullseye") => Some(11),
            Some("bookworm") => Some(12),
            _ if id == "debian" => release(root).map(|(major, _)| major),
            _ => None,
        };
    match of_debian {
        Some(..=11) => Err(format!(
            "{} has no such kernel, in its backports neither: the newest is 6.1. Move to Debian 13, which has 6.12.",
            called(root)
        )),
        Some(12) => Ok(vec![
            file(
                root,
                "/etc/apt/sources.list.d/bookworm-backports.list",
                "deb http://deb.debian.org/debian bookworm-backports main\n",
            ),
            run("sudo apt-get update"),
            run(&format!("sudo apt-get install -t bookworm-backports {image}")),
        ]),
        _ => Ok(vec![run(&format!("sudo apt-get install {image}"))]),
    }
}

/// How DKMS comes to a system whose own archive does not have it.
pub(super) fn dkms_source(root: &Root) -> Vec<Change> {
    let Some(major) = rhel(root) else { return Vec::new() };
    let arch = root.read_text("/proc/sys/kernel/arch").ok().map(|arch| arch.trim().to_owned());
    let arch = arch.filter(|arch| !arch.is_empty()).unwrap_or_else(|| "x86_64".to_owned());
    match id(root).as_str() {
        "rhel" => vec![
            run(&format!("sudo subscription-manager repos --enable=codeready-builder-for-rhel-{major}-{arch}-rpms")),
            run(&format!(
                "sudo dnf install https://dl.fedoraproject.org/pub/epel/epel-release-latest-{major}.noarch.rpm"
            )),
        ],
        "ol" => vec![run(&format!("sudo dnf install oracle-epel-release-el{major}"))],
        _ => {
            let builder = if major == 8 { "powertools" } else { "crb" };
            vec![run(&format!("sudo dnf config-manager --set-enabled {builder}")), run("sudo dnf install epel-release")]
        }
    }
}
