//! The keys of the System screen, with their conditions.

use super::state::{System, Ui, is_past};
use crate::session::State;
use crate::tui::keys::action::Action;
use crate::tui::keys::key::plain;
use crate::tui::keys::rows::{
    chart_left, chart_right, down, filter, hold, next_pane, open, pan_back, pan_forward, reverse, sort, up, zoom_all,
    zoom_in, zoom_out,
};
use crate::tui::keys::table::{Row, bind};
use crossterm::event::KeyCode;

pub(super) const TABLE: &[Row<System>] = &[
    up(has_rows),
    down(has_rows),
    next_pane(|ui, state| ui.ctx.small || (ui.screen.more.get() && is_past(state, ui.ctx))),
    open(lists_processes),
    bind!(Action::Close, [plain(KeyCode::Esc)], "Esc", "back", "go from one process back to all of them", |ui, _| ui
        .screen
        .open),
    sort(lists_processes),
    reverse(lists_processes),
    filter(lists_processes),
    chart_left(shows_charts),
    chart_right(shows_charts),
    zoom_in(shows_charts),
    zoom_out(shows_charts),
    zoom_all(shows_charts),
    pan_back(can_pan),
    pan_forward(can_pan),
    hold(can_hold),
];

fn lists_processes(ui: &Ui<'_>, state: &State) -> bool {
    !ui.screen.open && state.system.back().is_some_and(|(_, sample)| !sample.processes.is_empty())
}

fn has_rows(ui: &Ui<'_>, state: &State) -> bool {
    ui.screen.open || lists_processes(ui, state)
}

/// Whether charts are drawn, so that they can have a cursor.
fn shows_charts(ui: &Ui<'_>, state: &State) -> bool {
    ui.screen.charted.get() && (state.system.len() > 1 || is_past(state, ui.ctx))
}

/// Whether the charts are zoomed, so that they can be moved. In a replay the brackets change the speed, so the label
/// begins with the commas.
fn can_pan(ui: &Ui<'_>, state: &State) -> bool {
    shows_charts(ui, state) && ui.screen.time.zoomed()
}

fn can_hold(ui: &Ui<'_>, state: &State) -> bool {
    let moves = !state.system.is_empty() && (ui.screen.held_ns.is_some() || !ui.ctx.over);
    shows_charts(ui, state) && !ui.ctx.replay && moves
}
