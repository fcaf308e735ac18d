//! The counters of nvidia-fs: direct reads of all processes on the machine.

/// The path of the counters.
pub const NVFS_STATS: &str = "/proc/driver/nvidia-fs/stats";

/// Parses the number of reads. The lines look like `Reads : n=5 ok=5 err=0 …`. Since 2.7, the space before the colon
/// may be missing. `None` if nvidia-fs does not count.
#[must_use]
pub fn nvfs_reads(text: &str) -> Option<u64> {
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
    fn reads_are_counted_only_if_statistics_are_on() {
        let text = "GDS Version: 1.16\nIO stats: Enabled, peer IO stats: Disabled\nReads\t\t\t\t: n=17 ok=17 err=0 readMiB=68\n";
        assert_eq!(nvfs_reads(text), Some(17));
        assert_eq!(nvfs_reads(&text.replace("stats: Enabled", "stats: Disabled")), None);
        assert_eq!(nvfs_reads(""), None);
    }
}
