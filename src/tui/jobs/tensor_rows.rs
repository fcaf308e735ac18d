//! The tensors of one run: a row for each tensor, their sums, and their sort orders.

use crate::analysis::{CostModel, TensorRow};
use crate::core::{LaneId, PhaseTimes, units};
use std::collections::{BTreeMap, HashSet};

/// The sort key of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sort {
    /// The part of the wall time, with the slowest tensor first.
    #[default]
    Time,
    Overhead,
    Moving,
    Share,
    Rate,
    Size,
    Name,
    File,
    /// The time compared with the other engine.
    Difference,
}

impl Sort {
    /// All sort keys.
    pub(crate) const ALL: [Self; 9] = [
        Self::Time,
        Self::Overhead,
        Self::Moving,
        Self::Share,
        Self::Rate,
        Self::Size,
        Self::Name,
        Self::File,
        Self::Difference,
    ];

    pub(crate) const fn next(self, comparing: bool) -> Self {
        match self {
            Self::Time => Self::Overhead,
            Self::Overhead => Self::Moving,
            Self::Moving => Self::Share,
            Self::Share => Self::Rate,
            Self::Rate => Self::Size,
            Self::Size => Self::Name,
            Self::Name => Self::File,
            Self::File if comparing => Self::Difference,
            Self::File | Self::Difference => Self::Time,
        }
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Overhead => "overhead",
            Self::Moving => "moving",
            Self::Share => "share of overhead",
            Self::Rate => "rate, slowest first",
            Self::Size => "size",
            Self::Name => "name",
            Self::File => "place in the files",
            Self::Difference => "difference",
        }
    }
}

/// The rows of one run and their sums.
#[derive(Clone, Debug)]
pub(crate) struct TensorRows {
    pub(crate) spans: usize,
    pub(crate) rows: Vec<TensorRow>,
    /// Bytes and part of the wall time of each row. The values are stored, because a frame must not sum a hundred
    /// thousand rows.
    pub(crate) points: Vec<(u64, u64)>,
    /// Bytes and time of one worker for the rows that a chart can show separately. The values are stored, because a
    /// frame must not place a hundred thousand dots on a few hundred cells.
    pub(crate) cloud: Vec<(u64, u64)>,
    /// Time of each row in which no bytes moved, in nanoseconds.
    pub(crate) overheads: Vec<u64>,
    /// The index of the row with the longest time.
    pub(crate) slowest: Option<usize>,
    pub(crate) cost: Option<CostModel>,
    /// The sum of the phases over all tensors.
    pub(crate) phases: PhaseTimes,
    /// The sort orders that were requested before. An order by difference belongs to the run with the given number.
    sorted: BTreeMap<(Sort, Option<LaneId>), Vec<u32>>,
}

impl TensorRows {
    /// Creates the rows of a run with this wall time in nanoseconds. The times of workers that run at the same time
    /// add up to more than the wall time, and the factor differs between engines. So the times of a row are scaled to
    /// its part of the wall time. Their sum is then at most the wall time.
    pub(crate) fn new(spans: usize, mut rows: Vec<TensorRow>, cost: Option<CostModel>, wall_ns: u64) -> Self {
        // The fitted line uses the time of one worker, so the dots around it do too.
        let cloud = distinct(&rows.iter().map(|row| (row.bytes, row.busy_ns())).collect::<Vec<_>>());
        let busy: f64 = rows.iter().map(|row| row.busy_ns() as f64).sum();
        if wall_ns > 0 && busy > wall_ns as f64 {
            rows.iter_mut().for_each(|row| row.phases = scaled(&row.phases, wall_ns as f64 / busy));
        }
        let points: Vec<(u64, u64)> = rows.iter().map(|row| (row.bytes, row.busy_ns())).collect();
        let overheads = rows.iter().map(|row| row.phases.overhead_ns()).collect();
        let slowest = (0..points.len()).max_by_key(|at| points[*at].1).filter(|at| points[*at].1 > 0);
        let mut phases = PhaseTimes::default();
        for (phase, ns) in rows.iter().flat_map(|row| row.phases.iter()) {
            phases.add(phase, ns);
        }
        let mut run = Self { spans, rows, points, cloud, overheads, slowest, cost, phases, sorted: BTreeMap::new() };
        // This order is shown first.
        run.sorted.insert((Sort::Time, None), by_rank(&run, None, Sort::Time));
        run
    }

