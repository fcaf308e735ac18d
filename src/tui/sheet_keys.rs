//! When keys do something that depends on a fix, its sheet or the checklist.

use super::app::{Sheet, UiState};
use super::when::on_environment;
use crate::domain::FixStage;
use crate::session::State;

pub(super) fn has_fix(state: &State, ui: &UiState) -> bool {
    on_environment(state, ui) && ui.fix_of_selection(state).is_some()
}

pub(super) fn several_verdicts(state: &State, ui: &UiState) -> bool {
    on_environment(state, ui) && state.verdicts.len() > 1
}

pub(super) fn idle_plan(state: &State, ui: &UiState) -> bool {
    matches!(ui.sheet, Some(Sheet::Fix(_)))
        && !ui.replay
        && !ui.over
        && ui.sheet_plan(state).is_some()
        && !fix_busy(state, ui)
}

/// How far the fix of the open sheet came last.
fn last_stage(state: &State, ui: &UiState) -> Option<FixStage> {
    let plan = ui.sheet_plan(state)?;
    let told = state.fix_log.iter().rev().filter(|line| line.stage != FixStage::Previewed);
    told.into_iter().find(|line| line.id == plan.id).map(|line| line.stage)
}

pub(super) fn can_apply(state: &State, ui: &UiState) -> bool {
    let Some(plan) = ui.sheet_plan(state) else { return false };
    let is_applied = matches!(last_stage(state, ui), Some(FixStage::Mended | FixStage::Waiting));
    can_preview(state, ui) && plan.obstacle.is_none() && plan.applies() && !is_applied
}

/// Of what stands already there is nothing left to do that could be told.
pub(super) fn can_preview(state: &State, ui: &UiState) -> bool {
    let stands = |id: &str| state.applied.iter().any(|fix| fix.stands && fix.plan.id == id);
    idle_plan(state, ui) && ui.sheet_plan(state).is_some_and(|plan| !stands(&plan.id))
}

pub(super) fn can_undo(state: &State, ui: &UiState) -> bool {
    let Some(plan) = ui.sheet_plan(state) else { return false };
    idle_plan(state, ui) && state.applied.iter().any(|fix| fix.plan.id == plan.id)
}

/// Where undoing leads to the sheet of what is applied, on which it is looked at and done.
pub(super) fn finds_undo(state: &State, ui: &UiState) -> bool {
    asks_for_undo(state, ui) && !state.applied.is_empty()
}

/// Where undoing is told why it does nothing, where there is nothing.
pub(super) fn asks_for_undo(state: &State, ui: &UiState) -> bool {
    let beside = on_environment(state, ui) || in_guide(state, ui) || (idle_plan(state, ui) && !can_undo(state, ui));
    beside && !ui.replay && !ui.over
}

/// Whether the fix of the open sheet is being applied now.
pub(crate) fn fix_busy(state: &State, ui: &UiState) -> bool {
    ui.sheet_plan(state)
        .filter(|_| matches!(ui.sheet, Some(Sheet::Fix(_))))
        .and_then(|plan| state.fix_log.iter().rev().find(|line| line.id == plan.id))
        .is_some_and(|line| matches!(line.stage, FixStage::Applying | FixStage::Verifying))
}

pub(super) fn has_guide(state: &State, ui: &UiState) -> bool {
    on_environment(state, ui) && state.guide.is_some()
}

fn in_guide(_: &State, ui: &UiState) -> bool {
    ui.sheet == Some(Sheet::Guide)
}

pub(super) fn guide_opens(state: &State, ui: &UiState) -> bool {
    in_guide(state, ui) && ui.sheet_plan(state).is_some()
}

pub(super) fn guide_rechecks(state: &State, ui: &UiState) -> bool {
    in_guide(state, ui) && !ui.replay && !ui.over
}

pub(super) fn copies_sheet(state: &State, ui: &UiState) -> bool {
    in_guide(state, ui) || ui.sheet_plan(state).is_some()
}

pub(super) fn in_sheet(_: &State, ui: &UiState) -> bool {
    ui.sheet.is_some()
}
