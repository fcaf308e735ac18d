//! The failed runs, with the end of their standard error.

use crate::session::{LaneStatus, State};
use std::collections::HashMap;

/// Runs that failed for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRuns {
    /// The runs and the reason: `pread hot #1, pread hot #2: disk gone`.
    pub sentence: String,
    /// The last lines of their standard error.
    pub stderr_tail: Vec<String>,
}

/// Maximum number of lines of standard error that are shown.
const MOST_LINES: usize = 5;
/// Maximum number of runs that are named with a reason.
const MOST_NAMES: usize = 12;

/// A reason: the failure, and the last lines of standard error.
type Reason = (String, Vec<String>);

/// The failed runs, one entry for each reason, in the order of the first run.
#[must_use]
pub fn failed_runs(state: &State) -> Vec<FailedRuns> {
    let mut places: HashMap<Reason, usize> = HashMap::new();
    let mut reasons: Vec<(Reason, Vec<String>)> = Vec::new();
    for lane in &state.lanes {
        let LaneStatus::Failed(why) = &lane.status else { continue };
        let share = lane.share.as_ref().map_or_else(String::new, |share| format!(" ({})", share.label(&lane.target)));
        let name = format!("{} {} #{}{share}", lane.engine, lane.cache, lane.repeat.saturating_add(1));
        let reason = (why.to_string(), stderr_tail(lane.stderr_tail.as_deref().unwrap_or_default()));
        let place = *places.entry(reason.clone()).or_insert(reasons.len());
        match reasons.get_mut(place) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    let entry = |((why, stderr_tail), mut names): (Reason, Vec<String>)| {
        let more = names.len().saturating_sub(MOST_NAMES);
        names.truncate(MOST_NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        FailedRuns { sentence: format!("{}{more}: {why}", names.join(", ")), stderr_tail }
    };
    reasons.into_iter().map(entry).collect()
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
    use crate::core::{CacheState, Engine, Event, EventBody, LaneId, Target};

    #[test]
    fn runs_that_failed_for_one_reason_are_one_entry() {
        let mut state = State::default();
        let failures = [("disk gone", "a"), ("no memory", ""), ("disk gone", "a"), ("disk gone", "b")];
        for (number, (how, stderr)) in (0..).zip(failures) {
            let (lane, engine, cache) = (LaneId(number), Engine::Pread, CacheState::Hot);
            let bodies = [
                EventBody::LanePlanned { lane, engine, cache, target: Target::Host, repeat: number },
                EventBody::LaneDied { lane, how: how.to_owned(), stderr_tail: stderr.to_owned() },
            ];
            for body in bodies {
                state.reduce(&Event { at_ns: 0, body });
            }
        }
        let failed = failed_runs(&state);
        let tails: Vec<_> = failed.iter().map(|run| run.stderr_tail.concat()).collect();
        assert_eq!(tails, ["a", "", "b"]);
        assert_eq!(failed[0].sentence.matches('#').count(), 2, "{failed:?}");
    }

    #[test]
    fn the_last_lines_of_standard_error_are_kept() {
        assert_eq!(stderr_tail("1\n2\n\n 3 \n4\n5\n6\n\n"), ["2", "3", "4", "5", "6"]);
        assert!(stderr_tail("\n \n").is_empty());
    }
}
