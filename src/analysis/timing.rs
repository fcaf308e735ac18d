//! Splits a load into fixed time, time per byte and time per tensor. Predictions use only these parts. For the
//! measured model, their sum is the measured time.

use super::fit::fit;
use super::rows::TensorRow;
use crate::core::median::median;
use crate::core::{CacheState, Engine, Phase, PhaseTimes, RunResult, SettingName, Span, TargetName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The successful runs of an engine in one cache state, split into parts. A prediction for another model is computed
/// from them ([`crate::analysis::predict()`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    /// The engine.
    pub engine: Engine,
    /// Cache state.
    pub cache: CacheState,
    /// The name of the loaded model.
    pub model: String,
    /// The target of its bytes.
    pub target: TargetName,
    /// Logical CPUs of the machine. `None` if they were not recorded.
    pub cpus: Option<u32>,
    /// The settings of the engine.
    #[serde(alias = "knobs")]
    pub settings: BTreeMap<SettingName, u64>,
    /// The lowest ceiling measured in that session for such a load, in bytes per second. `None` if none was measured,
    /// or if an earlier version wrote the report.
    #[serde(default)]
    pub ceiling_bytes_per_s: Option<f64>,
    /// The parts of each run.
    pub runs: Vec<Timing>,
}

/// The time of one load, split into parts. Times are in nanoseconds, sizes in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// The bytes of the loaded tensors.
    pub bytes: u64,
    /// The number of tensors.
    pub tensors: u64,
    /// The time from the start of the clock to the end.
    pub wall_ns: u64,
    /// The state of the page cache.
    pub cache: CacheState,
    /// The peak of pinned memory. It is 0 if no memory was pinned.
    pub pinned_bytes: u64,
    /// The time to open the files and read the headers.
    pub open_ns: u64,
    /// The rest of the time, by the loading method.
    pub parts: Parts,
}

/// The parts of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Parts {
    /// The engine reads blocks on many slots at once.
    Blocks {
        /// (bytes landed, time since the first block started), ascending in both.
        landed: Vec<(f64, f64)>,
        /// The time per byte if all slots are busy.
        ns_per_byte: f64,
        /// The time from the last read byte to the end: the last copies and the release of memory.
        tail_ns: f64,
    },
    /// The engine loads tensor after tensor on one slot.
    Tensors {
        /// The time outside of tensors, and the time that the first tensor took for the work of all.
        once_ns: f64,
        /// The time per byte to remove the mappings. It grows with the number of pages.
        unmap_ns_per_byte: f64,
        /// The extra time per byte of the first tensor compared with others of its size. The first tensor touches
        /// pages of a library's buffers for the first time. Later tensors reuse these pages if they are not larger,
        /// so a model has this extra time only for its largest tensor.
        #[serde(default)]
        touch_ns_per_byte: f64,
        /// The time of a transfer by the size of the tensor.
        moving: Law,
        /// The rate of the transfers over the load. `None` if it was not measured separately.
        #[serde(default)]
        pace: Option<Pace>,
        /// (size, time of a tensor outside of its transfer) by size class, in ascending order of size.
        around: Vec<(f64, f64)>,
        /// The size classes in `around` whose time this load does not determine.
        #[serde(default)]
        untold: Vec<Untold>,
        /// The measured time of the tensors divided by the time that `moving` and `around` predict. Size classes are
        /// medians, so single slow tensors are visible only here.
        scale: f64,
        /// The sizes of the smallest and the largest tensor.
        sizes_bytes: (u64, u64),
    },
}

/// The time of a transfer by its size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    /// A time per tensor and a time per byte.
    Line {
        /// The time per tensor.
        ns: f64,
        /// The time per byte.
        ns_per_byte: f64,
    },
    /// A polyline through (size, time) of the size classes. A line is not enough, because a library splits reads and
    /// changes its method by size.
    Broken {
        /// The corners of the polyline, ascending in size and time.
        corners: Vec<(f64, f64)>,
    },
}

/// The measured time of the transfers divided by the time that [`Law`] predicts, over the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// (bytes moved so far, ratio of their time), in ascending order of bytes.
    pub so_far: Vec<(f64, f64)>,
    /// The ratio for the bytes after the first quarter.
    pub under_way: f64,
}

impl Pace {
    /// The ratio for a load of this many bytes. Within the measured range it is the measured one. The bytes beyond it
    /// have the steady ratio.
    pub(super) fn factor(&self, bytes: f64) -> f64 {
        match self.so_far.last() {
            Some((all, total)) if bytes > *all => (total * all + self.under_way * (bytes - all)) / bytes,
            Some(_) => along(&self.so_far, bytes),
            None => 1.0,
        }
    }
}

