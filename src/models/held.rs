//! The open directory of a synthetic model. With it, files are removed and renamed only in this directory, even if
//! another directory gets its name.

use super::error::WeightsError;
use super::marker;
use crate::trust::{Destination, Owners};
use rustix::fd::AsRawFd;
use rustix::fs::AtFlags;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The error of a directory that could not be opened or created. A directory that `owners` forbids to root has no error code
/// of the operating system.
pub(super) fn unusable(path: &Path, doing: &'static str, owners: Owners, source: io::Error) -> WeightsError {
    match owners {
        Owners::Own if source.raw_os_error().is_none() && rustix::process::geteuid().is_root() => {
            WeightsError::ForeignCache { path: path.to_owned(), source }
        }
        Owners::Own => WeightsError::unwritable(path, doing, source).in_cache(),
        Owners::Any => WeightsError::unwritable(path, doing, source),
    }
}

/// An open directory with the path that the user knows.
pub(super) struct ModelFolder {
    held: Destination,
    path: PathBuf,
}

impl ModelFolder {
    /// Opens the directory; `None` if it does not exist. Fails if `owners` forbids to write there.
    pub(super) fn open(path: &Path, owners: Owners) -> Result<Option<Self>, WeightsError> {
        match Destination::nearest(path, owners) {
            Ok((held, false)) => Ok(Some(Self { held, path: path.to_owned() })),
            Ok((_, true)) => Ok(None),
            Err(source) => Err(unusable(path, "opened", owners, source)),
        }
    }

    /// Opens the directory and creates it if it is missing. A created directory without files is removed on drop.
    pub(super) fn make(path: &Path, owners: Owners) -> Result<Self, WeightsError> {
        let held = Destination::make(path, owners).map_err(|source| unusable(path, "created", owners, source))?;
        Ok(Self { held, path: path.to_owned() })
    }

    /// The path of a file in the directory, for messages.
    pub(super) fn shown(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// The path of this open directory below /proc, for functions that need a path.
    fn real(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.held.held().as_raw_fd()))
    }

    /// The names of all entries.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        std::fs::read_dir(self.real())?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }

    /// The names of the shards and indices in the directory.
    pub(super) fn model_files(&self) -> Result<Vec<OsString>, WeightsError> {
        let files = marker::model_files(&self.real()).map_err(|source| WeightsError::Unreadable {
            path: self.path.clone(),
            doing: "listed",
            source,
        })?;
        Ok(files.iter().filter_map(|file| file.file_name()).map(OsStr::to_owned).collect())
    }

    /// The mark of a file in the directory; see [`marker::of`].
    pub(super) fn mark(&self, name: &OsStr) -> Option<String> {
        marker::of(&self.real().join(name))
    }

    /// Size of a file in bytes; 0 if it does not exist.
    pub(super) fn bytes(&self, name: &OsStr) -> u64 {
        let stat = rustix::fs::statat(self.held.held(), name, AtFlags::SYMLINK_NOFOLLOW);
        stat.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// Removes a file or a link. It is not an error if it does not exist.
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        self.held.remove(name)
    }

    /// Creates a file. Fails if it exists.
    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        self.held.create(name, 0o664)
    }

    /// Renames a file and replaces an existing file with the new name.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.held.rename(from, to)
    }

    /// Flushes the directory entries to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.held.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_folder_that_another_user_controls_is_refused_to_root() {
        let of = |source| unusable(Path::new("/cache"), "created", Owners::Own, source);
        let denied = of(io::Error::from_raw_os_error(rustix::io::Errno::ACCESS.raw_os_error()));
        assert!(matches!(&denied, WeightsError::Unwritable { doing: "created", .. }), "{denied}");
        assert!(!denied.to_string().contains("root") && denied.to_string().contains("XDG_CACHE_HOME"), "{denied}");
        let foreign = of(io::Error::new(io::ErrorKind::PermissionDenied, "/cache belongs to another user (uid 7)"));
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(matches!(foreign, WeightsError::ForeignCache { .. }), is_root, "{foreign}");
    }
}
