//! The distribution family, which determines the package manager and the names of packages.

use super::image::{ImageHost, image_host};
use super::mkinitcpio;
use super::root::Root;
use super::summary::{container, os_release};

/// Distributions that use the version numbers of RHEL.
const NUMBERED_AS_RHEL: &[&str] =
    &["rhel", "rocky", "almalinux", "centos", "ol", "eurolinux", "circle", "miraclelinux", "springdale", "scientific"];

/// The distribution family, which determines the tools for packages and boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Debian, Ubuntu and their relatives, with apt.
    Debian,
    /// RHEL, Fedora and their relatives, with dnf or tdnf.
    RedHat,
    /// SLES and openSUSE, with zypper.
    Suse,
}

/// The family; Debian if it is not known.
#[must_use]
pub fn family(root: &Root) -> Family {
    named_family(root).unwrap_or(Family::Debian)
}

/// Whether `/etc/os-release` names one of the families.
#[must_use]
pub fn known_family(root: &Root) -> bool {
    named_family(root).is_some()
}

fn named_family(root: &Root) -> Option<Family> {
    let named: Vec<String> = [os_release(root, "ID"), os_release(root, "ID_LIKE")]
        .into_iter()
        .flatten()
        .flat_map(|words| words.split_whitespace().map(str::to_ascii_lowercase).collect::<Vec<_>>())
        .collect();
    let is = |known: &[&str]| named.iter().any(|word| known.contains(&word.as_str()));
    if is(&["rhel", "fedora", "centos", "rocky", "almalinux", "ol", "amzn", "azurelinux"]) {
        Some(Family::RedHat)
    } else if named.iter().any(|word| word.contains("suse") || word.starts_with("sle") || word.starts_with("sl-")) {
        Some(Family::Suse)
    } else if is(&["debian", "ubuntu"]) {
        Some(Family::Debian)
    } else {
        None
    }
}

/// Whether the packages are those of Arch Linux or a relative.
#[must_use]
pub fn is_arch(root: &Root) -> bool {
    let named = ["ID", "ID_LIKE"].into_iter().filter_map(|key| os_release(root, key));
    named.into_iter().any(|words| words.split_whitespace().any(|word| word == "arch"))
}

/// `ID` in `/etc/os-release`.
#[must_use]
pub fn id(root: &Root) -> String {
    os_release(root, "ID").unwrap_or_default()
}

/// The release as numbers: `22.04` is (22, 4).
#[must_use]
pub fn release(root: &Root) -> Option<(u32, u32)> {
    // Some images have only the name for display: `Ubuntu 24.04.3 LTS`.
    let shown = || {
        let name = os_release(root, "PRETTY_NAME")?;
        name.split(' ').find(|word| word.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned)
    };
    let version = os_release(root, "VERSION_ID").or_else(shown)?;
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    let major = parts.next()??;
    Some((major, parts.next().flatten().unwrap_or(0)))
}

/// The text after `platform:` in `PLATFORM_ID`: `el9`, `f42`, `al8`.
fn platform(root: &Root) -> Option<String> {
    os_release(root, "PLATFORM_ID")?.strip_prefix("platform:").map(str::to_owned)
}

/// The RHEL release of the packages. `None` for distributions with other version numbers that do not state it.
#[must_use]
pub fn rhel(root: &Root) -> Option<u32> {
    if NUMBERED_AS_RHEL.contains(&id(root).as_str()) {
        return release(root).map(|(major, _)| major);
    }
    platform(root)?.strip_prefix("el")?.parse().ok()
}

/// The Fedora release, also for distributions that are based on Fedora.
#[must_use]
pub fn fedora(root: &Root) -> Option<u32> {
    if id(root) == "fedora" {
        return release(root).map(|(major, _)| major);
    }
    platform(root)?.strip_prefix('f')?.parse().ok()
}

/// Whether this is an Ubuntu release that NVIDIA lists for MLNX_OFED and not for DOCA (release notes of GDS, MLNX_OFED/DOCA
/// requirements).
#[must_use]
pub fn is_ubuntu_before_doca(root: &Root) -> bool {
    id(root) == "ubuntu" && matches!(release(root), Some((18 | 20, 4)))
}

