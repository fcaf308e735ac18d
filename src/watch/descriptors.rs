//! The open files that kernel probes need: one for each probe and CPU.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that gds-top opens while probes are set, for example of procfs.
const OTHERS: usize = 64;

/// The CPUs for this many probes, after the limit of open files was raised.
///
/// # Errors
/// Fails if the limit is too low and cannot be raised. Without this test, the probes that were already set would be
/// removed again, each in up to 0.1 s.
pub(super) fn cpus_for(probes: usize) -> Result<Vec<u32>, String> {
    let cpus = online();
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let needed = probes * cpus.len() + open + OTHERS;
    raise(needed as u64).map_err(|limit| {
        format!(
            "the probes of {} CPUs need {needed} open files, and the limit is {limit}; raise it with 'ulimit -n {needed}'",
            cpus.len()
        )
    })?;
    Ok(cpus)
}

/// Raises the limit of open files. Returns the limit if it stays below `needed`.
fn raise(needed: u64) -> Result<(), u64> {
    let limit = getrlimit(Resource::Nofile);
    let allows = |most: Option<u64>| most.is_none_or(|most| most >= needed);
    if allows(limit.current) {
        return Ok(());
    }
    // Root may exceed the hard limit, up to fs.nr_open. An error is not needed, because the new limit is read below.
    let maximum = if allows(limit.maximum) { limit.maximum } else { Some(needed) };
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    match getrlimit(Resource::Nofile).current {
        Some(now) if now < needed => Err(now),
        _ => Ok(()),
    }
}

/// The online CPUs, from a list such as `0-3,8`.
fn online() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    cpus(text.trim())
}

fn cpus(text: &str) -> Vec<u32> {
    let parts = text.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse().ok()?)
    });
    parts.flatten().collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_read_from_ranges() {
        assert_eq!(cpus("0-3,8"), [0, 1, 2, 3, 8]);
        assert_eq!(cpus("5"), [5]);
        assert_eq!(cpus(""), Vec::<u32>::new());
    }

    #[test]
    fn probes_for_which_the_limit_of_open_files_is_too_low_are_refused_with_the_numbers() {
        assert_eq!(raise(10), Ok(()));
        // Linux allows no process so many files.
        assert!(raise(1 << 40).is_err_and(|limit| limit < 1 << 40));
        let refused = cpus_for(1 << 40).unwrap_err();
        assert!(refused.contains("open files") && refused.contains("ulimit -n"), "{refused}");
    }
}
