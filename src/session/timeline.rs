//! The times of a recording that a player shows and uses for seeks: its end, its loads and its result.

use super::state::State;
use crate::core::Engine;

/// The times of a recording, in nanoseconds since the session began.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// Time of the last event in nanoseconds.
    pub end_ns: u64,
    /// The loads that were started, in order.
    pub loads: Vec<LoadTime>,
    /// The end of the last load in nanoseconds. Without a load it is the end of the recording.
    pub result_ns: u64,
}

/// The start of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadTime {
    /// The start of its process, in nanoseconds.
    pub start_ns: u64,
    /// Its engine.
    pub engine: Engine,
}

impl Timeline {
    /// The times of a session that was read to its end.
    pub(super) fn of(state: &State) -> Self {
        let pages = state.earlier.iter().map(AsRef::as_ref).chain([state]);
        let lanes = || pages.clone().flat_map(|page| &page.lanes);
        let mut loads: Vec<LoadTime> = lanes()
            .filter_map(|lane| Some(LoadTime { start_ns: lane.started_ns?, engine: lane.engine.clone() }))
            .collect();
        loads.sort_by_key(|load| load.start_ns);
        let result_ns = lanes().filter_map(|lane| lane.ended_ns).max().unwrap_or(state.now_ns);
        Self { end_ns: state.now_ns, loads, result_ns }
    }

    /// The time in nanoseconds at which a replay starts: the start of the first load, or 0 if there is no load.
    #[must_use]
    pub fn opening_ns(&self) -> u64 {
        self.loads.first().map_or(0, |load| load.start_ns)
    }

    /// The start of the first load after the given time, in nanoseconds.
    #[must_use]
    pub fn load_after(&self, at_ns: u64) -> Option<u64> {
        self.loads.iter().map(|load| load.start_ns).find(|start| *start > at_ns)
    }

    /// The start of the last load that began at least `margin_ns` before the given time. With a margin, pressing a
    /// key twice goes to the load before.
    #[must_use]
    pub fn load_before(&self, at_ns: u64, margin_ns: u64) -> Option<u64> {
        let before = self.loads.iter().map(|load| load.start_ns);
        before.rev().find(|start| start.saturating_add(margin_ns) < at_ns)
    }

    /// The number of the current or last load at the given time, from 1; 0 before the first load.
    #[must_use]
    pub fn load_at(&self, at_ns: u64) -> usize {
        self.loads.partition_point(|load| load.start_ns <= at_ns)
    }
}
