//! Undoing an applied fix.

use super::files::look;
use super::journal::{Before, Entry, Journal, Stage};
use super::lock::lock;
use super::rollback::roll_back;
use super::step::{Hook, Runner, Step, step};
use super::{FixError, Place, merge};
use crate::core::FixId;
use crate::text::quoted_line;

/// The result of an undo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Files that are not as they were before the fix, because they were changed since; a sentence each.
    pub kept: Vec<String>,
    /// Commands that failed, a sentence each. The journal keeps the fix then.
    pub failed: Vec<String>,
}

/// [`undo_with`] without running commands.
///
/// # Errors
/// As for [`undo_with`].
pub fn undo(id: FixId, place: &Place, hook: Hook<'_>) -> Result<(), FixError> {
    undo_with(id, place, hook, &mut |_| Err("commands are not run here".to_owned())).map(|_| ())
}

/// Undoes an applied fix: files have their old text again or are gone again, folders that it made are removed if they are empty. Of a file that was changed
/// since, only the lines of the fix are taken back. Then the commands that make it effective are run, on the machine itself only.
///
/// # Errors
/// When the fix is not applied, changed nothing that can be restored, or its lines in a changed file cannot be identified; then nothing is touched. When
/// the work fails later the error says what was restored, and the journal keeps the fix.
pub fn undo_with(id: FixId, place: &Place, hook: Hook<'_>, run: Runner<'_>) -> Result<Undone, FixError> {
    place.writable()?;
    let Some(journal) = Journal::existing(place)? else { return Err(not_applied(id, place)) };
    let _lock = lock(&journal)?;
    let Some(mut entry) = journal.read(id)? else {
        journal.tidy(place);
        return Err(not_applied(id, place));
    };
    if entry.files.is_empty() && entry.undo_commands.is_empty() {
        // Known to the journal for its commands only: it need not be remembered once the user asked.
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
    ended.map_err(|e| e.with(format!("{back}; the journal keeps the fix: run gds-top fix --undo {id} again")))?;
    let gone = back.gone.iter().map(|path| format!("{} is gone, and was not made again", path.display()));
    undone.kept.extend(gone);
    undone
        .kept
        .extend(back.left.iter().map(|path| format!("{} was changed meanwhile; it stays as it is", path.display())));
    for argv in entry.undo_commands.iter().filter(|_| place.is_live()) {
        if let Err(what) = run(argv) {
            let line = quoted_line(argv);
            undone.failed.push(format!("{line} failed: {what}; run it by hand, or run gds-top fix --undo {id} again"));
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
    if others.iter().flat_map(Journal::entries).any(|entry| entry.id == id) {
        return FixError::AppliedByRoot { id };
    }
    if others.iter().any(Journal::is_denied) {
        return FixError::PerhapsByRoot { id };
    }
    FixError::NotApplied { id, journal: place.state.join("journal") }
}

/// For each file that was changed since the fix wrote it: its text of now, and the same without the lines of the fix, become what the undo replaces and
/// what it writes. Returns a sentence for each.
fn take_out_lines(entry: &mut Entry, place: &Place, journal: &Journal) -> Result<Vec<String>, FixError> {
    let root = place.open_root()?;
    let mut kept = Vec::new();
    for file in &mut entry.files {
        let Some(found) = look(&root, &file.path)? else { continue };
        let before = file.before.as_ref().map(|b| b.text.as_str());
        // The text of the fix or the one before it is replaced completely; any other text was written by another
        // process.
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
                "none of the lines that the fix wrote is in it any more, so it stays as it is"
            } else {
                "only the lines of the fix were taken back, the rest stays as it is"
            }
        ));
        // The entry is written with these texts, so that an interrupted undo comes to the same end.
        file.before = Some(Before { text, mode: found.mode, uid: found.uid, gid: found.gid });
        file.after = found.text;
    }
    Ok(kept)
}
