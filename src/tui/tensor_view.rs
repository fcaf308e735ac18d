//! The tensors of one run, put in order: computed when the choice changes, not in every frame.

use super::app::UiState;
use super::entries::{Entry, heat_of, heats};
use super::screens::race::selected_entry;
use crate::analysis::{CostModel, Crossover, TensorRow, cost_model, crossover, tensor_rows};
use crate::domain::{Engine, LaneId, ModelInfo};
use crate::session::{Lane, State};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// What the table is sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// All time on slots, longest first: the slowest tensor is on top.
    #[default]
    Time,
    Overhead,
    Share,
    Rate,
    Size,
    File,
}

impl Sort {
    pub(crate) const fn next(self) -> Self {
        match self {
            Self::Time => Self::Overhead,
            Self::Overhead => Self::Share,
            Self::Share => Self::Rate,
            Self::Rate => Self::Size,
            Self::Size => Self::File,
            Self::File => Self::Time,
        }
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Overhead => "overhead",
            Self::Share => "share of overhead",
            Self::Rate => "rate, slowest first",
            Self::Size => "size",
            Self::File => "place in the file",
        }
    }
}

/// The rows of one run and what they add up to.
#[derive(Clone, Debug)]
pub(crate) struct Tensors {
    spans: usize,
    pub(crate) rows: Vec<TensorRow>,
    /// (bytes, time on slots) of each row; a frame must not add up a hundred thousand of them.
    pub(crate) points: Vec<(u64, u64)>,
    /// Time of each row that moved no bytes.
    pub(crate) overheads: Vec<u64>,
    /// The row with the longest time.
    pub(crate) slowest: Option<usize>,
    pub(crate) cost: Option<CostModel>,
}

/// What the order was made from.
#[derive(Clone, Debug, PartialEq)]
struct OrderKey {
    lane: LaneId,
    spans: usize,
    sort: Sort,
    reversed: bool,
    filter: String,
}

/// Choices on the Tensors screen and what follows from them.
#[derive(Clone, Debug, Default)]
pub(crate) struct TensorsUi {
    pub(crate) sort: Sort,
    pub(crate) reversed: bool,
    pub(crate) filter: String,
    /// Selected line of `order`.
    pub(crate) at: usize,
    /// The scatter instead of the table, where only one has room.
    pub(crate) scatter: bool,
    /// Rows shown, as indices into the model's tensors.
    pub(crate) order: Vec<u32>,
    pub(crate) lane: Option<LaneId>,
    /// The run that it is compared with, and where they cross.
    pub(crate) rival: Option<(LaneId, Option<Crossover>)>,
    key: Option<OrderKey>,
    runs: BTreeMap<LaneId, Tensors>,
}

impl TensorsUi {
    pub(crate) fn run(&self, lane: LaneId) -> Option<&Tensors> {
        self.runs.get(&lane)
    }
}

fn with_spans<'s>(entry: &Entry<'s>) -> Option<&'s Lane> {
    entry.typical().filter(|lane| !lane.spans.is_empty())
}

/// Entries (numbered as on the Race screen) whose tensors are known.
pub(crate) fn entries_with_spans(state: &State) -> Vec<usize> {
    let heats = heats(state);
    let entries = heats.iter().flat_map(|h| &h.entries).enumerate();
    entries.filter(|(_, e)| with_spans(e).is_some()).map(|(i, _)| i).collect()
}

/// The entry whose tensors are shown: the user's, else the one that pays for each tensor (that cost is what the screen is about), else the
/// first that has a timeline.
pub(crate) fn entry_index(state: &State, ui: &UiState) -> Option<usize> {
    let known = entries_with_spans(state);
    let heats = heats(state);
    let pays = || heats.iter().flat_map(|h| &h.entries).position(|e| *e.engine == Engine::GdsPerTensor);
    let selected = match ui.race.selected {
        None => pays().filter(|at| known.contains(at)).or_else(|| selected_entry(state, ui))?,
        Some(_) => selected_entry(state, ui)?,
    };
    known.contains(&selected).then_some(selected).or_else(|| known.first().copied())
}

