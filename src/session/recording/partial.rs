//! The file of a running recording: next to the requested one, locked, and renamed at the end, so that an earlier
//! recording stays until the new one is complete.

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

/// Numbers tried for recordings of killed sessions.
const MOST_LEFT: u32 = 10_000;
/// Times that the file may vanish between opening and locking it, as it does when another session ends.
const TRIES: u32 = 100;

/// The file; removed with this unless it is kept or renamed.
pub(super) struct Partial {
    path: PathBuf,
    kept: bool,
}

/// A partial file that was opened for a new session.
pub(super) struct Opened {
    pub(super) partial: Partial,
    /// The file itself, locked while it is open.
    pub(super) file: File,
    /// The recording of a killed session, under its new name.
    pub(super) set_aside: Option<PathBuf>,
}

impl Partial {
    /// Creates the file next to `target` and locks it. A file of a killed session gets a name with a number.
    ///
    /// # Errors
    /// If another session records to the same target, or the name belongs to another file.
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
                    Err(errno) => return Err(failed("opening what is in the place of its partial file")(errno.into())),
                },
                Err(errno) => return Err(failed("creating it")(errno.into())),
            };
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(RecordingError::InUse { path: target.to_owned() }),
                // Without locks only the session that made the file may use it.
                Err(_) if is_new => {}
                Err(_) => return Err(RecordingError::InUse { path: target.to_owned() }),
            }
            let meta = file.metadata().map_err(failed("examining its partial file"))?;
            if !is_same(&path, &meta) {
                // The session that had it ended meanwhile.
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
            set_aside = Some(move_aside(&path).map_err(failed("moving aside what a killed session left"))?);
        }
        Err(RecordingError::InUse { path: target.to_owned() })
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it there when this is dropped.
    pub(super) fn keep(&mut self) {
        self.kept = true;
    }

    /// Removes it.
    pub(super) fn discard(mut self) {
        self.kept = false;
    }

    /// Gives it the name of the recording.
    pub(super) fn rename(mut self, target: &Path) -> io::Result<()> {
        // Whether or not it works, the session stays.
        self.kept = true;
        fs::rename(&self.path, target)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.kept {
            // A failure here has no remedy, and the file's name shows its state.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether this file still has that name.
fn is_same(path: &Path, meta: &fs::Metadata) -> bool {
    rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (meta.dev(), meta.ino()))
}

/// Renames what a killed session left to the first free name with a number.
fn move_aside(path: &Path) -> io::Result<PathBuf> {
    for number in 1..MOST_LEFT {
        let mut name = OsString::from(path);
        name.push(format!("-{number}"));
        let aside = PathBuf::from(name);
        match rustix::fs::renameat_with(CWD, path, CWD, &aside, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(aside),
            Err(Errno::EXIST) => {}
            // A file system without that flag; the name was free a moment ago.
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
