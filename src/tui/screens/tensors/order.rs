//! The order of the tensors: what the table is sorted by, and the names that are searched. Made when the choice changes, not in every frame.

use super::runs::{Tensors, TensorsUi};
use crate::analysis::TensorRow;
use crate::domain::{LaneId, ModelInfo};
use crate::session::Lane;
use crate::tui::pen::width;

/// What the table is sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sort {
    /// All time on slots, longest first: the slowest tensor is on top.
    #[default]
    Time,
    Overhead,
    Moving,
    Share,
    Rate,
    Size,
    Name,
    File,
    /// What it took more than with the other engine.
    Difference,
}

impl Sort {
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

/// What the order was made from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OrderKey {
    lane: LaneId,
    spans: usize,
    rival: Option<LaneId>,
    sort: Sort,
    reversed: bool,
    filter: String,
}

/// The names of a model in a form that is searched fast.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    of: (std::path::PathBuf, usize),
    /// All names in lower case, a line each.
    text: String,
    /// Where each begins.
    starts: Vec<u32>,
    /// The longest, in columns.
    pub(super) longest: u16,
    /// The tensors by name.
    order: Vec<u32>,
}

impl Names {
    pub(crate) fn of(model: &ModelInfo) -> Self {
        let mut names = Self { of: (model.path.clone(), model.tensors.len()), ..Self::default() };
        for tensor in &model.tensors {
            names.starts.push(u32::try_from(names.text.len()).unwrap_or(u32::MAX));
            names.text.extend(tensor.name.chars().flat_map(char::to_lowercase));
            names.text.push('\n');
            names.longest = names.longest.max(u16::try_from(width(&tensor.name)).unwrap_or(u16::MAX));
        }
        names.sorted(model.tensors.len());
        names
    }

    pub(crate) fn is_of(&self, path: &std::path::Path, count: usize) -> bool {
        self.of.1 == count && self.of.0 == path
    }

    /// Whether the name of each tensor contains the text, which is in lower case.
    fn containing(&self, text: &str) -> Vec<bool> {
        let mut found = vec![false; self.starts.len()];
        let mut at = 0;
        for (place, _) in self.text.match_indices(text) {
            // Matches come in the order of the text, so the names are walked once.
            while self.starts.get(at + 1).is_some_and(|next| *next as usize <= place) {
                at += 1;
            }
            if let Some(flag) = found.get_mut(at) {
                *flag = true;
            }
        }
        found
    }

    /// The tensors by name, sorted when it is first asked for.
    fn sorted(&mut self, model_len: usize) -> &[u32] {
        if self.order.len() != model_len {
            let (text, starts) = (self.text.as_bytes(), &self.starts);
            let name = |tensor: u32| {
                let from = starts.get(tensor as usize).map_or(0, |at| *at as usize);
                let to = starts.get(tensor as usize + 1).map_or(text.len(), |at| *at as usize);
                text.get(from..to).unwrap_or_default()
            };
            // Names begin alike; the eight bytes after that tell most of them apart in one comparison.
            let all = || (0..u32::try_from(model_len).unwrap_or(u32::MAX)).map(name);
            let first = name(0);
            let alike = all().map(|n| n.iter().zip(first).take_while(|(a, b)| a == b).count()).min().unwrap_or(0);
            let key = |name: &[u8]| {
                let mut key = [0; 8];
                key.iter_mut().zip(name.get(alike..).unwrap_or_default()).for_each(|(to, from)| *to = *from);
                u64::from_be_bytes(key)
            };
            let mut keys: Vec<(u64, u32)> = all().map(key).zip(0..).collect();
            keys.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| name(a.1).cmp(name(b.1))));
            self.order = keys.into_iter().map(|(_, tensor)| tensor).collect();
        }
        &self.order
    }
}

pub(super) fn put_in_order(ui: &mut TensorsUi, lane: &Lane) {
    let rival = ui.rival.as_ref().map(|(id, _)| *id);
    let key = OrderKey {
        lane: lane.id,
        spans: lane.spans.len(),
        rival: rival.filter(|_| ui.sort == Sort::Difference),
        sort: ui.sort,
        reversed: ui.reversed,
        filter: ui.filter.to_lowercase(),
    };
    if ui.key.as_ref() == Some(&key) {
        return;
    }
    let kept = ui.key.as_ref().filter(|old| old.lane != key.lane).and(ui.tensor());
    let Some(sorted) = sorted(ui, &key) else { return };
    ui.order = if key.filter.is_empty() {
        sorted
    } else {
        let found = ui.names.containing(&key.filter);
        sorted.into_iter().filter(|tensor| found.get(*tensor as usize) == Some(&true)).collect()
    };
    if key.reversed {
        ui.order.reverse();
    }
    // With another engine the same tensor stays selected; in another order the first line answers.
    let moved = ui.key.as_ref().is_some_and(|old| (old.sort, old.reversed) != (key.sort, key.reversed));
    ui.at = match kept.and_then(|tensor| ui.order.iter().position(|t| *t == tensor)) {
        Some(at) => at,
        None if moved => 0,
        None => ui.at.min(ui.order.len().saturating_sub(1)),
    };
    ui.key = Some(key);
}

/// All tensors in the order of a key, its filter and direction left out.
fn sorted(ui: &mut TensorsUi, key: &OrderKey) -> Option<Vec<u32>> {
    let count = ui.runs.get(&key.lane)?.rows.len();
    match key.sort {
        Sort::File => return Some((0..u32::try_from(count).unwrap_or(u32::MAX)).collect()),
        Sort::Name => return Some(ui.names.sorted(count).to_vec()),
        _ => {}
    }
    if let Some(known) = ui.runs.get(&key.lane)?.sorted.get(&(key.sort, key.rival)) {
        return Some(known.clone());
    }
    let run = ui.runs.get(&key.lane)?;
    let other = key.rival.and_then(|id| ui.runs.get(&id));
    let order = by_rank(run, other, key.sort);
    ui.runs.get_mut(&key.lane)?.sorted.insert((key.sort, key.rival), order.clone());
    Some(order)
}

/// All rows of a run by what a sort looks at; differences are those to another run.
pub(super) fn by_rank(run: &Tensors, other: Option<&Tensors>, sort: Sort) -> Vec<u32> {
    // A number a row, smallest first, made once: comparing rows themselves would add up their phases again and again.
    let rank = |at: usize, row: &TensorRow| -> u64 {
        let busy = run.points.get(at).map_or(0, |p| p.1);
        let overhead = run.overheads.get(at).copied().unwrap_or(0);
        match sort {
            Sort::Overhead => !overhead,
            Sort::Moving => !busy.saturating_sub(overhead),
            // Positive numbers compare like their bits.
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

/// What a tensor took more (or, below zero, less) than with the other engine, in nanoseconds; `None` where one of them was not timed.
pub(crate) fn difference(ours_ns: u64, theirs_ns: u64) -> Option<i64> {
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    (ours_ns > 0 && theirs_ns > 0).then(|| signed(ours_ns) - signed(theirs_ns))
}

/// Bytes a second over all time on slots.
pub(crate) fn rate_of(row: &TensorRow) -> Option<f64> {
    crate::domain::units::bytes_per_s(row.bytes, row.busy_ns())
}
