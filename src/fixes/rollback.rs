//! Restores the files of a fix and describes the result. The description is derived from the actual work, so that "no
//! file was changed" is always true.

use super::error::FixError;
use super::files::{has_text, remove_folders, spot};
use super::journal::{Entry, Written};
use super::place::Place;
use super::step::{Hook, Step, step};
use std::fmt;
use std::path::PathBuf;

/// The state of the files after a rollback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RolledBack {
    /// The files that were restored or removed.
    pub(super) back: Vec<PathBuf>,
    /// The files that another program changed. They were not restored.
    pub(super) left: Vec<PathBuf>,
    /// The files that existed before the fix and do not exist any more. They were not created again.
    pub(super) gone: Vec<PathBuf>,
    /// The files that still have the text of the fix, because the work was interrupted.
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
            parts.push(format!("still with the text of the fix: {}", list(&self.stay)));
        }
        if !self.left.is_empty() {
            parts.push(format!("changed by another process and not restored: {}", list(&self.left)));
        }
        if !self.gone.is_empty() {
            parts.push(format!("removed by another process: {}", list(&self.gone)));
        }
        f.write_str(&parts.join("; "))
    }
}

/// Restores all files of an entry that still have the text of the fix, the last one first. Owner and permission bits
/// are not changed: a fix does not change them, and the entry may contain others.
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
