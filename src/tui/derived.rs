//! What is drawn from spans: computed once when a lane's spans arrive, not in every frame.

use crate::analysis::{Advice, CostModel, RunFacts, advice, compare, cost_model, tensor_rows};
use crate::domain::{LaneId, Phase, RunResult, Span};
use crate::session::{Lane, LaneStatus, State};
use std::collections::BTreeMap;

/// Steps in which a lane's bytes are added up over its clock.
const BINS: usize = 2048;

/// Results by lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct Derived {
    lanes: BTreeMap<LaneId, Curve>,
    advice: Vec<Advice>,
}

#[derive(Clone, Debug)]
struct Curve {
    spans: usize,
    landed: Vec<(f64, f64)>,
    cost: Option<CostModel>,
    grain_s: f64,
}

impl Derived {
    /// Computes what is new.
    pub(crate) fn refresh(&mut self, state: &State) {
        let mut news = false;
        for lane in &state.lanes {
            let finished = lane.ended_ns.is_some() && !lane.spans.is_empty();
            if finished && self.lanes.get(&lane.id).is_none_or(|curve| curve.spans != lane.spans.len()) {
                let wall = lane.result.as_ref().map_or(0, |result| result.wall_ns);
                let rows = state.model_of(lane).map(|model| tensor_rows(model, &lane.spans)).unwrap_or_default();
                let (spans, landed) = (lane.spans.len(), from_spans(&lane.spans, wall));
                self.lanes.insert(
                    lane.id,
                    Curve {
                        spans,
                        landed,
                        cost: if lane.group().is_none() { cost_model(&rows, wall, &[wall]) } else { None },
                        grain_s: grain_s(&lane.spans, wall),
                    },
                );
                news = true;
            }
        }
        if news {
            self.learn(state);
        }
    }

    /// The shortest time over which the bandwidth of a lane means something; 0 where its spans are not known.
    pub(crate) fn grain_s(&self, lane: &Lane) -> f64 {
        self.lanes.get(&lane.id).map_or(0.0, |curve| curve.grain_s)
    }

    /// What the finished runs teach, the most costly first.
    pub(crate) fn advice(&self) -> &[Advice] {
        &self.advice
    }

    fn learn(&mut self, state: &State) {
        let tensors = |lane: &Lane| state.model_of(lane).map_or(0, |model| model.tensors.len() as u64);
        let done = || state.lanes.iter().filter(|l| l.status == LaneStatus::Done && l.group().is_none());
        let facts: Vec<RunFacts<'_>> = done()
            .filter_map(|lane| {
                let cost = self.lanes.get(&lane.id).and_then(|curve| curve.cost.clone());
                Some(RunFacts::new(lane.result.as_ref()?, &lane.spans, tensors(lane), cost))
            })
            .collect();
        let mut results = state.runs();
        results.retain(|r| r.error.is_none());
        self.advice = advice(&facts, &compare(&results.iter().collect::<Vec<&RunResult>>()));
    }

    /// Bytes per second of a lane over the seconds of its clock, each point the mean over `step_s` or more: from its spans once it has
    /// finished, else from its progress.
    pub(crate) fn bandwidth(&self, lane: &Lane, step_s: f64) -> Vec<(f64, f64)> {
        match self.lanes.get(&lane.id) {
            Some(curve) => slope(&curve.landed, step_s),
            None => slope(&from_progress(lane), step_s),
        }
    }
}

/// Schedulers and page faults make anything shorter ragged.
const LEAST_GRAIN_S: f64 = 0.015;

/// Three average pieces: below that one sees the pieces arrive and not how fast the bytes do. At most a sixth of the run.
fn grain_s(spans: &[Span], wall_ns: u64) -> f64 {
    let pieces = |phase| spans.iter().filter(|s| s.phase == phase && s.bytes > 0).count();
    // A block that is read once is copied in as many pieces as it holds tensors, but it arrives as one.
    let pieces = [pieces(Phase::Transfer), pieces(Phase::Copy)].into_iter().filter(|n| *n > 0).min().unwrap_or(1);
    let wall_s = wall_ns as f64 / 1e9;
    (3.0 * wall_s / pieces as f64).max(LEAST_GRAIN_S).min(wall_s / 6.0)
}

