//! The file of a running recording. It is next to the requested file, locked, and renamed at the end. So an earlier
//! recording is kept until the new one is complete.

use super::header::{RecordingError, partial_name};
use super::limits::Limits;
use super::reader::Reader;
use crate::trust::{Destination, FileId};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum number that is tried for the name of a killed session's recording.
const MOST_LEFT: u32 = 10_000;
/// Maximum number of attempts to open and lock the file. The file can disappear between the two steps if another
/// session ends.
const TRIES: u32 = 100;

/// The partial file in its open directory. It is removed when this value is dropped, unless it is kept or renamed.
pub(super) struct Partial {
    folder: Destination,
    /// The name of the recording.
    target: OsString,
    name: OsString,
    path: PathBuf,
    id: FileId,
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
        let (folder, target_name) = Destination::of_file(target).map_err(failed("opening its directory"))?;
        let name = partial_name(Path::new(&target_name)).into_os_string();
        let mut set_aside = None;
        for _ in 0..TRIES {
            // Another user who can read the file could lock it.
            let (file, is_new) = match folder.create(&name, 0o600) {
                Ok(file) => (file, true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                    match rustix::fs::openat(folder.held(), &name, flags, Mode::empty()) {
                        Ok(file) => (File::from(file), false),
                        Err(Errno::NOENT) => continue,
                        Err(Errno::LOOP) => return Err(RecordingError::NotAFile { path }),
                        Err(errno) => return Err(failed("opening its partial file")(errno.into())),
                    }
                }
                Err(error) => return Err(failed("creating it")(error)),
            };
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(RecordingError::InUse { path: target.to_owned() }),
                // If the file system has no locks, only the session that created the file may use it.
                Err(_) if is_new => {}
                Err(_) => return Err(RecordingError::InUse { path: target.to_owned() }),
            }
            let meta = file.metadata().map_err(failed("examining its partial file"))?;
            let id = FileId::of(&file).map_err(|errno| failed("examining its partial file")(errno.into()))?;
            if folder.id(&name) != Some(id) {
                // The session that wrote it has ended since, and the file has been renamed or removed.
                continue;
            }
            if !meta.is_file() {
                return Err(RecordingError::NotAFile { path });
            }
            // Another user could have made a link to an empty file of this user.
            let is_linked = meta.nlink() > 1;
            if (meta.uid() != rustix::process::geteuid().as_raw() || is_linked) && !is_new {
                return Err(RecordingError::WouldOverwrite { path });
            }
            if meta.len() == 0 {
                let partial = Self { folder, target: target_name, name, path, id, kept: false };
                return Ok(Opened { partial, file, set_aside });
            }
            if Reader::of_file(&path, file, Limits::default()).is_err() {
                return Err(RecordingError::WouldOverwrite { path });
            }
            let aside = move_aside(&folder, &name).map_err(failed("renaming the recording of a killed session"))?;
            set_aside = Some(path.with_file_name(aside));
        }
        Err(RecordingError::InUse { path: target.to_owned() })
    }

    /// Its directory.
    pub(super) const fn folder(&self) -> &Destination {
        &self.folder
    }

    /// The name of the recording in the directory.
    pub(super) fn target(&self) -> &OsStr {
        &self.target
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
    pub(super) fn rename(mut self) -> io::Result<()> {
        // The file is kept even if renaming fails.
        self.kept = true;
        if self.folder.id(&self.name) != Some(self.id) {
            return Err(io::Error::other("another file has the name of its partial file now"));
        }
        if let Some(file) = self.folder.read(&self.name)? {
            share(&file)?;
        }
        self.folder.rename(&self.name, &self.target)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.kept {
            self.folder.remove_same(&self.name, self.id);
        }
    }
}

/// Lets other users read a finished recording if the umask permits it. They cannot write it. While the session runs, its
/// files are private.
pub(super) fn share(file: &File) -> io::Result<()> {
    let mode =
        Mode::from_raw_mode(0o644 & !umask_of(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()));
    Ok(rustix::fs::fchmod(file, mode)?)
}

/// The umask in the status of this process. The system call that returns it also changes it, for all threads.
pub(super) fn umask_of(status: &str) -> u32 {
    let value = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    value.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok()).unwrap_or(0o077)
}

/// Renames the file of a killed session to the first free name with a number.
fn move_aside(folder: &Destination, name: &OsStr) -> io::Result<OsString> {
    for number in 1..MOST_LEFT {
        let mut aside = name.to_owned();
        aside.push(format!("-{number}"));
        match folder.rename_new(name, &aside) {
            Ok(()) => return Ok(aside),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
