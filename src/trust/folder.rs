//! A private folder: made by this program, held open by descriptor, emptied and removed without following a link.
//!
//! The folder above it may belong to another user. He can rename the private folder or put another one, or a link, in its place at any time. So it
//! is used through its descriptor, and nothing is removed by a path.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

/// Names tried for a folder of a new name.
const TRIES: u32 = 100;
/// Others may write: the group, all users.
const OTHERS_WRITE: u32 = 0o022;

/// Device and inode of a folder: the same folder, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderId {
    device: u64,
    inode: u64,
}

/// The reason why a private folder cannot be used or removed.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Another user could change what is in it.
    #[error("it belongs to another user (uid {0})")]
    Foreign(u32),
    /// All users may write in it.
    #[error("all users can write in it")]
    Open,
    /// A link or a file has its name.
    #[error("it is not a directory")]
    NotAFolder,
    /// Another folder has its name now.
    #[error("another folder took its place while it was used, and was not changed")]
    Replaced,
    /// The system refused.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl From<Errno> for FolderError {
    fn from(errno: Errno) -> Self {
        Self::System(errno.into())
    }
}

impl From<FolderError> for io::Error {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::System(error) => error,
            other => Self::other(other),
        }
    }
}

/// A folder of ours that no other user may write in.
#[derive(Debug)]
pub struct PrivateFolder {
    above: OwnedFd,
    name: OsString,
    folder: OwnedFd,
    id: FolderId,
    path: PathBuf,
}

