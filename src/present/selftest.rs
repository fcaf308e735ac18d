//! The results of the self-test, which compares every byte with the file.

use super::notes;
use crate::core::{Failure, Status, units};
use crate::session::{Lane, LaneStatus};

/// The condition that a run has to meet.
pub const EXPECTED: &str = "every byte on the target equals the file";

/// Why a run did not load every byte correctly; `None` if it did.
#[must_use]
pub fn failure(lane: &Lane) -> Option<String> {
    match &lane.status {
        LaneStatus::Done if lane.result.as_deref().is_none_or(|run| run.verified != Some(true)) => {
            Some("the bytes were not compared with the file".to_owned())
        }
        LaneStatus::Done => None,
        LaneStatus::Failed(why) => Some(why.to_string()),
        LaneStatus::Cancelled => Some("it was stopped by the user".to_owned()),
        LaneStatus::Waiting => Some("it never started".to_owned()),
        LaneStatus::Running(_) => Some("it did not finish".to_owned()),
    }
}

/// The notes of a run that can explain its failure.
#[must_use]
pub fn notes(lane: &Lane, failure: &str) -> Vec<String> {
    let notes = lane.result.iter().flat_map(|run| &run.notes).map(notes::sentence);
    notes.filter(|note| note != failure).collect()
}

/// The number of cuFile reads of a run that failed and were repeated with pread.
#[must_use]
pub fn repeated_reads(lane: &Lane) -> u64 {
    lane.result.as_deref().and_then(|run| run.repeated_reads).unwrap_or(0)
}

/// Whether bytes on the target differ from the file, or were not compared.
#[must_use]
pub fn has_wrong_bytes(lane: &Lane) -> bool {
    let compared = lane.result.as_deref().map(|run| run.verified);
    matches!(lane.status, LaneStatus::Failed(Failure::WrongBytes(_)))
        || compared == Some(Some(false))
        || (lane.status == LaneStatus::Done && compared != Some(Some(true)))
}

/// The status and the words for a run. The reason of a failure is in [`failure`].
#[must_use]
pub fn outcome(lane: &Lane) -> (Status, String) {
    match (failure(lane), repeated_reads(lane)) {
        (Some(_), _) => (Status::Fail, "failed".to_owned()),
        (None, 0) => (Status::Pass, "every byte equals the file".to_owned()),
        (None, reads) => {
            let reads = units::plural(reads, "cuFile read");
            (Status::Warn, format!("every byte equals the file; {reads} failed and repeated by pread"))
        }
    }
}

/// The last lines: how many runs passed, and how many reads were repeated.
#[must_use]
pub fn summary(good: usize, all: usize, repeated: u64) -> String {
    let mut text = format!("{good} of {all} runs loaded every byte correctly\n");
    if repeated > 0 {
        text += &format!("cuFile reads that failed and were repeated by pread: {repeated}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{CacheState, Engine, EventBody, LaneId, Target};
    use crate::session::State;

    #[test]
    fn wrong_bytes_are_a_bad_answer_and_a_run_that_did_not_load_is_none() {
        let mut state = State::default();
        let (lane, engine, cache) = (LaneId(0), Engine::Pread, CacheState::Hot);
        let body = EventBody::LanePlanned { lane, engine, cache, target: Target::Host, repeat: 0 };
        state.reduce(&crate::core::Event { at_ns: 0, body });
        let mut run = state.lanes.remove(0);
        for (status, is_wrong) in [
            (LaneStatus::Failed(Failure::WrongBytes(None)), true),
            // The bytes were not compared.
            (LaneStatus::Done, true),
            (LaneStatus::Failed(Failure::Error("no libcufile".to_owned())), false),
            (LaneStatus::Failed(Failure::Died("killed".to_owned())), false),
        ] {
            run.status = status;
            assert_eq!(has_wrong_bytes(&run), is_wrong, "{:?}", run.status);
            assert!(failure(&run).is_some());
        }
    }
}
