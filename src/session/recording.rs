//! Recordings: the events of a session in a compressed file, for replays, later reports and bug reports.
//!
//! A recording consists of JSON lines that are compressed with zstd (RFC 8878). The first line is a header,
//! `{"gds_top_recording":2,"tool":"gds-top 0.1.0"}`. Each further line is an [`crate::core::Event`]. Spans are stored
//! as `lane_spans_packed` (see `spans.rs`), which is smaller and lossless. While a session runs, the stream is
//! written to `FILE.partial` and flushed four times a second, so that a killed session leaves a readable file. At the
//! end the recording is compressed again at a higher level and replaces an earlier recording in one step.

mod header;
mod limits;
mod partial;
mod reader;
mod spans;
mod version1;
mod writer;

pub use header::{Header, RECORDING_VERSION, RecordingError};
pub use limits::{Limits, MOST_RUNS};
pub(crate) use reader::Place;
pub use reader::{Reader, Summary, read, read_with};
pub use writer::{FLUSH_EVERY, Finished, SIZE_GOAL_BYTES, Writer};
