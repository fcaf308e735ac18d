//! The commands of the package managers, and the module versions in DKMS.

use super::distribution;
use super::parts::{Family, run};
use crate::core::Change;
use crate::machine::Root;

/// The command that installs packages.
pub(super) fn install(root: &Root, family: Family, package: &str) -> String {
    match family {
        Family::Debian => format!("sudo apt-get install -y {package}"),
        Family::RedHat => format!("sudo {} install -y {package}", distribution::dnf(root)),
        // zypper rejects a license if it cannot ask. The kernel's packages have none.
        Family::Suse if package.starts_with("kernel-") => format!("sudo zypper --non-interactive install {package}"),
        Family::Suse => format!("sudo zypper --non-interactive install --auto-agree-with-licenses {package}"),
    }
}

/// The command that removes a package and nothing else. Its dependencies are kept, because other programs can use them.
pub(super) fn remove(root: &Root, family: Family, package: &str) -> String {
    match (family, distribution::dnf(root)) {
        (Family::Debian, _) => format!("sudo apt-get remove {package}"),
        // tdnf has no --setopt for it; this option overrides clean_requirements_on_remove (vmware/tdnf, parseargs.c).
        (Family::RedHat, "tdnf") => format!("sudo tdnf remove --noautoremove {package}"),
        (Family::RedHat, dnf) => format!("sudo {dnf} remove --setopt=clean_requirements_on_remove=False {package}"),
        (Family::Suse, _) => format!("sudo zypper remove {package}"),
    }
}

/// A sentence about the license of NVIDIA's packages. It starts with a space, and is empty if the command does not
/// accept it.
pub(super) const fn license(family: Family) -> &'static str {
    match family {
        Family::Suse => " zypper accepts NVIDIA's license for you (--auto-agree-with-licenses).",
        _ => "",
    }
}

/// The compiler of an Oracle kernel, if it is not that of the system. The header package installs it, but DKMS does
/// not use it automatically (Driver Installation Guide, Oracle Linux).
pub(super) fn toolset(kernel: &str) -> Option<&'static str> {
    match kernel {
        _ if kernel.contains("el9uek") && kernel.starts_with("6.") => Some("gcc-toolset-14"),
        _ if kernel.contains("el8uek") && kernel.starts_with("5.15.") => Some("gcc-toolset-11"),
        _ => None,
    }
}

/// The start of a shell command that enables the compiler of a toolset.
pub(super) fn enabled(toolset: &str) -> String {
    format!(". /opt/rh/{toolset}/enable; ")
}

/// A DKMS command for a kernel, with the compiler of that kernel.
pub(super) fn dkms(kernel: &str, command: &str) -> Change {
    match toolset(kernel) {
        Some(toolset) => {
            let script = format!("{}{command}", enabled(toolset));
            Change::Run { argv: ["sudo", "sh", "-c", &script].map(str::to_owned).to_vec() }
        }
        None => run(&format!("sudo {command}")),
    }
}

/// The commands that build what DKMS could not build during the installation because it used the system's compiler.
/// It is empty for most kernels.
pub(super) fn built_again(kernel: Option<&str>) -> Vec<Change> {
    let kernel = kernel.filter(|kernel| toolset(kernel).is_some());
    kernel.map(|kernel| dkms(kernel, &format!("dkms autoinstall -k {kernel}"))).into_iter().collect()
}

/// A sentence about the compiler. It starts with a space, and is empty for most kernels.
pub(super) fn compiler(kernel: Option<&str>) -> String {
    kernel.and_then(toolset).map_or_else(String::new, |toolset| {
        format!(
            " This kernel was built by {toolset}, and DKMS uses the system's compiler: the build during the installation fails, and the command after it \
             builds the modules. Repeat that command with the new release after each update of the kernel, before the reboot."
        )
    })
}

/// The version of a module in the output of `dkms status`: `nvidia-fs/2.25.7, 6.8.0-60-generic, x86_64: installed`,
/// or `nvidia-fs, 2.25.7, …` in DKMS 2.
pub(super) fn dkms_version(root: &Root, module: &str) -> Option<String> {
    let output = root.command(&["dkms", "status"])?;
    let line = output.stdout.lines().find_map(|line| line.strip_prefix(module)?.strip_prefix(['/', ',']))?;
    Some(line.split([',', ':']).next()?.trim().to_owned()).filter(|version| !version.is_empty())
}
