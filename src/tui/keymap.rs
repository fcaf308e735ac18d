//! One table of actions. The footer, the help and the dispatch of keys are all read from it, so they cannot disagree.

use super::app::{Screen, UiState};
pub(crate) use super::keys::Binding;
use super::plan_keys::{
    at_offer, at_ran, can_measure, can_race, has_filter, has_layers, has_plans, in_process, on_grid, on_layers, opens,
    reads_charts, several_plans, sorts,
};
use super::sheet_keys::{
    asks_for_undo, can_apply, can_preview, can_undo, copies_sheet, finds_undo, guide_opens, guide_rechecks, has_fix,
    has_guide, in_sheet, several_verdicts,
};
use super::when::{
    always, bare, can_compare, can_export, can_hold, can_recheck, expanded, expands, export_first, has_cursor,
    has_panes, has_rows, hides_charts, more_charts, on_environment, on_learn, on_tensors, pannable, plays_step, racing,
    racing_here, replaying,
};
use crate::session::State;
use crossterm::event::{KeyCode, KeyEvent};

/// What a key can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    First,
    Last,
    Open,
    NextPane,
    Screen(Screen),
    Fix,
    Guide,
    Recheck,
    Filter,
    NextVerdict,
    Apply,
    DryRun,
    Undo,
    Close,
    Pause,
    Faster,
    Slower,
    RaceAgain,
    Plans,
    RunPlan,
    ShowPlan,
    OlderPlan,
    NewerPlan,
    Layers,
    CancelRace,
    NextChart,
    NextEngine,
    PreviousEngine,
    Sort,
    Reverse,
    Compare,
    ZoomIn,
    ZoomOut,
    ZoomAll,
    PanBack,
    PanForward,
    Hold,
    Expand,
    NextStep,
    PreviousStep,
    Play,
    SliderUp,
    SliderDown,
    Measure,
    Copy,
    CopyCommands,
    Export,
    Baseline,
    Help,
    Redraw,
    Suspend,
    Interrupt,
    Quit,
}

/// A key without its accidents (shift is part of the character).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(super) code: KeyCode,
    pub(super) control: bool,
}

const fn plain(code: KeyCode) -> Key {
    Key { code, control: false }
}

const fn letter(c: char) -> Key {
    plain(KeyCode::Char(c))
}

const fn control(c: char) -> Key {
    Key { code: KeyCode::Char(c), control: true }
}

/// A line of the table: an action with the keys that it has unless the settings say otherwise.
pub(super) struct Row {
    pub(super) action: Action,
    pub(super) keys: &'static [Key],
    /// The keys as shown.
    pub(super) label: &'static str,
    /// One or two words for the footer; empty keeps it out of there.
    pub(super) short: &'static str,
    /// A sentence for the help.
    pub(super) help: &'static str,
    /// Whether it does something now.
    pub(super) when: fn(&State, &UiState) -> bool,
}

macro_rules! bind {
    ($action:expr, [$($key:expr),*], $label:literal, $short:literal, $help:literal, $when:expr) => {
        Row { action: $action, keys: &[$($key),*], label: $label, short: $short, help: $help, when: $when }
    };
}

