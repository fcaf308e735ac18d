//! Fixes that were interrupted: reported by commands that only look, finished or rolled back by those that apply or undo.

use super::apply::{Step, is_as_written, roll_back, step};
use super::commands::quoted_line;
use super::files::spot;
use super::journal::{CommandState, Entry, Journal, Stage};
use super::lock::{is_locked, lock, tidy};
use super::{FixError, Place, hold};

/// What a command that only looks says about the journal: damaged entries, interrupted fixes, and whether a fix is under way. Nothing is written.
#[must_use]
pub fn interrupted(place: &Place) -> Vec<String> {
    let journal = Journal::at(&place.state);
    let mut said = journal.damaged();
    let entries: Vec<Entry> = journal.entries().into_iter().filter(|entry| entry.stage != Stage::Applied).collect();
    if entries.is_empty() {
        return said;
    }
    if is_locked(place) {
        said.push(FixError::Busy { journal: place.state.clone() }.to_string());
        return said;
    }
    said.extend(entries.iter().map(|entry| {
        let id = &entry.id;
        format!("{id}: {}; 'gds-top fix {id}' or 'gds-top fix --undo {id}' resumes it", begun(entry))
    }));
    said
}

fn begun(entry: &Entry) -> &'static str {
    if entry.stage == Stage::Undoing { "its undo was interrupted" } else { "it was interrupted" }
}

/// [`recover_with`] that nothing interrupts, except in a test that looks at what a kill leaves.
///
/// # Errors
/// As for [`recover_with`].
pub fn recover(place: &Place, say: &mut dyn FnMut(String)) -> Result<Vec<String>, FixError> {
    recover_with(place, &mut hold::hook(place), say)
}

/// Resumes what was interrupted, before a fix is applied or undone: a fix that had done all its steps is marked as applied, any other is rolled
/// back, an interrupted undo is finished. `say` gets a sentence before each and one after it, and one if another process works on the journal.
/// Returns the fixes that are no longer applied.
///
/// # Errors
/// When a file cannot be restored. The journal keeps the entry.
pub fn recover_with(
    place: &Place,
    hook: &mut dyn FnMut(Step) -> bool,
    say: &mut dyn FnMut(String),
) -> Result<Vec<String>, FixError> {
    let journal = Journal::at(&place.state);
    journal.damaged().into_iter().for_each(&mut *say);
    let _lock = match lock(place, false) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Ok(Vec::new()),
        // Not interrupted, but under way.
        Err(busy @ FixError::Busy { .. }) => {
            say(busy.to_string());
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    journal.sweep();
    let mut gone = Vec::new();
    for mut entry in journal.entries().into_iter().filter(|entry| entry.stage != Stage::Applied) {
        say(format!("{}: {}; it is resumed now", entry.id, begun(&entry)));
        let ran_all = entry.commands.iter().all(|c| matches!(c.state, CommandState::Done | CommandState::Skipped));
        let is_written = || entry.files.iter().all(|file| is_as_written(place, file));
        if entry.stage == Stage::Applying && ran_all && is_written() {
            for file in &entry.files {
                if let Ok(Some(spot)) = spot(&place.root, &file.path, false) {
                    spot.clear();
                }
            }
            step(hook, Step::Finish)?;
            entry.stage = Stage::Applied;
            journal.write(&entry)?;
            say(format!("{}: it was interrupted after its last change, and is applied", entry.id));
        } else {
            roll_back(place, &entry, hook)?;
            step(hook, Step::Forget)?;
            journal.forget(&entry.id)?;
            say(rolled_back(&entry));
            gone.push(entry.id);
        }
    }
    tidy(place);
    Ok(gone)
}

/// The result of a fix that was rolled back: files are as they were, but a command cannot be taken back.
fn rolled_back(entry: &Entry) -> String {
    let mut text = format!("{}: it was interrupted, and is rolled back", entry.id);
    let is_begun = |state| matches!(state, CommandState::Started | CommandState::Done);
    let ran: Vec<String> = entry.commands.iter().filter(|c| is_begun(c.state)).map(|c| quoted_line(&c.argv)).collect();
    if entry.stage == Stage::Applying && !ran.is_empty() {
        text.push_str(&format!("; these commands had been started, and what they did stays: {}", ran.join("; ")));
    }
    let after: Vec<String> = entry.undo_commands.iter().map(|argv| quoted_line(argv)).collect();
    if !after.is_empty() && (entry.stage == Stage::Undoing || !ran.is_empty()) {
        text.push_str(&format!("; run, so that it takes effect: {}", after.join("; ")));
    }
    text
}
