//! The compiled-in recordings of two models that were loaded on an H200. They are used for the lesson, the pictures,
//! and a demonstration without a GPU.

use super::recording::{Reader, RecordingError};
use super::state::State;
use crate::core::{Engine, EventBody};
use crate::device::heap;
use std::path::Path;

/// A recording that is compiled into the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// Its file name in `assets/recordings`.
    pub name: &'static str,
    /// The usual name of the loaded model.
    pub model: &'static str,
    bytes: &'static [u8],
}

/// A recording from its file name in `assets/recordings` and the usual name of its model.
macro_rules! shipped {
    ($name:literal, $model:literal) => {
        Shipped { name: $name, model: $model, bytes: include_bytes!(concat!("../../assets/recordings/", $name)) }
    };
}

/// Qwen3-0.6B with 311 small tensors.
pub const SMALL: Shipped = shipped!("h200-qwen3-0.6b.gdsrec", "Qwen3-0.6B");

/// Qwen2.5-7B with 339 tensors. Their mean size is ten times as large.
pub const LARGE: Shipped = shipped!("h200-qwen2.5-7b.gdsrec", "Qwen2.5-7B");

/// Loads of the small model for the lesson, also with NIXL. Each registration pins 16 MiB in compat mode, which is the
/// usual value of `max_direct_io_size_kb`. `gds-slab` registers its memory once and reads in one thread with O_DIRECT,
/// as `gds-per-tensor` does.
pub const SMALL_LESSON: Shipped = shipped!("h200-lesson-qwen3-0.6b.gdsrec", "Qwen3-0.6B");

/// Hot loads with `max_direct_io_size_kb` 1024, on the same machine in the same session.
pub const SMALL_1024: Shipped = shipped!("h200-lesson-1024-qwen3-0.6b.gdsrec", "0.6B 1024 KiB");

/// Hot loads of the large model, also with NIXL, with the usual value.
pub const LARGE_USUAL: Shipped = shipped!("h200-hot-qwen2.5-7b.gdsrec", "7B 16384 KiB");

impl Shipped {
    /// The bytes of the recording file.
    #[must_use]
    pub const fn bytes(&self) -> &'static [u8] {
        self.bytes
    }

    /// Calls a function with the loads of the recording. The state contains the timelines of the given engines only
    /// and no samples, because the complete state is several times as large. All memory is freed before this function
    /// returns.
    ///
    /// # Errors
    /// See [`Self::state`].
    pub fn read_part<T>(
        &self,
        with_timeline: impl Fn(&Engine) -> bool,
        read_part: impl FnOnce(&State) -> T,
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
        let partial = read_part(&state);
        drop(state);
        heap::give_back();
        Ok(partial)
    }

    /// The state at the end of the recording.
    ///
    /// # Errors
    /// Fails if the recording cannot be read. A test makes sure that this does not happen.
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
    fn a_partial_read_equals_the_complete_state() {
        let complete = SMALL.state().unwrap();
        let wanted = |engine: &Engine| *engine == Engine::GdsSlab;
        let compare = |partial: &State| {
            assert!(partial.samples.is_empty() && partial.lanes.len() == complete.lanes.len());
            for (partial, complete) in partial.lanes.iter().zip(&complete.lanes) {
                assert_eq!(
                    (partial.id, &partial.status, &partial.result),
                    (complete.id, &complete.status, &complete.result)
                );
                assert_eq!(partial.spans.len(), if wanted(&partial.engine) { complete.spans.len() } else { 0 });
            }
        };
        SMALL.read_part(wanted, compare).unwrap();
    }

    #[test]
    fn the_package_contains_every_recording_that_is_compiled_in() {
        let manifest = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
        for shipped in [SMALL, LARGE, SMALL_LESSON, SMALL_1024, LARGE_USUAL] {
            let line = format!("\"/assets/recordings/{}\",", shipped.name);
            assert!(manifest.contains(&line), "'include' of Cargo.toml lacks {line}");
        }
    }

    #[test]
    fn the_recordings_contain_every_run_with_its_timeline() {
        for shipped in [SMALL, LARGE] {
            let state = shipped.state().unwrap();
            assert_eq!(state.ended, Some(false), "{}", shipped.name);
            assert_eq!(state.lanes.len(), 30, "five engines, cold and hot, three times");
            assert!(state.lanes.iter().all(|l| l.status == LaneStatus::Done && !l.spans.is_empty()));
            assert!(state.lanes.iter().all(|l| l.result.as_deref().is_some_and(|r| r.verified == Some(true))));
        }
    }
}