/// The table, in the order of the footer.
pub(super) const TABLE: &[Row] = &[
    bind!(Action::Up, [plain(KeyCode::Up), letter('k')], "↑↓", "move", "move up (also k)", has_rows),
    bind!(Action::Down, [plain(KeyCode::Down), letter('j')], "↓", "", "move down (also j)", has_rows),
    bind!(Action::NextPane, [plain(KeyCode::Tab)], "Tab", "pane", "the next pane of the screen", has_panes),
    bind!(
        Action::Open,
        [plain(KeyCode::Enter)],
        "⏎",
        "open",
        "open or fold a group; on a check, go to its details; on a process or a tensor, look at it alone",
        opens
    ),
    bind!(Action::Fix, [letter('f')], "f", "fix", "show what would mend the selected check, and apply it", has_fix),
    bind!(
        Action::Guide,
        [letter('i')],
        "i",
        "checklist",
        "the way to a direct route as a checklist: what is done, what is to do, and the proof",
        has_guide
    ),
    bind!(Action::Open, [plain(KeyCode::Enter)], "⏎", "open", "in the checklist: open the selected fix", guide_opens),
    bind!(
        Action::Recheck,
        [letter('r')],
        "r",
        "re-check",
        "in the checklist: run all checks and the proof again",
        guide_rechecks
    ),
    bind!(Action::Apply, [letter('a')], "a", "apply", "in a fix: apply it", can_apply),
    bind!(
        Action::DryRun,
        [letter('d')],
        "d",
        "dry run",
        "in a fix: say what it would do, without doing it",
        can_preview
    ),
    bind!(
        Action::CopyCommands,
        [letter('c'), letter('y')],
        "c",
        "copy",
        "in a fix or the checklist: copy its commands",
        copies_sheet
    ),
    bind!(Action::Undo, [letter('u')], "u", "undo", "in a fix: undo it", can_undo),
    bind!(
        Action::Undo,
        [letter('u')],
        "u",
        "undo",
        "show the fix of the selected check that is applied, else the one applied last; there, the same key undoes it",
        finds_undo
    ),
    bind!(
        Action::Undo,
        [letter('u')],
        "u",
        "",
        "show the fix of the selected check that is applied, else the one applied last; there, the same key undoes it",
        asks_for_undo
    ),
    bind!(Action::Close, [plain(KeyCode::Esc)], "Esc", "close", "close a sheet, end a filter", in_sheet),
    bind!(Action::Close, [plain(KeyCode::Esc)], "Esc", "back", "from one process back to all of them", in_process),
    bind!(Action::Recheck, [letter('r')], "r", "re-check", "run all checks again", can_recheck),
    bind!(
        Action::NextEngine,
        [plain(KeyCode::Right), letter('l')],
        "←→",
        "engine",
        "the tensors of the next engine (also l)",
        on_tensors
    ),
    bind!(
        Action::PreviousEngine,
        [plain(KeyCode::Left), letter('h')],
        "←",
        "",
        "the tensors of the engine before (also h)",
        on_tensors
    ),
    bind!(Action::Sort, [letter('s')], "s", "sort", "sort by the next column", sorts),
    bind!(Action::Reverse, [letter('S')], "S", "", "turn the order around", sorts),
    bind!(
        Action::Left,
        [plain(KeyCode::Left), letter('h')],
        "←",
        "",
        "back to the list; fold a group (also h)",
        on_environment
    ),
    bind!(
        Action::Right,
        [plain(KeyCode::Right), letter('l')],
        "→",
        "",
        "open a group; go to the details (also l)",
        on_environment
    ),
    bind!(
        Action::Compare,
        [letter('c')],
        "c",
        "compare",
        "compare with the next engine, at last with none",
        can_compare
    ),
    bind!(Action::Filter, [letter('/')], "/", "filter", "show only what contains some text", has_filter),
    bind!(Action::NextVerdict, [letter('v')], "v", "verdict", "the answer for the next path or GPU", several_verdicts),
    bind!(Action::RaceAgain, [letter('R')], "R", "race", "run the race again", can_race),
    bind!(
        Action::Plans,
        [letter('P')],
        "P",
        "plans",
        "what else can be run here (loads, KV caches, the storage grid), and what ran in this session",
        has_plans
    ),
    bind!(
        Action::RunPlan,
        [plain(KeyCode::Enter)],
        "⏎",
        "run",
        "in the plans: run the selected one; it writes what is said there",
        at_offer
    ),
    bind!(Action::ShowPlan, [plain(KeyCode::Enter)], "⏎", "show", "in the plans: show what ran", at_ran),
    bind!(Action::CancelRace, [letter('c')], "c", "stop", "stop the race", racing_here),
    bind!(Action::CancelRace, [letter('c')], "c", "", "stop the race", racing),
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
        has_cursor
    ),
    bind!(Action::ZoomOut, [letter('-')], "-", "", "a longer time in the charts", has_cursor),
    bind!(Action::ZoomAll, [letter('0')], "0", "", "the whole time in the charts", has_cursor),
    bind!(
        Action::PanBack,
        [letter(','), letter('[')],
        ", .",
        "pan",
        "charts: earlier; at the right end the charts follow what happens (also [ where nothing is replayed)",
        pannable
    ),
    bind!(
        Action::PanForward,
        [letter('.'), letter(']')],
        ".",
        "",
        "charts: later (also ] where nothing is replayed)",
        pannable
    ),
    bind!(
        Action::OlderPlan,
        [letter('[')],
        "[ ]",
        "older, newer",
        "what the plan before showed, where several ran in this session",
        several_plans
    ),
    bind!(Action::NewerPlan, [letter(']')], "]", "", "what the plan after it showed", several_plans),
    bind!(
        Action::Hold,
        [letter(' ')],
        "space",
        "hold",
        "hold the charts still while the session goes on, and let go",
        can_hold
    ),
    bind!(Action::Expand, [letter('e')], "e", "back", "one chart on the whole screen, and back", expanded),
    bind!(Action::Expand, [letter('e')], "e", "charts", "one chart on the whole screen, and back", hides_charts),
    bind!(Action::Expand, [letter('e')], "e", "expand", "one chart on the whole screen, and back", expands),
    bind!(
        Action::PreviousStep,
        [plain(KeyCode::Left), letter('h')],
        "←→",
        "step",
        "the step before (also h)",
        on_learn
    ),
    bind!(Action::NextStep, [plain(KeyCode::Right), letter('l')], "→", "", "the next step (also l)", on_learn),
    bind!(Action::Play, [letter(' ')], "space", "play", "play, pause or play again", plays_step),
    bind!(
        Action::SliderUp,
        [letter('+'), letter('=')],
        "+ -",
        "slider",
        "move the slider of the simulation up; ↑↓ choose it",
        on_learn
    ),
    bind!(Action::SliderDown, [letter('-')], "-", "", "move the slider down", on_learn),
    bind!(
        Action::Measure,
        [letter('m')],
        "m",
        "measure",
        "measure it on this machine, with this session's model",
        can_measure
    ),
    bind!(Action::Export, [letter('x')], "x", "export", "write the report as files", export_first),
    bind!(Action::Export, [letter('x')], "x", "", "write the report as files", can_export),
    bind!(
        Action::Baseline,
        [letter('b')],
        "b",
        "baseline",
        "keep this report as the one that later races are compared with by --baseline",
        export_first
    ),
    bind!(
        Action::Copy,
        [letter('y')],
        "y",
        "copy",
        "copy the answer and the selected line to the clipboard, over SSH too",
        bare
    ),
    bind!(
        Action::NextChart,
        [letter('n')],
        "n",
        "chart",
        "the next chart, where there is no room for all; where the time went is the last",
        more_charts
    ),
    bind!(
        Action::Pause,
        [letter(' '), letter('p')],
        "space",
        "pause",
        "in a replay: pause or go on (on Learn: p)",
        replaying
    ),
    bind!(
        Action::Slower,
        [letter('[')],
        "[ ]",
        "speed",
        "in a replay: slower, down to a sixteenth of real time",
        replaying
    ),
    bind!(Action::Faster, [letter(']')], "]", "", "in a replay: faster, up to sixteen times", replaying),
    bind!(Action::Screen(Screen::Environment), [letter('1')], "1", "", "will reads go straight to the GPU?", always),
    bind!(
        Action::Screen(Screen::Race),
        [letter('2')],
        "2",
        "",
        "which way of loading is fastest here, and why?",
        always
    ),
    bind!(Action::Screen(Screen::Tensors), [letter('3')], "3", "", "what does each tensor cost?", always),
    bind!(Action::Screen(Screen::System), [letter('4')], "4", "", "who is using GPUs and storage right now?", always),
    bind!(Action::Screen(Screen::Learn), [letter('5')], "5", "", "why can GDS be slower on a small model?", always),
    bind!(
        Action::Screen(Screen::Report),
        [letter('6')],
        "6",
        "",
        "what was found and measured, as it is exported",
        always
    ),
    bind!(Action::PageUp, [plain(KeyCode::PageUp), control('b')], "PgUp", "", "a page up", always),
    bind!(Action::PageDown, [plain(KeyCode::PageDown), control('f')], "PgDn", "", "a page down", always),
    bind!(Action::First, [plain(KeyCode::Home), letter('g')], "g", "", "the first line (also Home)", always),
    bind!(Action::Last, [plain(KeyCode::End), letter('G')], "G", "", "the last line (also End)", always),
    bind!(Action::Redraw, [control('l')], "^L", "", "draw the screen anew", always),
    bind!(Action::Suspend, [control('z')], "^Z", "", "back to the shell for a while; fg returns", always),
    bind!(Action::Interrupt, [control('c')], "^C", "", "stop everything and quit", always),
    bind!(Action::Help, [letter('?')], "?", "help", "this help", always),
    bind!(Action::Quit, [letter('q')], "q", "quit", "quit; asks while a race or a fix is under way", always),
];

/// What a key does now.
pub(crate) fn action(key: KeyEvent, state: &State, ui: &UiState) -> Option<Action> {
    ui.keys.action(key, state, ui)
}

/// The lines of the footer: those that do something now.
pub(crate) fn footer<'a>(state: &'a State, ui: &'a UiState) -> impl Iterator<Item = &'a Binding> + 'a {
    ui.keys.now(state, ui).filter(|b| !b.short.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_means_two_things_at_once_on_an_empty_screen() {
        let state = State::default();
        let ui = UiState::default();
        let mut seen: Vec<Key> = Vec::new();
        for binding in TABLE.iter().filter(|b| (b.when)(&state, &ui)) {
            for key in binding.keys {
                assert!(!seen.contains(key), "{key:?} is bound twice");
                seen.push(*key);
            }
        }
    }

    #[test]
    fn every_action_has_a_sentence_of_help() {
        for binding in TABLE {
            assert!(binding.help.len() > 5 && !binding.label.is_empty(), "{:?}", binding.action);
        }
    }
}