/// A size class that occurred only in the first calls of a load and took nearly as long as the very first call. This
/// load does not show whether the size or the empty buffers of the library are the reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Untold {
    /// The size of its tensors.
    pub bytes: f64,
    /// The lower bound: the time of the next smaller class.
    pub least_ns: f64,
    /// The upper bound: the measured time.
    pub most_ns: f64,
}

/// Up to this average number of busy slots, tensors count as loaded one after another.
const MOST_SERIAL: f64 = 1.2;
/// A class with fewer tensors is ignored, except the largest one. A model has few tensors of its vocabulary's size,
/// but they have most of the bytes.
const LEAST_OF_A_CLASS: usize = 4;
/// A class is undetermined if three conditions hold. All its tensors are among the first `FIRST_CALLS` calls. The
/// last of them took more than this share of the very first call. The class takes more than this many times as long
/// as the class below it.
const FIRST_CALLS: usize = 8;
const STILL_WARMING: f64 = 0.5;
const A_LEAP: f64 = 4.0;
/// Libraries map and register memory in pieces of up to this size (in cuFile: its shadow buffers and the largest
/// pool). So the overhead of a tensor jumps at this size and is nearly constant below and above it.
const PIECE_BYTES: f64 = (16 << 20) as f64;
/// The number of points of the curve of landed bytes.
const POINTS: usize = 40;
/// After this share of the bytes, a load has its steady rate: all threads run, and the library has finished its first
/// calls.
const UNDER_WAY: f64 = 0.25;

/// Splits the time of a load. `None` if no tensor has a measured time, or if no bytes were loaded.
#[must_use]
pub fn timing(rows: &[TensorRow], spans: &[Span], run: &RunResult) -> Option<Timing> {
    let bytes = rows.iter().map(|r| r.bytes).fold(0, u64::saturating_add);
    if bytes == 0 || run.wall_ns == 0 {
        return None;
    }
    let moving = |s: &&Span| s.phase.moves_bytes() && s.bytes > 0;
    let busy: f64 = rows.iter().map(|r| r.busy_ns() as f64).sum();
    let by_tensor = spans.iter().filter(moving).all(|s| s.tensor.is_some()) && busy <= MOST_SERIAL * run.wall_ns as f64;
    let parts = if by_tensor { tensors(rows, spans, run, bytes)? } else { blocks(spans, run.wall_ns, bytes)? };
    Some(Timing {
        bytes,
        tensors: rows.len() as u64,
        wall_ns: run.wall_ns,
        cache: run.cache,
        pinned_bytes: run.pinned_peak_bytes.unwrap_or(0),
        open_ns: total(spans, Phase::Open),
        parts,
    })
}

fn total(spans: &[Span], phase: Phase) -> u64 {
    spans.iter().filter(|s| s.phase == phase).map(Span::duration_ns).fold(0, u64::saturating_add)
}

fn blocks(spans: &[Span], wall_ns: u64, bytes: u64) -> Option<Parts> {
    // If the load copies bytes to the target, a byte arrives when it is copied.
    let copied = spans.iter().any(|s| s.phase == Phase::Copy && s.bytes > 0);
    let phase = if copied { Phase::Copy } else { Phase::Transfer };
    let mut landing: Vec<&Span> = spans.iter().filter(|s| s.phase == phase && s.bytes > 0).collect();
    landing.sort_unstable_by_key(|s| s.end_ns);
    let begun = landing.iter().map(|s| s.start_ns).min()? as f64;
    let ended = landing.last()?.end_ns.min(wall_ns) as f64;
    // Blocks also hold headers and padding, but the curve counts only the bytes of tensors.
    let total: f64 = landing.iter().map(|s| s.bytes as f64).sum();
    let step = landing.len().div_ceil(POINTS).max(1);
    let mut landed = vec![(0.0, begun)];
    let mut sum = 0.0;
    for (i, span) in landing.iter().enumerate() {
        sum += span.bytes as f64;
        if i == 0 || (i + 1) % step == 0 || i + 1 == landing.len() {
            landed.push((sum / total * bytes as f64, (span.end_ns.min(wall_ns) as f64).max(begun)));
        }
    }
    let under_way: Vec<(f64, f64)> = landed.iter().copied().filter(|p| p.0 >= UNDER_WAY * bytes as f64).collect();
    let mean = (ended - begun).max(0.0) / bytes as f64;
    let ns_per_byte = steepness(&under_way).filter(|slope| *slope > 0.0).unwrap_or(mean);
    Some(Parts::Blocks { landed, ns_per_byte, tail_ns: (wall_ns as f64 - ended).max(0.0) })
}

