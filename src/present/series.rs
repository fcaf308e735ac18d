//! The data series of charts: bandwidth and memory over time, and tensors by size and time.

use super::analysed::{AnalysedRun, SessionAnalysis};
use super::cost::formula;
use crate::analysis::LandingCurve;
use crate::core::{CacheState, Ceiling, Engine, Metric};
use crate::session::{Lane, State};

/// Number of points of a line. This is about two points per column of a wide screen.
const POINTS: f64 = 240.0;
/// Maximum number of dots of a scatter chart. If there are more, a part of them is drawn.
const MOST_DOTS: usize = 1500;

/// Minimum number of readings of a run in the chart of host memory. Two readings show no shape.
const LEAST_READINGS: usize = 3;

/// The caption of the chart of bandwidth.
pub const BANDWIDTH_CAPTION: &str =
    "Rate at which bytes reached the target, in the run with the median time of each engine.";

/// The title of a chart: `Bandwidth, cold cache`.
#[must_use]
pub fn title(subject: &str, cache: CacheState) -> String {
    match cache {
        CacheState::AsIs => subject.to_owned(),
        cache => format!("{subject}, {cache} cache"),
    }
}

/// The caption of the chart of tensors by size and time, in which one dot represents `every` tensors. `has_blocks`:
/// an engine reads blocks of several tensors.
#[must_use]
pub fn tensors_caption(every: usize, has_blocks: bool) -> String {
    let every = if every > 1 { format!(" One dot in {every} is drawn.") } else { String::new() };
    let shared = match has_blocks {
        true => " The time of a block is divided among its tensors by their bytes, so small tensors have short times.",
        false => "",
    };
    format!("Time of each tensor on its worker and its size, with the fitted line.{shared}{every}")
}

/// Whether a run in the chart of tensors read blocks of several tensors.
#[must_use]
pub fn has_blocks(analysis: &SessionAnalysis<'_>, cache: CacheState) -> bool {
    let costs = analysis.costs();
    let mut lanes = costs.iter().map(|(run, _)| run.lane).filter(|lane| lane.cache == cache);
    lanes.any(|lane| lane.spans.iter().any(|span| span.tensor.is_none() && span.bytes > 0))
}

/// The points of one engine or one ceiling.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name in the legend. Empty for dots if the legend contains their line.
    pub label: String,
    /// The engine, which determines the colour; `None` for a ceiling.
    pub engine: Option<Engine>,
    /// The points.
    pub points: Vec<(f64, f64)>,
    /// Whether a line connects the points. Otherwise they are drawn as dots.
    pub line: bool,
    /// Whether the line is dashed. Ceilings have dashed lines.
    pub dashed: bool,
}

/// The bandwidth of a run over the seconds since its start. It is computed from the spans of a completed run, or else
/// from its progress points.
#[must_use]
pub fn landing_curve(lane: &Lane) -> LandingCurve {
    match lane.result.as_deref().filter(|_| !lane.spans.is_empty()) {
        Some(run) => LandingCurve::of_spans(&lane.spans.unpack(), run.wall_ns),
        None => progress_curve(lane),
    }
}

/// Like [`landing_curve`], but from the progress points of the run.
#[must_use]
pub fn progress_curve(lane: &Lane) -> LandingCurve {
    let clock = lane.clock_ns.unwrap_or(u64::MAX);
    let points = lane.progress.iter().filter(|(at, _)| *at >= clock).map(|(at, bytes)| (at - clock, *bytes));
    LandingCurve::of_progress(points)
}

/// The lowest ceiling that applies to a run: its rate in GB/s and its name.
#[must_use]
pub fn ceiling(state: &State, lane: &Lane) -> Option<(f64, String)> {
    let model = &state.model_of(lane)?.name;
    state.ceiling(lane.cache, &lane.target, model).map(|ceiling| (ceiling.bytes_per_s / 1e9, ceiling_name(ceiling)))
}

fn ceiling_name(ceiling: &Ceiling) -> String {
    format!("{}, measured", ceiling.kind.words())
}

/// The cache states of the successful runs. Each state has separate charts, because a hot load is about ten times as
/// fast and would be a single point on the axes of a cold load.
#[must_use]
pub fn caches(analysis: &SessionAnalysis<'_>) -> Vec<CacheState> {
    let mut caches: Vec<CacheState> = Vec::new();
    for run in analysis.typical(|_| true) {
        if !caches.contains(&run.lane.cache) {
            caches.push(run.lane.cache);
        }
    }
    caches
}

/// One successful run for each engine and model. If several parts or models were loaded together, it is the first of
/// them.
fn shown<'d, 'a>(analysis: &'d SessionAnalysis<'a>, cache: CacheState) -> Vec<&'d AnalysedRun<'a>> {
    let mut shown: Vec<&AnalysedRun<'a>> = Vec::new();
    for run in analysis.typical(|run| run.lane.cache == cache) {
        let kind = |r: &AnalysedRun<'_>| (r.lane.engine.clone(), r.lane.cache, r.good().map(|run| run.model.clone()));
        if !shown.iter().any(|known| kind(known) == kind(run)) {
            shown.push(run);
        }
    }
    shown
}

