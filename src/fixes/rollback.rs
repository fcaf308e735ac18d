//! The rollback of a fix's files, and a statement about it. The statement is computed from the work that was done, so
//! that "no file was changed" is always true.

use super::files::{has_text, remove_folders, spot};
use super::journal::{Entry, Written};
use super::step::{Hook, Step, step};
use super::{FixError, Place};
use std::fmt;
use std::path::PathBuf;

/// The state of the files after a rollback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RolledBack {
    /// Files that have their old text again, or are gone again.
    pub(super) back: Vec<PathBuf>,
    /// Files that are neither what the fix wrote nor what was there before it; they were left alone.
    pub(super) left: Vec<PathBuf>,
    /// Files that are gone although there was one before the fix; they were not made again.
    pub(super) gone: Vec<PathBuf>,
    /// Files that are as the fix wrote them, because the work ended before.
    pub(super) stay: Vec<PathBuf>,
}

impl fmt::Display for RolledBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |paths: &[PathBuf]| paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
        if [&self.left, &self.gone, &self.stay].iter().all(|paths| paths.is_empty()) {
            return f.write_str(if self.back.is_empty() {
                "no file was changed"
            } else {
                "the files are as they were"
            });
        }
        let mut parts = Vec::new();
        if !self.back.is_empty() {
            parts.push(format!("restored: {}", list(&self.back)));
        }
        if !self.stay.is_empty() {
            parts.push(format!("still as the fix wrote it: {}", list(&self.stay)));
        }
        if !self.left.is_empty() {
            parts.push(format!("left as another process wrote it: {}", list(&self.left)));
        }
        if !self.gone.is_empty() {
            parts.push(format!("removed by another process: {}", list(&self.gone)));
        }
        f.write_str(&parts.join("; "))
    }
}

/// Puts back every file of an entry that is as the fix wrote it, the last one first, and returns what was done, until it was done or failed. Owner and
/// permission bits are those that the file has now: the entry could name others, and a fix changes neither.
pub(super) fn roll_back(place: &Place, entry: &Entry, hook: Hook<'_>) -> (RolledBack, Result<(), FixError>) {
    let mut done = RolledBack::default();
    let ended = put_back(place, entry, hook, &mut done);
    if let (Err(_), Ok(root)) = (&ended, place.open_root()) {
        let stays = |file: &&Written| has_text(&root, &file.path, &file.after);
        done.stay = entry.files.iter().filter(stays).map(|file| file.path.clone()).collect();
    }
    (done, ended)
}

fn put_back(place: &Place, entry: &Entry, hook: Hook<'_>, done: &mut RolledBack) -> Result<(), FixError> {
    let root = place.open_root()?;
    for file in entry.files.iter().rev() {
        step(hook, Step::Restore)?;
        let spot = spot(&root, &file.path, false)?;
        let now = match &spot {
            Some(spot) => {
                spot.clear();
                spot.read()?
            }
            None => None,
        };
        match (&file.before, now, spot) {
            (None, Some(now), Some(spot)) if now.text == file.after => {
                spot.remove()?;
                done.back.push(file.path.clone());
            }
            (Some(before), Some(now), _) if now.text == before.text => {}
            (Some(before), Some(now), Some(spot)) if now.text == file.after => {
                spot.stage(&before.text, now.mode, Some((now.uid, now.gid)), &mut || step(hook, Step::Half))?;
                spot.commit()?;
                done.back.push(file.path.clone());
            }
            (None, None, _) => {}
            (Some(_), None, _) => done.gone.push(file.path.clone()),
            (_, Some(_), _) => done.left.push(file.path.clone()),
        }
        step(hook, Step::Folders)?;
        remove_folders(&root, &file.made_folders);
    }
    Ok(())
}