/// The packages that are needed to compile a module for a kernel.
#[must_use]
pub fn headers(root: &Root, family: Family, kernel: &str) -> String {
    match family {
        // Proxmox VE is Debian with its own kernels.
        Family::Debian if kernel.ends_with("-pve") => format!("proxmox-headers-{kernel}"),
        Family::Debian => format!("linux-headers-{kernel}"),
        Family::RedHat if kernel.contains("uek") => format!("kernel-uek-devel-{kernel} kernel-headers"),
        Family::RedHat if kernel.ends_with("+64k") => {
            format!("kernel-64k-devel-{} kernel-headers", kernel.trim_end_matches("+64k"))
        }
        // On Amazon Linux, the packages of later kernels contain the kernel version in their name: kernel6.12-devel.
        // The driver needs modules of the package modules-extra.
        Family::RedHat if id(root) == "amzn" => {
            let branch: Vec<&str> = kernel.split('.').take(2).collect();
            let name = if branch == ["6", "1"] { "kernel".to_owned() } else { format!("kernel{}", branch.join(".")) };
            format!("{name}-devel-{kernel} {name}-headers-{kernel} {name}-modules-extra-{kernel}")
        }
        // The newer of the two kernels in Azure Linux 3 has its own packages.
        Family::RedHat if id(root) == "azurelinux" && release(root) == Some((3, 0)) && !kernel.starts_with("6.6.") => {
            format!("kernel-hwe-devel-{kernel}")
        }
        Family::RedHat => format!("kernel-devel-{kernel} kernel-headers"),
        Family::Suse => {
            // NVIDIA's guide pins the version in this way. The packages provide it without their rebuild number.
            let (version, flavour) = kernel.rsplit_once('-').unwrap_or((kernel, "default"));
            format!("kernel-{flavour}-devel={version}")
        }
    }
}

/// The command that installs the packages to compile a module for a kernel. `None` if the distribution is not known.
/// apt replaces installed packages only if `again` is set.
#[must_use]
pub fn install_headers(root: &Root, kernel: &str, again: bool) -> Option<String> {
    if let Some(package) = arch_headers(root, kernel) {
        return Some(format!("sudo pacman -S --needed {package}"));
    }
    if !known_family(root) || !kernel.contains('.') {
        return None;
    }
    let family = family(root);
    let packages = headers(root, family, kernel);
    Some(match family {
        Family::Debian if again => format!("sudo apt-get install --reinstall {packages}"),
        Family::Debian => match debian_headers(root, kernel) {
            Some(following) => format!("sudo apt-get install {packages} {following}"),
            None => format!("sudo apt-get install {packages}"),
        },
        Family::RedHat => format!("sudo {} install {packages}", dnf(root)),
        Family::Suse => format!("sudo zypper install {packages}"),
    })
}

/// The package of Debian that depends on the headers of its newest kernel, so that an update brings them too. That of
/// the backports has another release.
fn debian_headers(root: &Root, kernel: &str) -> Option<String> {
    const FLAVOURS: [&str; 6] = ["amd64", "arm64", "cloud-amd64", "cloud-arm64", "rt-amd64", "rt-arm64"];
    // `6.12.57+deb13-amd64` and `6.1.0-28-amd64`.
    let rest = kernel.split_once('-')?.1;
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let flavour = match rest.split_once('-') {
        Some((number, flavour)) if is_number(number) => flavour,
        _ => rest,
    };
    let is_known = id(root) == "debian" && FLAVOURS.contains(&flavour) && !kernel.contains("bpo");
    is_known.then(|| format!("linux-headers-{flavour}"))
}

/// The package with the headers of a kernel of Arch Linux or Manjaro: `6.12.53-1-lts` is linux-lts, `6.17.3-arch2-1` is
/// linux, `6.12.48-1-MANJARO` is linux612.
fn arch_headers(root: &Root, kernel: &str) -> Option<String> {
    let like = os_release(root, "ID_LIKE").unwrap_or_default();
    if id(root) != "arch" && !like.split_whitespace().any(|word| word == "arch") {
        return None;
    }
    let flavour = ["lts", "zen", "hardened", "rt-lts", "rt"].into_iter().find(|name| {
        kernel.ends_with(&format!("-{name}"))
            || kernel.contains(&format!("-{name}1"))
            || kernel.contains(&format!("-{name}-"))
    });
    Some(match flavour {
        _ if kernel.contains("MANJARO") => {
            let numbers: String = kernel.split('.').take(2).collect();
            format!("linux{numbers}-headers")
        }
        Some(name) => format!("linux-{name}-headers"),
        None => "linux-headers".to_owned(),
    })
}

/// The command that writes the initramfs of this machine again. `None` in a container, on a system with an image, and if
/// the tool is not known.
#[must_use]
pub fn initramfs_command(root: &Root) -> Option<&'static str> {
    if container(root).is_some() || !matches!(image_host(root), None | Some(ImageHost::DriverContainer)) {
        return None;
    }
    if is_arch(root) {
        let is_installed = ["/usr/bin/mkinitcpio", "/etc/mkinitcpio.conf"].iter().any(|path| root.exists(path));
        return is_installed.then(|| mkinitcpio::rebuild(root));
    }
    if known_family(root) {
        return Some(initramfs(root, family(root)));
    }
    // On another distribution, the installed tool shows how.
    const TOOLS: [(&str, &str); 4] = [
        ("/usr/sbin/update-initramfs", "sudo update-initramfs -u -k all"),
        ("/usr/bin/dracut", "sudo dracut -f --regenerate-all"),
        ("/usr/sbin/dracut", "sudo dracut -f --regenerate-all"),
        ("/usr/bin/mkinitcpio", "sudo mkinitcpio -P"),
    ];
    TOOLS.into_iter().find(|(tool, _)| root.exists(tool)).map(|(_, command)| command)
}

