//! The keys of the System screen, with their conditions.

use super::state::{System, Ui, is_past};
use crate::session::State;
use crate::tui::keys::action::Action;
use crate::tui::keys::key::{letter, plain};
use crate::tui::keys::table::{Row, bind, down, up};
use crossterm::event::KeyCode;

pub(super) const TABLE: &[Row<System>] = &[
    up(has_rows),
    down(has_rows),
    bind!(Action::NextPane, [plain(KeyCode::Tab)], "Tab", "pane", "the next pane of the screen", |ui, state| {
        ui.ctx.small || (ui.screen.more.get() && is_past(state, ui.ctx))
    }),
    bind!(
        Action::Open,
        [plain(KeyCode::Enter)],
        "⏎",
        "open",
        "open or fold a group; on a check, go to its details; on a process or a tensor, look at it alone",
        lists_processes
    ),
    bind!(Action::Close, [plain(KeyCode::Esc)], "Esc", "back", "from one process back to all of them", |ui, _| ui
        .screen
        .open),
    bind!(Action::Sort, [letter('s')], "s", "sort", "sort by the next column", lists_processes),
    bind!(Action::Reverse, [letter('S')], "S", "", "turn the order around", lists_processes),
    bind!(Action::Filter, [letter('/')], "/", "filter", "show only what contains some text", lists_processes),
    bind!(
        Action::Left,
        [plain(KeyCode::Left), letter('h')],
        "←→",
        "read chart",
        "move the cursor in the charts (also h)",
        shows_charts
    ),
    bind!(
        Action::Right,
        [plain(KeyCode::Right), letter('l')],
        "→",
        "",
        "move the cursor in the charts (also l)",
        shows_charts
    ),
    bind!(
        Action::ZoomIn,
        [letter('+'), letter('=')],
        "+ - 0",
        "zoom",
        "a shorter time in the charts, around the cursor",
        shows_charts
    ),
    bind!(Action::ZoomOut, [letter('-')], "-", "", "a longer time in the charts", shows_charts),
    bind!(Action::ZoomAll, [letter('0')], "0", "", "the complete time in the charts", shows_charts),
    bind!(
        Action::PanBack,
        [letter(','), letter('[')],
        ", .",
        "pan",
        "charts: earlier; at the right end the charts follow what happens (also [ in a live session)",
        can_pan
    ),
    bind!(Action::PanForward, [letter('.'), letter(']')], ".", "", "charts: later (also ] in a live session)", can_pan),
    bind!(
        Action::Hold,
        [letter(' ')],
        "space",
        "hold",
        "hold the charts still while the session goes on, and let go",
        can_hold
    ),
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
