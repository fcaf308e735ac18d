//! Handles interrupted fixes. Commands that change nothing report them. Commands that apply or undo fixes resume
//! them.

use super::error::FixError;
use super::files::{has_text, spot};
use super::hold;
use super::journal::{CommandState, Entry, Journal, Stage};
use super::lock::{is_locked, lock};
use super::place::Place;
use super::rollback::{RolledBack, roll_back};
use super::step::{Hook, Step, step};
use crate::core::FixId;
use crate::text::quoted_line;

/// Notes about the journal for commands that change nothing: damaged entries, interrupted fixes, and whether a fix is
/// running.
#[must_use]
pub fn interrupted(place: &Place) -> Vec<String> {
    let journal = Journal::open(place);
    let mut said = journal.problems();
    let entries: Vec<Entry> = journal.entries().into_iter().filter(|entry| entry.stage != Stage::Applied).collect();
    if entries.is_empty() {
        return said;
    }
    if is_locked(&journal) {
        said.push(FixError::Busy { journal: journal.path().to_owned() }.to_string());
        return said;
    }
    said.extend(entries.iter().map(|entry| {
        let id = entry.id;
        let [again, undo] = [id.to_string(), format!("--undo {id}")].map(|words| place.again(&words, None));
        format!("{id}: {}; '{again}' or '{undo}' resumes it", begun(entry))
    }));
    said
}

fn begun(entry: &Entry) -> &'static str {
    if entry.stage == Stage::Undoing { "its undo was interrupted" } else { "it was interrupted" }
}

/// Resumes interrupted work with the hook of tests, see [`recover_with`].
///
/// # Errors
/// The same as [`recover_with`].
pub fn recover(place: &Place, say: &mut dyn FnMut(String)) -> Result<Vec<FixId>, FixError> {
    recover_with(place, &mut hold::hook(place), say)
}

/// Resumes interrupted work before a fix is applied or undone. A fix whose steps are all done is marked as applied.
/// Any other fix is rolled back. An interrupted undo is completed. `say` is called with a sentence before and after
/// each, and if another process uses the journal. Returns the fixes that are no longer applied.
///
/// # Errors
/// If a file cannot be restored. The journal keeps the entry.
pub fn recover_with(place: &Place, hook: Hook<'_>, say: &mut dyn FnMut(String)) -> Result<Vec<FixId>, FixError> {
    place.writable()?;
    let Some(journal) = Journal::existing(place)? else { return Ok(Vec::new()) };
    journal.problems().into_iter().for_each(&mut *say);
    let _lock = match lock(&journal) {
        Ok(lock) => lock,
        // A locked journal means that the fix is running, not interrupted.
        Err(busy @ FixError::Busy { .. }) => {
            say(busy.to_string());
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    journal.sweep();
    let root = place.open_root()?;
    let mut gone = Vec::new();
    // The newest fix is first, as for an undo.
    for mut entry in journal.entries().into_iter().rev().filter(|entry| entry.stage != Stage::Applied) {
        say(format!("{}: {}; it is resumed now", entry.id, begun(&entry)));
        let ran_all = entry.commands.iter().all(|c| matches!(c.state, CommandState::Done | CommandState::Skipped));
        let is_written = || entry.files.iter().all(|file| has_text(&root, &file.path, &file.after));
        if entry.stage == Stage::Applying && ran_all && is_written() {
            for file in &entry.files {
                if let Ok(Some(spot)) = spot(&root, &file.path, false) {
                    spot.clear();
                }
            }
            step(hook, Step::Finish)?;
            entry.stage = Stage::Applied;
            journal.write(&entry)?;
            say(format!("{}: it was interrupted after its last change and is applied", entry.id));
        } else {
            let (back, ended) = roll_back(place, &entry, hook);
            ended.map_err(|error| error.with(format!("{back}; the journal keeps {}", entry.id)))?;
            step(hook, Step::Forget)?;
            journal.forget(entry.id)?;
            say(rolled_back(&entry, &back));
            gone.push(entry.id);
        }
    }
    journal.tidy(place);
    Ok(gone)
}

/// A sentence about a rollback: the state of the files, and the commands that cannot be undone.
fn rolled_back(entry: &Entry, back: &RolledBack) -> String {
    let mut text = format!("{}: it was interrupted and is now rolled back: {back}", entry.id);
    let is_begun = |state| matches!(state, CommandState::Started | CommandState::Done);
    let ran: Vec<String> = entry.commands.iter().filter(|c| is_begun(c.state)).map(|c| quoted_line(&c.argv)).collect();
    if entry.stage == Stage::Applying && !ran.is_empty() {
        text.push_str(&format!("; the changes of these started commands stay: {}", ran.join("; ")));
    }
    let after: Vec<String> = entry.undo_commands.iter().map(|argv| quoted_line(argv)).collect();
    if !after.is_empty() && (entry.stage == Stage::Undoing || entry.needs_undo_commands()) {
        text.push_str(&format!("; to make it effective, run: {}", after.join("; ")));
    }
    text
}
