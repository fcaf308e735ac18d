//! The overhead per tensor: the fitted lines, the phases by tensor size, and the sizes at which two engines take the
//! same time.

use super::analysed::{AnalysedRun, SessionAnalysis};
use super::labels::{cache_capital, engine};
use super::phases;
use super::view::{GAP, Head, Table, number, text};
use crate::analysis::{CostModel, SizeClass, size_classes};
use crate::core::{PHASES, Phase, units};

/// The text if two fitted lines have no crossover.
pub const NO_CROSSOVER: &str = "No crossover found: the difference is within noise.";

/// The first cells of a row: the engine, the cache state, and the load if there are several.
pub(super) fn named(analysis: &SessionAnalysis<'_>, run: &AnalysedRun<'_>, several: bool) -> Vec<String> {
    let mut cells = vec![run.lane.engine.to_string(), run.lane.cache.to_string()];
    cells.extend(several.then(|| analysis.which(run).unwrap_or_default()));
    cells
}

/// The column titles of these cells.
pub(super) fn heads(several: bool) -> Vec<Head> {
    let mut heads = vec![text("engine"), text("cache")];
    heads.extend(several.then(|| text("load")));
    heads
}

/// The table of fitted lines; `None` if there are no lines. With `figures` it also has the lines of the figures, which
/// are those of one worker.
#[must_use]
pub fn lines(analysis: &SessionAnalysis<'_>, figures: bool) -> Option<Table> {
    let costs = analysis.costs();
    let several = costs.iter().any(|(run, _)| analysis.which(run).is_some());
    let rows: Vec<Vec<String>> = costs
        .iter()
        .map(|(run, cost)| {
            let mut row = named(analysis, run, several);
            row.extend(line(run, cost));
            if figures {
                row.extend([format!("{:.2}", cost.parallelism), formula(cost)]);
            }
            row
        })
        .collect();
    let mut all = heads(several);
    all.extend(["overhead per tensor", "bandwidth", "R²", "time explained", "fixed", "fitted"].map(number));
    if figures {
        all.extend([number("workers busy"), text("line of one worker")]);
    }
    let blocks = if costs.iter().any(|(run, _)| run.in_blocks) {
        " Loads in blocks have no R²: the time of a block is divided among its tensors by their bytes."
    } else {
        ""
    };
    let of_one = if figures {
        " Workers busy: the mean number of workers that read at the same time. The figure 'Size and time' shows the line of one worker. For all workers, \
         its overhead is divided by this number and its rate multiplied."
    } else {
        ""
    };
    (!rows.is_empty()).then(|| Table {
        title: "Overhead per tensor".to_owned(),
        note: format!(
            "The line t = overhead + bytes / bandwidth, fitted to the tensors of the run with the median time, with all workers together. The fit minimizes relative \
             deviations: small tensors give the overhead, large ones the bandwidth. R² is computed from the logarithms of the times. Time explained: the time that \
             the line gives for all tensors, divided by their measured time. Fixed: the time before the first tensor and after the last.{of_one}{blocks}"
        ),
        heads: all,
        rows,
    })
}

/// The formula of a fitted line: `t = 2.70 ms + bytes / 7.10 GB/s`. If several workers ran, it is the rate of one.
#[must_use]
pub fn formula(cost: &CostModel) -> String {
    let overhead = match cost.has_overhead() {
        true => format!("{} + ", units::duration(cost.fit.overhead_ns as u64)),
        false => String::new(),
    };
    format!("t = {overhead}bytes / {}{}", units::rate(cost.fit.bytes_per_s), a_worker(cost))
}

/// The text after a rate: if several workers ran, the rate is per worker, otherwise it is the rate of the load.
pub(super) fn a_worker(cost: &CostModel) -> &'static str {
    if cost.parallelism >= 1.05 { " a worker" } else { "" }
}

/// The goodness of a fit: `0.955`.
#[must_use]
pub fn r2(r2: f64) -> String {
    format!("{r2:.3}")
}

