//! The folder that a workload writes into: made by this program, marked and locked, so that nothing else is ever written or removed.

use rustix::fs::FlockOperation;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The file that marks a folder as ours.
const MARKER: &str = ".gds-top-kv";
const MARK: &str = "Made by gds-top for a KV-cache workload. It may be removed at any time when no gds-top runs.\n";

/// Why the folder cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It is there and not ours.
    #[error("{} exists and was not made by gds-top (it has no {MARKER}), so nothing is written into it; name another DIR or move it away", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
    },
    /// Another process uses it.
    #[error("{} is in use by another gds-top; wait for it or name another DIR", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// Its name is no text.
    #[error("{} has a name with bytes that are no UTF-8, and no lane could be told of it; rename it, or name another DIR", path.display())]
    NoText {
        /// The folder.
        path: PathBuf,
    },
    /// Nothing was kept.
    #[error("there is no {}, so nothing that an earlier run kept can be read; '--keep' keeps what a run writes", path.display())]
    Nothing {
        /// The folder.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("{doing} {} failed: {source}; DIR must be a folder on the disk in question that can be written to", path.display())]
    System {
        /// What was attempted.
        doing: &'static str,
        /// The folder or file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// A folder of ours, locked while this lives.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    keep: bool,
    _lock: File,
}

impl Folder {
    /// Where the folder `gds-top-kv-NAME` of `dir` is, or would be.
    ///
    /// # Errors
    /// When `dir` is no folder that can be examined.
    pub fn place(dir: &Path, name: &str) -> Result<PathBuf, FolderError> {
        let doing = "examining";
        let dir = match fs::canonicalize(dir) {
            Ok(whole) if whole.is_dir() => whole,
            Ok(path) => {
                return Err(FolderError::System { doing, path, source: std::io::ErrorKind::NotADirectory.into() });
            }
            Err(source) => return Err(FolderError::System { doing, path: dir.to_owned(), source }),
        };
        // Lanes are told of it in JSON.
        if dir.to_str().is_none() {
            return Err(FolderError::NoText { path: dir });
        }
        Ok(dir.join(format!("gds-top-kv-{name}")))
    }

    /// Makes (or takes again) the folder `gds-top-kv-NAME` in `dir`. What an earlier run left in it is removed, unless `reuse`; at the end it is
    /// removed, unless `keep`.
    ///
    /// # Errors
    /// When it is not ours, in use, or the system refuses.
    pub fn open(dir: &Path, name: &str, reuse: bool, keep: bool) -> Result<Self, FolderError> {
        let system = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| FolderError::System { doing, path, source }
        };
        let path = Self::place(dir, name)?;
        if reuse && fs::symlink_metadata(&path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            return Err(FolderError::Nothing { path });
        }
        let marker = path.join(MARKER);
        match fs::create_dir(&path) {
            Ok(()) => {
                let marked = File::create_new(&marker).and_then(|mut file| file.write_all(MARK.as_bytes()));
                if let Err(error) = marked {
                    // Without its mark nobody would know later whose it is.
                    let _ = fs::remove_file(&marker);
                    let _ = fs::remove_dir(&path);
                    return Err(system("writing", &marker)(error));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                // A link would lead elsewhere, whoever's that is.
                let ours = fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir())
                    && fs::symlink_metadata(&marker).is_ok_and(|m| m.is_file());
                if !ours {
                    return Err(FolderError::NotOurs { path });
                }
            }
            Err(error) => return Err(system("making", &path)(error)),
        }
        let lock = File::open(&marker).map_err(system("opening", &marker))?;
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(FolderError::InUse { path });
        }
        let folder = Self { path, keep, _lock: lock };
        if !reuse {
            folder.empty().map_err(system("emptying", &folder.path))?;
        }
        Ok(folder)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes everything but the marker.
    fn empty(&self) -> std::io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name() == MARKER {
                continue;
            }
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes it, whether or not it was to be kept, where a run ended before anything was written that could be.
    pub fn abandon(mut self) {
        self.keep = false;
        let _ = self.close();
    }

    /// Removes it where it is not to be kept. Returns what should be said.
    #[must_use]
    pub fn close(self) -> Option<String> {
        if self.keep {
            return Some(format!("the files are kept in {}", self.path.display()));
        }
        let gone = self
            .empty()
            .and_then(|()| fs::remove_file(self.path.join(MARKER)))
            .and_then(|()| fs::remove_dir(&self.path));
        gone.err()
            .map(|error| format!("{} could not be removed: {error}; it may be removed by hand", self.path.display()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_emptied_and_removed_and_kept_where_asked() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path(), "ucm", false, true).unwrap();
        fs::create_dir(folder.path().join("data")).unwrap();
        fs::write(folder.path().join("data/block"), "x").unwrap();
        assert!(folder.close().unwrap().contains("kept"));
        let again = Folder::open(dir.path(), "ucm", true, true).unwrap();
        assert!(again.path().join("data/block").exists());
        drop(again);
        // A run that comes to nothing leaves nothing, though it was to keep all.
        Folder::open(dir.path(), "llmd", false, true).unwrap().abandon();
        assert!(!dir.path().join("gds-top-kv-llmd").exists());
        let said = Folder::open(dir.path(), "llmd", true, true).unwrap_err().to_string();
        assert!(said.contains("--keep") && !dir.path().join("gds-top-kv-llmd").exists(), "{said}");
        let last = Folder::open(dir.path(), "ucm", false, false).unwrap();
        assert!(!last.path().join("data").exists());
        assert_eq!(last.close(), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_not_ours_is_neither_written_nor_removed() {
        let dir = tempfile::tempdir().unwrap();
        let theirs = dir.path().join("gds-top-kv-ucm");
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("thesis.tex"), "x").unwrap();
        assert!(matches!(Folder::open(dir.path(), "ucm", false, false), Err(FolderError::NotOurs { .. })));
        assert!(theirs.join("thesis.tex").exists());
        let other = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(other.path(), dir.path().join("gds-top-kv-llmd")).unwrap();
        assert!(matches!(Folder::open(dir.path(), "llmd", false, false), Err(FolderError::NotOurs { .. })));
        let said = Folder::open(&dir.path().join("none"), "ucm", false, false).unwrap_err().to_string();
        assert!(said.contains("DIR must be a folder"), "{said}");
    }

    #[test]
    fn a_second_user_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let _first = Folder::open(dir.path(), "ucm", false, false).unwrap();
        assert!(matches!(Folder::open(dir.path(), "ucm", false, false), Err(FolderError::InUse { .. })));
    }
}
