//! The directory into which a workload writes. This program creates, marks and locks it, and it is private. So no other
//! file is written or removed.

use crate::trust::{self, FileId, PrivateFolder, Scratch};
use rustix::fs::FlockOperation;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file that marks a directory as created by gds-top.
const MARKER: &str = ".gds-top-kv";
const MARK: &str = "Made by gds-top for a KV-cache workload. It may be removed at any time when no gds-top runs.\n";

/// The reason why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The directory exists, but gds-top did not create it.
    #[error("{} exists and was not created by gds-top (it has no {MARKER}), so nothing is written into it; pass another DIR or move it away", path.display())]
    NotOurs {
        /// Path of the directory.
        path: PathBuf,
    },
    /// Another user could change the content.
    #[error("{} is not used: {why}; pass another DIR or remove it", path.display())]
    Unsafe {
        /// Path of the directory.
        path: PathBuf,
        /// The reason why it is unsafe.
        why: trust::FolderError,
    },
    /// Another process is using the directory.
    #[error("{} is in use by another gds-top; wait for it or pass another DIR", path.display())]
    InUse {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The path is not valid UTF-8.
    #[error("the name of {} is not UTF-8, so it cannot be passed to runs; rename it, or use another DIR", path.display())]
    NoText {
        /// Path of the directory.
        path: PathBuf,
    },
    /// No earlier run kept files.
    #[error("{} does not exist, so there are no files of an earlier run to read; '--keep' keeps the files of a run", path.display())]
    Nothing {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The operating system reported an error.
    #[error("{doing} {} failed: {source}; DIR must be a writable directory on the disk to measure", path.display())]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// Path of the directory or file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

/// A directory of gds-top, which is locked until this value is dropped.
#[derive(Debug)]
pub struct Folder {
    folder: PrivateFolder,
    /// The directory with libcufile's settings. libcufile reads them by path, so they are in a scratch directory in which
    /// no other user can replace them.
    settings: Option<Scratch>,
    keep: bool,
    _lock: File,
}

/// Opens the mark of a directory. Another user who could write in the directory could have put a file with this name there, so
/// the mark counts only with its owner and its text. A run that was killed before it wrote the text left nothing else.
fn open_mark(folder: &PrivateFolder) -> io::Result<File> {
    let mut file = folder.open_file(MARKER)?;
    let mut text = String::new();
    Read::by_ref(&mut file).take(MARK.len() as u64 + 1).read_to_string(&mut text)?;
    let is_own = file.metadata()?.uid() == folder.owner()?;
    if is_own && (text == MARK || folder.has_only(&[MARKER])?) {
        Ok(file)
    } else {
        Err(io::Error::other("it is not the mark of gds-top"))
    }
}

impl Folder {
    /// The path of the directory `gds-top-kv-NAME` in `dir`. The directory may not exist.
    ///
    /// # Errors
    /// Fails if `dir` is not a directory that can be examined.
    pub fn place(dir: &Path, name: &str) -> Result<PathBuf, FolderError> {
        Ok(parent(dir)?.join(folder_name(name)))
    }

    /// Creates or reuses the directory `gds-top-kv-NAME` in `dir`. Files of an earlier run are removed unless `reuse` is
    /// set. At the end the directory is removed unless `keep` is set.
    ///
    /// # Errors
    /// Fails if the directory belongs to another program, is in use, can be changed by another user, or cannot be
    /// created.
    pub fn open(dir: &Path, name: &str, reuse: bool, keep: bool) -> Result<Self, FolderError> {
        let dir = parent(dir)?;
        let name = folder_name(name);
        let path = dir.join(&name);
        let system = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| FolderError::System { doing, path, source }
        };
        let refused = |why| match why {
            trust::FolderError::NotAFolder => FolderError::NotOurs { path: path.clone() },
            trust::FolderError::System(source) => system("opening", &path)(source),
            why => FolderError::Unsafe { path: path.clone(), why },
        };
        if reuse && fs::symlink_metadata(&path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Err(FolderError::Nothing { path });
        }
        let marker = path.join(MARKER);
        let (folder, lock) = match PrivateFolder::make(&dir, OsStr::new(&name)) {
            Ok(folder) => {
                let marked = folder.create(MARKER).and_then(|mut file| file.write_all(MARK.as_bytes()).map(|()| file));
                match marked {
                    Ok(file) => (folder, file),
                    Err(error) => {
                        // Without the mark, a later run would not recognise the directory, so it is removed.
                        let _ = folder.remove();
                        return Err(system("writing", &marker)(error));
                    }
                }
            }
            Err(trust::FolderError::System(error)) if error.kind() == ErrorKind::AlreadyExists => {
                let folder = PrivateFolder::open(&dir, OsStr::new(&name)).map_err(refused)?;
                // If a run was killed before it wrote the mark, the directory is empty.
                let lock = match open_mark(&folder) {
                    Err(_) if !reuse && folder.is_empty().unwrap_or(false) => {
                        folder.create(MARKER).and_then(|mut file| file.write_all(MARK.as_bytes()).map(|()| file))
                    }
                    opened => opened,
                };
                let lock = lock.map_err(|_| FolderError::NotOurs { path: path.clone() })?;
                (folder, lock)
            }
            Err(trust::FolderError::System(error)) => return Err(system("making", &path)(error)),
            Err(why) => return Err(refused(why)),
        };
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(FolderError::InUse { path });
        }
        if !reuse {
            folder.empty(Some(MARKER)).map_err(system("emptying", &path))?;
        }
        Ok(Self { folder, settings: None, keep, _lock: lock })
    }

    /// The path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The identity of the directory, for the runs that use it.
    #[must_use]
    pub const fn id(&self) -> FileId {
        self.folder.id()
    }

    /// Writes libcufile's settings for the runs. Returns their path, which exists until the end of the session.
    ///
    /// # Errors
    /// Returns the error of the operating system if they cannot be written.
    pub(super) fn write_settings(&mut self, text: &str) -> std::io::Result<PathBuf> {
        let scratch = match self.settings.take() {
            Some(scratch) => scratch,
            None => Scratch::new("gds-top-settings-")?,
        };
        let file = scratch.path().join("cufile.json");
        let written = fs::write(&file, text);
        self.settings = Some(scratch);
        written.map(|()| file)
    }

    /// Removes the directory, even with `keep`. It is for a session that ended before anything was written.
    pub fn abandon(mut self) {
        self.keep = false;
        let _ = self.close();
    }

    /// Removes the directory unless it is kept. Returns a note for the user.
    #[must_use]
    pub fn close(self) -> Option<String> {
        let path = self.path().display().to_string();
        if self.keep {
            return Some(format!("the files are kept in {path}"));
        }
        let removed = self.folder.empty(Some(MARKER)).map_err(trust::FolderError::from).and_then(|()| {
            // The mark is removed last. So if the directory cannot be emptied, it is still recognised later.
            self.folder.remove_file(MARKER)?;
            self.folder.remove_empty()
        });
        removed.err().map(|error| format!("{path} could not be removed: {error}; remove it manually"))
    }
}