/// The median of the slopes between all pairs of points, weighted by the distance of each pair. `None` with fewer
/// than four points.
fn steepness(points: &[(f64, f64)]) -> Option<f64> {
    if points.len() < 4 {
        return None;
    }
    let mut slopes: Vec<(f64, f64)> = Vec::new();
    for (i, (x0, y0)) in points.iter().enumerate() {
        slopes.extend(points.iter().skip(i + 1).filter(|p| p.0 > *x0).map(|(x1, y1)| ((y1 - y0) / (x1 - x0), x1 - x0)));
    }
    slopes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = slopes.iter().map(|s| s.1).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    slopes
        .iter()
        .find(|(_, weight)| {
            sum += weight;
            sum >= half
        })
        .map(|s| s.0)
}

fn tensors(rows: &[TensorRow], spans: &[Span], run: &RunResult, bytes: u64) -> Option<Parts> {
    let mut rows: Vec<&TensorRow> = rows.iter().filter(|r| r.bytes > 0 && r.busy_ns() > 0).collect();
    rows.sort_by_key(|r| r.start_ns);
    let first = *rows.first()?;
    // The first call of each kind creates objects for later calls, so it does not show the normal time of a tensor of
    // its size.
    let later = if rows.len() > 1 { &rows[1..] } else { &rows[..] };
    let hot = run.cache == CacheState::Hot;
    let moving = law(if hot { later } else { &rows }, run.cache, moved)?;
    let pace = matches!(moving, Law::Line { .. }).then(|| pace(&rows, &moving, bytes));
    let (around, untold) = settled(&rows, classes(later.iter().map(|r| (r.bytes, around_of(r)))));
    let largest = rows.iter().map(|r| r.bytes).max().unwrap_or(0);
    let excess = if hot && pace.is_none() { (moved(first) - moving.ns(first.bytes)).max(0.0) } else { 0.0 };
    // Only a first tensor of about the largest size has touched all pages that later tensors use.
    let touched = first.bytes >= largest / 2;
    let touch_ns_per_byte = if touched { excess / first.bytes as f64 } else { 0.0 };
    let warm_up = (around_of(first) - nearest(&around, first.bytes)).max(0.0) + if touched { 0.0 } else { excess };
    let factor = pace.as_ref().map_or(1.0, |pace| pace.factor(bytes as f64));
    let explained: f64 = rows.iter().map(|r| moving.ns(r.bytes) * factor + nearest(&around, r.bytes)).sum();
    let busy: f64 = rows.iter().map(|r| r.busy_ns() as f64).sum();
    let own = (busy - warm_up - touch_ns_per_byte * largest as f64).max(0.0);
    // The time to remove a mapping grows with its pages. The time to close files does not.
    let unmap = if run.phases.get(Phase::Map) > 0 { total(spans, Phase::Release) as f64 } else { 0.0 };
    Some(Parts::Tensors {
        once_ns: (run.wall_ns as f64 - busy - unmap).max(0.0) + warm_up,
        unmap_ns_per_byte: unmap / bytes as f64,
        touch_ns_per_byte,
        scale: if explained > 0.0 { own / explained } else { 1.0 },
        moving,
        pace,
        around,
        untold,
        sizes_bytes: rows.iter().fold((u64::MAX, 0), |(low, high), r| (low.min(r.bytes), high.max(r.bytes))),
    })
}

fn moved(row: &TensorRow) -> f64 {
    (row.phases.get(Phase::Transfer) + row.phases.get(Phase::Copy)) as f64
}

fn around_of(row: &TensorRow) -> f64 {
    (row.busy_ns() as f64 - moved(row)).max(0.0)
}

/// The measured time of the transfers over the load, compared with the predicted time.
fn pace(rows: &[&TensorRow], moving: &Law, bytes: u64) -> Pace {
    let step = rows.len().div_ceil(POINTS).max(1);
    let (mut so_far, mut before, mut late) = (Vec::new(), (0.0, 0.0, 0.0), (0.0, 0.0));
    for (i, row) in rows.iter().enumerate() {
        let (took, explained) = (moved(row), moving.ns(row.bytes));
        if before.0 >= UNDER_WAY * bytes as f64 {
            late = (late.0 + took, late.1 + explained);
        }
        before = (before.0 + row.bytes as f64, before.1 + took, before.2 + explained);
        if (i % step == 0 || i + 1 == rows.len()) && before.2 > 0.0 {
            so_far.push((before.0, before.1 / before.2));
        }
    }
    let total = so_far.last().map_or(1.0, |(_, factor)| *factor);
    Pace { so_far, under_way: if late.1 > 0.0 { late.0 / late.1 } else { total } }
}

