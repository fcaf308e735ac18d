//! Applying a fix, undoing it, and finishing or rolling back one that was interrupted.

use super::files::{Found, missing_folders, remove_folders, spot};
use super::journal::{Before, Entry, Journal, Stage, Written};
use super::{FixError, Place};
use crate::domain::{Change, FixPlan, FixRisk, Needs};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A step of the work. A hook is called before each, so that a test can cut the power there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The journal entry is about to be written.
    Journal,
    /// New content is about to be written beside the file.
    Stage,
    /// It is about to be put in the file's place.
    Commit,
    /// The journal is about to say that all is done.
    Finish,
    /// A file is about to be restored.
    Restore,
    /// Folders that the fix made are about to be removed.
    Folders,
    /// The journal entry is about to be removed.
    Forget,
}

type Hook<'a> = &'a mut dyn FnMut(Step) -> bool;

fn step(hook: Hook<'_>, step: Step) -> Result<(), FixError> {
    if hook(step) { Ok(()) } else { Err(FixError::Stopped { step: format!("{step:?}") }) }
}

/// Applies a plan to which the user consented. `hook` is asked before each step and stops the work, as a power cut would, by answering false.
///
/// # Errors
/// When the plan is only shown, needs root, meets a changed file or a symbolic link, or cannot be written. Then no file has changed, unless a
/// later one of several failed; those are rolled back before returning.
pub fn apply(plan: &FixPlan, place: &Place, hook: Hook<'_>) -> Result<(), FixError> {
    let id = &plan.id;
    if plan.risk == FixRisk::ShownOnly || plan.changes.iter().any(|change| matches!(change, Change::Run { .. })) {
        return Err(FixError::OnlyShown {
            id: id.clone(),
            why: "too much can go wrong without somebody at the machine".to_owned(),
        });
    }
    if let Some(why) = &plan.obstacle {
        return Err(FixError::Obstacle { id: id.clone(), why: why.clone() });
    }
    if place.is_live() && plan.needs != Needs::User && !rustix::process::geteuid().is_root() {
        return Err(FixError::NeedsRoot { id: id.clone() });
    }
    let journal = Journal::at(&place.state);
    if let Some(entry) = journal.read(id)? {
        // Interrupted ones were finished or rolled back at the start; an applied one whose files are gone (a tmpfs after a boot) is void.
        if entry.stage == Stage::Applied && entry.files.iter().any(|file| is_as_written(place, file)) {
            return Err(FixError::AlreadyApplied { id: id.clone() });
        }
    }
    let mut files = Vec::new();
    for change in &plan.changes {
        let Change::WriteFile { path, before, after, mode } = change else { continue };
        let found = look(&place.root, path)?;
        unchanged(path, before.as_deref(), found.as_ref())?;
        files.push(Written {
            path: path.clone(),
            mode: found.as_ref().map_or(*mode, |found| found.mode),
            before: found.map(|f| Before { text: f.text, mode: f.mode, uid: f.uid, gid: f.gid }),
            after: after.clone(),
            made_folders: missing_folders(&place.root, path)?,
        });
    }
    let mut entry = Entry {
        schema_version: 1,
        id: id.clone(),
        check: plan.check.clone(),
        title: plan.title.clone(),
        at_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        stage: Stage::Applying,
        files,
    };
    step(hook, Step::Journal)?;
    journal.write(&entry)?;
    let written = entry.files.iter().try_for_each(|file| write(place, file, hook));
    match written {
        Ok(()) => {}
        // A power cut leaves everything as it is; the next start cleans up.
        Err(stopped @ FixError::Stopped { .. }) => return Err(stopped),
        Err(error) => {
            roll_back(place, &entry, &mut |_| true)?;
            journal.forget(id)?;
            return Err(error);
        }
    }
    step(hook, Step::Finish)?;
    entry.stage = Stage::Applied;
    journal.write(&entry)
}

/// Takes an applied fix back: bytes, permission bits and owner as they were, or the file gone, and folders that it made gone as far as they are
/// empty.
///
/// # Errors
/// When the fix is not applied, or a file was changed by somebody since; then nothing is touched.
pub fn undo(id: &str, place: &Place, hook: Hook<'_>) -> Result<(), FixError> {
    let journal = Journal::at(&place.state);
    let Some(mut entry) = journal.read(id)? else {
        return Err(FixError::NotApplied { id: id.to_owned(), journal: journal.folder().to_owned() });
    };
    for file in &entry.files {
        let found = look(&place.root, &file.path)?;
        let before = file.before.as_ref().map(|b| b.text.as_str());
        let now = found.as_ref().map(|f| f.text.as_str());
        // What was written, what stood there before, or nothing (a tmpfs after a boot) may be restored; anything else is somebody's work.
        if now.is_some() && now != Some(file.after.as_str()) && now != before {
            return Err(FixError::Changed {
                path: file.path.clone(),
                found: "it is neither what the fix wrote nor what stood there before".to_owned(),
            });
        }
    }
    entry.stage = Stage::Undoing;
    step(hook, Step::Journal)?;
    journal.write(&entry)?;
    roll_back(place, &entry, hook)?;
    step(hook, Step::Forget)?;
    journal.forget(id)
}

