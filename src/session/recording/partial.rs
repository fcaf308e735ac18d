//! The file of a running recording. It is next to the requested file, locked, and renamed at the end. So an earlier
//! recording is kept until the new one is complete.

use super::header::{RecordingError, partial_name};
use super::limits::Limits;
use super::reader::Reader;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum number that is tried for the name of a killed session's recording.
const MOST_LEFT: u32 = 10_000;
/// Maximum number of attempts to open and lock the file. The file can disappear between the two steps if another
/// session ends.
const TRIES: u32 = 100;

/// The partial file. It is removed when this value is dropped, unless it is kept or renamed.
pub(super) struct Partial {
    path: PathBuf,
    kept: bool,
}

/// A partial file that was opened for a new session.
pub(super) struct Opened {
    pub(super) partial: Partial,
    /// The file, which is locked while it is open.
    pub(super) file: File,
    /// The new path of the recording of a killed session.
    pub(super) set_aside: Option<PathBuf>,
}

impl Partial {
    /// Creates the file next to `target` and locks it. The file of a killed session is renamed to a name with a
    /// number.
    ///
    /// # Errors
    /// Fails if another session records to the same target, or if the name belongs to another file.
    pub(super) fn open(target: &Path) -> Result<Opened, RecordingError> {
        let path = partial_name(target);
        let failed = |doing| move |source| RecordingError::Io { path: target.to_owned(), doing, source };
        let mut set_aside = None;
        for _ in 0..TRIES {
            let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let new = rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(0o666));
            let (file, is_new) = match new {
                Ok(file) => (File::from(file), true),
                Err(Errno::EXIST) => match rustix::fs::open(&path, flags, Mode::empty()) {
                    Ok(file) => (File::from(file), false),
                    Err(Errno::NOENT) => continue,
                    Err(Errno::LOOP) => return Err(RecordingError::NotAFile { path }),
                    Err(errno) => return Err(failed("opening its partial file")(errno.into())),
                },
                Err(errno) => return Err(failed("creating it")(errno.into())),
            };
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(RecordingError::InUse { path: target.to_owned() }),
                // If the file system has no locks, only the session that created the file may use it.
                Err(_) if is_new => {}
                Err(_) => return Err(RecordingError::InUse { path: target.to_owned() }),
            }
            let meta = file.metadata().map_err(failed("examining its partial file"))?;
            if !is_same(&path, &meta) {
                // The session that wrote it has ended since, and the file has been renamed or removed.
                continue;
            }
            if !meta.is_file() {
                return Err(RecordingError::NotAFile { path });
            }
            if meta.uid() != rustix::process::geteuid().as_raw() && !is_new {
                return Err(RecordingError::WouldOverwrite { path });
            }
            if meta.len() == 0 {
                return Ok(Opened { partial: Self { path, kept: false }, file, set_aside });
            }
            if Reader::open(&path, Limits::default()).is_err() {
                return Err(RecordingError::WouldOverwrite { path });
            }
            set_aside = Some(move_aside(&path).map_err(failed("renaming the recording of a killed session"))?);
        }
        Err(RecordingError::InUse { path: target.to_owned() })
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the file when this value is dropped.
    pub(super) fn keep(&mut self) {
        self.kept = true;
    }

    /// Removes it.
    pub(super) fn discard(mut self) {
        self.kept = false;
    }

    /// Renames the file to the name of the recording.
    pub(super) fn rename(mut self, target: &Path) -> io::Result<()> {
        // The file is kept even if renaming fails.
        self.kept = true;
        fs::rename(&self.path, target)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.kept {
            // If this fails, nothing more can be done. The file's name shows that it is incomplete.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether the name still belongs to this file.
fn is_same(path: &Path, meta: &fs::Metadata) -> bool {
    rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (meta.dev(), meta.ino()))
}

/// Renames the file of a killed session to the first free name with a number.
fn move_aside(path: &Path) -> io::Result<PathBuf> {
    for number in 1..MOST_LEFT {
        let mut name = OsString::from(path);
        name.push(format!("-{number}"));
        let aside = PathBuf::from(name);
        match rustix::fs::renameat_with(CWD, path, CWD, &aside, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(aside),
            Err(Errno::EXIST) => {}
            // The file system does not support that flag. The name was free a moment ago.
            Err(Errno::INVAL | Errno::NOSYS) if fs::symlink_metadata(&aside).is_err() => {
                fs::rename(path, &aside)?;
                return Ok(aside);
            }
            Err(Errno::INVAL | Errno::NOSYS) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
