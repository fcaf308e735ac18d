//! The applied fixes of all journals, as plans that can be shown and undone. They can be from any session.

use super::files::has_text;
use super::journal::{Entry, Journal, Stage};
use super::place::Place;
use super::statement;
use crate::core::{AppliedFix, Change, FixPlan, FixPolicy, FixRisk, Needs};
use rustix::fd::OwnedFd;

/// Every applied fix, the newest last. If two journals contain a fix, the one that this process can undo is used.
#[must_use]
pub fn undoable(place: &Place) -> Vec<AppliedFix> {
    let mut out: Vec<AppliedFix> = Vec::new();
    let Ok(root) = place.open_root() else { return out };
    for (number, journal) in Journal::all(place).into_iter().enumerate() {
        for entry in journal.entries() {
            if entry.stage == Stage::Applied && out.iter().all(|known| known.plan.id != entry.id) {
                // This process can write only to this user's journal.
                out.push(applied(entry, &root, number == 0));
            }
        }
    }
    out.sort_by_key(|fix| fix.at_unix_s);
    out
}

fn applied(entry: Entry, root: &OwnedFd, own: bool) -> AppliedFix {
    let in_effect = entry.files.iter().any(|file| has_text(root, &file.path, &file.after));
    let undo = statement::of_applied(&entry);
    let needs = match entry.needs {
        _ if entry.waits_for_boot => Needs::Reboot,
        Some(needs) if own || needs != Needs::User => needs,
        _ => Needs::Root,
    };
    let files = entry.files.into_iter().map(|file| Change::WriteFile {
        path: file.path,
        before: file.before.map(|before| before.text),
        after: file.after,
        mode: file.mode,
    });
    let commands = entry.commands.into_iter().map(|command| Change::Run { argv: command.argv });
    let plan = FixPlan {
        changes: files.chain(commands).collect(),
        check: entry.check,
        title: entry.title,
        why: String::new(),
        needs,
        risk: entry.risk.unwrap_or(FixRisk::Low),
        policy: FixPolicy::Ask,
        verify: entry.verify,
        undo,
        undo_commands: entry.undo_commands,
        remaining: entry.remaining,
        obstacle: None,
        id: entry.id,
    };
    AppliedFix { plan, at_unix_s: entry.at_unix_s, in_effect }
}
