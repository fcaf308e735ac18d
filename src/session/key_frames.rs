//! Key frames of a recording. A key frame is the state at one position, so that a seek does not have to process all
//! events before its time.

use super::recording::{Place, Reader, RecordingError, read};
use super::scenes::Scenes;
use super::state::State;
use super::timeline::Timeline;
use crate::core::{Event, EventBody, LogLevel};
use crate::device::heap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of key frames. States share their spans, so a key frame is small.
const MOST: usize = 16;
/// Unpacked bytes between the first key frames. The distance is doubled when there are too many key frames.
const FIRST_STEP_BYTES: u64 = 128 << 10;

/// The state at one position of the recording.
#[derive(Debug)]
struct KeyFrame {
    place: Place,
    state: State,
}

/// A recording with its key frames.
#[derive(Debug)]
pub(super) struct KeyFrames {
    path: PathBuf,
    shortest_load_ns: Option<u64>,
    frames: Vec<KeyFrame>,
    /// The times of the recording.
    pub(super) timeline: Arc<Timeline>,
}

/// The result of a seek: the state at that time, and the events that follow.
pub(super) struct Sought {
    pub(super) state: State,
    pub(super) scenes: Scenes,
}

impl KeyFrames {
    /// Reads a recording to its end. An event that cannot be read ends it, as in a replay.
    ///
    /// # Errors
    /// Fails if the recording cannot be opened.
    pub(super) fn of(path: &Path, shortest_load_ns: Option<u64>) -> Result<Self, RecordingError> {
        let mut scenes = Scenes::new(read(path)?, shortest_load_ns);
        let (mut state, mut frames) = (State::default(), Vec::<KeyFrame>::new());
        let (mut step, mut next) = (FIRST_STEP_BYTES, FIRST_STEP_BYTES);
        while let Some(scene) = scenes.next() {
            let Ok((event, _)) = scene else { continue };
            state.reduce(&event);
            // A reader cannot start within the events of a load that were read ahead.
            if scenes.is_at_reader() && scenes.reader.unpacked_bytes() >= next {
                if frames.len() >= MOST {
                    let mut number = 0;
                    frames.retain(|_| {
                        number += 1;
                        number % 2 == 0
                    });
                    step *= 2;
                }
                frames.push(KeyFrame { place: scenes.reader.place(), state: state.clone() });
                next = scenes.reader.unpacked_bytes() + step;
            }
        }
        let timeline = Arc::new(Timeline::of(&state));
        drop((scenes, state));
        heap::give_back();
        Ok(Self { path: path.to_owned(), shortest_load_ns, frames, timeline })
    }

    /// The state at a time, after all events up to the first event that is later. The events are the same as in a
    /// replay.
    ///
    /// # Errors
    /// Fails if the recording can no longer be opened.
    pub(super) fn seek(&self, at_ns: u64) -> Result<Sought, RecordingError> {
        let frame = self.frames.iter().rev().find(|frame| frame.state.now_ns <= at_ns);
        let mut reader: Reader = read(&self.path)?;
        let mut state = State::default();
        if let Some(frame) = frame {
            reader.go_to(&frame.place);
            state = frame.state.clone();
        }
        let mut scenes = Scenes::new(reader, self.shortest_load_ns);
        while let Some(scene) = scenes.next() {
            match scene {
                Ok((event, pace)) if event.at_ns > at_ns => {
                    scenes.put_back(event, pace);
                    break;
                }
                Ok((event, _)) => state.reduce(&event),
                Err(error) => state.reduce(&trouble(&error, state.now_ns)),
            }
        }
        Ok(Sought { state, scenes })
    }

    /// The number of key frames, for tests.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.frames.len()
    }
}

/// An event that reports an error of a recording.
pub(super) fn trouble(error: &RecordingError, at_ns: u64) -> Event {
    Event { at_ns, body: EventBody::Said { level: LogLevel::Error, text: error.to_string() } }
}
