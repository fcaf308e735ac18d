//! The keys of the Tensors screen, with their conditions.

use super::runs::entries_with_spans;
use super::state::{Tensors, Ui};
use crate::session::State;
use crate::tui::keys::action::Action;
use crate::tui::keys::key::{letter, plain};
use crate::tui::keys::table::{Row, bind, down, up};
use crossterm::event::KeyCode;

pub(super) const TABLE: &[Row<Tensors>] = &[
    up(has_rows),
    down(has_rows),
    bind!(Action::NextPane, [plain(KeyCode::Tab)], "Tab", "pane", "the next pane of the screen", |ui, state| {
        ui.ctx.narrow && has_rows(ui, state)
    }),
    bind!(
        Action::Open,
        [plain(KeyCode::Enter)],
        "⏎",
        "open",
        "open or fold a group; on a check, go to its details; on a process or a tensor, look at it alone",
        has_rows
    ),
    bind!(
        Action::NextEngine,
        [plain(KeyCode::Right), letter('l')],
        "←→",
        "engine",
        "the tensors of the next engine (also l)",
        has_rows
    ),
    bind!(
        Action::PreviousEngine,
        [plain(KeyCode::Left), letter('h')],
        "←",
        "",
        "the tensors of the engine before (also h)",
        has_rows
    ),
    bind!(Action::Sort, [letter('s')], "s", "sort", "sort by the next column", has_rows),
    bind!(Action::Reverse, [letter('S')], "S", "", "turn the order around", has_rows),
    bind!(
        Action::Compare,
        [letter('C')],
        "C",
        "compare",
        "compare with the next engine, at last with none",
        |ui, state| has_rows(ui, state) && entries_with_spans(state).len() > 1
    ),
    bind!(Action::Filter, [letter('/')], "/", "filter", "show only what contains some text", |ui, state| {
        has_rows(ui, state) || !ui.screen.filter.is_empty()
    }),
];

fn has_rows(ui: &Ui<'_>, _: &State) -> bool {
    !ui.screen.order.is_empty()
}
