//! Key frames of a recording. A key frame is the state at one position, so that a seek does not have to process all
//! events before its time.

use super::recording::{Place, Reader, RecordingError, read};
use super::scenes::Scenes;
use super::state::State;
use crate::core::{Event, EventBody, LogLevel};
use std::path::{Path, PathBuf};

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

/// A recording with its key frames. They are made on the way of a seek, as far as it reads: most replays are never sought in.
#[derive(Debug)]
pub(super) struct KeyFrames {
    path: PathBuf,
    shortest_load_ns: Option<u64>,
    frames: Vec<KeyFrame>,
    /// Unpacked bytes between two frames.
    step_bytes: u64,
    /// Unpacked bytes up to the next frame.
    next_bytes: u64,
}

/// The result of a seek: the state at that time, and the events that follow.
pub(super) struct Sought {
    pub(super) state: State,
    pub(super) scenes: Scenes,
}

impl KeyFrames {
    /// A recording in which no time was sought so far.
    pub(super) fn new(path: &Path, shortest_load_ns: Option<u64>) -> Self {
        let (step_bytes, next_bytes) = (FIRST_STEP_BYTES, FIRST_STEP_BYTES);
        Self { path: path.to_owned(), shortest_load_ns, frames: Vec::new(), step_bytes, next_bytes }
    }

    /// The state at a time, after all events up to the first event that is later. The events are the same as in a
    /// replay.
    ///
    /// # Errors
    /// Fails if the recording can no longer be opened.
    pub(super) fn seek(&mut self, at_ns: u64) -> Result<Sought, RecordingError> {
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
                Ok((event, _)) => {
                    state.reduce(&event);
                    self.keep(&scenes, &state);
                }
                Err(error) => state.reduce(&trouble(&error, state.now_ns)),
            }
        }
        Ok(Sought { state, scenes })
    }

    /// Keeps the state as a frame if it is far enough from the last one.
    fn keep(&mut self, scenes: &Scenes, state: &State) {
        let at_bytes = scenes.reader.unpacked_bytes();
        // A reader cannot start within the events of a load that were read ahead.
        if at_bytes < self.next_bytes || !scenes.is_at_reader() {
            return;
        }
        if self.frames.len() >= MOST {
            let mut number = 0;
            self.frames.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.step_bytes *= 2;
        }
        self.frames.push(KeyFrame { place: scenes.reader.place(), state: state.clone() });
        self.next_bytes = at_bytes + self.step_bytes;
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