/// To be called at a start: an interrupted fix whose files are all written is marked as applied, any other is rolled back, an interrupted undo is
/// finished. Returns a sentence for each.
///
/// # Errors
/// When a file cannot be restored; the journal keeps it for the next time.
pub fn recover(place: &Place) -> Result<Vec<String>, FixError> {
    let journal = Journal::at(&place.state);
    let mut said = Vec::new();
    for mut entry in journal.entries() {
        match entry.stage {
            Stage::Applied => continue,
            Stage::Applying if entry.files.iter().all(|file| is_as_written(place, file)) => {
                for file in &entry.files {
                    if let Ok(Some(spot)) = spot(&place.root, &file.path, false) {
                        spot.clear();
                    }
                }
                entry.stage = Stage::Applied;
                journal.write(&entry)?;
                said.push(format!("{}: it was interrupted after its last change, and is applied", entry.id));
            }
            Stage::Applying | Stage::Undoing => {
                roll_back(place, &entry, &mut |_| true)?;
                journal.forget(&entry.id)?;
                said.push(format!("{}: it was interrupted, and is rolled back", entry.id));
            }
        }
    }
    Ok(said)
}

fn look(root: &Path, path: &Path) -> Result<Option<Found>, FixError> {
    match spot(root, path, false)? {
        Some(spot) => spot.read(),
        None => Ok(None),
    }
}

fn is_as_written(place: &Place, file: &Written) -> bool {
    matches!(look(&place.root, &file.path), Ok(Some(found)) if found.text == file.after)
}

fn unchanged(path: &Path, before: Option<&str>, found: Option<&Found>) -> Result<(), FixError> {
    let what = match (before, found) {
        (None, None) => return Ok(()),
        (Some(before), Some(found)) if before == found.text => return Ok(()),
        (None, Some(_)) => "it did not exist then",
        (Some(_), None) => "it is gone",
        _ => "its content is another",
    };
    Err(FixError::Changed { path: path.to_owned(), found: what.to_owned() })
}

fn write(place: &Place, file: &Written, hook: Hook<'_>) -> Result<(), FixError> {
    step(hook, Step::Stage)?;
    let Some(spot) = spot(&place.root, &file.path, true)? else {
        return Err(FixError::File { path: file.path.clone(), what: "its folder vanished".to_owned() });
    };
    let owner = file.before.as_ref().map(|before| (before.uid, before.gid));
    spot.stage(&file.after, file.mode, owner)?;
    step(hook, Step::Commit)?;
    // Looked at once more, so that what came between the preview and now is not lost.
    let before = file.before.as_ref().map(|before| before.text.as_str());
    if let Err(error) = spot.read().and_then(|found| unchanged(&file.path, before, found.as_ref())) {
        spot.clear();
        return Err(error);
    }
    spot.commit()
}

/// Restores every file of an entry that is not what it was.
fn roll_back(place: &Place, entry: &Entry, hook: Hook<'_>) -> Result<(), FixError> {
    for file in entry.files.iter().rev() {
        step(hook, Step::Restore)?;
        if let Some(spot) = spot(&place.root, &file.path, false)? {
            spot.clear();
            let now = spot.read()?;
            match (&file.before, now) {
                (None, Some(now)) if now.text == file.after => spot.remove()?,
                (Some(before), Some(now)) if now.text == file.after || is_worn(before, &now) => {
                    spot.stage(&before.text, before.mode, Some((before.uid, before.gid)))?;
                    spot.commit()?;
                }
                // As it was, gone, or somebody else's work: left alone.
                _ => {}
            }
        }
        step(hook, Step::Folders)?;
        remove_folders(&place.root, &file.made_folders);
    }
    Ok(())
}

/// Whether a file has its old text, but not its old permission bits or owner.
fn is_worn(before: &Before, now: &Found) -> bool {
    now.text == before.text && (now.mode, now.uid, now.gid) != (before.mode, before.uid, before.gid)
}