fn folder_name(name: &str) -> String {
    format!("gds-top-kv-{name}")
}

/// The directory that the user named, with links resolved.
fn parent(dir: &Path) -> Result<PathBuf, FolderError> {
    let doing = "examining";
    let real = trust::Destination::open(dir).and_then(|folder| folder.real());
    let dir = real.map_err(|source| FolderError::System { doing, path: dir.to_owned(), source })?;
    // Runs get the path in JSON, so it must be UTF-8.
    if dir.to_str().is_none() {
        return Err(FolderError::NoText { path: dir });
    }
    Ok(dir)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    #[test]
    fn it_is_made_emptied_and_removed_and_kept_where_asked() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path(), "ucm", false, true).unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
        fs::create_dir(folder.path().join("data")).unwrap();
        fs::write(folder.path().join("data/block"), "x").unwrap();
        assert!(folder.close().unwrap().contains("kept"));
        let again = Folder::open(dir.path(), "ucm", true, true).unwrap();
        assert!(again.path().join("data/block").exists());
        drop(again);
        // A session without a result leaves no files, even with --keep.
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
        symlink(other.path(), dir.path().join("gds-top-kv-llmd")).unwrap();
        assert!(matches!(Folder::open(dir.path(), "llmd", false, false), Err(FolderError::NotOurs { .. })));
        let said = Folder::open(&dir.path().join("none"), "ucm", false, false).unwrap_err().to_string();
        assert!(said.contains("DIR must be a writable directory"), "{said}");
    }

    #[test]
    fn a_link_in_its_place_is_not_followed_when_it_is_removed() {
        for keep in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let victim = tempfile::tempdir().unwrap();
            fs::write(victim.path().join("thesis.tex"), "x").unwrap();
            fs::write(victim.path().join(MARKER), MARK).unwrap();
            let folder = Folder::open(dir.path(), "ucm", false, keep).unwrap();
            fs::rename(folder.path(), dir.path().join("aside")).unwrap();
            symlink(victim.path(), dir.path().join("gds-top-kv-ucm")).unwrap();
            if keep {
                folder.abandon();
            } else {
                assert!(folder.close().unwrap().contains("took its place"));
            }
            assert!(victim.path().join("thesis.tex").exists() && victim.path().join(MARKER).exists());
        }
    }

    #[test]
    fn a_folder_that_others_own_or_may_write_in_is_refused_even_with_the_mark() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gds-top-kv-ucm");
        assert!(Folder::open(dir.path(), "ucm", false, true).unwrap().close().is_some());
        fs::write(path.join("block"), "x").unwrap();
        let group = fs::metadata(&path).unwrap().gid();
        let is_private = trust::writers(group, trust::own_ids(), false) == 0o002;
        for mode in [0o777, 0o2775, 0o720].into_iter().take(if is_private { 1 } else { 3 }) {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(Folder::open(dir.path(), "ucm", false, false), Err(FolderError::Unsafe { .. })));
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode);
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        if chown(&path, Some(12_345), None).is_err() {
            eprintln!("skipped: only root can give a directory to another user");
            return;
        }
        let said = Folder::open(dir.path(), "ucm", false, false).unwrap_err().to_string();
        assert!(said.contains("uid 12345") && path.join("block").exists(), "{said}");
    }

    #[test]
    fn an_empty_folder_of_a_run_that_was_killed_before_its_mark_is_used_again() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("gds-top-kv-ucm")).unwrap();
        assert!(matches!(Folder::open(dir.path(), "ucm", true, false), Err(FolderError::NotOurs { .. })));
        assert_eq!(Folder::open(dir.path(), "ucm", false, false).unwrap().close(), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_second_user_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let _first = Folder::open(dir.path(), "ucm", false, false).unwrap();
        assert!(matches!(Folder::open(dir.path(), "ucm", false, false), Err(FolderError::InUse { .. })));
    }

    #[test]
    fn a_mark_of_another_user_or_with_another_text_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gds-top-kv-ucm");
        let prepare = |mark: &str| {
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("thesis.tex"), "x").unwrap();
            fs::write(path.join(MARKER), mark).unwrap();
        };
        for mark in ["", "x", &MARK[1..], &format!("{MARK}x")] {
            prepare(mark);
            assert!(
                matches!(Folder::open(dir.path(), "ucm", false, false), Err(FolderError::NotOurs { .. })),
                "{mark}"
            );
            assert!(path.join("thesis.tex").exists());
        }
        prepare(MARK);
        if std::os::unix::fs::chown(path.join(MARKER), Some(54_321), None).is_ok() {
            assert!(matches!(Folder::open(dir.path(), "ucm", false, false), Err(FolderError::NotOurs { .. })));
            assert!(path.join("thesis.tex").exists());
        }
        // A run that was killed before it wrote the text left only the mark.
        prepare("");
        fs::remove_file(path.join("thesis.tex")).unwrap();
        assert!(Folder::open(dir.path(), "ucm", false, false).is_ok());
    }
}
