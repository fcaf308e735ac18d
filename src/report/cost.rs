//! What tensors cost, for every form of the report: the fitted lines, the phases by size, and where two engines cost the same.

use super::document::{Document, LaneReport};
use super::workload::Table;
use crate::analysis::{CostModel, SizeClass, size_classes};
use crate::domain::{CacheState, PHASES, Phase, units};

/// The first cells of a row: engine, cache state, and which load it was where there are several.
pub(super) fn named(document: &Document<'_>, lane: &LaneReport<'_>, several: bool) -> Vec<String> {
    let mut cells = vec![lane.lane.engine.to_string(), lane.lane.cache.to_string()];
    cells.extend(several.then(|| document.which(lane).unwrap_or_default()));
    cells
}

/// The heads of these cells.
pub(super) fn heads(several: bool) -> Vec<&'static str> {
    let mut heads = vec!["engine", "cache"];
    heads.extend(several.then_some("load"));
    heads
}

/// The fitted lines; `None` where there are none.
pub(super) fn lines(document: &Document<'_>) -> Option<Table> {
    let costs = document.costs();
    let several = costs.iter().any(|(lane, _)| document.which(lane).is_some());
    let rows: Vec<Vec<String>> = costs
        .iter()
        .map(|(lane, cost)| {
            let mut row = named(document, lane, several);
            row.extend(line(lane, cost));
            row
        })
        .collect();
    let mut head = heads(several);
    let mut right = vec![false; head.len()];
    head.extend(["overhead a tensor", "bandwidth", "R²", "time told", "fixed", "fitted"]);
    right.resize(head.len(), true);
    let blocks = if costs.iter().any(|(lane, _)| lane.in_blocks) {
        " Loads in blocks have no R²: the time of a block is shared among its tensors by their bytes, so that a line follows by itself."
    } else {
        ""
    };
    (!rows.is_empty()).then(|| Table {
        title: "What a tensor costs",
        says: format!(
            "The line t = overhead + bytes / bandwidth through the tensors of the run with the median time, all slots working, by least squares of the relative \
             deviations: small tensors tell the overhead, large ones the bandwidth. R² is that of the logarithms of the times, for the same reason. Time told: what \
             the line says of all tensors over what they took, those too that were left out for lying far off. Fixed: the time before the first tensor and \
             after the last.{blocks}"
        ),
        head,
        right,
        rows,
    })
}

fn line(lane: &LaneReport<'_>, cost: &CostModel) -> [String; 6] {
    let (used, all) = (cost.fit.used as u64, (cost.fit.used + cost.fit.rejected) as u64);
    [
        if cost.has_overhead() { units::duration(cost.per_tensor_ns() as u64) } else { "none seen".to_owned() },
        units::rate(cost.bytes_per_s()),
        if lane.in_blocks { "–".to_owned() } else { format!("{:.3}", cost.fit.r2) },
        format!("{:.0} %", cost.fit.time_told * 100.0),
        units::duration(cost.fixed_ns),
        format!("{} of {}", units::count(used), units::count(all)),
    ]
}

/// The mean time of a tensor by phase, for each class of sizes; `None` where no load read tensor by tensor, for in a block they have no time of their own.
pub(super) fn by_size(document: &Document<'_>) -> Option<Table> {
    let costs: Vec<&LaneReport<'_>> =
        document.costs().into_iter().map(|(lane, _)| lane).filter(|lane| !lane.in_blocks).collect();
    let several = costs.iter().any(|lane| document.which(lane).is_some());
    let of = |lane: &&'_ LaneReport<'_>| size_classes(&lane.rows);
    let classes: Vec<(&LaneReport<'_>, SizeClass)> =
        costs.iter().flat_map(|lane| of(lane).into_iter().map(move |class| (*lane, class))).collect();
    let seen = |phase: &Phase| classes.iter().any(|(_, class)| class.phases.get(*phase) > 0);
    let phases: Vec<Phase> = PHASES.into_iter().filter(|p| *p != Phase::Idle && seen(p)).collect();
    let rows: Vec<Vec<String>> = classes
        .iter()
        .map(|(lane, class)| {
            let mut row = named(document, lane, several);
            let each = |phase: &Phase| match class.phases.get(*phase) {
                0 => "–".to_owned(),
                ns => units::duration(ns / class.tensors.max(1)),
            };
            row.extend([
                size_words(class),
                units::count(class.tensors),
                units::bytes(class.bytes),
                units::duration(class.median_ns),
                class.overhead_fraction().map_or("–".to_owned(), |f| format!("{:.0} %", f * 100.0)),
            ]);
            row.extend(phases.iter().map(each));
            row
        })
        .collect();
    let mut head = heads(several);
    head.extend(["tensor size", "tensors", "bytes", "median", "moved nothing"]);
    let mut right = vec![false; head.len() - 4];
    head.extend(phases.iter().map(|phase| phase.name()));
    right.resize(head.len(), true);
    (!rows.is_empty()).then(|| Table {
        title: "Where a tensor's time goes, by size",
        says: "Loads that read tensor by tensor. Of one tensor on its slot: the median time, the share of its time in which no byte moved, and the mean time in \
               each phase. What moved nothing can be more than the line's overhead, which is only what does not grow with the size."
            .to_owned(),
        head,
        right,
        rows,
    })
}

fn size_words(class: &SizeClass) -> String {
    match (class.sizes_bytes.start, class.sizes_bytes.end) {
        (0, below) => format!("under {}", units::bytes(below)),
        (from, u64::MAX) => format!("from {}", units::bytes(from)),
        (from, below) => format!("{} – {}", units::bytes(from), units::bytes(below)),
    }
}

/// `Hot: mmap is faster for tensors under 37.9 MiB, gds-per-tensor above.` Sizes outside what was measured are left to the JSON.
pub(super) fn crossings(document: &Document<'_>) -> Vec<String> {
    let told = document.crossings().into_iter().filter(|c| !c.crossover.extrapolated);
    told.map(|c| {
        let (below, above) = if c.crossover.first_wins_below { (c.first, c.second) } else { (c.second, c.first) };
        let which = c.which.map_or_else(String::new, |which| format!(", {which}"));
        let (cache, size) = (cache_name(c.cache), units::bytes(c.crossover.bytes));
        format!("{cache}{which}: {below} is faster for tensors under {size}, {above} above.")
    })
    .collect()
}

/// A cache state at the beginning of a sentence.
pub(super) fn cache_name(cache: CacheState) -> &'static str {
    match cache {
        CacheState::Cold => "Cold",
        CacheState::Hot => "Hot",
        CacheState::AsIs => "As-is",
    }
}
