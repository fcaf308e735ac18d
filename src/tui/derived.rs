//! What is drawn from spans: computed once when a lane's spans arrive, not in every frame.

use super::entries::{Entry, heats};
use super::screens::tensors::runs::Tensors;
use super::study::Study;
use crate::analysis::{Advice, CostModel, RunFacts, advice, compare};
use crate::domain::{LaneId, Phase, RunResult, Span};
use crate::session::{Lane, LaneStatus, State};
use std::collections::{BTreeMap, BTreeSet};

/// Steps in which a lane's bytes are added up over its clock.
const BINS: usize = 2048;

/// Results by lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct Derived {
    lanes: BTreeMap<LaneId, Known>,
    advice: Vec<Advice>,
    /// Lanes that the advice does not know yet.
    news: usize,
    /// What the lanes were like when they were last looked through.
    looked_at: Option<Glance>,
}

/// What tells in one quick look whether any lane began, ended or brought spans since: lanes, ended ones, all spans, the one that runs.
type Glance = (usize, usize, usize, Option<LaneId>);

fn glance(state: &State) -> Glance {
    let mut glance = (state.lanes.len(), 0, 0, None);
    for lane in &state.lanes {
        glance.1 += usize::from(lane.ended_ns.is_some());
        glance.2 += lane.spans.len();
        if lane.is_running() {
            glance.3 = glance.3.or(Some(lane.id));
        }
    }
    glance
}

/// What is kept of every lane. Curves are kept of those that are drawn: a race of a thousand runs draws one of each engine.
#[derive(Clone, Debug)]
struct Known {
    spans: usize,
    curve: Option<Curve>,
    cost: Option<CostModel>,
    registrations: u64,
    first_reads_ns: u64,
    loaded: u64,
}

/// What the spans of a lane say.
#[derive(Debug)]
pub(crate) struct Studied {
    pub(crate) lane: LaneId,
    pub(crate) spans: usize,
    pub(crate) curve: Curve,
    pub(crate) cost: Option<CostModel>,
    pub(crate) registrations: u64,
    pub(crate) first_reads_ns: u64,
    /// Tensors of its model.
    pub(crate) loaded: u64,
    pub(crate) tensors: Option<Tensors>,
}

/// How the bytes of a lane arrived.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    landed: Vec<(f64, f64)>,
    grain_s: f64,
}

impl Curve {
    pub(crate) fn of(spans: &[Span], wall_ns: u64) -> Self {
        Self { landed: from_spans(spans, wall_ns), grain_s: grain_s(spans, wall_ns) }
    }
}

impl Derived {
    /// What is not known yet of lanes that have finished; curves that are no longer drawn are let go.
    pub(crate) fn wants(&mut self, state: &State) -> Vec<Study> {
        let now = glance(state);
        if self.looked_at == Some(now) {
            return Vec::new();
        }
        let heats = heats(state);
        let drawn: BTreeSet<LaneId> =
            heats.iter().flat_map(|h| &h.entries).filter_map(Entry::shown).map(|lane| lane.id).collect();
        let mut wanted = Vec::new();
        for lane in &state.lanes {
            if lane.ended_ns.is_none() || lane.spans.is_empty() {
                continue;
            }
            let is_drawn = drawn.contains(&lane.id);
            match self.lanes.get_mut(&lane.id) {
                Some(known) if known.spans == lane.spans.len() && (known.curve.is_some() || !is_drawn) => {
                    if !is_drawn {
                        known.curve = None;
                    }
                }
                _ => wanted.push(Study::of(state, lane, false)),
            }
        }
        // What is wanted is asked for again until its answer is here.
        self.looked_at = wanted.is_empty().then_some(now);
        wanted
    }

    /// Takes in what was found of a lane; what is for the Tensors screen is handed on.
    pub(crate) fn take(&mut self, studied: Studied) -> Option<Tensors> {
        let Studied { lane, spans, curve, cost, registrations, first_reads_ns, loaded, tensors } = studied;
        let before =
            self.lanes.insert(lane, Known { spans, curve: Some(curve), cost, registrations, first_reads_ns, loaded });
        self.news += usize::from(before.is_none_or(|known| known.spans != spans));
        tensors
    }

    /// Draws the lessons of what is known, if something is new. All runs are compared for it, so while a race goes on it waits until an eighth is new: a
    /// race of thousands of short runs would otherwise compare thousands in every frame.
    pub(crate) fn conclude(&mut self, state: &State) {
        let enough = self.news * 8 >= self.lanes.len() || state.running_lane().is_none();
        if self.news > 0 && enough {
            self.news = 0;
            self.learn(state);
        }
    }

    /// The shortest time over which the bandwidth of a lane means something; 0 where its spans are not known.
    pub(crate) fn grain_s(&self, lane: &Lane) -> f64 {
        self.curve(lane).map_or(0.0, |curve| curve.grain_s)
    }

    fn curve(&self, lane: &Lane) -> Option<&Curve> {
        self.lanes.get(&lane.id)?.curve.as_ref()
    }

    /// What the finished runs teach, the most costly first.
    pub(crate) fn advice(&self) -> &[Advice] {
        &self.advice
    }

    fn learn(&mut self, state: &State) {
        let done = || state.lanes.iter().filter(|l| l.status == LaneStatus::Done && l.group().is_none());
        let facts: Vec<RunFacts<'_>> = done()
            .filter_map(|lane| {
                let run = lane.result.as_deref()?;
                let Known { cost, registrations, first_reads_ns, loaded, .. } = self.lanes.get(&lane.id)?;
                let (registrations, first_reads_ns) = (*registrations, *first_reads_ns);
                Some(RunFacts { run, registrations, tensors: *loaded, first_reads_ns, cost: cost.clone() })
            })
            .collect();
        let mut results = state.runs();
        results.retain(|r| r.error.is_none());
        self.advice = advice(&facts, &compare(&results.iter().collect::<Vec<&RunResult>>()));
    }

    /// Bytes per second of a lane over the seconds of its clock, each point the mean over `step_s` or more: from its spans once it has
    /// finished, else from its progress.
    pub(crate) fn bandwidth(&self, lane: &Lane, step_s: f64) -> Vec<(f64, f64)> {
        match self.curve(lane) {
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