fn line(run: &AnalysedRun<'_>, cost: &CostModel) -> [String; 6] {
    let (used, all) = (cost.fit.used as u64, (cost.fit.used + cost.fit.rejected) as u64);
    [
        if cost.has_overhead() { units::duration(cost.per_tensor_ns() as u64) } else { "none found".to_owned() },
        units::rate(cost.bytes_per_s()),
        if run.in_blocks { GAP.to_owned() } else { r2(cost.fit.r2) },
        units::percent(cost.fit.explained_share),
        units::duration(cost.fixed_ns),
        format!("{} of {}", units::count(used), units::count(all)),
    ]
}

/// The mean time per tensor and phase for each size class. `None` if no engine read tensor by tensor, because the
/// time of a tensor within a block is unknown.
#[must_use]
pub fn by_size(analysis: &SessionAnalysis<'_>) -> Option<Table> {
    let runs: Vec<&AnalysedRun<'_>> =
        analysis.costs().into_iter().map(|(run, _)| run).filter(|run| !run.in_blocks).collect();
    let several = runs.iter().any(|run| analysis.which(run).is_some());
    let classes: Vec<(&AnalysedRun<'_>, SizeClass)> =
        runs.iter().flat_map(|run| size_classes(&run.rows).into_iter().map(move |class| (*run, class))).collect();
    let seen = |phase: &Phase| classes.iter().any(|(_, class)| class.phases.get(*phase) > 0);
    let shown: Vec<Phase> = PHASES.into_iter().filter(|phase| *phase != Phase::Idle && seen(phase)).collect();
    let rows: Vec<Vec<String>> = classes
        .iter()
        .map(|(run, class)| {
            let mut row = named(analysis, run, several);
            let each = |phase: &Phase| match class.phases.get(*phase) {
                0 => GAP.to_owned(),
                ns => units::duration(ns / class.tensors.max(1)),
            };
            row.extend([
                sizes(class),
                units::count(class.tensors),
                units::bytes(class.bytes),
                units::duration(class.median_ns),
                class.overhead_fraction().map_or_else(|| GAP.to_owned(), units::percent),
            ]);
            row.extend(shown.iter().map(each));
            row
        })
        .collect();
    let mut all = heads(several);
    all.push(text("tensor size"));
    all.extend(["tensors", "bytes", "median", "overhead"].map(number));
    all.extend(shown.iter().map(|phase| number(phases::title(*phase))));
    (!rows.is_empty()).then(|| Table {
        title: "Time per tensor, by size".to_owned(),
        note: "Only loads that read tensor by tensor. For one tensor on its worker: the median time, the share of its time in which no byte moved, and the mean time \
               in each phase. This overhead differs from that of the fitted line, because it counts only the phases without bytes."
            .to_owned(),
        heads: all,
        rows,
    })
}

fn sizes(class: &SizeClass) -> String {
    match (class.sizes_bytes.start, class.sizes_bytes.end) {
        (0, below) => format!("under {}", units::bytes(below)),
        (from, u64::MAX) => format!("from {}", units::bytes(from)),
        (from, below) => format!("{} – {}", units::bytes(from), units::bytes(below)),
    }
}

/// The sizes at which two engines take the same time: `Hot: mmap is faster for tensors under 37.9 MiB, gds-per-tensor
/// above.` Sizes outside the measured range appear only in the JSON report.
#[must_use]
pub fn crossings(analysis: &SessionAnalysis<'_>) -> Vec<String> {
    let measured = analysis.crossings().into_iter().filter(|crossing| !crossing.crossover.extrapolated);
    measured
        .map(|crossing| {
            let (first, second) = (engine(crossing.first), engine(crossing.second));
            let (below, above) = if crossing.crossover.first_wins_below { (first, second) } else { (second, first) };
            let which = crossing.which.map_or_else(String::new, |which| format!(", {which}"));
            let (cache, size) = (cache_capital(crossing.cache), units::bytes(crossing.crossover.bytes));
            format!("{cache}{which}: {below} is faster for tensors under {size}, {above} above.")
        })
        .collect()
}
