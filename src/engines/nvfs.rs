//! The counters of nvidia-fs: direct reads of all processes on the machine.

use crate::core::{self, NVFS_STATS};

/// The reads of all processes that nvidia-fs has counted. `None` if the module is not loaded or does not count.
#[must_use]
pub fn nvfs_reads() -> Option<u64> {
    core::nvfs_reads(&std::fs::read_to_string(NVFS_STATS).ok()?)
}

/// Whether nvidia-fs is loaded.
#[must_use]
pub(super) fn is_loaded() -> bool {
    // A module that is being loaded or removed serves no read.
    match std::fs::read_to_string("/sys/module/nvidia_fs/initstate") {
        Ok(state) => state.trim() == "live",
        Err(_) => std::fs::read_to_string("/proc/modules").is_ok_and(|text| is_live(&text)),
    }
}

/// Whether the list of modules contains nvidia-fs. The columns are name, size, users, their names, and state.
fn is_live(modules: &str) -> bool {
    let mut lines = modules.lines().map(|line| line.split_whitespace());
    lines.any(|mut words| words.next() == Some("nvidia_fs") && words.nth(3) == Some("Live"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_live_module_is_loaded() {
        assert!(is_live("nvme 1 0 - Live 0x0\nnvidia_fs 323584 0 - Live 0x0000000000000000\n"));
        assert!(!is_live("nvidia_fs 323584 0 - Loading 0x0\n") && !is_live("nvidia_fs\n"));
        assert!(!is_live("nvidia_fs_tools 1 0 - Live 0x0\n"));
    }
}