    /// The rows in an order that was requested before, otherwise `None`. An order by difference is the one to the run
    /// with the number `rival`.
    pub(crate) fn known_order(&self, sort: Sort, rival: Option<LaneId>) -> Option<&[u32]> {
        self.sorted.get(&(sort, rival)).map(Vec::as_slice)
    }

    /// The rows in an order. Differences are those to the rows of `other`.
    pub(crate) fn ordered(&self, sort: Sort, other: Option<&Self>) -> Vec<u32> {
        by_rank(self, other, sort)
    }

    /// Stores an order for later frames.
    pub(crate) fn keep_order(&mut self, sort: Sort, rival: Option<LaneId>, order: Vec<u32>) {
        self.sorted.insert((sort, rival), order);
    }

    /// Removes the orders by difference to a run that has changed.
    pub(crate) fn forget_differences_to(&mut self, lane: LaneId) {
        self.sorted.retain(|(_, rival), _| *rival != Some(lane));
    }
}

/// Sorts the rows of a run by a key. Differences are those to another run.
fn by_rank(run: &TensorRows, other: Option<&TensorRows>, sort: Sort) -> Vec<u32> {
    // The rank of each row is computed once, because computing it in every comparison would sum the phases again and
    // again. Smaller ranks are first.
    let rank = |at: usize, row: &TensorRow| -> u64 {
        let busy = run.points.get(at).map_or(0, |p| p.1);
        let overhead = run.overheads.get(at).copied().unwrap_or(0);
        match sort {
            Sort::Overhead => !overhead,
            Sort::Moving => !busy.saturating_sub(overhead),
            // The bits of positive floating-point numbers have the same order as the numbers.
            Sort::Share if busy > 0 => !(overhead as f64 / busy as f64).to_bits(),
            Sort::Rate => rate_of(row).map_or(u64::MAX, f64::to_bits),
            Sort::Share => u64::MAX,
            Sort::Size => !row.bytes,
            Sort::Difference => difference(busy, other.and_then(|o| o.points.get(at)).map_or(0, |p| p.1))
                .map_or(u64::MAX, |ns| !((ns as u64) ^ (1 << 63))),
            Sort::Time | Sort::Name | Sort::File => !busy,
        }
    };
    let mut keys: Vec<(u64, u32)> = run.rows.iter().enumerate().map(|(at, row)| (rank(at, row), row.tensor)).collect();
    keys.sort_unstable();
    keys.into_iter().map(|(_, tensor)| tensor).collect()
}

/// The time of a tensor minus its time with the other engine, in nanoseconds. `None` if one of them was not timed.
pub(crate) fn difference(ours_ns: u64, theirs_ns: u64) -> Option<i64> {
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    (ours_ns > 0 && theirs_ns > 0).then(|| signed(ours_ns) - signed(theirs_ns))
}

/// Bytes of a tensor divided by its part of the wall time, in bytes per second.
pub(crate) fn rate_of(row: &TensorRow) -> Option<f64> {
    units::bytes_per_s(row.bytes, row.busy_ns())
}

fn scaled(times: &PhaseTimes, by: f64) -> PhaseTimes {
    let mut out = PhaseTimes::default();
    times.iter().for_each(|(phase, ns)| out.add(phase, (ns as f64 * by) as u64));
    out
}

/// Keeps only one of several points that are within an eighth of an octave of size and a fortieth of a decade of
/// time.
fn distinct(points: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let place = |(bytes, ns): &(u64, u64)| {
        (((*bytes as f64).log2() * 8.0).round() as i32, ((*ns as f64).log10() * 40.0).round() as i32)
    };
    let mut seen = HashSet::new();
    points.iter().filter(|p| p.0 > 0 && p.1 > 0 && seen.insert(place(p))).copied().collect()
}
