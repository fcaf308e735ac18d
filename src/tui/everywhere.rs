//! The keys that have the same meaning on every screen, with their conditions.

use super::context::Ui;
use super::keys::action::Action;
use super::keys::key::{control, letter, plain};
use super::keys::rows::{cancel_race, copy, fix};
use super::keys::table::{Row, always, bind};
use super::remedy::next_open;
use super::screen_id::ScreenId;
use crate::session::State;
use crossterm::event::KeyCode;

/// The table of these keys. Its state is whether a sheet covers the screen.
pub(crate) const TABLE: &[Row<bool>] = &[
    cancel_race(|ui, state| uncovered(ui, state) && ui.ctx.is_live() && state.is_measuring()).footer(""),
    fix(|ui, state| uncovered(ui, state) && next_open(state, state.verdicts.first(), None).is_some()).footer(""),
    bind!(
        Action::Export,
        [letter('x')],
        "x",
        "",
        "export the report as files: JSON, Markdown, HTML, CSV, trace",
        |ui, state| uncovered(ui, state) && ui.ctx.can_export
    ),
    copy(uncovered),
    bind!(Action::Pause, [letter(' '), letter('p')], "space", "pause", "in a replay: pause or continue", replaying),
    bind!(
        Action::Slower,
        [letter('[')],
        "[ ]",
        "speed",
        "in a replay: slower, down to a sixteenth of real time",
        replaying
    ),
    bind!(Action::Faster, [letter(']')], "]", "", "in a replay: faster, up to sixteen times", replaying),
    bind!(Action::SeekBack, [plain(KeyCode::Left)], "←→", "1 s", "in a replay: go back one second", seeks),
    bind!(Action::SeekForward, [plain(KeyCode::Right)], "→", "", "in a replay: go forward one second", seeks),
    bind!(
        Action::PreviousLoad,
        [letter('<')],
        "< >",
        "load",
        "in a replay: go to the start of this load, or of the previous one",
        has_loads
    ),
    bind!(Action::NextLoad, [letter('>')], ">", "", "in a replay: go to the start of the next load", has_loads),
    bind!(Action::ShowResult, [letter('E')], "E", "result", "in a replay: go to the end of the last load", has_loads),
    bind!(Action::PickSpeed, [letter('V')], "V", "", "in a replay: choose the speed from a list", seeks),
    bind!(Action::Loop, [letter('O')], "O", "", "in a replay: start again at the end, or stop there", seeks),
    bind!(Action::Screen(ScreenId::Environment), [letter('1')], "1", "", "checks, verdict and fixes", always),
    bind!(
        Action::Screen(ScreenId::Race),
        [letter('2')],
        "2",
        "",
        "engines compared by time, bandwidth and memory",
        always
    ),
    bind!(Action::Screen(ScreenId::Tensors), [letter('3')], "3", "", "overhead of each tensor", always),
    bind!(Action::Screen(ScreenId::System), [letter('4')], "4", "", "processes that use GPUs and storage now", always),
    bind!(Action::Screen(ScreenId::Learn), [letter('5')], "5", "", "why GDS can be slower for a small model", always),
    bind!(Action::Screen(ScreenId::Report), [letter('6')], "6", "", "contents of an export", always),
    bind!(Action::PageUp, [plain(KeyCode::PageUp), control('b')], "PgUp", "", "a page up", always),
    bind!(Action::PageDown, [plain(KeyCode::PageDown), control('f')], "PgDn", "", "a page down", always),
    bind!(Action::First, [letter('g'), plain(KeyCode::Home)], "g", "", "the first line", always),
    bind!(Action::Last, [letter('G'), plain(KeyCode::End)], "G", "", "the last line", always),
    bind!(Action::Redraw, [control('l')], "^L", "", "redraw the screen", always),
    bind!(
        Action::Suspend,
        [control('z')],
        "^Z",
        "",
        "suspend gds-top and return to the shell; fg continues it",
        always
    ),
    bind!(Action::Interrupt, [control('c')], "^C", "", "stop everything and quit", always),
    bind!(
        Action::Commands,
        [letter(':'), control('p')],
        ":",
        "commands",
        "find a command, a screen, a theme, a check or a tensor by a few letters",
        always
    ),
    bind!(Action::Help, [letter('?')], "?", "help", "this help", always),
    bind!(Action::Quit, [letter('q')], "q", "quit", "quit; asks first if a race or a fix is running", |ui, state| {
        !watches(ui, state)
    }),
    bind!(
        Action::Quit,
        [letter('q')],
        "q",
        "quit",
        "in 'watch': quit, and end the program if gds-top started it",
        watches
    ),
];

fn uncovered(ui: &Ui<'_, bool>, _: &State) -> bool {
    !*ui.screen
}

/// Whether a seek is possible, because the times of the recording are known.
fn seeks(ui: &Ui<'_, bool>, _: &State) -> bool {
    ui.ctx.timeline.is_some()
}

/// Whether a seek to a load is possible. A recording of a watched program or of a storage grid has none.
fn has_loads(ui: &Ui<'_, bool>, _: &State) -> bool {
    ui.ctx.timeline.as_ref().is_some_and(|timeline| !timeline.loads.is_empty())
}

/// Whether a program is being watched.
fn watches(ui: &Ui<'_, bool>, state: &State) -> bool {
    ui.ctx.is_live() && state.watch.is_some()
}

fn replaying(ui: &Ui<'_, bool>, _: &State) -> bool {
    ui.ctx.replay && !ui.ctx.over
}
