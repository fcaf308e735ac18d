//! The keys of the Learn screen, with their conditions.

use super::state::{Learn, Ui};
use super::steps;
use crate::session::State;
use crate::tui::keys::action::Action;
use crate::tui::keys::key::{letter, plain};
use crate::tui::keys::table::{Row, always, bind, down, up};
use crossterm::event::KeyCode;

pub(super) const TABLE: &[Row<Learn>] = &[
    up(always),
    down(always),
    bind!(Action::NextPane, [plain(KeyCode::Tab)], "Tab", "pane", "the next pane of the screen", always),
    bind!(Action::CancelRace, [letter('c')], "c", "stop", "stop the race", |ui, state| ui.ctx.is_live()
        && state.is_measuring()),
    bind!(Action::PreviousStep, [plain(KeyCode::Left), letter('h')], "←→", "step", "the step before (also h)", always),
    bind!(Action::NextStep, [plain(KeyCode::Right), letter('l')], "→", "", "the next step (also l)", always),
    // Only some figures are animated.
    bind!(Action::Play, [letter(' ')], "space", "play", "play, pause or play again", |ui, _| {
        steps::figure(ui.screen.step).moves()
    }),
    bind!(
        Action::SliderUp,
        [letter('+'), letter('=')],
        "+ -",
        "slider",
        "move the slider of the simulation up; ↑↓ choose it",
        always
    ),
    bind!(Action::SliderDown, [letter('-')], "-", "", "move the slider down", always),
    bind!(
        Action::Measure,
        [letter('m')],
        "m",
        "measure",
        "measure it on this machine, with this session's model",
        can_measure
    ),
];

fn can_measure(ui: &Ui<'_>, state: &State) -> bool {
    ui.ctx.is_live() && (state.model.is_some() || !state.race_plans.is_empty()) && !state.is_measuring()
}
