//! The failed runs, with the end of their standard error.

use crate::session::{LaneStatus, State};

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRun {
    /// The run and the reason: `pread hot #1: disk gone`.
    pub sentence: String,
    /// The last lines of its standard error.
    pub stderr_tail: Vec<String>,
}

/// Maximum number of lines of standard error that are shown.
const MOST_LINES: usize = 5;

/// The failed runs in order.
#[must_use]
pub fn failed_runs(state: &State) -> Vec<FailedRun> {
    let failed = state.lanes.iter().filter_map(|lane| match &lane.status {
        LaneStatus::Failed(why) => Some((lane, why)),
        _ => None,
    });
    failed
        .map(|(lane, why)| {
            let share =
                lane.share.as_ref().map_or_else(String::new, |share| format!(" ({})", share.label(&lane.target)));
            FailedRun {
                sentence: format!("{} {} #{}{share}: {why}", lane.engine, lane.cache, lane.repeat.saturating_add(1)),
                stderr_tail: stderr_tail(lane.stderr_tail.as_deref().unwrap_or_default()),
            }
        })
        .collect()
}

/// The last lines of a text that are not empty.
#[must_use]
pub fn stderr_tail(text: &str) -> Vec<String> {
    let mut tail: Vec<String> =
        text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(MOST_LINES).map(str::to_owned).collect();
    tail.reverse();
    tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_standard_error_are_kept() {
        assert_eq!(stderr_tail("1\n2\n\n 3 \n4\n5\n6\n\n"), ["2", "3", "4", "5", "6"]);
        assert!(stderr_tail("\n \n").is_empty());
    }
}
