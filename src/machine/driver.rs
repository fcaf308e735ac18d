//! The NVIDIA driver: its loaded kernel modules, and the modules that are installed for the running kernel.

use super::root::Root;
use super::summary::nvidia_version_line;

/// The file that shows the version and flavour (open or proprietary) of the loaded driver.
pub const DRIVER_VERSION: &str = "/proc/driver/nvidia/version";

/// The loaded NVIDIA driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driver {
    /// Version, for example `580.95.05`.
    pub version: Option<String>,
    /// The line of [`DRIVER_VERSION`] that contains the version.
    pub line: Option<String>,
}

impl Driver {
    /// The driver that is loaded on this machine. Both fields are `None` if no driver is loaded.
    #[must_use]
    pub fn of(root: &Root) -> Self {
        let line = nvidia_version_line(root);
        let from_line = line.as_deref().and_then(|line| {
            line.split_whitespace().find(|w| w.contains('.') && w.starts_with(|c: char| c.is_ascii_digit()))
        });
        let version = root.read_text("/sys/module/nvidia/version").ok().map(|text| text.trim().to_owned());
        // A capture can have the output of the command and lack the files.
        let version = version.or_else(|| from_line.map(str::to_owned)).or_else(|| root.nvidia_smi()?.driver_version);
        Self { version, line }
    }

    /// Whether a driver is loaded.
    #[must_use]
    pub const fn is_loaded(&self) -> bool {
        self.line.is_some() || self.version.is_some()
    }

    /// Whether the open kernel modules are loaded; `None` if this is unknown.
    #[must_use]
    pub fn is_open(&self) -> Option<bool> {
        self.line.as_ref().map(|line| line.to_lowercase().contains("open kernel"))
    }
}

/// Fields of `modinfo` for a kernel module that is installed for the running kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleInfo {
    /// The path of the module file.
    pub file: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The license. The license of the open kernel modules contains `GPL`.
    pub license: Option<String>,
    /// The name of the signing key; `None` if the module is not signed.
    pub signer: Option<String>,
}

impl ModuleInfo {
    /// Whether it is an open kernel module; `None` if the license is unknown.
    #[must_use]
    pub fn is_open(&self) -> Option<bool> {
        self.license.as_ref().map(|license| license.contains("GPL"))
    }
}

/// The kernel module `nvidia` or `nvidia_fs` that is installed for the running kernel; `None` if it is not installed.
#[must_use]
pub fn module_info(root: &Root, module: &str) -> Option<ModuleInfo> {
    let output = root.command(&["modinfo", module]).filter(|output| output.exit_code == Some(0))?;
    let field = |name: &str| {
        let value = output.stdout.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    Some(ModuleInfo {
        file: field("filename"),
        version: field("version"),
        license: field("license"),
        signer: field("signer"),
    })
}

/// The file of a driver that was built by NVIDIA for this kernel and installed by a package of RHEL's precompiled streams
/// (Driver Installation Guide, precompiled drivers). Modules that DKMS builds cannot be combined with it.
#[must_use]
pub fn precompiled_driver(root: &Root) -> Option<String> {
    let file = module_info(root, "nvidia")?.file.filter(|file| file.contains("/drivers/video/nvidia/"))?;
    let is_packaged = file.contains("/extra/") || file.contains("/weak-updates/");
    (is_packaged && !super::dkms::dkms_rows(root).iter().any(super::dkms::DkmsRow::is_driver)).then_some(file)
}
