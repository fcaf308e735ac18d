//! The origin of a machine's NVIDIA driver. Packages of two origins cannot be combined, so a fix keeps the
//! origin.

use super::deb::deb_packages;
use super::dkms::{DkmsRow, dkms_rows};
use super::driver::module_info;
use super::packages::id;
use super::root::Root;
use super::summary::kernel_release;

/// The origin of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverOrigin {
    /// NVIDIA's installer, a .run file.
    Installer,
    /// The archive of Debian.
    Debian,
    /// The archive of Ubuntu.
    Ubuntu(UbuntuDriver),
    /// RPM Fusion. Its tool akmods builds the modules.
    RpmFusion,
    /// The modules that SUSE builds and signs.
    Suse,
    /// NVIDIA's package repository.
    Nvidia,
}

/// The variant of a driver of Ubuntu's archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UbuntuDriver {
    /// Whether its packages have the suffix `-server`.
    pub is_server: bool,
    /// Whether it has no display part: `nvidia-headless-580`.
    pub is_headless: bool,
    /// Whether Ubuntu built and signed its modules: `linux-modules-nvidia-580-generic`.
    pub is_prebuilt: bool,
}

impl DriverOrigin {
    /// The name in a sentence.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Installer => "NVIDIA's installer (.run)",
            Self::Debian => "Debian's archive",
            Self::Ubuntu(_) => "Ubuntu's archive",
            Self::RpmFusion => "RPM Fusion",
            Self::Suse => "SUSE's repository",
            Self::Nvidia => "NVIDIA's repository",
        }
    }

    /// Whether the distribution signs the modules with a key that Secure Boot accepts.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        match self {
            Self::Ubuntu(driver) => driver.is_prebuilt,
            Self::Suse => true,
            Self::Installer | Self::Debian | Self::RpmFusion | Self::Nvidia => false,
        }
    }
}

/// The origin of the installed driver. `None` if no driver is installed or its origin is not known.
#[must_use]
pub fn driver_origin(root: &Root) -> Option<DriverOrigin> {
    // The installer leaves this program, also if the running kernel has no modules of its driver.
    let by_installer = || root.exists("/usr/bin/nvidia-uninstall").then_some(DriverOrigin::Installer);
    of_deb(root).or_else(|| of_module(root)).or_else(by_installer)
}

/// The origin according to the packages of dpkg.
fn of_deb(root: &Root) -> Option<DriverOrigin> {
    let packages = deb_packages(root);
    let has = |name: &str| packages.iter().any(|package| package.name == name);
    // Only Debian's archive has nvidia-alternative, and its open modules have another name than NVIDIA's.
    if has("nvidia-alternative") || has("nvidia-open-kernel-dkms") {
        return Some(DriverOrigin::Debian);
    }
    if id(root) == "debian" {
        let of_nvidia = ["nvidia-kernel-open-dkms", "nvidia-open", "cuda-drivers", "nvidia-driver-cuda"];
        return of_nvidia.into_iter().any(has).then_some(DriverOrigin::Nvidia);
    }
    let parts: Vec<(&str, bool, bool, &str)> = packages
        .iter()
        .filter_map(|package| {
            let is_prebuilt = package.name.starts_with("linux-modules-nvidia-");
            let is_headless = package.name.starts_with("nvidia-headless-");
            let rest = ["nvidia-driver-", "nvidia-headless-no-dkms-", "nvidia-headless-", "linux-modules-nvidia-"]
                .into_iter()
                .find_map(|start| package.name.strip_prefix(start))?;
            rest.starts_with(|c: char| c.is_ascii_digit()).then_some((
                rest,
                is_prebuilt,
                is_headless,
                package.version.as_str(),
            ))
        })
        .collect();
    if parts.is_empty() {
        let newest = ["nvidia-open", "cuda-drivers", "nvidia-driver"].into_iter().any(has);
        return newest.then_some(DriverOrigin::Nvidia);
    }
    let driver = UbuntuDriver {
        is_server: parts.iter().any(|(rest, ..)| rest.contains("-server")),
        is_headless: parts.iter().all(|(_, is_prebuilt, is_headless, _)| *is_prebuilt || *is_headless)
            && parts.iter().any(|(_, _, is_headless, _)| *is_headless),
        is_prebuilt: is_built_by_ubuntu(root) || parts.iter().any(|(_, is_prebuilt, ..)| *is_prebuilt),
    };
    // NVIDIA's packages for Ubuntu have the same names, but no variant -server and no built modules. Its versions end
    // in -0ubuntu1 or -1ubuntu1, and those of Ubuntu's releases in -0ubuntu0.24.04.1.
    let is_of_release = parts.iter().any(|(.., version)| version.contains("ubuntu0"));
    let is_of_nvidia = packages.iter().any(|package| {
        ["cuda-drivers", "nvidia-open", "nvidia-driver-pinning"].iter().any(|name| package.name.starts_with(name))
    });
    if driver.is_server || driver.is_prebuilt || is_of_release {
        Some(DriverOrigin::Ubuntu(driver))
    } else if is_of_nvidia || parts.iter().any(|(.., version)| !version.is_empty()) {
        Some(DriverOrigin::Nvidia)
    } else {
        // Only names are known, which are the same in both.
        Some(DriverOrigin::Ubuntu(driver))
    }
}

