//! The runs whose tensors are shown and compared, and the tensor that is looked at: computed when the choice changes, not in every frame.

use super::order::{Names, OrderKey, Sort, by_rank, put_in_order};
use crate::analysis::{CostModel, Crossover, TensorRow, crossover};
use crate::domain::{Engine, LaneId, ModelInfo, PhaseTimes, Span};
use crate::present::engine_rows::group_of;
use crate::present::{EngineRow, row_groups};
use crate::session::{Lane, State};
use crate::tui::app::UiState;
use crate::tui::screens::race::view::selected_entry;
use crate::tui::study::{Question, Study};
use std::collections::BTreeMap;

/// The rows of one run and what they add up to.
#[derive(Clone, Debug)]
pub(crate) struct Tensors {
    spans: usize,
    pub(crate) rows: Vec<TensorRow>,
    /// (bytes, time on slots) of each row; a frame must not add up a hundred thousand of them.
    pub(crate) points: Vec<(u64, u64)>,
    /// Those that a picture can tell apart: a frame must not place a hundred thousand dots on some hundred cells.
    pub(crate) cloud: Vec<(u64, u64)>,
    /// Time of each row that moved no bytes.
    pub(crate) overheads: Vec<u64>,
    /// The row with the longest time.
    pub(crate) slowest: Option<usize>,
    pub(crate) cost: Option<CostModel>,
    /// What all tensors add up to.
    pub(crate) phases: PhaseTimes,
    /// All rows by each order that was asked for; by difference, for one other run.
    pub(super) sorted: BTreeMap<(Sort, Option<LaneId>), Vec<u32>>,
}

/// One tensor in two runs, span by span.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Detail {
    tensor: u32,
    lane: LaneId,
    spans: usize,
    /// What moved its bytes, by start.
    pub(crate) reads: Vec<Span>,
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
    /// One tensor is looked at.
    pub(crate) open: bool,
    /// Which of the other runs it is compared with, counted on by the key; the one after the last is none.
    pub(crate) against: usize,
    /// Rows shown, as indices into the model's tensors.
    pub(crate) order: Vec<u32>,
    pub(crate) lane: Option<LaneId>,
    /// The run that it is compared with, and where they cross.
    pub(crate) rival: Option<(LaneId, Option<Crossover>)>,
    pub(crate) detail: Option<Detail>,
    pub(super) key: Option<OrderKey>,
    pub(super) names: Names,
    pub(super) runs: BTreeMap<LaneId, Tensors>,
}

impl Tensors {
    pub(crate) fn new(spans: usize, rows: Vec<TensorRow>, cost: Option<CostModel>) -> Self {
        let points: Vec<(u64, u64)> = rows.iter().map(|row| (row.bytes, row.busy_ns())).collect();
        let overheads = rows.iter().map(|row| row.phases.overhead_ns()).collect();
        let slowest = (0..points.len()).max_by_key(|at| points[*at].1).filter(|at| points[*at].1 > 0);
        let mut phases = PhaseTimes::default();
        for (phase, ns) in rows.iter().flat_map(|row| row.phases.iter()) {
            phases.add(phase, ns);
        }
        let cloud = distinct(&points);
        let mut run = Self { spans, rows, points, cloud, overheads, slowest, cost, phases, sorted: BTreeMap::new() };
        // The order that is shown first.
        run.sorted.insert((Sort::Time, None), by_rank(&run, None, Sort::Time));
        run
    }
}

impl TensorsUi {
    pub(crate) fn run(&self, lane: LaneId) -> Option<&Tensors> {
        self.runs.get(&lane)
    }

    /// The run that it is compared with.
    pub(crate) fn other(&self) -> Option<(LaneId, &Tensors)> {
        let (id, _) = self.rival.as_ref()?;
        Some((*id, self.run(*id)?))
    }

    /// Takes in the rows of a run.
    pub(crate) fn take(&mut self, lane: LaneId, run: Tensors) {
        self.runs.insert(lane, run);
        // What was compared with an older state of this run is sorted again.
        for run in self.runs.values_mut() {
            run.sorted.retain(|(_, rival), _| *rival != Some(lane));
        }
    }

    pub(crate) fn take_names(&mut self, names: Names) {
        self.names = names;
        self.key = None;
    }

    /// The selected tensor.
    pub(crate) fn tensor(&self) -> Option<u32> {
        self.order.get(self.at).copied()
    }

    /// Columns of the longest name.
    pub(crate) const fn longest_name(&self) -> u16 {
        self.names.longest
    }
}

fn with_spans<'s>(entry: &EngineRow<'s>) -> Option<&'s Lane> {
    entry.typical().filter(|lane| !lane.spans.is_empty())
}

/// Entries (numbered as on the Race screen) whose tensors are known.
pub(crate) fn entries_with_spans(state: &State) -> Vec<usize> {
    let groups = row_groups(state);
    let entries = groups.iter().flat_map(|h| &h.rows).enumerate();
    entries.filter(|(_, e)| with_spans(e).is_some()).map(|(i, _)| i).collect()
}

