//! What is drawn from spans: computed once when a lane's spans arrive, not in every frame.

use crate::domain::{LaneId, Phase, Span};
use crate::session::{Lane, State};
use std::collections::BTreeMap;

/// Points of a lane's bandwidth curve.
const BINS: usize = 240;

/// Results by lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct Derived {
    lanes: BTreeMap<LaneId, Curve>,
}

/// The bandwidth of one lane over its clock.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    spans: usize,
    /// (seconds since the clock started, bytes per second).
    pub(crate) points: Vec<(f64, f64)>,
}

impl Derived {
    /// Computes what is new.
    pub(crate) fn refresh(&mut self, state: &State) {
        for lane in &state.lanes {
            let finished = lane.ended_ns.is_some() && !lane.spans.is_empty();
            if finished && self.lanes.get(&lane.id).is_none_or(|curve| curve.spans != lane.spans.len()) {
                let wall = lane.result.as_ref().map_or(0, |result| result.wall_ns);
                self.lanes.insert(lane.id, Curve { spans: lane.spans.len(), points: bandwidth(&lane.spans, wall) });
            }
        }
    }

    /// The curve of a lane: from its spans once it has finished, else from its progress.
    pub(crate) fn curve(&self, lane: &Lane) -> Vec<(f64, f64)> {
        self.lanes.get(&lane.id).map_or_else(|| from_progress(lane), |curve| curve.points.clone())
    }
}

/// Bytes per second over time. Where a lane copies from staging, the copies are the arrival on the target; elsewhere the transfers are.
fn bandwidth(spans: &[Span], wall_ns: u64) -> Vec<(f64, f64)> {
    let landing = if spans.iter().any(|s| s.phase == Phase::Copy && s.bytes > 0) { Phase::Copy } else { Phase::Transfer };
    let landed = || spans.iter().filter(|s| s.phase == landing && s.bytes > 0);
    let end_ns = landed().map(|s| s.end_ns).max().unwrap_or(0).max(wall_ns);
    if end_ns == 0 {
        return Vec::new();
    }
    // Spans longer than a bin are spread evenly over their length; a bin shorter than the median span would only show that spreading.
    let bin_ns = end_ns.div_ceil(BINS as u64).max(1);
    let mut bytes = vec![0.0_f64; BINS + 1];
    for span in landed() {
        let length = span.duration_ns().max(1) as f64;
        let (first, last) = ((span.start_ns / bin_ns) as usize, (span.end_ns / bin_ns) as usize);
        for (bin, sum) in bytes.iter_mut().enumerate().take(last.min(BINS) + 1).skip(first) {
            let from = span.start_ns.max(bin as u64 * bin_ns);
            let to = span.end_ns.min((bin as u64 + 1) * bin_ns).max(from);
            let share = if span.duration_ns() == 0 { 1.0 } else { (to - from) as f64 / length };
            *sum += span.bytes as f64 * share;
        }
    }
    let used = end_ns.div_ceil(bin_ns) as usize;
    bytes
        .iter()
        .take(used)
        .enumerate()
        .map(|(bin, sum)| {
            let start = bin as u64 * bin_ns;
            let length = bin_ns.min(end_ns - start).max(1);
            ((start + length / 2) as f64 / 1e9, sum * 1e9 / length as f64)
        })
        .collect()
}

/// Bytes per second between progress points.
fn from_progress(lane: &Lane) -> Vec<(f64, f64)> {
    let Some(clock) = lane.clock_ns else { return Vec::new() };
    lane.progress
        .windows(2)
        .filter_map(|pair| {
            let [(t0, b0), (t1, b1)] = pair else { return None };
            let ns = t1.checked_sub(*t0).filter(|ns| *ns > 0)?;
            let middle = t0.saturating_sub(clock) + ns / 2;
            Some((middle as f64 / 1e9, b1.saturating_sub(*b0) as f64 * 1e9 / ns as f64))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(phase: Phase, start_ns: u64, end_ns: u64, bytes: u64) -> Span {
        Span { slot: 0, phase, tensor: None, start_ns, end_ns, bytes, offset: 0 }
    }

    #[test]
    fn the_area_under_the_curve_is_the_bytes() {
        let spans: Vec<Span> = (0..100).map(|i| span(Phase::Transfer, i * 1_003, i * 1_003 + 900, 4096)).collect();
        let wall = 100 * 1_003;
        let points = bandwidth(&spans, wall);
        let bin_s = wall.div_ceil(BINS as u64) as f64 / 1e9;
        let last = points.len() - 1;
        let rest_s = wall as f64 / 1e9 - bin_s * last as f64;
        let sum: f64 =
            points.iter().enumerate().map(|(i, (_, rate))| rate * if i == last { rest_s } else { bin_s }).sum();
        assert!((sum - 409_600.0).abs() < 1.0, "{sum}");
    }

    #[test]
    fn copies_count_where_there_are_copies() {
        let spans = [span(Phase::Transfer, 0, 50, 10), span(Phase::Copy, 50, 100, 10)];
        let points = bandwidth(&spans, 100);
        assert!(points[..40].iter().all(|(_, rate)| *rate == 0.0));
        assert!(points.last().is_some_and(|(_, rate)| *rate > 0.0));
    }
}
