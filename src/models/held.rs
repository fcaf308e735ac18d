//! An open descriptor of a synthetic model's directory. With it, files are removed and renamed only in this
//! directory, even if another directory gets its name.

use super::error::WeightsError;
use super::marker;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// An open folder with the path that the user knows.
pub(super) struct ModelFolder {
    held: OwnedFd,
    path: PathBuf,
}

impl ModelFolder {
    /// Opens the folder; `None` if it does not exist.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, WeightsError> {
        Self::open_with(path, OFlags::empty())
    }

    /// Like [`Self::open`], but rejects a link like a file.
    pub(super) fn open_unlinked(path: &Path) -> Result<Option<Self>, WeightsError> {
        Self::open_with(path, OFlags::NOFOLLOW)
    }

    fn open_with(path: &Path, flags: OFlags) -> Result<Option<Self>, WeightsError> {
        let flags = flags | OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(held) => Ok(Some(Self { held, path: path.to_owned() })),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => {
                Err(WeightsError::Unreadable { path: path.to_owned(), doing: "listed", source: errno.into() })
            }
        }
    }

    /// The path of a file in the folder, for messages.
    pub(super) fn shown(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// The path of this open folder below /proc, for functions that need a path.
    fn real(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.held.as_raw_fd()))
    }

    /// The names of all entries.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        std::fs::read_dir(self.real())?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }

    /// The names of the shards and indices in the folder.
    pub(super) fn model_files(&self) -> Result<Vec<OsString>, WeightsError> {
        let files = marker::model_files(&self.real()).map_err(|source| WeightsError::Unreadable {
            path: self.path.clone(),
            doing: "listed",
            source,
        })?;
        Ok(files.iter().filter_map(|file| file.file_name()).map(OsStr::to_owned).collect())
    }

    /// The mark of a file in the folder; see [`marker::of`].
    pub(super) fn mark(&self, name: &OsStr) -> Option<String> {
        marker::of(&self.real().join(name))
    }

    /// Size of a file in bytes; 0 if it does not exist.
    pub(super) fn bytes(&self, name: &OsStr) -> u64 {
        let stat = rustix::fs::statat(&self.held, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// Removes a file or a link. It is not an error if it does not exist.
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.held, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Creates a file. Fails if it exists.
    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.held, name, flags, Mode::from_raw_mode(0o666))?))
    }

    /// Renames a file and replaces an existing file with the new name.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.held, from, &self.held, to)?)
    }

    /// Flushes the directory entries to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.held)?)
    }
}