/// Bytes landed by (seconds, bytes). Where a lane copies from staging, the copies are the arrival on the target; elsewhere the transfers are.
fn from_spans(spans: &[Span], wall_ns: u64) -> Vec<(f64, f64)> {
    let landing =
        if spans.iter().any(|s| s.phase == Phase::Copy && s.bytes > 0) { Phase::Copy } else { Phase::Transfer };
    let landed = || spans.iter().filter(|s| s.phase == landing && s.bytes > 0);
    let end_ns = landed().map(|s| s.end_ns).max().unwrap_or(0).max(wall_ns);
    if end_ns == 0 {
        return Vec::new();
    }
    let bin_ns = end_ns.div_ceil(BINS as u64).max(1);
    let bins = end_ns.div_ceil(bin_ns) as usize;
    let mut bytes = vec![0.0_f64; bins + 1];
    for span in landed() {
        // A span's bytes are spread evenly over its length: when within it they came is not known.
        let length = span.duration_ns();
        let (first, last) = ((span.start_ns / bin_ns) as usize, (span.end_ns / bin_ns) as usize);
        for (bin, sum) in bytes.iter_mut().enumerate().take(last.saturating_add(1)).skip(first) {
            let bin = bin as u64;
            let from = span.start_ns.max(bin.saturating_mul(bin_ns));
            let to = span.end_ns.min((bin + 1).saturating_mul(bin_ns)).max(from);
            *sum += span.bytes as f64 * if length == 0 { 1.0 } else { (to - from) as f64 / length as f64 };
        }
    }
    let mut sum = 0.0;
    let mut points = vec![(0.0, 0.0)];
    points.extend(bytes.iter().take(bins).enumerate().map(|(bin, bytes)| {
        sum += bytes;
        ((bin as u64 + 1).saturating_mul(bin_ns).min(end_ns) as f64 / 1e9, sum)
    }));
    points
}

fn from_progress(lane: &Lane) -> Vec<(f64, f64)> {
    let Some(clock) = lane.clock_ns else { return Vec::new() };
    lane.progress.iter().map(|(at, bytes)| (at.saturating_sub(clock) as f64 / 1e9, *bytes as f64)).collect()
}

/// Bytes per second between points at least `step_s` apart, placed in the middle between them.
fn slope(points: &[(f64, f64)], step_s: f64) -> Vec<(f64, f64)> {
    let mut out = Vec::new();
    let Some(mut from) = points.first().copied() else { return out };
    for (i, to) in points.iter().enumerate().skip(1) {
        let long = to.0 - from.0;
        if long > 0.0 && (long >= step_s || i + 1 == points.len()) {
            out.push(((from.0 + to.0) / 2.0, (to.1 - from.1).max(0.0) / long));
            from = *to;
        }
    }
    // A last stretch much shorter than the step would be mostly noise.
    if let [.., (a, _), (b, _)] = out.as_slice()
        && b - a < step_s * 0.9
    {
        out.pop();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(phase: Phase, start_ns: u64, end_ns: u64, bytes: u64) -> Span {
        Span { slot: 0, phase, tensor: None, start_ns, end_ns, bytes, offset: 0 }
    }

    #[test]
    fn all_bytes_land_once() {
        let spans: Vec<Span> = (0..100).map(|i| span(Phase::Transfer, i * 1_003, i * 1_003 + 900, 4096)).collect();
        let points = from_spans(&spans, 100 * 1_003);
        assert!(points.last().is_some_and(|(_, bytes)| (bytes - 409_600.0).abs() < 1.0), "{:?}", points.last());
        assert!(points.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    }

    #[test]
    fn copies_count_where_there_are_copies() {
        let spans = [span(Phase::Transfer, 0, 50, 10), span(Phase::Copy, 50, 100, 10)];
        let points = from_spans(&spans, 100);
        assert!(points.iter().all(|(t, bytes)| *t > 50.5e-9 || *bytes == 0.0));
        assert!(points.last().is_some_and(|(_, bytes)| (bytes - 10.0).abs() < 1e-9));
    }

    #[test]
    fn a_steady_load_has_a_flat_bandwidth() {
        let spans: Vec<Span> =
            (0..1000).map(|i| span(Phase::Transfer, i * 1_000_000, (i + 1) * 1_000_000, 1_000_000)).collect();
        let rates = slope(&from_spans(&spans, 1_000_000_000), 0.02);
        assert!(rates.len() > 40 && rates.iter().all(|(_, rate)| (rate - 1e9).abs() < 1e6), "{rates:?}");
    }
}
