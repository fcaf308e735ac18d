//! Applying or undoing with proof: the check runs again afterwards, and what it says is told.

use super::{Place, apply, undo};
use crate::checks;
use crate::domain::{FixPlan, FixProgress, FixStage, Needs, Status};
use crate::host::Root;
use std::path::PathBuf;

/// Applies a plan to which the user consented and runs its check again. Says what happens as it happens, and returns whether the check
/// passes now.
pub fn apply_and_verify(
    root: &Root,
    plan: &FixPlan,
    place: &Place,
    paths: &[PathBuf],
    emit: &mut dyn FnMut(FixProgress),
) -> bool {
    let mut say = |stage, text: String, finding| emit(FixProgress { id: plan.id.clone(), stage, text, finding });
    say(FixStage::Applying, plan.title.clone(), None);
    if let Err(error) = apply(plan, place, &mut |_| true) {
        say(FixStage::Failed, error.to_string(), None);
        return false;
    }
    if plan.needs == Needs::Reboot {
        // Nothing that can be checked changes before the reboot; calling it still wrong would mislead.
        say(FixStage::Verifying, format!("written; it takes effect after this: {}", plan.verify), None);
        return true;
    }
    say(FixStage::Verifying, format!("written; the check {} runs again", plan.check), None);
    let report = checks::run(root, paths, None, &mut |_| {});
    let Some(finding) = report.finding(&plan.check).cloned() else {
        say(FixStage::StillWrong, format!("the check {} no longer applies", plan.check), None);
        return false;
    };
    let mended = matches!(finding.status, Status::Pass | Status::Info);
    let stage = if mended { FixStage::Mended } else { FixStage::StillWrong };
    say(stage, finding.summary.clone(), Some(finding));
    mended
}

/// Undoes a fix and runs its check again. Returns whether it was undone.
pub fn undo_and_verify(
    root: &Root,
    id: &str,
    place: &Place,
    paths: &[PathBuf],
    emit: &mut dyn FnMut(FixProgress),
) -> bool {
    let mut say = |stage, text: String, finding| emit(FixProgress { id: id.to_owned(), stage, text, finding });
    let check =
        super::Journal::at(&place.state).entries().into_iter().find(|entry| entry.id == id).map(|entry| entry.check);
    if let Err(error) = undo(id, place, &mut |_| true) {
        say(FixStage::Failed, error.to_string(), None);
        return false;
    }
    let report = checks::run(root, paths, None, &mut |_| {});
    let finding = check.and_then(|check| report.finding(&check).cloned());
    say(FixStage::Undone, "what was there before is there again".to_owned(), finding);
    true
}
