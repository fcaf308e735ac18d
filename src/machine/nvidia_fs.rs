//! Finds out whether nvidia-fs is loaded, installed, registered in DKMS, or excluded from loading.

use super::dkms::{DkmsRow, dkms_rows};
use super::driver::module_info;
use super::root::Root;
use super::summary::nvidia_fs_version;
use crate::core::NVFS_STATS;

/// Whether the module is loaded; `None` if this is unknown.
#[must_use]
pub fn nvidia_fs_loaded(root: &Root) -> Option<bool> {
    if root.exists("/sys/module/nvidia_fs") || root.exists("/proc/driver/nvidia-fs/version") {
        return Some(true);
    }
    match root.read_text("/proc/modules") {
        Ok(text) => Some(text.lines().any(|line| line.starts_with("nvidia_fs "))),
        // sysfs contains a directory for each loaded module.
        Err(_) => root.entries("/sys/module").ok().map(|names| names.iter().any(|name| name == "nvidia_fs")),
    }
}

/// The version of the loaded module, or else of the module that is installed for the running kernel.
#[must_use]
pub fn nvidia_fs_installed(root: &Root) -> Option<String> {
    nvidia_fs_version(root).or_else(|| module_info(root, "nvidia_fs")?.version)
}

/// The switch with which a kernel loads no modules until the next boot (kernel.modules_disabled, sysctl/kernel.rst). `None`
/// if it is off or not readable.
#[must_use]
pub fn modules_disabled(root: &Root) -> Option<(&'static str, String)> {
    const SWITCH: &str = "/proc/sys/kernel/modules_disabled";
    let text = root.read_text(SWITCH).ok()?.trim().to_owned();
    (text == "1").then_some((SWITCH, text))
}

/// The lines of `dkms status` for nvidia-fs.
#[must_use]
pub fn nvidia_fs_builds(root: &Root) -> Vec<DkmsRow> {
    dkms_rows(root).into_iter().filter(|row| row.name == "nvidia-fs" || row.name == "nvidia_fs").collect()
}

/// Whether nvidia-fs is installed for this kernel or registered in DKMS.
#[must_use]
pub fn nvidia_fs_known(root: &Root) -> bool {
    nvidia_fs_installed(root).is_some() || !nvidia_fs_builds(root).is_empty()
}

/// The number of transfers that nvidia-fs could not map for a device. `None` if there are none.
#[must_use]
pub fn refused_mappings(root: &Root) -> Option<u64> {
    let text = root.read_text(NVFS_STATS).ok()?;
    let line = text.lines().find(|line| line.trim_start().starts_with("Error"))?;
    let count = line.split_whitespace().find_map(|word| word.strip_prefix("dma-map="))?;
    count.parse().ok().filter(|count| *count > 0)
}
