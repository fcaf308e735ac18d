//! NVIDIA's package repository for the distribution and release of a machine.

use super::distribution;
use super::parts::{Family, empty, run};
use crate::core::{FixId, FixPlan, FixPolicy, FixRisk, Needs};
use crate::machine::{Root, os_release};

/// The server of the repository.
pub(super) const SERVER: &str = "developer.download.nvidia.com";

/// The directory of the package manager's repository files.
pub(super) const fn folder(family: Family) -> &'static str {
    match family {
        Family::Debian => "/etc/apt/sources.list.d",
        Family::RedHat => "/etc/yum.repos.d",
        Family::Suse => "/etc/zypp/repos.d",
    }
}

/// The file that configures the repository. The error is whether the directory could be read.
pub(super) fn configured(root: &Root, family: Family) -> Result<String, bool> {
    let folder = folder(family);
    let Ok(names) = root.entries(folder) else { return Err(false) };
    names
        .into_iter()
        .map(|name| format!("{folder}/{name}"))
        .find(|path| {
            root.read_text(path).is_ok_and(|text| text.contains(SERVER) || text.contains("file:///var/nvidia-"))
        })
        .ok_or(true)
}

/// The directory of the repository for this release (from the lists in NVIDIA's driver guide). The error is the
/// reason why there is none.
pub(super) fn name(root: &Root, family: Family) -> Result<String, String> {
    let id = os_release(root, "ID").unwrap_or_default();
    let version = os_release(root, "VERSION_ID").unwrap_or_default();
    let major = version.split('.').next().unwrap_or_default().to_owned();
    let codename = os_release(root, "UBUNTU_CODENAME");
    let debian = os_release(root, "DEBIAN_CODENAME").or_else(|| os_release(root, "VERSION_CODENAME"));
    let unknown = || Err("/etc/os-release does not name the release, so the address is not known".to_owned());
    match (family, id.as_str()) {
        (Family::Debian, "debian") if ["10", "11", "12", "13"].contains(&major.as_str()) => {
            Ok(format!("debian{major}"))
        }
        (Family::Debian, "ubuntu") if !version.is_empty() => ubuntu(&version),
        // A derived distribution uses the packages of its base, for example Mint, Pop!_OS and elementary.
        (Family::Debian, _) => match (codename.as_deref(), debian.as_deref()) {
            (Some("focal"), _) => Ok("ubuntu2004".to_owned()),
            (Some("jammy"), _) => Ok("ubuntu2204".to_owned()),
            (Some("noble"), _) => Ok("ubuntu2404".to_owned()),
            (None, Some("bullseye")) => Ok("debian11".to_owned()),
            (None, Some("bookworm")) => Ok("debian12".to_owned()),
            (None, Some("trixie")) => Ok("debian13".to_owned()),
            _ => unknown(),
        },
        (Family::RedHat, "amzn") if major == "2023" => Ok("amzn2023".to_owned()),
        (Family::RedHat, "azurelinux") if major == "3" => Ok("azl3".to_owned()),
        (Family::RedHat, _) => match (distribution::rhel(root), distribution::fedora(root)) {
            (Some(major @ 8..=10), _) => Ok(format!("rhel{major}")),
            (None, Some(major)) => Ok(format!("fedora{major}")),
            _ => Err(format!("no repository of NVIDIA is known for {}", distribution::called(root))),
        },
        (Family::Suse, "opensuse-tumbleweed") => Err("NVIDIA has no repository for Tumbleweed".to_owned()),
        // From 16 on, SLES and Leap share one repository.
        (Family::Suse, _) if major == "16" => Ok("suse16".to_owned()),
        (Family::Suse, "opensuse-leap") if major == "15" => Ok("opensuse15".to_owned()),
        (Family::Suse, _) if major == "15" => Ok("sles15".to_owned()),
        (Family::Suse, _) if !version.is_empty() => {
            Err(format!("no repository of NVIDIA is known for {}", distribution::called(root)))
        }
        _ => unknown(),
    }
}

/// The directory for an Ubuntu release. Only long-term releases have one.
fn ubuntu(version: &str) -> Result<String, String> {
    let is_long = version
        .split_once('.')
        .is_some_and(|(year, month)| month == "04" && year.parse::<u32>().is_ok_and(|y| y % 2 == 0));
    if is_long {
        Ok(format!("ubuntu{}", version.replace('.', "")))
    } else {
        Err(format!("NVIDIA only has repositories for Ubuntu's long-term releases, and {version} is not one"))
    }
}

