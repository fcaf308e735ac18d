//! The runs whose tensors are shown and compared, and the selected tensor. They are updated when the choice changes,
//! and not in every frame.

use super::order::put_in_order;
use super::state::{Detail, Tensors};
use crate::analysis::crossover;
use crate::core::{Engine, ModelInfo, Span};
use crate::present::engine_rows::group_of;
use crate::present::{EngineRow, row_groups};
use crate::session::{Lane, State};
use crate::tui::context::Context;
use crate::tui::jobs::lane::LaneJob;
use crate::tui::jobs::queue::Job;
use crate::tui::jobs::tensor_rows::Sort;
use crate::tui::selection::selected_entry;

fn with_spans<'s>(entry: &EngineRow<'s>) -> Option<&'s Lane> {
    entry.typical().filter(|lane| !lane.spans.is_empty())
}

/// The indices of the entries whose tensors are known. Entries are numbered as on the Race screen.
pub(super) fn entries_with_spans(state: &State) -> Vec<usize> {
    let groups = row_groups(state);
    let entries = groups.iter().flat_map(|h| &h.rows).enumerate();
    entries.filter(|(_, e)| with_spans(e).is_some()).map(|(i, _)| i).collect()
}

/// The entry whose tensors are shown: the user's choice, or else an engine that reads tensor by tensor, because the
/// screen is about the overhead per tensor, or else the first entry with a timeline.
pub(super) fn entry_index(state: &State, ctx: &Context) -> Option<usize> {
    let known = entries_with_spans(state);
    let groups = row_groups(state);
    let pays = || groups.iter().flat_map(|h| &h.rows).position(|e| *e.engine == Engine::GdsPerTensor);
    let selected = match ctx.entry {
        None => pays().filter(|at| known.contains(at)).or_else(|| selected_entry(state, ctx))?,
        Some(_) => selected_entry(state, ctx)?,
    };
    known.contains(&selected).then_some(selected).or_else(|| known.first().copied())
}

/// The run whose tensors are shown, and the run with which it is compared.
fn chosen<'s>(screen: &Tensors, ctx: &Context, state: &'s State) -> Option<(&'s Lane, Option<&'s Lane>)> {
    let groups = row_groups(state);
    let entry = entry_index(state, ctx).and_then(|at| groups.iter().flat_map(|h| &h.rows).nth(at))?;
    let lane = with_spans(entry)?;
    // Runs are compared with mmap, because it is the usual method. mmap itself is compared with the fastest other
    // run.
    let mut others: Vec<&EngineRow<'_>> = group_of(&groups, lane)
        .into_iter()
        .flat_map(|h| h.ranked())
        .filter(|e| e.engine != entry.engine && with_spans(e).is_some())
        .collect();
    others.sort_by_key(|e| *e.engine != Engine::Mmap);
    let rival = others.get(screen.against % (others.len() + 1)).copied().and_then(with_spans);
    Some((lane, rival))
}

/// The jobs whose results the screen needs. Results of runs that are no longer shown are removed.
pub(super) fn jobs(screen: &mut Tensors, ctx: &Context, state: &State) -> Vec<Job> {
    let Some((lane, rival)) = chosen(screen, ctx, state) else { return Vec::new() };
    let mut jobs = Vec::new();
    for lane in std::iter::once(lane).chain(rival) {
        if screen.run(lane.id).is_none_or(|run| run.spans != lane.spans.len()) {
            jobs.push(Job::Lane(Box::new(LaneJob::of(state, lane, true))));
        }
    }
    if let Some(model) = state.model_of(lane)
        && !screen.names.is_of(&model.path, model.tensors.len())
    {
        jobs.push(Job::Names(model.clone()));
    }
    let shown = [Some(lane.id), rival.map(|lane| lane.id)];
    screen.runs.retain(|id, _| shown.contains(&Some(*id)));
    jobs
}

/// Updates the shown run, the run for comparison, and the order.
pub(super) fn prepare(screen: &mut Tensors, ctx: &Context, state: &State) {
    let chosen = chosen(screen, ctx, state);
    let Some((lane, rival, model)) = chosen.and_then(|(lane, rival)| Some((lane, rival, state.model_of(lane)?))) else {
        if screen.lane.is_some() {
            (screen.lane, screen.key, screen.detail) = (None, None, None);
            screen.order.clear();
        }
        return;
    };
    screen.lane = Some(lane.id);
    let cost = |lane: &Lane| screen.run(lane.id).and_then(|run| run.cost.as_ref());
    screen.rival = rival.map(|other| (other.id, cost(lane).zip(cost(other)).and_then(|(a, b)| crossover(a, b))));
    if screen.rival.is_none() && screen.sort == Sort::Difference {
        screen.sort = Sort::Time;
    }
    if !screen.names.is_of(&model.path, model.tensors.len()) {
        screen.order.clear();
        return;
    }
    put_in_order(screen, lane);
    look_at(screen, model, lane);
}

/// Reads the spans of the open tensor.
fn look_at(screen: &mut Tensors, model: &ModelInfo, lane: &Lane) {
    let Some(tensor) = screen.tensor().filter(|_| screen.open) else {
        screen.detail = None;
        return;
    };
    let known = |d: &Detail| d.tensor == tensor && d.lane == lane.id && d.spans == lane.spans.len();
    if screen.detail.as_ref().is_some_and(known) {
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
    screen.detail = Some(Detail { tensor, lane: lane.id, spans: lane.spans.len(), reads });
}