/// Replaces the time of each class that this load does not determine by the geometric mean of its bounds.
fn settled(rows: &[&TensorRow], mut classes: Vec<(f64, f64)>) -> (Vec<(f64, f64)>, Vec<Untold>) {
    let first_ns = rows.first().map_or(0.0, |row| around_of(row));
    let mut untold = Vec::new();
    for i in 1..classes.len() {
        let (below, (bytes, ns)) = (classes[i - 1].1, classes[i]);
        let same = |row: &&&TensorRow| row.bytes.ilog2() == (bytes as u64).max(1).ilog2();
        let count = rows.iter().skip(1).filter(same).count();
        let last = rows.iter().enumerate().skip(1).rfind(|(_, row)| same(row));
        let Some((at, last)) = last else { continue };
        let early = count < LEAST_OF_A_CLASS && at < FIRST_CALLS;
        if early && around_of(last) > STILL_WARMING * first_ns && ns > A_LEAP * below && below > 0.0 {
            untold.push(Untold { bytes, least_ns: below, most_ns: ns });
            classes[i].1 = (below * ns).sqrt();
        }
    }
    (classes, untold)
}

/// A copy out of the page cache works the same way at every size, so its law is a line. Other methods can change with
/// the size.
fn law(rows: &[&TensorRow], cache: CacheState, moved: impl Fn(&TensorRow) -> f64) -> Option<Law> {
    let copies = rows.iter().all(|r| r.phases.get(Phase::Copy) > 0 && r.phases.get(Phase::Transfer) == 0);
    if copies && cache == CacheState::Hot {
        let only: Vec<TensorRow> = rows.iter().map(|r| only_copy(r)).collect();
        if let Some(line) = fit(&only) {
            return Some(Law::Line { ns: line.overhead_ns, ns_per_byte: line.ns_per_byte() });
        }
    }
    let mut corners = classes(rows.iter().map(|r| (r.bytes, moved(r))));
    // A larger tensor must not be faster because of noise.
    let mut most = 0.0_f64;
    for corner in &mut corners {
        most = most.max(corner.1);
        corner.1 = most;
    }
    (!corners.is_empty()).then_some(Law::Broken { corners })
}

fn only_copy(row: &TensorRow) -> TensorRow {
    let mut phases = PhaseTimes::default();
    phases.add(Phase::Copy, row.phases.get(Phase::Copy));
    TensorRow { phases, ..row.clone() }
}

/// The median size and time of each size class (powers of two).
fn classes(points: impl Iterator<Item = (u64, f64)>) -> Vec<(f64, f64)> {
    let mut by_class: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for (bytes, ns) in points.filter(|p| p.0 > 0) {
        by_class.entry(bytes.ilog2()).or_default().push((bytes as f64, ns));
    }
    let largest = by_class.keys().next_back().copied();
    let most = by_class.values().map(Vec::len).max().unwrap_or(0).min(LEAST_OF_A_CLASS);
    by_class
        .into_iter()
        .filter(|(class, points)| points.len() >= most || Some(*class) == largest)
        .filter_map(|(_, points)| {
            let (sizes, times): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
            median(&sizes).zip(median(&times))
        })
        .collect()
}

/// The time of the class that is nearest in size, on the same side of [`PIECE_BYTES`] if there is one, because the
/// time of a registration jumps at that size.
pub(super) fn nearest(classes: &[(f64, f64)], bytes: u64) -> f64 {
    let side = |at: f64| at >= PIECE_BYTES;
    let far = |class: &&(f64, f64)| {
        (side(class.0) != side(bytes as f64), (bytes.max(1) as f64 / class.0.max(1.0)).ln().abs())
    };
    let nearest = classes.iter().min_by(|a, b| {
        let (a, b) = (far(a), far(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    nearest.map_or(0.0, |class| class.1)
}

impl Law {
    /// The time to move this number of bytes, in nanoseconds.
    pub(super) fn ns(&self, bytes: u64) -> f64 {
        match self {
            Self::Line { ns, ns_per_byte } => ns + ns_per_byte * bytes as f64,
            Self::Broken { corners } => along(corners, bytes as f64),
        }
    }
}

/// The value of a polyline at `x`. It is constant before the first corner and extended beyond the last one. With a
/// single corner it is a line through the origin.
pub(super) fn along(corners: &[(f64, f64)], x: f64) -> f64 {
    let next = corners.partition_point(|(at, _)| *at <= x).clamp(1, corners.len().saturating_sub(1).max(1));
    match (corners.get(next - 1), corners.get(next)) {
        (Some((x0, y0)), Some((x1, y1))) => {
            (y0 + (x.max(corners[0].0) - x0) * (y1 - y0) / (x1 - x0).max(f64::MIN_POSITIVE)).max(0.0)
        }
        (Some((x0, y0)), None) => y0 / x0.max(1.0) * x,
        _ => 0.0,
    }
}
