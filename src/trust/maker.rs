//! The process that created a temporary folder. It is part of the folder's name, so that a folder whose creator has
//! ended can be removed.

use std::fs;
use std::path::Path;

/// A process, identified by its number and its start time, because numbers are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maker {
    pid: u32,
    /// Start time in clock ticks since boot, from procfs; 0 if procfs does not show it.
    start: u64,
}

impl Maker {
    /// This process.
    #[must_use]
    pub fn own() -> Self {
        let pid = std::process::id();
        Self { pid, start: start_of(pid).unwrap_or(0) }
    }

    /// The creator in the name of a folder: `PREFIX-PID-START-REST`, with a prefix of gds-top. `None` for other
    /// names.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        if !name.trim_start_matches('.').starts_with("gds-top-") {
            return None;
        }
        let mut parts = name.rsplit('-').skip(1);
        let start = parts.next()?.parse().ok()?;
        Some(Self { pid: parts.next()?.parse().ok()?, start })
    }

    /// Whether the process may still be running. True also if procfs does not show it, or if its start time is
    /// unknown.
    #[must_use]
    pub fn may_live(self) -> bool {
        if !Path::new("/proc/self/stat").exists() {
            return true;
        }
        match start_of(self.pid) {
            Some(start) => self.start == 0 || start == self.start,
            None => Path::new("/proc").join(self.pid.to_string()).exists(),
        }
    }
}

impl std::fmt::Display for Maker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.pid, self.start)
    }
}

/// The start time of a process: field 22 of its stat file. The field follows the name, which may contain any
/// character.
fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_name_shows_its_maker_and_a_number_that_is_used_again_is_another() {
        let own = Maker::own();
        assert!(own.may_live() && own.start > 0);
        assert_eq!(Maker::of(&format!("gds-top-root-{own}-00ff")), Some(own));
        assert_eq!(Maker::of(&format!(".gds-top-capture-{own}-00ff")), Some(own));
        assert!(!Maker { start: own.start + 1, ..own }.may_live());
        // This number is above the largest process number.
        assert!(!Maker { pid: 4_194_305, start: 1 }.may_live());
        for other in ["gds-top-", "gds-top-root-1-x", "other-1-2-3", "gds-top", "gds-top-kv-ucm"] {
            assert_eq!(Maker::of(other), None, "{other}");
        }
    }
}
