//! The messages of a run's process to its session: one JSON object per line, on a descriptor that has no other use.

use crate::core::{LaneStage, LogLevel, PackedSpans, RunResult};
use serde::{Deserialize, Serialize};

/// Set for a run whose heap keeps freed memory, so that the report can show it.
pub const ENV_KEPT_HEAP: &str = "GDS_TOP_KEPT_HEAP";

/// The message that lets a waiting run continue.
pub const GO: &str = "go";

/// A message with its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Line")]
pub struct Frame {
    /// The time in nanoseconds of CLOCK_MONOTONIC, which parent and child share.
    pub at_monotonic_ns: u64,
    /// The content.
    #[serde(flatten)]
    pub message: LaneMessage,
}

/// The kinds of message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "lane")]
#[allow(clippy::large_enum_variant, reason = "messages are moved, not stored, and a lane has one result")]
pub enum LaneMessage {
    /// A stage begins.
    Stage {
        /// The stage.
        stage: LaneStage,
    },
    /// Sampled counters.
    Progress {
        /// Tensor bytes on the target.
        landed_bytes: u64,
        /// The pinned memory in bytes.
        pinned_bytes: u64,
        /// The verified bytes.
        verified_bytes: u64,
    },
    /// Spans of the run.
    Spans {
        /// The spans.
        spans: PackedSpans,
    },
    /// The run waits for the others of its group: first before its clock, then before it verifies. It continues after
    /// a line on its standard input that has [`GO`] and the CLOCK_MONOTONIC time in nanoseconds at which all runs
    /// continue.
    Waiting {
        /// 0 before the clock, 1 before verification.
        gate: u32,
    },
    /// A message for the user.
    Said {
        /// Its severity.
        level: LogLevel,
        /// The text, in a sentence.
        text: String,
    },
    /// The end of the run.
    Finished {
        /// The measurements.
        result: RunResult,
    },
}

/// A message with the fields of all kinds. Parsing a tagged enum would store every number of every span in 30 bytes
/// until its kind is known. The main process has neither the time nor the memory for this.
#[derive(Deserialize)]
struct Line {
    at_monotonic_ns: u64,
    lane: Kind,
    stage: Option<LaneStage>,
    landed_bytes: Option<u64>,
    pinned_bytes: Option<u64>,
    verified_bytes: Option<u64>,
    spans: Option<PackedSpans>,
    gate: Option<u32>,
    level: Option<LogLevel>,
    text: Option<String>,
    result: Option<RunResult>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Stage,
    Progress,
    Spans,
    Waiting,
    Said,
    Finished,
}

impl TryFrom<Line> for Frame {
    type Error = String;

    fn try_from(line: Line) -> Result<Self, String> {
        let message = match line.lane {
            Kind::Stage => line.stage.map(|stage| LaneMessage::Stage { stage }),
            Kind::Progress => match (line.landed_bytes, line.pinned_bytes, line.verified_bytes) {
                (Some(landed_bytes), Some(pinned_bytes), Some(verified_bytes)) => {
                    Some(LaneMessage::Progress { landed_bytes, pinned_bytes, verified_bytes })
                }
                _ => None,
            },
            Kind::Spans => line.spans.map(|spans| LaneMessage::Spans { spans }),
            Kind::Waiting => line.gate.map(|gate| LaneMessage::Waiting { gate }),
            Kind::Said => line.level.zip(line.text).map(|(level, text)| LaneMessage::Said { level, text }),
            Kind::Finished => line.result.map(|result| LaneMessage::Finished { result }),
        };
        let message = message.ok_or_else(|| format!("a message of the kind {:?} lacks a field", line.lane))?;
        Ok(Self { at_monotonic_ns: line.at_monotonic_ns, message })
    }
}

/// The current time of CLOCK_MONOTONIC in nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::{Phase, Span};

    #[test]
    fn every_kind_of_message_is_read_as_it_was_written_and_half_of_one_is_refused() {
        let span = Span { slot: 1, phase: Phase::Copy, tensor: Some(2), start_ns: 3, end_ns: 9, bytes: 4, offset: 5 };
        let messages = [
            LaneMessage::Stage { stage: LaneStage::Loading },
            LaneMessage::Progress { landed_bytes: 1, pinned_bytes: 2, verified_bytes: u64::MAX },
            LaneMessage::Spans { spans: PackedSpans::pack(&[span]) },
            LaneMessage::Waiting { gate: 1 },
            LaneMessage::Said { level: LogLevel::Warn, text: "a \"word\"".to_owned() },
        ];
        for message in messages {
            let frame = Frame { at_monotonic_ns: 7, message };
            let line = serde_json::to_string(&frame).unwrap();
            assert_eq!(serde_json::from_str::<Frame>(&line).unwrap(), frame, "{line}");
        }
        let error = serde_json::from_str::<Frame>(r#"{"at_monotonic_ns":1,"lane":"progress","landed_bytes":2}"#);
        assert!(error.is_err_and(|e| e.to_string().contains("Progress lacks a field")));
        assert!(serde_json::from_str::<Frame>(r#"{"at_monotonic_ns":1,"lane":"else"}"#).is_err());
    }
}
