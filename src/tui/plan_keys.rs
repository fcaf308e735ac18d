//! When keys do something that depends on what is there: plans, layers of a read, processes, a list to go into.

use super::app::{Pane, Screen, Sheet, UiState};
use super::screens::race::{layers, plans};
use super::when::{bare, has_cursor, on_environment, on_learn, on_race, on_tensors};
use crate::session::State;

fn in_plans(_: &State, ui: &UiState) -> bool {
    ui.sheet == Some(Sheet::Plans)
}

pub(super) fn at_offer(state: &State, ui: &UiState) -> bool {
    in_plans(state, ui)
        && matches!(plans::rows(state).get(ui.plan_at), Some(plans::Row::Offer(plan)) if plans::obstacle(state, ui, plan).is_none())
}

pub(super) fn at_ran(state: &State, ui: &UiState) -> bool {
    in_plans(state, ui) && matches!(plans::rows(state).get(ui.plan_at), Some(plans::Row::Ran(_)))
}

pub(super) fn has_plans(state: &State, ui: &UiState) -> bool {
    on_race(state, ui) && (!state.race_plans.is_empty() || ui.race.earlier > 0)
}

/// In a replay the brackets are the speed; there the list leads to the other plans.
pub(super) fn several_plans(state: &State, ui: &UiState) -> bool {
    on_race(state, ui) && ui.race.earlier > 0 && !ui.replay
}

pub(super) fn has_layers(state: &State, ui: &UiState) -> bool {
    on_race(state, ui) && layers::shown(state, ui).is_some()
}

pub(super) fn on_layers(state: &State, ui: &UiState) -> bool {
    has_layers(state, ui) && layers::takes_arrows(ui)
}

pub(super) fn reads_charts(state: &State, ui: &UiState) -> bool {
    has_cursor(state, ui) && !on_layers(state, ui)
}

pub(super) fn on_grid(state: &State, ui: &UiState) -> bool {
    on_race(state, ui) && state.grid.is_some() && state.lanes.is_empty()
}

pub(super) fn can_race(state: &State, ui: &UiState) -> bool {
    on_race(state, ui)
        && !ui.replay
        && !ui.over
        && ui.race.shown.is_none()
        && !state.is_measuring()
        && (!state.lanes.is_empty() || state.grid.is_some())
}

pub(super) fn lists_processes(state: &State, ui: &UiState) -> bool {
    let some = state.system.back().is_some_and(|(_, sample)| !sample.processes.is_empty());
    bare(state, ui) && ui.screen == Screen::System && !ui.system.open && some
}

pub(super) fn sorts(state: &State, ui: &UiState) -> bool {
    on_tensors(state, ui) || lists_processes(state, ui)
}

pub(super) fn has_filter(state: &State, ui: &UiState) -> bool {
    (on_environment(state, ui) && !state.checks.is_empty())
        || (bare(state, ui)
            && ui.screen == Screen::Tensors
            && !(ui.tensors.order.is_empty() && ui.tensors.filter.is_empty()))
        || lists_processes(state, ui)
}

pub(super) fn in_process(state: &State, ui: &UiState) -> bool {
    bare(state, ui) && ui.screen == Screen::System && ui.system.open
}

pub(super) fn opens(state: &State, ui: &UiState) -> bool {
    (bare(state, ui)
        && ui.screen == Screen::System
        && !ui.system.open
        && state.system.back().is_some_and(|(_, s)| !s.processes.is_empty()))
        || on_environment(state, ui) && ui.environment.pane == Pane::List && !state.checks.is_empty()
        || on_tensors(state, ui)
}

pub(super) fn can_measure(state: &State, ui: &UiState) -> bool {
    on_learn(state, ui)
        && !ui.replay
        && !ui.over
        && (state.model.is_some() || !state.race_plans.is_empty())
        && !state.is_measuring()
}
