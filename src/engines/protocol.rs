//! What a lane process writes to its session: one JSON object a line, on a descriptor that nothing else writes to.

use crate::domain::{LaneStage, LogLevel, RunResult, SpanBatch};
use serde::{Deserialize, Serialize};

/// The setting by which a lane's C heap keeps freed memory (see the session's lanes); 1 by default for engines that use cuFile.
pub const KNOB_KEEP_HEAP: &str = "keep_heap";
/// Set for a lane whose heap was told to keep freed memory, so that the report can say so.
pub const ENV_KEPT_HEAP: &str = "GDS_TOP_KEPT_HEAP";

/// The word that lets a waiting lane go on.
pub const GO: &str = "go";

/// A message with its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// CLOCK_MONOTONIC, which parent and child share.
    pub at_monotonic_ns: u64,
    /// What.
    #[serde(flatten)]
    pub message: LaneMessage,
}

/// The kinds of message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "lane")]
#[allow(clippy::large_enum_variant, reason = "messages are moved, not stored, and a lane has one result")]
pub enum LaneMessage {
    /// A stage begins.
    Stage {
        /// Which.
        stage: LaneStage,
    },
    /// Counters, sampled.
    Progress {
        /// Tensor bytes on the target.
        landed_bytes: u64,
        /// Pinned memory now.
        pinned_bytes: u64,
        /// Bytes compared.
        verified_bytes: u64,
    },
    /// Spans of the run.
    Spans {
        /// The spans.
        spans: SpanBatch,
    },
    /// The lane waits for the others of its group, before its clock or (the second time) before it verifies. It goes on at a line on its standard
    /// input: [`GO`], and the CLOCK_MONOTONIC nanoseconds at which all go on.
    Waiting {
        /// 0 before the clock, 1 before verification.
        gate: u32,
    },
    /// Something to say.
    Said {
        /// How much it matters.
        level: LogLevel,
        /// A sentence.
        text: String,
    },
    /// The end of the run.
    Finished {
        /// What was measured.
        result: RunResult,
    },
}

/// CLOCK_MONOTONIC now, in nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
