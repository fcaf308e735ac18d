//! The keys of the Tensors screen, with their conditions.

use super::runs::entries_with_spans;
use super::state::{Tensors, Ui, watched_report};
use crate::present::watch;
use crate::session::State;
use crate::tui::keys::action::Action;
use crate::tui::keys::key::{letter, plain};
use crate::tui::keys::rows::{down, filter, next_pane, open, reverse, sort, up};
use crate::tui::keys::table::{Row, bind};
use crossterm::event::KeyCode;

pub(super) const TABLE: &[Row<Tensors>] = &[
    up(has_lines),
    down(has_lines),
    next_pane(|ui, state| ui.ctx.narrow && has_rows(ui, state)),
    open(has_rows),
    bind!(
        Action::NextEngine,
        [plain(KeyCode::Right), letter('l')],
        "←→",
        "engine",
        "the tensors of the next engine",
        has_rows
    ),
    bind!(
        Action::PreviousEngine,
        [plain(KeyCode::Left), letter('h')],
        "←",
        "",
        "the tensors of the previous engine",
        has_rows
    ),
    sort(has_lines),
    reverse(has_lines),
    bind!(
        Action::Compare,
        [letter('C')],
        "C",
        "compare",
        "compare with the next engine, or with none after the last",
        |ui, state| has_rows(ui, state) && entries_with_spans(state).len() > 1
    ),
    filter(|ui, state| has_lines(ui, state) || !ui.screen.filter.is_empty()),
];

fn has_lines(ui: &Ui<'_>, state: &State) -> bool {
    has_rows(ui, state) || watched_report(state).is_some_and(|report| watch::tensor_count(report) > 0)
}

fn has_rows(ui: &Ui<'_>, _: &State) -> bool {
    !ui.screen.order.is_empty()
}
