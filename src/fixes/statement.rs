//! Sentences about what an undo restores.

use super::spec::{self, Undo};
use crate::core::{Change, FixId, FixPlan, Needs};
use crate::text::quoted_line;

/// The sentence for a plan. `FixPlan::undo` contains the instructions for manual work before this call.
pub(super) fn of_plan(plan: &FixPlan) -> String {
    let by_hand = plan.undo.trim_end_matches('.');
    let stays = stays(plan.id);
    if !plan.applies() {
        let mut parts = vec!["gds-top does not apply this fix, so it restores nothing".to_owned()];
        parts.extend((!by_hand.is_empty()).then(|| format!("By hand: {by_hand}")));
        parts.extend(stays.filter(|_| !plan.changes.is_empty()));
        return sentences(&parts);
    }
    let files = plan.changes.iter().filter_map(|change| match change {
        Change::WriteFile { path, before, .. } => Some((path.display().to_string(), before.is_some())),
        Change::Run { .. } => None,
    });
    let mut parts = restored(plan.id, files, &plan.undo_commands);
    if plan.needs == Needs::Reboot && !parts.is_empty() {
        parts.push("Reboot afterwards".to_owned());
    }
    if parts.is_empty() && stays.is_none() {
        parts.push("gds-top restores nothing".to_owned());
    }
    parts.extend(stays);
    parts.extend((!by_hand.is_empty()).then(|| format!("By hand: {by_hand}")));
    sentences(&parts)
}

/// The sentence for an applied fix: its files, whether each of them existed before, and the commands that follow.
pub(super) fn of_applied(
    id: FixId,
    files: impl Iterator<Item = (String, bool)>,
    undo_commands: &[Vec<String>],
) -> String {
    let mut parts = restored(id, files, undo_commands);
    if parts.is_empty() {
        parts.push(
            "It only ran commands. Undo restores nothing; it only removes the fix from gds-top's journal".to_owned(),
        );
    }
    parts.extend(stays(id));
    sentences(&parts)
}

fn restored(id: FixId, files: impl Iterator<Item = (String, bool)>, undo_commands: &[Vec<String>]) -> Vec<String> {
    let (old, new): (Vec<_>, Vec<_>) = files.partition(|(_, existed)| *existed);
    let list = |files: Vec<(String, bool)>| files.into_iter().map(|(path, _)| path).collect::<Vec<_>>().join(", ");
    let mut done = Vec::new();
    if !old.is_empty() {
        done.push(format!("restores {} byte for byte", list(old)));
    }
    if !new.is_empty() {
        done.push(format!("removes {}", list(new)));
    }
    if !undo_commands.is_empty() {
        let lines: Vec<String> = undo_commands.iter().map(|argv| quoted_line(argv)).collect();
        done.push(format!("runs '{}'", lines.join("; ")));
    }
    if done.is_empty() { Vec::new() } else { vec![format!("'gds-top fix --undo {id}' {}", done.join(" and "))] }
}

fn stays(id: FixId) -> Option<String> {
    match spec::of(id).undo {
        Undo::Stays(what) => Some(format!("Not restored: {what}")),
        Undo::All | Undo::NotNeeded => None,
    }
}

fn sentences(parts: &[String]) -> String {
    format!("{}.", parts.join(". "))
}