/// The name of a run in a legend, as in the tables. The title of the chart has the cache state.
fn label(analysis: &SessionAnalysis<'_>, run: &AnalysedRun<'_>) -> String {
    let engine = &run.lane.engine;
    let direction = engine.direction().map_or_else(String::new, |direction| format!(" {direction}"));
    let model = analysis.which(run).map_or_else(String::new, |model| format!(", {model}"));
    format!("{}{direction}{model}", engine.label())
}

/// Bandwidth in GB/s over the time in seconds, with the measured ceilings.
#[must_use]
pub fn bandwidth(analysis: &SessionAnalysis<'_>, cache: CacheState) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for run in shown(analysis, cache) {
        let (curve, wall_s) = (landing_curve(run.lane), run.good().map_or(0.0, |r| r.wall_ns as f64 / 1e9));
        if curve.is_empty() {
            continue;
        }
        let rates = curve.rates((wall_s / POINTS).max(curve.grain_s));
        all.push(Series {
            label: label(analysis, run),
            engine: Some(run.lane.engine.clone()),
            points: rates.into_iter().map(|(s, rate)| (s, rate / 1e9)).collect(),
            line: true,
            dashed: false,
        });
    }
    let end = all.iter().flat_map(|series| &series.points).map(|(s, _)| *s).fold(0.0, f64::max);
    for run in shown(analysis, cache) {
        let Some((level, name)) = ceiling(analysis.state, run.lane).filter(|_| end > 0.0) else { continue };
        let label = format!("ceiling of the average: {name}");
        if !all.iter().any(|series| series.label == label) {
            let points = vec![(0.0, level), (end, level)];
            all.push(Series { label, engine: None, points, line: true, dashed: true });
        }
    }
    all
}

/// Resident memory of the loading process in bytes over the time in seconds until the load ended, and a caption with
/// the engines that are not drawn.
#[must_use]
pub fn host_memory(analysis: &SessionAnalysis<'_>, cache: CacheState) -> (Vec<Series>, String) {
    let (mut all, mut short) = (Vec::new(), Vec::new());
    for run in shown(analysis, cache) {
        // After the end the process verifies the bytes, which needs memory too.
        let during = run.lane.clock_ns.zip(run.good()).map(|(from, good)| from..=from.saturating_add(good.wall_ns));
        let readings = during.into_iter().flat_map(|during| {
            let all = analysis.state.series_between(Metric::LaneRssBytes, Some(run.lane.id), during.clone());
            let inside = all.filter(move |(at, value)| during.contains(at) && value.is_finite());
            inside.map(|(at, value)| ((at - run.lane.clock_ns.unwrap_or(at)) as f64 / 1e9, value))
        });
        let points: Vec<(f64, f64)> = readings.collect();
        let label = label(analysis, run);
        if points.len() < LEAST_READINGS {
            short.push(label);
            continue;
        }
        all.push(Series { label, engine: Some(run.lane.engine.clone()), points, line: true, dashed: false });
    }
    let mut caption = "Resident memory of the loading process.".to_owned();
    if !short.is_empty() {
        caption +=
            &format!(" Not drawn, because the load was too short for {LEAST_READINGS} readings: {}.", short.join(", "));
    }
    (all, caption)
}

/// Tensors by size and time with their fitted lines, and the number of tensors that a dot represents.
#[must_use]
pub fn tensors(analysis: &SessionAnalysis<'_>, cache: CacheState) -> (Vec<Series>, usize) {
    let mut costs = analysis.costs();
    costs.retain(|(run, _)| run.lane.cache == cache);
    let every = costs.iter().map(|(run, _)| run.rows.len()).sum::<usize>().div_ceil(MOST_DOTS).max(1);
    let mut all = Vec::new();
    for (run, cost) in &costs {
        let busy = run.rows.iter().map(|row| (row.bytes as f64, row.busy_ns() as f64)).filter(|(_, ns)| *ns > 0.0);
        all.push(Series {
            label: String::new(),
            engine: Some(run.lane.engine.clone()),
            points: busy.step_by(every).collect(),
            line: false,
            dashed: false,
        });
        let (low, high) = (cost.fit.sizes_bytes.0.max(1) as f64, cost.fit.sizes_bytes.1.max(1) as f64);
        // The line is that of the formula and the table: without an overhead if none was found.
        let overhead_ns = if cost.has_overhead() { cost.fit.overhead_ns } else { 0.0 };
        let time = |bytes: f64| (bytes, overhead_ns + bytes * cost.fit.ns_per_byte());
        let sizes = (0..=60).map(|i| low * (high / low).powf(f64::from(i) / 60.0));
        all.push(Series {
            label: format!("{}: {}", label(analysis, run), formula(cost)),
            engine: Some(run.lane.engine.clone()),
            points: sizes.map(time).collect(),
            line: true,
            dashed: false,
        });
    }
    (all, every)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caption_explains_the_times_of_tensors_that_were_read_in_blocks() {
        assert!(!tensors_caption(1, false).contains("block"));
        let caption = tensors_caption(3, true);
        assert!(caption.contains("The time of a block is divided") && caption.contains("One dot in 3"), "{caption}");
    }
}