/// Brings the shown run, its rival and the order up to date.
pub(crate) fn prepare(ui: &mut UiState, state: &State) {
    let heats = heats(state);
    let shown = entry_index(state, ui).and_then(|at| heats.iter().flat_map(|h| &h.entries).nth(at));
    let lane = shown.and_then(with_spans);
    let (Some(model), Some(entry)) = (lane.map_or(state.model.as_ref(), |lane| state.model_of(lane)), shown) else {
        ui.tensors.lane = None;
        ui.tensors.order.clear();
        ui.tensors.key = None;
        return;
    };
    let Some(lane) = lane else { return };
    let heat = heat_of(&heats, lane);
    // mmap is what people use without thinking about it; against mmap itself the fastest other run is the question.
    let others =
        || heat.into_iter().flat_map(|h| h.ranked()).filter(|e| e.engine != entry.engine && with_spans(e).is_some());
    let rival = others().find(|e| *e.engine == Engine::Mmap).or_else(|| others().next());
    load(&mut ui.tensors, model, lane, entry);
    if let Some((other, lane)) = rival.and_then(|e| Some((e, with_spans(e)?))) {
        load(&mut ui.tensors, model, lane, other);
    }
    ui.tensors.lane = Some(lane.id);
    let rival = rival.and_then(with_spans);
    let cost = |lane: &Lane| ui.tensors.run(lane.id).and_then(|run| run.cost.as_ref());
    ui.tensors.rival = rival.map(|other| (other.id, cost(lane).zip(cost(other)).and_then(|(a, b)| crossover(a, b))));
    put_in_order(&mut ui.tensors, model, lane);
}

fn load(tensors: &mut TensorsUi, model: &ModelInfo, lane: &Lane, entry: &Entry<'_>) {
    if tensors.runs.get(&lane.id).is_some_and(|run| run.spans == lane.spans.len()) {
        return;
    }
    let rows = tensor_rows(model, &lane.spans);
    let wall = lane.result.as_ref().map_or(0, |r| r.wall_ns);
    let repeats: Vec<u64> = entry.results().map(|r| r.wall_ns).collect();
    let cost = if lane.group().is_none() { cost_model(&rows, wall, &repeats) } else { None };
    let points: Vec<(u64, u64)> = rows.iter().map(|row| (row.bytes, row.busy_ns())).collect();
    let overheads = rows.iter().map(|row| row.phases.overhead_ns()).collect();
    let slowest = (0..points.len()).max_by_key(|at| points[*at].1).filter(|at| points[*at].1 > 0);
    tensors.runs.insert(lane.id, Tensors { spans: lane.spans.len(), rows, points, overheads, slowest, cost });
}

fn put_in_order(ui: &mut TensorsUi, model: &ModelInfo, lane: &Lane) {
    let key = OrderKey {
        lane: lane.id,
        spans: lane.spans.len(),
        sort: ui.sort,
        reversed: ui.reversed,
        filter: ui.filter.to_lowercase(),
    };
    if ui.key.as_ref() == Some(&key) {
        return;
    }
    let Some(run) = ui.runs.get(&lane.id) else { return };
    let name = |row: &TensorRow| model.tensors.get(row.tensor as usize).map_or("", |t| t.name.as_str());
    let mut rows: Vec<&TensorRow> =
        run.rows.iter().filter(|row| key.filter.is_empty() || name(row).to_lowercase().contains(&key.filter)).collect();
    rows.sort_by(|a, b| compare(a, b, key.sort));
    if key.reversed {
        rows.reverse();
    }
    ui.order = rows.iter().map(|row| row.tensor).collect();
    ui.at = ui.at.min(ui.order.len().saturating_sub(1));
    ui.key = Some(key);
}

fn compare(a: &TensorRow, b: &TensorRow, sort: Sort) -> Ordering {
    let share = |row: &TensorRow| row.overhead_fraction().unwrap_or(-1.0);
    match sort {
        Sort::Time => b.busy_ns().cmp(&a.busy_ns()),
        Sort::Overhead => b.phases.overhead_ns().cmp(&a.phases.overhead_ns()),
        Sort::Share => share(b).total_cmp(&share(a)),
        Sort::Rate => rate_of(a).unwrap_or(f64::INFINITY).total_cmp(&rate_of(b).unwrap_or(f64::INFINITY)),
        Sort::Size => b.bytes.cmp(&a.bytes),
        Sort::File => a.tensor.cmp(&b.tensor),
    }
}

/// Bytes a second over all time on slots.
pub(crate) fn rate_of(row: &TensorRow) -> Option<f64> {
    crate::domain::units::bytes_per_s(row.bytes, row.busy_ns())
}
