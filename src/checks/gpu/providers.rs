//! Two packages that provide the driver's kernel module for one kernel, and the versions that each can build.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::gpu::libraries;
use crate::machine::packages::{self, Family};
use crate::machine::{self, DkmsRow, DriverOrigin, Root};

/// The driver that DKMS has installed for the running kernel, while modprobe finds the module of another package.
pub(crate) struct Hidden {
    pub(crate) row: DkmsRow,
    /// The module that modprobe finds.
    file: String,
}

impl Hidden {
    /// Whether DKMS has the open kernel modules. RHEL's package shows this in its name.
    pub(crate) fn is_open(&self) -> bool {
        self.row.name == "nvidia-open"
    }
}

/// The hidden driver of DKMS, if the libraries belong to it.
pub(crate) fn hidden(ctx: &Context<'_>) -> Option<Hidden> {
    let release = machine::kernel_release(ctx.root)?;
    let found = machine::module_info(ctx.root, "nvidia").filter(|_| machine::container(ctx.root).is_none())?;
    let libraries = ctx.root.nvml().driver_version.clone().or_else(|| libraries::installed_version(ctx.root))?;
    let mut rows =
        machine::dkms_rows(ctx.root).into_iter().filter(|row| row.is_driver() && row.is_installed_for(&release));
    let row = rows.find(|row| row.version == libraries)?;
    (found.version.as_ref() != Some(&row.version)).then(|| Hidden { row, file: found.file.unwrap_or_default() })
}

/// How to remove the module that modprobe finds, so that the module of DKMS is used.
pub(crate) fn keep(ctx: &Context<'_>, hidden: &Hidden) -> Advice {
    let remove = if machine::driver_origin(ctx.root) == Some(DriverOrigin::RpmFusion) {
        Advice::from("Remove the driver of RPM Fusion; read the list of packages before you confirm: ")
            .command("sudo dnf remove akmod-nvidia 'kmod-nvidia-[0-9]*'")
            .text(". Exclude its driver from updates: ")
            .command(
                "sudo sed -i '/^\\[rpmfusion-nonfree/a excludepkgs=*nvidia*' /etc/yum.repos.d/rpmfusion-nonfree*.repo",
            )
    } else {
        let owner = match packages::family(ctx.root) {
            Family::Debian => "dpkg -S",
            Family::RedHat | Family::Suse => "rpm -qf",
        };
        Advice::from("Remove the package of the loaded module, which this command names: ")
            .command(format!("{owner} {}", hidden.file))
    };
    remove
        .text(". Then run ")
        .command_and_initramfs(ctx.root, "sudo depmod -a")
        .text(format!(", check that `modinfo -F version nvidia` shows {}, and reboot.", hidden.row.version))
}

/// Whether akmods has the source of this driver.
pub(crate) fn akmods_has(root: &Root, version: &str) -> bool {
    let start = format!("nvidia-kmod-{version}-");
    root.entries("/usr/src/akmods").is_ok_and(|names| names.iter().any(|name| name.starts_with(&start)))
}

/// The mismatch in a sentence, with the side that has the newer version.
pub(crate) fn which_is_newer(module: &str, libraries: Option<&str>) -> String {
    match libraries {
        Some(libraries) if machine::version_numbers(libraries) < machine::version_numbers(module) => {
            format!("the libraries have version {libraries}, and the installed kernel module the newer {module}")
        }
        Some(libraries) => {
            format!("the libraries were updated to {libraries}, but the installed kernel module is still {module}")
        }
        None => format!("the libraries have another version than the installed kernel module {module}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn akmods_builds_the_version_of_its_source() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("usr/src/akmods");
        std::fs::create_dir_all(&source).unwrap();
        std::fs::write(source.join("nvidia-kmod-580.105.08-1.el9.src.rpm"), "").unwrap();
        let root = Root::tree(folder.path()).unwrap();
        assert!(akmods_has(&root, "580.105.08"));
        assert!(!akmods_has(&root, "580.95.05") && !akmods_has(&root, "580.105.0"));
    }

    #[test]
    fn the_newer_side_of_a_mismatch_is_compared_by_number() {
        assert!(which_is_newer("580.105.08", Some("580.95.05")).contains("the newer 580.105.08"));
        assert!(which_is_newer("580.95.05", Some("580.105.08")).contains("updated to 580.105.08"));
    }
}
