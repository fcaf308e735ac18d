//! Makes short loads visible in a replay. It reads ahead to the end of each load and computes the progress from the
//! spans.

use super::recording::{Reader, RecordingError};
use crate::core::{Event, EventBody, LaneId, LaneStage, Phase, Span};
use std::collections::VecDeque;

/// Number of steps in which the progress of a short load is shown.
const STEPS: u64 = 40;
/// Maximum number of events to read ahead. A load with more events is long enough at its original speed.
const AHEAD: usize = 20_000;

/// The events of a recording. Each has the factor by which it is slowed down.
pub(super) struct Scenes {
    pub(super) reader: Reader,
    shortest_ns: Option<u64>,
    waiting: VecDeque<Result<(Event, f64), RecordingError>>,
}

impl Scenes {
    pub(super) fn new(reader: Reader, shortest_ns: Option<u64>) -> Self {
        Self { reader, shortest_ns, waiting: VecDeque::new() }
    }

    /// Whether the next event is read from the recording and not from the events that were read ahead.
    pub(super) fn is_at_reader(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Puts an event back in front of the others.
    pub(super) fn put_back(&mut self, event: Event, pace: f64) {
        self.waiting.push_front(Ok((event, pace)));
    }

    pub(super) fn next(&mut self) -> Option<Result<(Event, f64), RecordingError>> {
        if let Some(waiting) = self.waiting.pop_front() {
            return Some(waiting);
        }
        let event = match self.reader.next()? {
            Ok(event) => event,
            Err(error) => return Some(Err(error)),
        };
        if let (EventBody::LaneStage { lane, stage: LaneStage::Loading }, Some(shortest_ns)) =
            (&event.body, self.shortest_ns)
        {
            self.look_ahead(*lane, event.at_ns, shortest_ns);
        }
        Some(Ok((event, 1.0)))
    }

    /// Reads the events of a load up to its end and queues them.
    fn look_ahead(&mut self, lane: LaneId, began_ns: u64, shortest_ns: u64) {
        let mut taken = Vec::new();
        let mut trouble = None;
        while taken.len() < AHEAD {
            match self.reader.next() {
                Some(Ok(event)) => {
                    let over = matches!(&event.body, EventBody::LaneFinished { lane: l, .. } | EventBody::LaneDied { lane: l, .. } | EventBody::LaneCancelled { lane: l } if *l == lane);
                    taken.push(event);
                    if over {
                        break;
                    }
                }
                Some(Err(error)) => {
                    trouble = Some(error);
                    break;
                }
                None => break,
            }
        }
        let loaded = |e: &&Event| matches!(&e.body, EventBody::LaneStage { lane: l, .. } if *l == lane);
        let end_ns = taken.iter().find(loaded).or(taken.last()).map_or(began_ns, |e| e.at_ns);
        let length_ns = end_ns.saturating_sub(began_ns);
        let stretch = if length_ns == 0 { 1.0 } else { (shortest_ns as f64 / length_ns as f64).max(1.0) };
        if stretch > 1.0 {
            taken.extend(steps(&taken, lane, began_ns, length_ns));
            taken.sort_by_key(|event| event.at_ns);
            // The run's progress messages are slightly later than its spans.
            let mut most = 0;
            taken.retain(|event| match &event.body {
                EventBody::LaneProgress { lane: l, landed_bytes, .. } if *l == lane => {
                    let rises = *landed_bytes >= most;
                    most = most.max(*landed_bytes);
                    rises
                }
                _ => true,
            });
        }
        let pace = |event: &Event| if event.at_ns <= end_ns { stretch } else { 1.0 };
        self.waiting.extend(taken.into_iter().map(|event| {
            let pace = pace(&event);
            Ok((event, pace))
        }));
        self.waiting.extend(trouble.map(Err));
    }
}

/// The progress of the load in equal steps of time, computed from its spans. Empty if it has no spans.
fn steps(events: &[Event], lane: LaneId, began_ns: u64, length_ns: u64) -> Vec<Event> {
    let spans: Vec<Span> = events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::LaneSpans { lane: l, spans } if *l == lane => Some(spans.iter()),
            _ => None,
        })
        .flatten()
        .filter(|span| span.bytes > 0)
        .collect();
    // If bytes are staged in host memory, they land with the phase 'copy', otherwise with 'transfer'.
    let landing = if spans.iter().any(|s| s.phase == Phase::Copy) { Phase::Copy } else { Phase::Transfer };
    let mut ends: Vec<(u64, u64)> = spans.iter().filter(|s| s.phase == landing).map(|s| (s.end_ns, s.bytes)).collect();
    ends.sort_unstable();
    let bytes_at = |at_ns: u64| {
        let earlier = events.iter().filter(|e| e.at_ns <= at_ns);
        earlier.rev().find_map(|e| match &e.body {
            EventBody::LaneProgress { lane: l, landed_bytes, pinned_bytes, verified_bytes } if *l == lane => {
                Some((*landed_bytes, *pinned_bytes, *verified_bytes))
            }
            _ => None,
        })
    };
    let mut out = Vec::new();
    let (mut next, mut landed) = (0, 0_u64);
    for step in 1..STEPS {
        let clock_ns = length_ns.saturating_mul(step) / STEPS;
        while let Some((_, bytes)) = ends.get(next).filter(|(end, _)| *end <= clock_ns) {
            landed = landed.saturating_add(*bytes);
            next += 1;
        }
        let at_ns = began_ns.saturating_add(clock_ns);
        let (before, pinned_bytes, verified_bytes) = bytes_at(at_ns).unwrap_or_default();
        if landed > before {
            let body = EventBody::LaneProgress { lane, landed_bytes: landed, pinned_bytes, verified_bytes };
            out.push(Event { at_ns, body });
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::session::shipped;

    #[test]
    fn a_short_load_is_stretched_with_rising_progress() {
        let reader = Reader::from_bytes(std::path::Path::new("small"), shipped::SMALL.bytes()).unwrap();
        let mut scenes = Scenes::new(reader, Some(2_000_000_000));
        let (mut loading, mut seen, mut slowest) = (None, 0, 1.0_f64);
        let mut counts = Vec::new();
        let mut last_ns = 0;
        while let Some(scene) = scenes.next() {
            let (event, stretch) = scene.unwrap();
            assert!(event.at_ns >= last_ns, "events stay in order");
            last_ns = event.at_ns;
            slowest = slowest.max(stretch);
            match event.body {
                EventBody::LaneStage { lane, stage: LaneStage::Loading } => (loading, seen) = (Some((lane, 0)), 0),
                EventBody::LaneProgress { lane, landed_bytes, .. } => {
                    if let Some((l, before)) = loading
                        && l == lane
                    {
                        assert!(landed_bytes >= before, "bytes do not leave again");
                        loading = Some((lane, landed_bytes));
                        seen += 1;
                    }
                }
                EventBody::LaneFinished { .. } => counts.push(seen),
                _ => assert!(stretch >= 1.0),
            }
        }
        assert!(slowest > 20.0, "{slowest}");
        assert_eq!(counts.len(), 30);
        assert!(counts.iter().all(|n| *n > 5), "{counts:?}");
    }
}
