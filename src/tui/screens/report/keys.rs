//! The keys of the Report screen, with their conditions.

use super::state::{Report, Ui};
use crate::session::State;
use crate::tui::keys::action::Action;
use crate::tui::keys::key::letter;
use crate::tui::keys::rows::{down, up};
use crate::tui::keys::table::{Row, always, bind};

pub(super) const TABLE: &[Row<Report>] = &[
    up(always),
    down(always),
    bind!(Action::Export, [letter('x')], "x", "export", "write the report as files", can_export),
    bind!(
        Action::Baseline,
        [letter('b')],
        "b",
        "baseline",
        "save this report as the baseline with which later races are compared (--baseline)",
        |ui, state| can_export(ui, state) && !state.lanes.is_empty()
    ),
];

fn can_export(ui: &Ui<'_>, _: &State) -> bool {
    ui.ctx.can_export
}
