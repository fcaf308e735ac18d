//! The keys of the Race screen and of its plans, with their conditions.

use super::layers;
use super::plans::{self, Row as PlanRow};
use super::state::{Race, Ui};
use crate::session::State;
use crate::tui::keys::action::Action;
use crate::tui::keys::key::{letter, plain};
use crate::tui::keys::table::{Row, always, bind, down, up};
use crossterm::event::KeyCode;

pub(super) const TABLE: &[Row<Race>] = &[
    up(always),
    down(always),
    bind!(Action::NextPane, [plain(KeyCode::Tab)], "Tab", "pane", "the next pane of the screen", |ui, _| ui.ctx.small),
    bind!(Action::RaceAgain, [letter('R')], "R", "race", "run the race again", can_race),
    bind!(
        Action::Plans,
        [letter('P')],
        "P",
        "plans",
        "everything that can be run here (loads, KV caches, the storage grid), and the earlier runs of this session",
        has_plans
    ),
    bind!(Action::CancelRace, [letter('c')], "c", "stop", "stop the race", |ui, state| ui.ctx.is_live()
        && state.is_measuring()),
    bind!(Action::Left, [plain(KeyCode::Left), letter('h')], "←→", "cell", "the cell to the left (also h)", on_grid),
    bind!(Action::Right, [plain(KeyCode::Right), letter('l')], "→", "", "the cell to the right (also l)", on_grid),
    bind!(
        Action::Left,
        [plain(KeyCode::Left), letter('h')],
        "←→",
        "layer",
        "the layer before, of a read that goes layer by layer (also h)",
        on_layers
    ),
    bind!(Action::Right, [plain(KeyCode::Right), letter('l')], "→", "", "the next layer (also l)", on_layers),
    bind!(
        Action::Layers,
        [letter('L')],
        "L",
        "layers or charts",
        "for a read that goes layer by layer: its layers in place of the charts, and back",
        has_layers
    ),
    bind!(
        Action::Left,
        [plain(KeyCode::Left), letter('h')],
        "←→",
        "read chart",
        "move the cursor in the charts (also h)",
        reads_charts
    ),
    bind!(
        Action::Right,
        [plain(KeyCode::Right), letter('l')],
        "→",
        "",
        "move the cursor in the charts (also l)",
        reads_charts
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
        Action::OlderPlan,
        [letter('[')],
        "[ ]",
        "older, newer",
        "the results of the previous plan, if several ran in this session",
        several_plans
    ),
    bind!(Action::NewerPlan, [letter(']')], "]", "", "the results of the next plan", several_plans),
    bind!(
        Action::Hold,
        [letter(' ')],
        "space",
        "hold",
        "hold the charts still while the session goes on, and let go",
        can_hold
    ),
    bind!(Action::Expand, [letter('e')], "e", "back", "one chart on the full screen, and back", |ui, state| {
        has_charts(ui, state) && ui.screen.expanded
    }),
    bind!(Action::Expand, [letter('e')], "e", "charts", "one chart on the full screen, and back", hides_charts),
    bind!(Action::Expand, [letter('e')], "e", "expand", "one chart on the full screen, and back", |ui, state| {
        has_charts(ui, state) && !ui.screen.expanded && !hides_charts(ui, state)
    }),
    bind!(
        Action::Copy,
        [letter('y')],
        "y",
        "copy",
        "copy the answer and the selected line to the clipboard, over SSH too",
        always
    ),
    bind!(
        Action::NextChart,
        [letter('n')],
        "n",
        "chart",
        "the next chart, if not all fit; the last one shows the phases",
        |ui, state| has_charts(ui, state) && (ui.screen.expanded || ui.screen.more.get())
    ),
];

/// The keys of the plans.
pub(super) const PLANS: &[Row<Race>] = &[
    up(always),
    down(always),
    bind!(Action::Close, [plain(KeyCode::Esc)], "Esc", "close", "close a sheet, end a filter", always),
    bind!(
        Action::RunPlan,
        [plain(KeyCode::Enter)],
        "⏎",
        "run",
        "in the plans: run the selected one; it writes what is said there",
        |ui, state| matches!(row(ui, state), Some(PlanRow::Offer(plan)) if plans::obstacle(state, ui.ctx, plan).is_none())
    ),
    bind!(Action::ShowPlan, [plain(KeyCode::Enter)], "⏎", "show", "in the plans: show what ran", |ui, state| {
        matches!(row(ui, state), Some(PlanRow::Ran(_)))
    }),
];

/// The selected line of the plans.
fn row<'s>(ui: &Ui<'_>, state: &'s State) -> Option<PlanRow<'s>> {
    plans::rows(state).get(ui.screen.plans?).copied()
}

fn can_race(ui: &Ui<'_>, state: &State) -> bool {
    ui.ctx.is_live()
        && ui.ctx.plan.is_none()
        && !state.is_measuring()
        && (!state.lanes.is_empty() || state.grid.is_some())
}

fn has_plans(ui: &Ui<'_>, state: &State) -> bool {
    !state.race_plans.is_empty() || ui.ctx.earlier > 0
}

/// Whether brackets switch between plans. In a replay they change the speed, and the list is used instead.
fn several_plans(ui: &Ui<'_>, _: &State) -> bool {
    ui.ctx.earlier > 0 && !ui.ctx.replay
}

fn on_grid(_: &Ui<'_>, state: &State) -> bool {
    state.grid.is_some() && state.lanes.is_empty()
}

fn has_layers(ui: &Ui<'_>, state: &State) -> bool {
    layers::shown(state, ui).is_some()
}

pub(super) fn on_layers(ui: &Ui<'_>, state: &State) -> bool {
    has_layers(ui, state) && layers::takes_arrows(ui)
}

fn has_charts(_: &Ui<'_>, state: &State) -> bool {
    !state.lanes.is_empty()
}

/// Whether the charts are drawn, so that they can have a cursor.
fn shows_charts(ui: &Ui<'_>, state: &State) -> bool {
    has_charts(ui, state) && ui.screen.charted.get()
}

/// Whether the charts are hidden, because there is no space next to the runs.
fn hides_charts(ui: &Ui<'_>, state: &State) -> bool {
    has_charts(ui, state) && !ui.screen.charted.get() && !ui.screen.expanded
}

fn reads_charts(ui: &Ui<'_>, state: &State) -> bool {
    shows_charts(ui, state) && !on_layers(ui, state)
}

/// Whether the charts are zoomed, so that they can be moved. In a replay the brackets change the speed, so the label
/// begins with the commas.
fn can_pan(ui: &Ui<'_>, state: &State) -> bool {
    shows_charts(ui, state) && ui.screen.time.zoomed()
}

fn can_hold(ui: &Ui<'_>, state: &State) -> bool {
    let moves = ui.screen.held_ns.is_some() || state.running_lane().is_some();
    shows_charts(ui, state) && !ui.ctx.replay && moves
}
