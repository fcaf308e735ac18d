//! When a key does something: the conditions of the table of keys that are neither a sheet's nor a plan's.

use super::app::{Screen, UiState};
use super::plan_keys::{in_process, lists_processes};
use super::screens::system::view::is_past;
use super::screens::tensors::runs::entries_with_spans;
use crate::session::State;

pub(super) fn always(_: &State, _: &UiState) -> bool {
    true
}

pub(super) fn bare(_: &State, ui: &UiState) -> bool {
    ui.sheet.is_none()
}

pub(super) fn on_environment(state: &State, ui: &UiState) -> bool {
    bare(state, ui) && ui.screen == Screen::Environment
}

pub(super) fn on_race(state: &State, ui: &UiState) -> bool {
    bare(state, ui) && ui.screen == Screen::Race
}

pub(super) fn on_tensors(state: &State, ui: &UiState) -> bool {
    bare(state, ui) && ui.screen == Screen::Tensors && !ui.tensors.order.is_empty()
}

pub(super) fn can_compare(state: &State, ui: &UiState) -> bool {
    on_tensors(state, ui) && entries_with_spans(state).len() > 1
}

pub(super) fn can_recheck(state: &State, ui: &UiState) -> bool {
    on_environment(state, ui) && !ui.replay && !ui.over
}

pub(super) fn replaying(_: &State, ui: &UiState) -> bool {
    ui.replay && !ui.over
}

pub(super) fn racing(state: &State, ui: &UiState) -> bool {
    bare(state, ui) && !ui.replay && !ui.over && state.is_measuring()
}

pub(super) fn racing_here(state: &State, ui: &UiState) -> bool {
    racing(state, ui) && matches!(ui.screen, Screen::Race | Screen::Learn)
}

pub(super) fn has_panes(state: &State, ui: &UiState) -> bool {
    bare(state, ui)
        && ((ui.screen == Screen::Environment && !state.checks.is_empty())
            || (ui.small && matches!(ui.screen, Screen::Race | Screen::System))
            || ui.screen == Screen::Learn
            || (ui.screen == Screen::System && ui.system.more.get() && is_past(state, ui))
            || (ui.screen == Screen::Tensors && ui.narrow && !ui.tensors.order.is_empty()))
}

/// Something to move in: all screens but System without its table of processes.
pub(super) fn has_rows(state: &State, ui: &UiState) -> bool {
    match ui.screen {
        _ if !bare(state, ui) => true,
        Screen::System => lists_processes(state, ui) || in_process(state, ui),
        Screen::Environment => !state.checks.is_empty(),
        Screen::Tensors => !ui.tensors.order.is_empty(),
        _ => true,
    }
}

/// Charts of the race.
pub(super) fn has_charts(state: &State, ui: &UiState) -> bool {
    on_race(state, ui) && !state.lanes.is_empty()
}

/// Charts of the race that are on the screen.
fn shows_charts(state: &State, ui: &UiState) -> bool {
    has_charts(state, ui) && ui.race.charted.get()
}

/// There was no room for charts beside the lanes.
pub(super) fn hides_charts(state: &State, ui: &UiState) -> bool {
    has_charts(state, ui) && !ui.race.charted.get() && !ui.race.expanded
}

pub(super) fn expands(state: &State, ui: &UiState) -> bool {
    has_charts(state, ui) && !ui.race.expanded && !hides_charts(state, ui)
}

pub(super) fn expanded(state: &State, ui: &UiState) -> bool {
    has_charts(state, ui) && ui.race.expanded
}

pub(super) fn more_charts(state: &State, ui: &UiState) -> bool {
    has_charts(state, ui) && (ui.race.expanded || ui.race.more.get())
}

/// Charts over time that take a cursor: those of the race, and of System where there is room for them.
pub(super) fn has_cursor(state: &State, ui: &UiState) -> bool {
    let on_system = bare(state, ui) && ui.screen == Screen::System && ui.system.charted.get();
    shows_charts(state, ui) || (on_system && (state.system.len() > 1 || is_past(state, ui)))
}

/// A zoomed chart has an earlier and a later; in a replay the brackets are the speed, so the commas are first there.
pub(super) fn pannable(state: &State, ui: &UiState) -> bool {
    let time = if ui.screen == Screen::System { &ui.system.time } else { &ui.race.time };
    has_cursor(state, ui) && time.zoomed()
}

pub(super) fn can_hold(state: &State, ui: &UiState) -> bool {
    let moves = match ui.screen {
        Screen::System => !state.system.is_empty() && (ui.system.held_ns.is_some() || !ui.over),
        _ => ui.race.held_ns.is_some() || state.running_lane().is_some(),
    };
    has_cursor(state, ui) && !ui.replay && moves
}

pub(super) fn on_learn(state: &State, ui: &UiState) -> bool {
    bare(state, ui) && ui.screen == Screen::Learn
}

/// The steps with a figure in which time passes.
pub(super) fn plays_step(state: &State, ui: &UiState) -> bool {
    on_learn(state, ui) && super::screens::learn::steps::figure(ui.learn.step).moves()
}

pub(super) fn can_export(_: &State, ui: &UiState) -> bool {
    ui.can_export && ui.sheet.is_none()
}

pub(super) fn export_first(state: &State, ui: &UiState) -> bool {
    can_export(state, ui) && ui.screen == Screen::Report
}
