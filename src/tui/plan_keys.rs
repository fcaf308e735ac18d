//! When the keys of plans, and of reads that go layer by layer, do something.

use super::app::{Sheet, UiState};
use super::keymap::{has_cursor, on_race};
use super::screens::{layers, plans};
use crate::session::State;

pub(super) fn in_plans(_: &State, ui: &UiState) -> bool {
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
