//! The process that created a temporary directory. It is part of the directory's name, so that a directory whose creator has
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
        Self { pid, start: stat_of(pid).map_or(0, |(_, start)| start) }
    }

    /// The creator in the name of a directory: `PREFIX-PID-START-REST`, with a prefix of gds-top. `None` for other
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
    /// unknown. False for a process that has ended and that its parent has not yet waited for.
    #[must_use]
    pub fn may_live(self) -> bool {
        if !Path::new("/proc/self/stat").exists() {
            return true;
        }
        match stat_of(self.pid) {
            Some((state, start)) => !matches!(state, 'Z' | 'X') && (self.start == 0 || start == self.start),
            None => Path::new("/proc").join(self.pid.to_string()).exists(),
        }
    }
}

impl std::fmt::Display for Maker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.pid, self.start)
    }
}

/// The state and the start time of a process. `None` if procfs does not show it.
pub(super) fn stat_of(pid: u32) -> Option<(char, u64)> {
    fields_of(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The state and the start time: fields 3 and 22 of a stat file. They follow the name, which may contain any byte, also
/// bytes that are not UTF-8.
fn fields_of(stat: &[u8]) -> Option<(char, u64)> {
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(stat.get(end_of_name + 1..)?).ok()?.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.nth(18)?.parse().ok()?))
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

    #[test]
    fn the_name_of_a_process_may_contain_any_byte() {
        for name in [&b"sleep"[..], b"a) Z 1 (b", b"caf\xe9", b"\xff) \xfe"] {
            let after = b") S 1 2 3 0 -1 4194304 5 6 7 8 9 10 11 12 20 0 1 0 777 0 0\n";
            let stat = [&b"4242 ("[..], name, after].concat();
            assert_eq!(fields_of(&stat), Some(('S', 777)), "{name:?}");
        }
        assert_eq!(fields_of(b"4242 (sleep) S 1"), None);
        assert_eq!(fields_of(b"4242 sleep"), None);
    }

    #[test]
    fn a_process_that_ended_does_not_live_even_if_nobody_waited_for_it() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let (_, start) = stat_of(child.id()).unwrap();
        let maker = Maker { pid: child.id(), start };
        assert!(maker.may_live());
        child.kill().unwrap();
        while stat_of(child.id()).is_some_and(|(state, _)| state != 'Z') {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(!maker.may_live());
        child.wait().unwrap();
    }
}
