//! Commands of the package managers, and the versions of modules that DKMS knows.

use super::distribution;
use super::parts::Family;
use crate::machine::Root;

/// The command that installs packages.
pub(super) fn install(root: &Root, family: Family, package: &str) -> String {
    match family {
        Family::Debian => format!("sudo apt-get install -y {package}"),
        Family::RedHat => format!("sudo {} install -y {package}", distribution::dnf(root)),
        Family::Suse => format!("sudo zypper --non-interactive install {package}"),
    }
}

/// The command that removes a package.
pub(super) fn remove(root: &Root, family: Family, package: &str) -> String {
    match family {
        Family::Debian => format!("sudo apt-get autoremove {package}"),
        Family::RedHat => format!("sudo {} remove {package}", distribution::dnf(root)),
        Family::Suse => format!("sudo zypper remove --clean-deps {package}"),
    }
}

/// The version of a module that DKMS knows: `nvidia-fs/2.25.7, 6.8.0-60-generic, x86_64: installed`, or `nvidia-fs, 2.25.7, …` of DKMS 2.
pub(super) fn dkms_version(root: &Root, module: &str) -> Option<String> {
    let output = root.command(&["dkms", "status"])?;
    let line = output.stdout.lines().find_map(|line| line.strip_prefix(module)?.strip_prefix(['/', ',']))?;
    Some(line.split([',', ':']).next()?.trim().to_owned()).filter(|version| !version.is_empty())
}