/// The plan that adds the repository.
pub(super) fn plan(root: &Root, family: Family) -> FixPlan {
    let named = name(root, family);
    let obstacle = named.as_ref().err().cloned();
    let name = named.unwrap_or_else(|_| "RELEASE".to_owned());
    let arm = root.read_text("/proc/sys/kernel/arch").is_ok_and(|arch| arch.trim() == "aarch64");
    let arch = if arm { "sbsa" } else { "x86_64" };
    let base = format!("https://{SERVER}/compute/cuda/repos/{name}/{arch}");
    let changes = match family {
        Family::Debian => distribution::contrib(root)
            .into_iter()
            .chain([
                run(&format!("wget {base}/cuda-keyring_1.1-1_all.deb")),
                run("sudo dpkg -i cuda-keyring_1.1-1_all.deb"),
                run("sudo apt-get update"),
            ])
            .collect(),
        // dnf5 (Fedora 41 and later) does not support --add-repo.
        Family::RedHat if distribution::fedora(root).is_some_and(|release| release >= 41) => {
            vec![run(&format!("sudo dnf config-manager addrepo --from-repofile={base}/cuda-{name}.repo"))]
        }
        // tdnf has no command that adds a repository.
        Family::RedHat if distribution::dnf(root) == "tdnf" => {
            vec![run(&format!("sudo curl -o /etc/yum.repos.d/cuda-{name}.repo {base}/cuda-{name}.repo"))]
        }
        Family::RedHat => {
            let mut changes = vec![run("sudo dnf install -y dnf-command(config-manager)")];
            changes.extend(distribution::dkms_source(root));
            changes.push(run(&format!("sudo dnf config-manager --add-repo {base}/cuda-{name}.repo")));
            changes
        }
        Family::Suse => distribution::package_hub(root)
            .into_iter()
            .chain([
                run(&format!("sudo zypper addrepo {base}/cuda-{name}.repo")),
                run("sudo zypper --gpg-auto-import-keys refresh"),
            ])
            .collect(),
    };
    FixPlan {
        why: format!(
            "It has the current driver, nvidia-gds and libcufile. Adding it means trusting NVIDIA's signing key for packages on this machine. Without a network, use NVIDIA's local repository package instead.{}{}",
            if os_release(root, "ID").as_deref() == Some("azurelinux") {
                " Its directory azl3 is not confirmed: NVIDIA's guide of branch 620 names Azure Linux 4. Microsoft's repository has the driver, too \
                 (azurelinux-repos-nvidia, then cuda-open)."
            } else {
                ""
            },
            if family == Family::RedHat && distribution::rhel(root).is_some() {
                " On RHEL and its rebuilds DKMS, which builds the modules, is in EPEL, so EPEL is added first."
            } else if distribution::is_sles(root) {
                " On SLES DKMS, which builds the modules, is in the Package Hub, so that is added first."
            } else if family == Family::Debian && os_release(root, "ID").as_deref() == Some("debian") {
                " On Debian its packages need others from the component contrib."
            } else {
                ""
            }
        ),
        changes,
        verify: match family {
            Family::Debian => "apt-cache policy nvidia-gds shows developer.download.nvidia.com",
            Family::RedHat => "dnf list nvidia-gds finds it",
            Family::Suse => "zypper search nvidia-gds finds it",
        }
        .to_owned(),
        undo: match family {
            Family::Debian => "sudo apt-get purge cuda-keyring".to_owned(),
            Family::RedHat => format!("remove /etc/yum.repos.d/cuda-{name}.repo"),
            Family::Suse => format!("sudo zypper removerepo cuda-{name}"),
        },
        obstacle,
        ..empty(FixId::NvidiaRepository, Needs::Root, FixRisk::Medium, FixPolicy::Show)
    }
}

/// A note for plans that install packages if the repository of NVIDIA exists and is not configured. A private mirror may
/// have the packages.
pub(super) fn hint(root: &Root, family: Family) -> String {
    match configured(root, family) {
        Err(true) if name(root, family).is_ok() => format!(
            " No file in {} names {SERVER}: unless a mirror has the package, run gds-top fix nvidia-repository first.",
            folder(family)
        ),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ubuntus_with_long_support_have_a_repository() {
        assert_eq!(ubuntu("24.04").as_deref(), Ok("ubuntu2404"));
        assert!(ubuntu("24.10").is_err() && ubuntu("25.04").is_err() && ubuntu("rolling").is_err());
    }
}
