//! Recordings: the events of a session in a compressed file, for replay, for reports made later and for bug reports.
//!
//! Form: zstd (RFC 8878) over JSON lines. The first line is a header, `{"gds_top_recording":2,"tool":"gds-top 0.1.0"}`; each further line is an
//! [`crate::core::Event`], except that spans are stored as `lane_spans_packed` (see `spans.rs`), which is smaller and loses nothing.
//! While a session runs, the stream goes to `FILE.partial` and is flushed often, so that a session that was killed leaves a readable prefix there. At the
//! end it is compressed again, harder, and takes the place of an earlier recording in one step.

mod header;
mod limits;
mod partial;
mod reader;
mod spans;
mod version1;
mod writer;

pub use header::{Header, RECORDING_VERSION, RecordingError};
pub use limits::Limits;
pub(crate) use reader::Place;
pub use reader::{Reader, Summary, read, read_with};
pub use writer::{Finished, SIZE_GOAL_BYTES, Writer};