impl PrivateFolder {
    /// Makes the folder `name` in `above`.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if it exists; if it cannot be made, or another user replaces it at this moment.
    pub fn make(above: &Path, name: &OsStr) -> Result<Self, FolderError> {
        let parent = open_above(above)?;
        rustix::fs::mkdirat(&parent, name, Mode::RWXU)?;
        let again = parent.try_clone();
        let made = Self::take(parent, above, name).and_then(|made| {
            // Another user may have put a folder there between the two calls; the one that was made is empty.
            if made.names()?.is_empty() { Ok(made) } else { Err(FolderError::Replaced) }
        });
        if made.is_err()
            && let Ok(parent) = again
        {
            // Without descriptors it could not be opened. Only an empty folder can be removed.
            let _ = rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR);
        }
        made
    }

    /// Makes a folder whose name begins with `prefix`.
    ///
    /// # Errors
    /// As for [`PrivateFolder::make`].
    pub fn make_new(above: &Path, prefix: &str) -> Result<Self, FolderError> {
        let mut last = FolderError::Replaced;
        for _ in 0..TRIES {
            // Seeded by the system for each state.
            let number = std::hash::RandomState::new().build_hasher().finish();
            match Self::make(above, OsStr::new(&format!("{prefix}{number:016x}"))) {
                Err(FolderError::System(error)) if error.kind() == io::ErrorKind::AlreadyExists => {
                    last = error.into();
                }
                other => return other,
            }
        }
        Err(last)
    }

    /// Opens the folder `name` in `above`, which must be this user's. The group loses the right to write in it.
    ///
    /// # Errors
    /// If it is a link or not a directory, belongs to another user, or all users may write in it.
    pub fn open(above: &Path, name: &OsStr) -> Result<Self, FolderError> {
        Self::take(open_above(above)?, above, name)
    }

    fn take(above: OwnedFd, above_path: &Path, name: &OsStr) -> Result<Self, FolderError> {
        let folder = open_folder(above.as_fd(), name)?;
        let stat = rustix::fs::fstat(&folder)?;
        if stat.st_uid != rustix::process::geteuid().as_raw() && stat.st_uid != owner_of_new_files(&above)? {
            return Err(FolderError::Foreign(stat.st_uid));
        }
        if stat.st_mode & 0o002 != 0 {
            return Err(FolderError::Open);
        }
        if stat.st_mode & OTHERS_WRITE != 0 {
            rustix::fs::fchmod(&folder, Mode::from_raw_mode(stat.st_mode & 0o7777 & !OTHERS_WRITE))?;
        }
        let path = above_path.join(name);
        Ok(Self { above, name: name.to_owned(), id: id_of(&folder)?, folder, path })
    }

    /// The path at which it was made. Another user may have put something else there since, if the folder above is not private.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which folder it is.
    #[must_use]
    pub const fn id(&self) -> FolderId {
        self.id
    }

    /// Creates a file in it for writing, readable by this user only.
    ///
    /// # Errors
    /// If the name exists or the system refuses.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR)?))
    }

    /// Opens a regular file in it for reading; a link fails.
    ///
    /// # Errors
    /// If there is none or the system refuses.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.folder, name, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
    }

    /// Removes a file from it; a missing one is not an error.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn remove_file(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Locks it as long as this value lives. False if another process holds the lock, or the file system has none.
    #[must_use]
    pub fn lock(&self) -> bool {
        rustix::fs::flock(&self.folder, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// Whether it has no entries.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.names()?.is_empty())
    }

    /// Names of its entries.
    fn names(&self) -> io::Result<Vec<CString>> {
        names(self.folder.as_fd())
    }

    /// Removes everything in it but the entry `keep`.
    ///
    /// # Errors
    /// If something stays.
    pub fn empty(&self, keep: Option<&str>) -> io::Result<()> {
        let keep = keep.map(str::as_bytes);
        for name in self.names()?.into_iter().filter(|name| Some(name.as_bytes()) != keep) {
            remove_entry(self.folder.as_fd(), &name, self.id.device)?;
        }
        Ok(())
    }

    /// Removes it with everything in it.
    ///
    /// # Errors
    /// If something remains, or another directory took its place, which is not changed.
    pub fn remove(self) -> Result<(), FolderError> {
        self.empty(None)?;
        self.remove_empty()
    }

    /// Removes it if it is empty.
    ///
    /// # Errors
    /// As for [`PrivateFolder::remove`].
    pub fn remove_empty(self) -> Result<(), FolderError> {
        let there = rustix::fs::statat(&self.above, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        if there.map(|stat| FolderId { device: stat.st_dev, inode: stat.st_ino }) != Ok(self.id) {
            return Err(FolderError::Replaced);
        }
        // If another user replaces it at this moment, only an empty folder can be removed.
        Ok(rustix::fs::unlinkat(&self.above, &self.name, AtFlags::REMOVEDIR)?)
    }
}

/// Makes the folder at `path` this process's working directory, if it still is the directory `id`. Relative paths
/// then lead into it, even if another one takes its name.
///
/// # Errors
/// If it is not that folder any more.
pub fn enter(path: &Path, id: FolderId) -> Result<(), FolderError> {
    let folder = open_folder(rustix::fs::CWD, path.as_os_str())?;
    if id_of(&folder)? != id {
        return Err(FolderError::Replaced);
    }
    Ok(rustix::process::fchdir(&folder)?)
}

/// The absolute path of a file for messages, in a process that has entered a folder and uses paths relative to it.
#[must_use]
pub fn shown(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The folder above, as the caller named it.
fn open_above(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn open_folder(above: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, FolderError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(above, name, flags, Mode::empty()).map_err(|errno| match errno {
        // O_DIRECTORY with O_NOFOLLOW answers a link with ENOTDIR.
        Errno::LOOP | Errno::NOTDIR => FolderError::NotAFolder,
        errno => errno.into(),
    })
}

fn id_of(folder: &OwnedFd) -> rustix::io::Result<FolderId> {
    let stat = rustix::fs::fstat(folder)?;
    Ok(FolderId { device: stat.st_dev, inode: stat.st_ino })
}

/// The owner that files made by this process have in a folder: another than the effective user on file systems that map owners (NFS with root_squash,
/// mounts with a fixed uid).
fn owner_of_new_files(folder: &OwnedFd) -> io::Result<u32> {
    let number = std::hash::RandomState::new().build_hasher().finish();
    let name = format!(".gds-top-owner-{number:016x}");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, &name, flags, Mode::empty())?;
    let owner = rustix::fs::fstat(&file).map(|stat| stat.st_uid);
    rustix::fs::unlinkat(folder, &name, AtFlags::empty())?;
    Ok(owner?)
}

fn names(folder: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let mut found = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let name = entry?.file_name().to_owned();
        if name.as_bytes() != b"." && name.as_bytes() != b".." {
            found.push(name);
        }
    }
    Ok(found)
}

/// Removes a file, link or folder with everything in it. Links are removed, never followed; a file system that is mounted there is left alone.
fn remove_entry(folder: BorrowedFd<'_>, name: &CString, device: u64) -> io::Result<()> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // Linux answers EISDIR for a folder, POSIX allows EPERM.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inner = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    if rustix::fs::fstat(&inner)?.st_dev != device {
        let text = format!("another file system is mounted at {}", name.to_string_lossy());
        return Err(io::Error::other(text));
    }
    for name in names(inner.as_fd())? {
        remove_entry(inner.as_fd(), &name, device)?;
    }
    Ok(rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)?)
}

#[cfg(test)]
#[path = "folder_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