/// The entry whose tensors are shown: the user's, else the one that pays for each tensor (that cost is what the screen is about), else the
/// first that has a timeline.
pub(crate) fn entry_index(state: &State, ui: &UiState) -> Option<usize> {
    let known = entries_with_spans(state);
    let groups = row_groups(state);
    let pays = || groups.iter().flat_map(|h| &h.rows).position(|e| *e.engine == Engine::GdsPerTensor);
    let selected = match ui.race.selected {
        None => pays().filter(|at| known.contains(at)).or_else(|| selected_entry(state, ui))?,
        Some(_) => selected_entry(state, ui)?,
    };
    known.contains(&selected).then_some(selected).or_else(|| known.first().copied())
}

/// The lane whose tensors are shown, and the one that it is compared with.
fn chosen<'s>(ui: &UiState, state: &'s State) -> Option<(&'s Lane, Option<&'s Lane>)> {
    let groups = row_groups(state);
    let entry = entry_index(state, ui).and_then(|at| groups.iter().flat_map(|h| &h.rows).nth(at))?;
    let lane = with_spans(entry)?;
    // mmap is what people use without thinking about it; against mmap itself the fastest other run is the question.
    let mut others: Vec<&EngineRow<'_>> = group_of(&groups, lane)
        .into_iter()
        .flat_map(|h| h.ranked())
        .filter(|e| e.engine != entry.engine && with_spans(e).is_some())
        .collect();
    others.sort_by_key(|e| *e.engine != Engine::Mmap);
    let rival = others.get(ui.tensors.against % (others.len() + 1)).copied().and_then(with_spans);
    Some((lane, rival))
}

/// What must be found out before the screen is whole. Runs that are no longer looked at are let go.
pub(crate) fn questions(ui: &mut UiState, state: &State) -> Vec<Question> {
    let Some((lane, rival)) = chosen(ui, state) else { return Vec::new() };
    let mut questions = Vec::new();
    for lane in std::iter::once(lane).chain(rival) {
        if ui.tensors.run(lane.id).is_none_or(|run| run.spans != lane.spans.len()) {
            questions.push(Question::Lane(Box::new(Study::of(state, lane, true))));
        }
    }
    if let Some(model) = state.model_of(lane)
        && !ui.tensors.names.is_of(&model.path, model.tensors.len())
    {
        questions.push(Question::Names(model.clone()));
    }
    let shown = [Some(lane.id), rival.map(|lane| lane.id)];
    ui.tensors.runs.retain(|id, _| shown.contains(&Some(*id)));
    questions
}

/// Brings the shown run, its rival and the order up to date, as far as they are known.
pub(crate) fn prepare(ui: &mut UiState, state: &State) {
    let chosen = chosen(ui, state);
    let Some((lane, rival, model)) = chosen.and_then(|(lane, rival)| Some((lane, rival, state.model_of(lane)?))) else {
        if ui.tensors.lane.is_some() {
            (ui.tensors.lane, ui.tensors.key, ui.tensors.detail) = (None, None, None);
            ui.tensors.order.clear();
        }
        return;
    };
    ui.tensors.lane = Some(lane.id);
    let cost = |lane: &Lane| ui.tensors.run(lane.id).and_then(|run| run.cost.as_ref());
    ui.tensors.rival = rival.map(|other| (other.id, cost(lane).zip(cost(other)).and_then(|(a, b)| crossover(a, b))));
    if ui.tensors.rival.is_none() && ui.tensors.sort == Sort::Difference {
        ui.tensors.sort = Sort::Time;
    }
    if !ui.tensors.names.is_of(&model.path, model.tensors.len()) {
        ui.tensors.order.clear();
        return;
    }
    put_in_order(&mut ui.tensors, lane);
    look_at(&mut ui.tensors, model, lane);
}

/// One point of those that lie within an eighth of an octave of size and a fortieth of a decade of time.
fn distinct(points: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let place = |(bytes, ns): &(u64, u64)| {
        (((*bytes as f64).log2() * 8.0).round() as i32, ((*ns as f64).log10() * 40.0).round() as i32)
    };
    let mut seen = std::collections::HashSet::new();
    points.iter().filter(|p| p.0 > 0 && p.1 > 0 && seen.insert(place(p))).copied().collect()
}

