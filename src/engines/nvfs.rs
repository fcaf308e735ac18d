//! The counters of nvidia-fs: direct reads of all processes on the machine.

/// The path of the counters.
pub const NVFS_STATS: &str = "/proc/driver/nvidia-fs/stats";

/// The reads of all processes that nvidia-fs has counted. `None` if the module is not loaded or does not count.
#[must_use]
pub fn nvfs_reads() -> Option<u64> {
    parse_reads(&std::fs::read_to_string(NVFS_STATS).ok()?)
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

/// Parses the number of reads in the statistics of nvidia-fs. The lines look like `Reads : n=5 ok=5 err=0 …`. Since
/// 2.7, the space before the colon may be missing.
fn parse_reads(text: &str) -> Option<u64> {
    if text.lines().any(|line| line.starts_with("IO stats: Disabled")) {
        return None;
    }
    let line = text.lines().find(|line| line.starts_with("Reads"))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("n=")?.parse().ok())
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

    #[test]
    fn the_counter_of_reads_is_read_where_it_counts() {
        let text = "GDS Version: 1.16\nIO stats: Enabled, peer IO stats: Disabled\nReads\t\t\t\t: n=17 ok=17 err=0 readMiB=68\n";
        assert_eq!(parse_reads(text), Some(17));
        assert_eq!(parse_reads(&text.replace("stats: Enabled", "stats: Disabled")), None);
        assert_eq!(parse_reads(""), None);
    }
}
