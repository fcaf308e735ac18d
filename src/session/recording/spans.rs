//! The event `LaneSpans` in a recording. The columns of the spans are fields of the event.

use crate::core::{Event, EventBody, LaneId, PackedSpans, SpanColumns};
use serde::{Deserialize, Serialize};

/// The name of the event in a recording.
pub(super) const KIND: &str = "lane_spans_packed";

/// The event as it is written.
#[derive(Serialize)]
pub(super) struct SpanLine {
    at_ns: u64,
    event: &'static str,
    lane: LaneId,
    #[serde(flatten)]
    columns: SpanColumns,
}

impl SpanLine {
    pub(super) fn new(at_ns: u64, lane: LaneId, spans: &PackedSpans, resolution_ns: u64) -> Self {
        Self { at_ns, event: KIND, lane, columns: spans.columns(resolution_ns) }
    }
}

/// The run and the time of the spans.
#[derive(Deserialize)]
pub(super) struct SpansOf {
    at_ns: u64,
    pub(super) lane: LaneId,
}

/// Parses the event from its line. The columns are parsed separately: with `flatten`, serde would first store each
/// number in thirty bytes.
pub(super) fn read(line: &[u8]) -> serde_json::Result<Event> {
    let SpansOf { at_ns, lane } = serde_json::from_slice(line)?;
    let spans: PackedSpans = serde_json::from_slice(line)?;
    Ok(Event { at_ns, body: EventBody::LaneSpans { lane, spans } })
}