/// The package of nvidia-fs that Ubuntu built for the running kernel of NVIDIA's flavour, next to its driver. DKMS has no
/// source of that driver.
#[must_use]
pub fn nvidia_fs_of_ubuntu(root: &Root) -> Option<String> {
    let kernel = kernel_release(root).filter(|kernel| kernel.contains("-nvidia"))?;
    let is_prebuilt = matches!(driver_origin(root), Some(DriverOrigin::Ubuntu(driver)) if driver.is_prebuilt);
    is_prebuilt.then(|| format!("linux-modules-nvidia-fs-{kernel}"))
}

/// The end of the names of Ubuntu's meta packages that follow this kernel, such as `generic-hwe-24.04`. With
/// `linux-modules-nvidia-580-generic-hwe-24.04` each update of the kernel brings the modules of the driver.
#[must_use]
pub fn following_kernel(root: &Root, release: &str) -> Option<String> {
    let flavour = release.splitn(3, '-').nth(2).filter(|flavour| !flavour.is_empty())?;
    let part = |name: &str| {
        if let Some(rest) = name.strip_prefix("linux-modules-nvidia-") {
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            let rest = rest.strip_prefix("-server").unwrap_or(rest);
            return Some(rest.strip_prefix("-open").unwrap_or(rest).trim_start_matches('-').to_owned());
        }
        let rest = name.strip_prefix("linux-")?;
        Some(rest.strip_prefix("image-").unwrap_or(rest).to_owned())
    };
    let is_meta =
        |part: &String| part.strip_prefix(flavour).is_some_and(|rest| rest.is_empty() || rest.starts_with("-hwe-"));
    // The package for the HWE kernels has a longer name, and a machine can have both.
    let parts = deb_packages(root).into_iter().filter_map(|package| part(&package.name)).filter(is_meta);
    parts.max_by_key(String::len)
}

/// The installed packages with modules that Ubuntu built in another variant than `580-server-open`, for the running kernel
/// or following its updates. They have no conflict with those of the variant (apt-cache show), but NVIDIA's README does not
/// allow both flavours on one file system.
#[must_use]
pub fn modules_of_other_variants(root: &Root, variant: &str, release: &str) -> Vec<String> {
    let is_digit = |letter: char| letter.is_ascii_digit();
    let is_other = |name: &String| {
        let parts =
            ["linux-modules-nvidia-", "linux-objects-nvidia-"].iter().find_map(|start| name.strip_prefix(start));
        let Some((found, kernel)) = parts.filter(|rest| rest.starts_with(is_digit)).map(variant_and_kernel) else {
            return false;
        };
        // Those of another kernel do not reach this one.
        found != variant && (kernel == release || !kernel.starts_with(is_digit))
    };
    deb_packages(root).into_iter().map(|package| package.name).filter(is_other).collect()
}

/// The parts of `580-server-open-generic-hwe-24.04`.
fn variant_and_kernel(rest: &str) -> (&str, &str) {
    let mut end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    for part in ["-server", "-open"] {
        let after = rest[end..].strip_prefix(part);
        if after.is_some_and(|after| after.is_empty() || after.starts_with('-')) {
            end += part.len();
        }
    }
    (&rest[..end], rest[end..].trim_start_matches('-'))
}

/// Ubuntu keeps the modules that it built in `/lib/modules/RELEASE/kernel/nvidia-580srv-open`.
fn is_built_by_ubuntu(root: &Root) -> bool {
    module_info(root, "nvidia").and_then(|module| module.file).is_some_and(|file| file.contains("/kernel/nvidia-"))
}

/// The origin according to the module and the tools that built it.
fn of_module(root: &Root) -> Option<DriverOrigin> {
    let module = module_info(root, "nvidia");
    if module.as_ref().and_then(|module| module.signer.as_ref()).is_some_and(|signer| signer.contains("SUSE")) {
        return Some(DriverOrigin::Suse);
    }
    if root.entries("/usr/src/akmods").is_ok_and(|names| names.iter().any(|name| name.starts_with("nvidia-kmod"))) {
        return Some(DriverOrigin::RpmFusion);
    }
    let file = module.and_then(|module| module.file).unwrap_or_default();
    if let Some(folder) =
        file.split('/').find_map(|part| part.strip_prefix("nvidia-")).filter(|_| is_built_by_ubuntu(root))
    {
        return Some(DriverOrigin::Ubuntu(UbuntuDriver {
            is_server: folder.contains("srv"),
            is_headless: false,
            is_prebuilt: true,
        }));
    }
    let rows: Vec<DkmsRow> = dkms_rows(root).into_iter().filter(DkmsRow::is_driver).collect();
    let named = |start: &str| rows.iter().any(|row| row.name.starts_with(start));
    if named("nvidia-current") {
        Some(DriverOrigin::Debian)
    } else if named("nvidia-srv") {
        Some(DriverOrigin::Ubuntu(UbuntuDriver { is_server: true, ..UbuntuDriver::default() }))
    } else if root.exists("/etc/dnf/modules.d/nvidia-driver.module") {
        Some(DriverOrigin::Nvidia)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_name_has_a_variant_and_a_kernel() {
        for (rest, variant, kernel) in [
            ("580-generic", "580", "generic"),
            ("580-open-generic-hwe-24.04", "580-open", "generic-hwe-24.04"),
            ("580-server-open-6.8.0-90-generic", "580-server-open", "6.8.0-90-generic"),
            ("580-server", "580-server", ""),
        ] {
            assert_eq!(variant_and_kernel(rest), (variant, kernel));
        }
    }
}
