//! The times of a recording that a player shows and uses for seeks: its end, its loads and its result.

use super::recording::{RecordingError, read};
use crate::core::{Engine, Event, EventBody, LaneId};
use std::collections::BTreeMap;
use std::path::Path;

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
    /// Reads the times of a recording. An event that cannot be read ends it, as in a replay.
    ///
    /// # Errors
    /// Fails if the recording cannot be opened.
    pub(super) fn read(path: &Path) -> Result<Self, RecordingError> {
        let mut reader = read(path)?;
        let mut engines: BTreeMap<LaneId, Engine> = BTreeMap::new();
        let (mut end_ns, mut result_ns, mut loads) = (0, None, Vec::new());
        while let Some(event) = reader.next() {
            let Ok(Event { at_ns, body }) = event else { continue };
            end_ns = at_ns.max(end_ns);
            match body {
                // The lanes of each page are counted from the first again.
                EventBody::RacePlanStarted { .. } => engines.clear(),
                EventBody::LanePlanned { lane, engine, .. } => {
                    // The times need no spans, and these are most of a recording.
                    reader.pass_over_spans(lane);
                    engines.entry(lane).or_insert(engine);
                }
                EventBody::LaneStarted { lane, .. } => {
                    loads.extend(engines.get(&lane).map(|engine| LoadTime { start_ns: at_ns, engine: engine.clone() }));
                }
                EventBody::LaneFinished { lane, .. }
                | EventBody::LaneDied { lane, .. }
                | EventBody::LaneCancelled { lane }
                    if engines.contains_key(&lane) =>
                {
                    result_ns = Some(at_ns);
                }
                _ => {}
            }
        }
        loads.sort_by_key(|load| load.start_ns);
        Ok(Self { end_ns, loads, result_ns: result_ns.unwrap_or(end_ns) })
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::session::State;

    #[test]
    fn the_times_of_each_shipped_recording_are_those_of_its_state() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/recordings");
        let mut seen = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let found = Timeline::read(&path).unwrap();
            let mut state = State::default();
            read(&path).unwrap().for_each(|event| state.reduce(&event.unwrap()));
            let pages = || state.earlier.iter().map(AsRef::as_ref).chain([&state]);
            let lanes = || pages().flat_map(|page: &State| &page.lanes);
            let mut starts: Vec<u64> = lanes().filter_map(|lane| lane.started_ns).collect();
            starts.sort_unstable();
            assert_eq!(found.loads.iter().map(|load| load.start_ns).collect::<Vec<_>>(), starts, "{path:?}");
            let engines: Vec<&Engine> = found.loads.iter().map(|load| &load.engine).collect();
            assert!(engines.iter().all(|engine| lanes().any(|lane| lane.engine == **engine)), "{path:?}");
            let result = lanes().filter_map(|lane| lane.ended_ns).max().unwrap_or(state.now_ns);
            assert_eq!((found.end_ns, found.result_ns), (state.now_ns, result), "{path:?}");
            seen += 1;
        }
        assert!(seen > 20, "{seen} recordings");
    }
}
