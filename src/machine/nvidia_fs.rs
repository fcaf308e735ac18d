//! Finds out whether nvidia-fs is loaded, installed, registered in DKMS, or excluded from loading.

use super::dkms::{DkmsRow, dkms_rows};
use super::driver::module_info;
use super::root::Root;
use super::summary::nvidia_fs_version;

/// Whether the module is loaded; `None` if this is unknown.
#[must_use]
pub fn nvidia_fs_loaded(root: &Root) -> Option<bool> {
    if root.exists("/sys/module/nvidia_fs") || root.exists("/proc/driver/nvidia-fs/version") {
        return Some(true);
    }
    match root.read_text("/proc/modules") {
        Ok(text) => Some(text.lines().any(|line| line.starts_with("nvidia_fs "))),
        // sysfs contains a folder for each loaded module.
        Err(_) => root.entries("/sys/module").ok().map(|names| names.iter().any(|name| name == "nvidia_fs")),
    }
}

/// The version of the loaded module, or else of the module that is installed for the running kernel.
#[must_use]
pub fn nvidia_fs_installed(root: &Root) -> Option<String> {
    nvidia_fs_version(root).or_else(|| module_info(root, "nvidia_fs")?.version)
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

/// A line that excludes a kernel module from loading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excluded {
    /// The file with the line.
    pub file: String,
    /// The line.
    pub line: String,
    /// Whether the line also prevents loading with a manual `modprobe`.
    pub by_hand_too: bool,
}

/// The line in modprobe.d or on the kernel command line that excludes nvidia-fs from loading; `None` if there is
/// none.
#[must_use]
pub fn nvidia_fs_excluded(root: &Root) -> Option<Excluded> {
    let names = |word: &str| matches!(word, "nvidia_fs" | "nvidia-fs");
    for folder in ["/etc/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"] {
        for name in root.entries(folder).unwrap_or_default().into_iter().filter(|name| name.ends_with(".conf")) {
            let file = format!("{folder}/{name}");
            let Ok(text) = root.read_text(&file) else { continue };
            for line in text.lines().map(str::trim) {
                let words: Vec<&str> = line.split_whitespace().collect();
                let by_hand_too = match words.as_slice() {
                    ["blacklist", module, ..] if names(module) => false,
                    ["install", module, command, ..]
                        if names(module) && (command.ends_with("/false") || command.ends_with("/true")) =>
                    {
                        true
                    }
                    _ => continue,
                };
                return Some(Excluded { file, line: line.to_owned(), by_hand_too });
            }
        }
    }
    let cmdline = root.read_text("/proc/cmdline").ok()?;
    let word = cmdline.split_whitespace().find(|word| {
        word.strip_prefix("modprobe.blacklist=")
            .or_else(|| word.strip_prefix("module_blacklist="))
            .is_some_and(|list| list.split(',').any(names))
    })?;
    Some(Excluded {
        file: "/proc/cmdline".to_owned(),
        line: word.to_owned(),
        by_hand_too: word.starts_with("module_blacklist="),
    })
}
