//! The keys of the Environment screen and of its two sheets, with their conditions.

use super::selection::{next_fix, selected_finding, sheet_plan};
use super::state::{Environment, Pane, Ui};
use crate::core::{FixId, FixStage};
use crate::session::State;
use crate::tui::keys::action::Action;
use crate::tui::keys::key::{letter, plain};
use crate::tui::keys::rows::{close, copy_commands, down, filter, fix, next_pane, undo, up};
use crate::tui::keys::table::{Row, always, bind};
use crate::tui::remedy::plan_for;
use crossterm::event::KeyCode;

pub(super) const TABLE: &[Row<Environment>] = &[
    up(has_checks),
    down(has_checks),
    next_pane(has_checks),
    bind!(
        Action::Open,
        [plain(KeyCode::Enter)],
        "⏎",
        "open",
        "open or fold a group; on a check, show its details, then its fix; on a step of the path, open its fix",
        opens
    ),
    fix(|ui, state| next_fix(state, ui).is_some()),
    bind!(
        Action::Guide,
        [letter('i')],
        "i",
        "checklist",
        "the direct route as a checklist: done and open steps, and the proof",
        |_, state| state.guide.is_some()
    ),
    undo(finds_undo),
    undo(asks_for_undo).footer(""),
    bind!(Action::Recheck, [letter('r')], "r", "re-check", "run all checks again", is_live),
    bind!(Action::Left, [plain(KeyCode::Left), letter('h')], "←", "", "back to the list; fold a group", always),
    bind!(Action::Right, [plain(KeyCode::Right), letter('l')], "→", "", "open a group; go to the details", always),
    filter(has_checks),
    bind!(
        Action::NextVerdict,
        [letter('v')],
        "v",
        "verdict",
        "show the verdict of the next path or GPU",
        |_, state| state.verdicts.len() > 1
    ),
];

/// The keys of a fix.
pub(super) const FIX: &[Row<Environment>] = &[
    up(always),
    down(always),
    bind!(Action::Apply, [letter('a')], "a", "apply", "in a fix: apply it", can_apply),
    fix(|ui, state| next_fix(state, ui).is_some()),
    bind!(
        Action::DryRun,
        [letter('d')],
        "d",
        "dry run",
        "in a fix: show what it would do, without doing it",
        can_preview
    ),
    copy_commands(|ui, state| sheet_plan(state, ui).is_some()),
    bind!(Action::Undo, [letter('u')], "u", "undo", "in a fix: undo it", can_undo),
    undo(|ui, state| idle_plan(ui, state) && finds_undo(ui, state)),
    undo(|ui, state| idle_plan(ui, state) && asks_for_undo(ui, state)).footer(""),
    close(always),
];

/// The keys of the checklist.
pub(super) const GUIDE: &[Row<Environment>] = &[
    up(always),
    down(always),
    bind!(
        Action::Open,
        [plain(KeyCode::Enter)],
        "⏎",
        "open",
        "in the checklist: open the selected fix",
        |ui, state| sheet_plan(state, ui).is_some()
    ),
    fix(|ui, state| next_fix(state, ui).is_some()),
    bind!(
        Action::Recheck,
        [letter('r')],
        "r",
        "re-check",
        "in the checklist: run all checks and the proof again",
        is_live
    ),
    copy_commands(always),
    undo(finds_undo),
    undo(asks_for_undo).footer(""),
    close(always),
];

fn has_checks(_: &Ui<'_>, state: &State) -> bool {
    !state.checks.is_empty()
}

/// Whether the session runs checks. One that watches a program does not.
fn is_live(ui: &Ui<'_>, state: &State) -> bool {
    ui.ctx.is_live() && state.watch.is_none()
}

fn opens(ui: &Ui<'_>, state: &State) -> bool {
    let fix = || selected_finding(state, ui).is_some_and(|finding| plan_for(state, finding).is_some());
    has_checks(ui, state) && (ui.screen.pane != Pane::Detail || fix())
}

/// Whether a fix is open and none of its actions is running.
fn idle_plan(ui: &Ui<'_>, state: &State) -> bool {
    let busy = |id: FixId| {
        let last = state.fix_log.iter().rev().find(|line| line.id == id);
        last.is_some_and(|line| matches!(line.stage, FixStage::Applying | FixStage::Verifying))
    };
    ui.ctx.is_live() && sheet_plan(state, ui).is_some_and(|plan| !busy(plan.id))
}

/// The last stage of the fix in the open sheet.
fn last_stage(ui: &Ui<'_>, state: &State) -> Option<FixStage> {
    let plan = sheet_plan(state, ui)?;
    let mut done = state.fix_log.iter().rev().filter(|line| line.stage != FixStage::Previewed);
    done.find(|line| line.id == plan.id).map(|line| line.stage)
}

fn can_apply(ui: &Ui<'_>, state: &State) -> bool {
    let Some(plan) = sheet_plan(state, ui) else { return false };
    let is_applied = matches!(last_stage(ui, state), Some(FixStage::Fixed | FixStage::Waiting));
    can_preview(ui, state) && plan.obstacle.is_none() && plan.applies() && !is_applied
}

/// Whether a dry run is possible. An applied fix has no changes left to preview.
fn can_preview(ui: &Ui<'_>, state: &State) -> bool {
    let in_effect = |id: FixId| state.applied.iter().any(|fix| fix.in_effect && fix.plan.id == id);
    idle_plan(ui, state) && sheet_plan(state, ui).is_some_and(|plan| !in_effect(plan.id))
}

pub(super) fn can_undo(ui: &Ui<'_>, state: &State) -> bool {
    let applied = |id: FixId| state.applied.iter().any(|fix| fix.plan.id == id);
    ui.screen.fix.is_some() && idle_plan(ui, state) && sheet_plan(state, ui).is_some_and(|plan| applied(plan.id))
}

/// Whether the key opens the sheet of an applied fix, in which it can be undone.
fn finds_undo(ui: &Ui<'_>, state: &State) -> bool {
    asks_for_undo(ui, state) && !state.applied.is_empty()
}

/// Whether the key undoes the fix, or shows the reason why it cannot be undone.
fn asks_for_undo(ui: &Ui<'_>, state: &State) -> bool {
    ui.ctx.is_live() && !can_undo(ui, state)
}