/// The reads of the open tensor.
fn look_at(ui: &mut TensorsUi, model: &ModelInfo, lane: &Lane) {
    let Some(tensor) = ui.tensor().filter(|_| ui.open) else {
        ui.detail = None;
        return;
    };
    let known = |d: &Detail| d.tensor == tensor && d.lane == lane.id && d.spans == lane.spans.len();
    if ui.detail.as_ref().is_some_and(known) {
        return;
    }
    let place = model.tensors.get(tensor as usize).and_then(|info| {
        let base = model.image_bases().get(info.shard as usize).copied()?;
        let start = base.saturating_add(info.file_offset);
        Some((start, start.saturating_add(info.bytes)))
    });
    let inside = |span: &Span| {
        span.tensor.is_none()
            && place.is_some_and(|(start, end)| span.offset < end && span.offset.saturating_add(span.bytes) > start)
    };
    let mut reads: Vec<Span> = lane
        .spans
        .iter()
        .filter(|s| s.bytes > 0 && s.phase.moves_bytes() && (s.tensor == Some(tensor) || inside(s)))
        .collect();
    reads.sort_unstable_by_key(|s| (s.start_ns, s.slot));
    ui.detail = Some(Detail { tensor, lane: lane.id, spans: lane.spans.len(), reads });
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use crate::tui::app::Screen;
    use crate::tui::screens::tensors::order::{difference, rate_of};
    use crate::tui::testdata;

    fn ordered(sort: Sort, reversed: bool, filter: &str) -> (UiState, State) {
        let state = testdata::many_tensors(2_000);
        let mut ui = UiState { screen: Screen::Tensors, ..UiState::default() };
        (ui.tensors.sort, ui.tensors.reversed, ui.tensors.filter) = (sort, reversed, filter.to_owned());
        ui.prepare(&state);
        (ui, state)
    }

    #[test]
    fn every_order_holds_each_tensor_once_and_is_one() {
        for sort in
            [Sort::Time, Sort::Overhead, Sort::Moving, Sort::Share, Sort::Rate, Sort::Size, Sort::Name, Sort::File]
        {
            let (mut ui, state) = ordered(sort, false, "");
            let order = ui.tensors.order.clone();
            let mut all = order.clone();
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..2_000), "{sort:?}");
            let run = ui.tensors.run(LaneId(0)).unwrap();
            let names = &state.model.as_ref().unwrap().tensors;
            for pair in order.windows(2) {
                let (a, b) = (&run.rows[pair[0] as usize], &run.rows[pair[1] as usize]);
                let right = match sort {
                    Sort::Time => a.busy_ns() >= b.busy_ns(),
                    Sort::Overhead => a.phases.overhead_ns() >= b.phases.overhead_ns(),
                    Sort::Moving => a.busy_ns() - a.phases.overhead_ns() >= b.busy_ns() - b.phases.overhead_ns(),
                    Sort::Share => a.overhead_fraction() >= b.overhead_fraction(),
                    Sort::Rate => rate_of(a) <= rate_of(b),
                    Sort::Size => a.bytes >= b.bytes,
                    Sort::Name => names[pair[0] as usize].name <= names[pair[1] as usize].name,
                    Sort::File | Sort::Difference => pair[0] < pair[1],
                };
                assert!(right, "{sort:?} {pair:?}");
            }
            ui.tensors.reversed = true;
            ui.prepare(&state);
            assert!(ui.tensors.order.iter().rev().eq(&order), "{sort:?}");
        }
    }

    #[test]
    fn a_filter_finds_the_names_that_contain_it_in_any_case() {
        for (filter, wanted) in [("BLOCKS.19", 111), ("s.7", 111), ("blocks.1999", 1), ("nothing", 0), ("", 2_000)] {
            let (ui, state) = ordered(Sort::Name, false, filter);
            assert_eq!(ui.tensors.order.len(), wanted, "{filter}");
            let names = &state.model.as_ref().unwrap().tensors;
            let contains = |t: &u32| names[*t as usize].name.contains(&filter.to_lowercase());
            assert!(ui.tensors.order.iter().all(contains), "{filter}");
        }
    }

    #[test]
    fn differences_are_sorted_with_their_sign_and_gaps_last() {
        let state = testdata::state(testdata::Scene::Done);
        let mut ui = UiState { screen: Screen::Tensors, ..UiState::default() };
        ui.prepare(&state);
        ui.tensors.sort = Sort::Difference;
        ui.prepare(&state);
        let ours = ui.tensors.run(ui.tensors.lane.unwrap()).unwrap();
        let (_, theirs) = ui.tensors.other().expect("a run to compare with");
        let of = |t: &u32| difference(ours.points[*t as usize].1, theirs.points[*t as usize].1);
        let all: Vec<Option<i64>> = ui.tensors.order.iter().map(of).collect();
        assert!(all.windows(2).all(|pair| pair[0] >= pair[1]), "{all:?}");
        ui.tensors.against = 99_999;
        ui.prepare(&state);
        let none = ui.tensors.rival.is_none();
        assert!(!none || ui.tensors.sort == Sort::Time);
    }

    #[test]
    fn with_another_engine_the_same_tensor_stays_selected() {
        let state = testdata::state(testdata::Scene::Done);
        let mut ui = UiState { screen: Screen::Tensors, ..UiState::default() };
        ui.prepare(&state);
        ui.tensors.at = 7;
        let tensor = ui.tensors.tensor();
        ui.act(crate::tui::keymap::Action::NextEngine, &state);
        ui.prepare(&state);
        assert_eq!(ui.tensors.tensor(), tensor);
        ui.tensors.open = true;
        ui.prepare(&state);
        assert!(ui.tensors.detail.as_ref().is_some_and(|d| !d.reads.is_empty()));
    }
}
