//! Applies or undoes a fix and verifies the result: written files are read back, and the check runs again.

use super::apply::apply_with;
use super::commands::run_for_root;
use super::error::FixError;
use super::hold;
use super::place::Place;
use super::undo::undo_with;
use crate::checks;
use crate::core::{Change, Finding, FixId, FixPlan, FixProgress, FixStage, Needs, Status};
use crate::machine::Root;
use crate::text::quoted_line;
use std::path::PathBuf;

/// The end of the work on a fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was applied or undone.
    Done,
    /// It failed, or its check still fails.
    Failed,
    /// It could not be started, for example because it needs root.
    NotStarted,
}

impl From<&FixError> for Ended {
    fn from(error: &FixError) -> Self {
        if error.is_obstacle() { Self::NotStarted } else { Self::Failed }
    }
}

/// Applies a plan and reads its files back. `consent` is the digest of the previewed plan. If the plan has another
/// digest, it is rejected and nothing is changed. Each step is reported when it happens.
pub fn apply_consented(
    root: &Root,
    plan: &FixPlan,
    consent: &str,
    place: &Place,
    emit: &mut dyn FnMut(FixProgress),
) -> Ended {
    let mut say = |stage, text: String| emit(FixProgress { id: plan.id, stage, text, finding: None });
    if plan.digest() != consent {
        say(FixStage::Failed, FixError::NotConsented { id: plan.id }.to_string());
        return Ended::Failed;
    }
    say(FixStage::Applying, plan.title.clone());
    let applied = apply_with(plan, place, &mut hold::hook(place), &mut |argv| {
        say(FixStage::Applying, format!("$ {}", quoted_line(argv)));
        run_for_root(argv, &mut |line| say(FixStage::Applying, line))
    });
    if let Err(error) = applied {
        say(FixStage::Failed, error.to_string());
        return Ended::from(&error);
    }
    for change in &plan.changes {
        match change {
            Change::WriteFile { path, after, .. } => {
                if root.read_text(path).ok().as_deref() != Some(after.as_str()) {
                    let text = format!("{} was written, but its content differs when it is read back", path.display());
                    say(FixStage::Failed, text);
                    return Ended::Failed;
                }
            }
            Change::Run { argv } if !place.is_live() => {
                say(FixStage::Applying, format!("not run, because this is a directory: {}", quoted_line(argv)));
            }
            Change::Run { .. } => {}
        }
    }
    Ended::Done
}

/// Applies a plan with [`apply_consented`] and runs its check again. It is done if the check passes or the change waits
/// for a reboot.
pub fn apply_and_verify(
    root: &Root,
    plan: &FixPlan,
    consent: &str,
    place: &Place,
    paths: &[PathBuf],
    emit: &mut dyn FnMut(FixProgress),
) -> Ended {
    let applied = apply_consented(root, plan, consent, place, emit);
    if applied != Ended::Done {
        return applied;
    }
    let mut say = |stage, text: String, finding| emit(FixProgress { id: plan.id, stage, text, finding });
    let files = plan.changes.iter().filter(|change| matches!(change, Change::WriteFile { .. })).count();
    if plan.needs == Needs::Reboot {
        // The check cannot pass before the reboot, so the result is not reported as wrong.
        let left = if plan.remaining.is_empty() { String::new() } else { format!("{}; ", plan.remaining.join("; ")) };
        let text = format!(
            "{}in place; it takes effect after this: {left}{}. gds-top verifies it at its next start",
            read_back(files),
            plan.verify
        );
        say(FixStage::Waiting, text, None);
        return Ended::Done;
    }
    say(FixStage::Verifying, format!("{}the check {} runs again", read_back(files), plan.check), None);
    let found = |root: &Root| checks::run(root, paths, None, &mut |_| {}).finding(plan.check).cloned();
    // A finding with status info can mean success, but not if it still names this fix.
    let is_fine = |finding: &Finding| {
        finding.status == Status::Pass || (finding.status == Status::Info && finding.fix != Some(plan.id))
    };
    // A directory shows the written files, but not the effects of a command.
    let judged = place.is_live() || plan.changes.iter().all(|change| matches!(change, Change::WriteFile { .. }));
    let mut finding = found(root);
    // The copy of a captured machine also has answers of programs and libraries, which are older than the fix.
    if judged
        && !place.is_live()
        && !finding.as_ref().is_some_and(is_fine)
        && let Ok(files) = Root::tree(&place.root)
    {
        finding = found(&files).filter(|finding| finding.status == Status::Pass).or(finding);
    }
    match finding {
        Some(finding) if is_fine(&finding) => {
            say(FixStage::Fixed, finding.summary.clone(), Some(finding));
            Ended::Done
        }
        Some(finding) if judged && finding.status != Status::Na => {
            say(FixStage::StillWrong, finding.summary.clone(), Some(finding));
            Ended::Failed
        }
        None if place.is_live() => {
            say(FixStage::StillWrong, format!("the check {} no longer applies", plan.check), None);
            Ended::Failed
        }
        found => {
            let says = found.map_or_else(|| "it has no result".to_owned(), |finding| finding.summary);
            let text =
                format!("{}only the live machine can verify this fix ({}: {says})", read_back(files), plan.check);
            say(FixStage::Waiting, text, None);
            Ended::Done
        }
    }
}

/// A sentence about the files that were read back.
fn read_back(files: usize) -> String {
    match files {
        0 => String::new(),
        1 => "written and read back; ".to_owned(),
        n => format!("{n} files written and read back; "),
    }
}

/// Undoes a fix and runs its check again.
pub fn undo_and_verify(
    root: &Root,
    id: FixId,
    place: &Place,
    paths: &[PathBuf],
    emit: &mut dyn FnMut(FixProgress),
) -> Ended {
    let mut say = |stage, text: String, finding| emit(FixProgress { id, stage, text, finding });
    let entry = super::Journal::open(place).entries().into_iter().find(|entry| entry.id == id);
    let undone = undo_with(id, place, &mut hold::hook(place), &mut |argv| {
        say(FixStage::Applying, format!("$ {}", quoted_line(argv)), None);
        run_for_root(argv, &mut |line| say(FixStage::Applying, line, None))
    });
    let undone = match undone {
        Ok(undone) => undone,
        Err(error) => {
            say(FixStage::Failed, error.to_string(), None);
            return Ended::from(&error);
        }
    };
    for argv in entry.iter().flat_map(|entry| &entry.undo_commands).filter(|_| !place.is_live()) {
        say(FixStage::Applying, format!("not run, because this is a directory: {}", quoted_line(argv)), None);
    }
    for sentence in undone.kept.iter().chain(&undone.failed) {
        say(FixStage::Applying, sentence.clone(), None);
    }
    let report = checks::run(root, paths, None, &mut |_| {});
    let finding = entry.as_ref().and_then(|entry| report.finding(entry.check).cloned());
    let waits = entry.is_some_and(|entry| entry.waits_for_boot);
    let what = if undone.kept.is_empty() { "the previous state is restored" } else { "the fix is undone" };
    let when = if waits { "; it takes effect after a reboot" } else { "" };
    say(FixStage::Undone, format!("{what}{when}"), finding);
    if undone.failed.is_empty() { Ended::Done } else { Ended::Failed }
}
