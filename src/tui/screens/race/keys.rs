//! The keys of the Race screen and of its plans, with their conditions.

use super::layers;
use super::plans::{self, Row as PlanRow};
use super::state::{Race, Ui};
use crate::present::engine_rows::unavailable;
use crate::session::State;
use crate::tui::keys::action::Action;
use crate::tui::keys::key::{letter, plain};
use crate::tui::keys::rows::{
    cancel_race, chart_left, chart_right, close, copy, down, expand, hold, next_pane, pan_back, pan_forward, up,
    zoom_all, zoom_in, zoom_out,
};
use crate::tui::keys::table::{Row, always, bind};
use crossterm::event::KeyCode;

pub(super) const TABLE: &[Row<Race>] = &[
    up(has_rows),
    down(has_rows),
    next_pane(|ui, state| ui.ctx.small && has_charts(ui, state)),
    bind!(Action::RaceAgain, [letter('R')], "R", "race", "run the race again", can_race),
    bind!(
        Action::Plans,
        [letter('P')],
        "P",
        "plans",
        "show everything that can be run here (loads, KV caches, the storage grid), and the earlier runs of this session",
        has_plans
    ),
    cancel_race(|ui, state| ui.ctx.is_live() && state.is_measuring()),
    bind!(Action::Left, [plain(KeyCode::Left), letter('h')], "←→", "cell", "the cell to the left", on_grid),
    bind!(Action::Right, [plain(KeyCode::Right), letter('l')], "→", "", "the cell to the right", on_grid),
    bind!(
        Action::Left,
        [plain(KeyCode::Left), letter('h')],
        "←→",
        "layer",
        "the previous layer of a read layer by layer",
        on_layers
    ),
    bind!(Action::Right, [plain(KeyCode::Right), letter('l')], "→", "", "the next layer", on_layers),
    bind!(
        Action::Layers,
        [letter('L')],
        "L",
        "layers or charts",
        "for a read layer by layer: show its layers instead of the charts, and back",
        has_layers
    ),
    chart_left(reads_charts),
    chart_right(reads_charts),
    zoom_in(shows_charts),
    zoom_out(shows_charts),
    zoom_all(shows_charts),
    pan_back(can_pan),
    pan_forward(can_pan),
    bind!(
        Action::OlderPlan,
        [letter('[')],
        "[ ]",
        "older, newer",
        "the results of the previous plan, if several ran in this session",
        several_plans
    ),
    bind!(Action::NewerPlan, [letter(']')], "]", "", "the results of the next plan", several_plans),
    hold(can_hold),
    expand(|ui, state| has_charts(ui, state) && ui.screen.expanded).footer("back"),
    expand(hides_charts).footer("charts"),
    expand(|ui, state| has_charts(ui, state) && !ui.screen.expanded && !hides_charts(ui, state)),
    copy(always),
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
    close(always),
    bind!(
        Action::RunPlan,
        [plain(KeyCode::Enter)],
        "⏎",
        "run",
        "in the plans: run the selected one, which writes the listed files",
        |ui, state| matches!(row(ui, state), Some(PlanRow::Offer(plan)) if plans::obstacle(state, ui.ctx, plan).is_none())
    ),
    bind!(
        Action::ShowPlan,
        [plain(KeyCode::Enter)],
        "⏎",
        "show",
        "in the plans: show the selected earlier run",
        |ui, state| { matches!(row(ui, state), Some(PlanRow::Ran(_))) }
    ),
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

/// Whether something can be selected: a run, a cell of the grid, or an engine that cannot run.
fn has_rows(ui: &Ui<'_>, state: &State) -> bool {
    has_charts(ui, state) || on_grid(ui, state) || !unavailable(state).is_empty()
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
