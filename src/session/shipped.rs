//! The compiled-in recordings: two models loaded on an H200, for the lesson, the pictures and a first look without a
//! GPU.

use super::recording::{Reader, RecordingError};
use super::state::State;
use crate::core::{Engine, EventBody};
use crate::device::heap;
use std::path::Path;

/// A recording inside the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// File name under `assets/recordings`.
    pub name: &'static str,
    /// The model that was loaded, as people call it.
    pub model: &'static str,
    bytes: &'static [u8],
}

/// Qwen3-0.6B: 311 small tensors.
pub const SMALL: Shipped = Shipped {
    name: "h200-qwen3-0.6b.gdsrec",
    model: "Qwen3-0.6B",
    bytes: include_bytes!("../../assets/recordings/h200-qwen3-0.6b.gdsrec"),
};

/// Qwen2.5-7B: 339 tensors, the mean one ten times as large.
pub const LARGE: Shipped = Shipped {
    name: "h200-qwen2.5-7b.gdsrec",
    model: "Qwen2.5-7B",
    bytes: include_bytes!("../../assets/recordings/h200-qwen2.5-7b.gdsrec"),
};

impl Shipped {
    /// The recording as it is on disk.
    #[must_use]
    pub const fn bytes(&self) -> &'static [u8] {
        self.bytes
    }

    /// The loads in the recording, with the timelines of some engines only and without the readings of meters: the
    /// complete state is several times as large, and the screens that ask for this keep a small part of it. All of it
    /// is given back before this returns.
    ///
    /// # Errors
    /// As [`Self::state`].
    pub fn tell<T>(
        &self,
        with_timeline: impl Fn(&Engine) -> bool,
        tell: impl FnOnce(&State) -> T,
    ) -> Result<T, RecordingError> {
        let mut state = State::default();
        let mut reader = Reader::from_bytes(Path::new(self.name), self.bytes)?;
        while let Some(event) = reader.next() {
            let event = event?;
            match &event.body {
                EventBody::Sampled { .. } | EventBody::SystemSeen { .. } | EventBody::LaneProgress { .. } => continue,
                EventBody::LanePlanned { lane, engine, .. } if !with_timeline(engine) => reader.pass_over_spans(*lane),
                _ => {}
            }
            state.reduce(&event);
        }
        drop(reader);
        let told = tell(&state);
        drop(state);
        heap::give_back();
        Ok(told)
    }

    /// The state at the end of the recording.
    ///
    /// # Errors
    /// If the compiled-in recording cannot be read, which a test excludes.
    pub fn state(&self) -> Result<State, RecordingError> {
        let mut state = State::default();
        for event in Reader::from_bytes(Path::new(self.name), self.bytes)? {
            state.reduce(&event?);
        }
        Ok(state)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::session::LaneStatus;

    #[test]
    fn what_is_told_of_loads_is_what_the_whole_state_tells_with_the_timelines_that_were_asked_for() {
        let whole = SMALL.state().unwrap();
        let wanted = |engine: &Engine| *engine == Engine::GdsSlab;
        let compare = |told: &State| {
            assert!(told.samples.is_empty() && told.lanes.len() == whole.lanes.len());
            for (told, whole) in told.lanes.iter().zip(&whole.lanes) {
                assert_eq!((told.id, &told.status, &told.result), (whole.id, &whole.status, &whole.result));
                assert_eq!(told.spans.len(), if wanted(&told.engine) { whole.spans.len() } else { 0 });
            }
        };
        SMALL.tell(wanted, compare).unwrap();
    }

    #[test]
    fn the_recordings_are_whole_and_hold_every_run_with_its_timeline() {
        for shipped in [SMALL, LARGE] {
            let state = shipped.state().unwrap();
            assert_eq!(state.ended, Some(false), "{}", shipped.name);
            assert_eq!(state.lanes.len(), 30, "five engines, cold and hot, three times");
            assert!(state.lanes.iter().all(|l| l.status == LaneStatus::Done && !l.spans.is_empty()));
            assert!(state.lanes.iter().all(|l| l.result.as_deref().is_some_and(|r| r.verified == Some(true))));
        }
    }
}
