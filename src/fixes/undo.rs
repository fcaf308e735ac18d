//! Undoes an applied fix.

use super::error::FixError;
use super::files::look;
use super::journal::{Before, Entry, Journal, Stage};
use super::lock::lock;
use super::merge;
use super::place::Place;
use super::rollback::roll_back;
use super::step::{Hook, Runner, Step, step};
use crate::core::{FixId, Needs};
use crate::text::quoted_line;

/// The result of an undo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Files that could not be completely restored because they were changed later, one sentence each.
    pub kept: Vec<String>,
    /// Commands that failed, one sentence each. The journal then keeps the fix.
    pub failed: Vec<String>,
}

/// Undoes a fix without running commands, see [`undo_with`].
///
/// # Errors
/// The same as [`undo_with`].
pub fn undo(id: FixId, place: &Place, hook: Hook<'_>) -> Result<(), FixError> {
    undo_with(id, place, hook, &mut |_| Err("commands are not run here".to_owned())).map(|_| ())
}

/// Undoes an applied fix. Files get their previous text or are removed, and empty directories that the fix created
/// are removed. If a file was changed later, only the lines of the fix are removed from it. On a live machine, the
/// commands of the undo are then run.
///
/// # Errors
/// If the fix is not applied, changed nothing that can be restored, or its lines in a changed file cannot be
/// identified. Nothing is changed then. If the work fails later, the error contains the restored files, and the
/// journal keeps the fix.
pub fn undo_with(id: FixId, place: &Place, hook: Hook<'_>, run: Runner<'_>) -> Result<Undone, FixError> {
    place.writable()?;
    let Some(journal) = Journal::existing(place)? else { return Err(not_applied(id, place)) };
    let _lock = lock(&journal)?;
    let Some(mut entry) = journal.read(id)? else {
        journal.tidy(place);
        return Err(not_applied(id, place));
    };
    if entry.files.is_empty() && entry.undo_commands.is_empty() {
        // The journal has only its commands. The entry is removed, because there is nothing else to undo.
        journal.forget(id)?;
        journal.tidy(place);
        let how = entry.commands.iter().map(|c| quoted_line(&c.argv)).collect::<Vec<_>>().join("; ");
        return Err(FixError::UndoByHand { id, how: format!("it ran {how}") });
    }
    let mut undone = Undone { kept: take_out_lines(&mut entry, place, &journal)?, failed: Vec::new() };
    entry.stage = Stage::Undoing;
    step(hook, Step::Journal)?;
    journal.write(&entry).map_err(|e| e.with("no file was changed".to_owned()))?;
    let (back, ended) = roll_back(place, &entry, hook);
    let again = place.again(&format!("--undo {id}"), None);
    ended.map_err(|e| e.with(format!("{back}; the journal keeps the fix: run {again} again")))?;
    let gone = back.gone.iter().map(|path| format!("{} no longer exists and was not created again", path.display()));
    undone.kept.extend(gone);
    undone.kept.extend(
        back.left.iter().map(|path| format!("{} was changed during the undo and was not restored", path.display())),
    );
    for argv in entry.undo_commands.iter().filter(|_| place.is_live()) {
        step(hook, Step::Command)?;
        if let Err(what) = run(argv) {
            let line = quoted_line(argv);
            undone.failed.push(format!("{line} failed: {what}; run it by hand, or run {again} again"));
        }
    }
    if undone.failed.is_empty() {
        step(hook, Step::Forget)?;
        journal.forget(id).map_err(|e| e.with(back.to_string()))?;
        journal.tidy(place);
    } else {
        entry.stage = Stage::Applied;
        journal.write(&entry).map_err(|e| e.with(back.to_string()))?;
    }
    Ok(undone)
}

fn not_applied(id: FixId, place: &Place) -> FixError {
    let others = Journal::all(place).split_off(1);
    let command = || place.command(&format!("--undo {id}"), None, Needs::Root);
    if others.iter().flat_map(Journal::entries).any(|entry| entry.id == id) {
        return FixError::AppliedByRoot { id, command: command() };
    }
    if others.iter().any(Journal::is_denied) {
        return FixError::PerhapsByRoot { id, command: command() };
    }
    FixError::NotApplied { id, journal: place.state.join("journal") }
}

/// For each file that was changed after the fix, stores its current text and that text without the lines of the fix.
/// The undo replaces the first by the second. Returns one sentence per file.
fn take_out_lines(entry: &mut Entry, place: &Place, journal: &Journal) -> Result<Vec<String>, FixError> {
    let root = place.open_root()?;
    let mut kept = Vec::new();
    for file in &mut entry.files {
        let Some(found) = look(&root, &file.path)? else { continue };
        let before = file.before.as_ref().map(|b| b.text.as_str());
        // If the text is that of the fix or the previous one, it is replaced completely. Any other text was written
        // by another process.
        if found.text == file.after || Some(found.text.as_str()) == before {
            continue;
        }
        let Some(text) = merge::without(&found.text, before, &file.after) else {
            return Err(FixError::ChangedSince { path: file.path.clone(), journal: journal.entry_path(entry.id) });
        };
        kept.push(format!(
            "{} was changed after the fix; {}",
            file.path.display(),
            if text == found.text {
                "it has none of the lines of the fix any more, so it was not changed"
            } else {
                "only the lines of the fix were removed"
            }
        ));
        // The entry is written with these texts, so that an interrupted undo has the same result when it is resumed.
        file.before = Some(Before { text, mode: found.mode, uid: found.uid, gid: found.gid });
        file.after = found.text;
    }
    Ok(kept)
}
