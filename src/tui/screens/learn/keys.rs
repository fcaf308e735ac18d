//! The keys of the Learn screen, with their conditions.

use super::state::{Learn, Ui};
use crate::present::lesson_steps as steps;
use crate::session::State;
use crate::tui::keys::action::Action;
use crate::tui::keys::key::{letter, plain};
use crate::tui::keys::rows::{cancel_race, down, next_pane, up};
use crate::tui::keys::table::{Row, always, bind};
use crossterm::event::KeyCode;

pub(super) const TABLE: &[Row<Learn>] = &[
    up(always),
    down(always),
    next_pane(always),
    cancel_race(|ui, state| ui.ctx.is_live() && state.is_measuring()),
    bind!(Action::PreviousStep, [plain(KeyCode::Left), letter('h')], "←→", "step", "the previous step", always),
    bind!(Action::NextStep, [plain(KeyCode::Right), letter('l')], "→", "", "the next step", always),
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