/// The command that writes the initramfs again on a distribution of this family.
#[must_use]
pub fn initramfs(root: &Root, family: Family) -> &'static str {
    match family {
        // Ubuntu 25.10 and later use dracut and may not have update-initramfs.
        Family::Debian if root.exists("/usr/bin/dracut") && !root.exists("/usr/sbin/update-initramfs") => {
            "sudo dracut -f --regenerate-all"
        }
        Family::Debian => "sudo update-initramfs -u -k all",
        Family::RedHat => "sudo dracut -f --regenerate-all",
        Family::Suse => "sudo dracut -f",
    }
}

/// The package manager of RHEL and its relatives. Azure Linux has tdnf.
#[must_use]
pub fn dnf(root: &Root) -> &'static str {
    if id(root) == "azurelinux" && release(root).is_none_or(|(major, _)| major < 4) { "tdnf" } else { "dnf" }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_initramfs_has_a_command_only_if_its_tool_is_known() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("etc")).unwrap();
        let command = |release: &str| {
            std::fs::write(folder.path().join("etc/os-release"), release).unwrap();
            initramfs_command(&Root::tree(folder.path()).unwrap())
        };
        assert_eq!(command("ID=ubuntu\nID_LIKE=debian\n"), Some("sudo update-initramfs -u -k all"));
        for unknown in ["ID=arch\n", "ID=gentoo\n", "ID=nixos\n", "ID=opensuse-microos\nID_LIKE=suse\n"] {
            assert_eq!(command(unknown), None, "{unknown}");
        }
        std::fs::create_dir_all(folder.path().join("usr/bin")).unwrap();
        std::fs::write(folder.path().join("usr/bin/mkinitcpio"), "").unwrap();
        assert_eq!(command("ID=arch\n"), Some("sudo mkinitcpio -P"));
        std::fs::write(folder.path().join("usr/bin/dracut"), "").unwrap();
        for (release, wanted) in [
            ("ID=openEuler\n", Some("sudo dracut -f --regenerate-all")),
            ("ID=kylin\n", Some("sudo dracut -f --regenerate-all")),
            ("ID=arch\n", Some("sudo mkinitcpio -P")),
            ("ID=nixos\n", None),
        ] {
            assert_eq!(command(release), wanted, "{release}");
        }
    }

    #[test]
    fn kernels_of_arch_have_headers_of_their_flavour() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("etc")).unwrap();
        std::fs::write(folder.path().join("etc/os-release"), "ID=arch\n").unwrap();
        let root = Root::tree(folder.path()).unwrap();
        for (kernel, package) in [
            ("6.12.53-1-lts", "linux-lts-headers"),
            ("6.17.3-arch2-1", "linux-headers"),
            ("6.17.2-zen1-1-zen", "linux-zen-headers"),
            ("6.16.9-hardened1-1-hardened", "linux-hardened-headers"),
            ("6.12.48-1-MANJARO", "linux612-headers"),
        ] {
            let command = install_headers(&root, kernel, false).unwrap();
            assert_eq!(command, format!("sudo pacman -S --needed {package}"), "{kernel}");
        }
    }

    #[test]
    fn headers_of_debian_follow_the_updates_of_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("etc")).unwrap();
        let command = |release: &str, kernel: &str| {
            std::fs::write(folder.path().join("etc/os-release"), release).unwrap();
            install_headers(&Root::tree(folder.path()).unwrap(), kernel, false).unwrap()
        };
        for (kernel, package) in [
            ("6.12.57+deb13-amd64", "linux-headers-amd64"),
            ("6.1.0-28-amd64", "linux-headers-amd64"),
            ("6.12.57+deb13-cloud-arm64", "linux-headers-cloud-arm64"),
        ] {
            let wanted = format!("sudo apt-get install linux-headers-{kernel} {package}");
            assert_eq!(command("ID=debian\n", kernel), wanted);
        }
        for (release, kernel) in [
            ("ID=debian\n", "6.12.43+deb12-bpo-amd64"),
            ("ID=debian\n", "6.5.0-0.deb12.4-amd64"),
            ("ID=ubuntu\nID_LIKE=debian\n", "6.8.0-88-generic"),
        ] {
            assert_eq!(command(release, kernel), format!("sudo apt-get install linux-headers-{kernel}"));
        }
    }
}
