//! A private directory that this program creates. It is used through an open descriptor, and emptied and removed without
//! following links.
//!
//! The parent directory may belong to another user. That user can rename the private directory at any time, or replace it
//! by another directory or a link. So the directory is used through its descriptor, and nothing is removed by path.

use super::file_id::{FileId, Mount};
use super::maker::Maker;
use super::walk;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of random names that are tried for a new directory.
const TRIES: u32 = 100;
/// Maximum number of entries of a directory that are examined for directories of ended processes.
const MOST_EXAMINED: usize = 20_000;
/// The attribute with a POSIX access control list.
pub(super) const ACCESS_LIST: &str = "system.posix_acl_access";
/// Write permission for the group and for all users.
const OTHERS_WRITE: u32 = 0o022;

/// The reason why a private directory cannot be used or removed.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It belongs to another user and is not safe to use. The value is the id of that user.
    #[error("it belongs to another user (uid {0})")]
    Foreign(u32),
    /// Other users can write in it.
    #[error("other users can write in it")]
    Open,
    /// Its name belongs to a link or a file.
    #[error("it is not a directory")]
    NotAFolder,
    /// Another directory has its name now.
    #[error("another directory took its place while it was used, and was not changed")]
    Replaced,
    /// An error of the operating system.
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

/// A directory of this user in which no other user can write.
#[derive(Debug)]
pub struct PrivateFolder {
    above: OwnedFd,
    name: OsString,
    folder: OwnedFd,
    id: FileId,
    path: PathBuf,
    /// A descriptor that is closed before the directory is removed. Removing directories needs one, and a process at its
    /// limit of open files would leave the directory.
    spare: Option<OwnedFd>,
}

impl PrivateFolder {
    /// Creates the directory `name` in `above`.
    ///
    /// # Errors
    /// Fails with [`io::ErrorKind::AlreadyExists`] if it exists. Fails if it cannot be created, or if another user
    /// replaces it during the call.
    pub fn make(above: &Path, name: &OsStr) -> Result<Self, FolderError> {
        let parent = walk::open_folder(above)?;
        rustix::fs::mkdirat(&parent, name, Mode::RWXU)?;
        let again = parent.try_clone();
        let made = Self::take(parent, above, name, true).and_then(|made| {
            // Another user may have put a directory there between the two calls. The directory that was created is empty.
            if made.names()?.is_empty() { Ok(made) } else { Err(FolderError::Replaced) }
        });
        if made.is_err()
            && let Ok(parent) = again
        {
            // The directory could not be opened, for example because no descriptors are left. This call only removes an
            // empty directory.
            let _ = rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR);
        }
        made
    }

    /// Creates a directory with a random name that begins with `prefix`.
    ///
    /// # Errors
    /// See [`PrivateFolder::make`].
    pub fn make_new(above: &Path, prefix: &str) -> Result<Self, FolderError> {
        let mut last = FolderError::Replaced;
        for _ in 0..TRIES {
            // The operating system provides the seed of each state.
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

    /// Opens the directory `name` in `above`, which must belong to this user.
    ///
    /// # Errors
    /// Fails if it is a link or not a directory, belongs to another user, or is writable by a group or by all users. Such
    /// a user could have moved it here and changed its content.
    pub fn open(above: &Path, name: &OsStr) -> Result<Self, FolderError> {
        Self::take(walk::open_folder(above)?, above, name, false)
    }

    /// The directories in `above` that these processes of this user left, locked. There are none if another user could have
    /// given them their names: a user who can rename entries of `above` can give such a name to any directory in it. A
    /// directory in which another user can write is left out too, because that user can move it into any open directory.
    #[must_use]
    pub fn left_in(above: &Path, is_left: impl Fn(Maker) -> bool) -> Vec<Self> {
        let Ok(parent) = walk::open_folder(above) else { return Vec::new() };
        let listable = walk::listable(&parent).ok().filter(|parent| only_owners_rename(parent).unwrap_or(false));
        let Some(Ok(entries)) = listable.map(rustix::fs::Dir::new) else { return Vec::new() };
        let names = entries.take(MOST_EXAMINED).flatten().filter_map(|entry| {
            let name = entry.file_name().to_str().ok()?;
            Maker::of(name).filter(|maker| is_left(*maker)).map(|_| OsString::from(name))
        });
        // Links, directories of other users and locked directories are left out.
        let folders = names.filter_map(|name| Self::take(parent.try_clone().ok()?, above, &name, false).ok());
        folders.filter(Self::lock).collect()
    }

    fn take(above: OwnedFd, above_path: &Path, name: &OsStr, is_new: bool) -> Result<Self, FolderError> {
        let folder = open_folder(above.as_fd(), name)?;
        let stat = rustix::fs::fstat(&folder)?;
        if stat.st_uid != rustix::process::geteuid().as_raw() && stat.st_uid != owner_of_new_files(&above)? {
            return Err(FolderError::Foreign(stat.st_uid));
        }
        if stat.st_mode & 0o002 != 0 || (!is_new && others_write(&folder, &stat)) {
            return Err(FolderError::Open);
        }
        // A private group may write, and some file systems give new directories other permissions than those that were asked
        // for.
        if stat.st_mode & OTHERS_WRITE != 0 {
            rustix::fs::fchmod(&folder, Mode::from_raw_mode(stat.st_mode & 0o7777 & !OTHERS_WRITE))?;
        }
        let path = above_path.join(name);
        // Without a spare descriptor, the directory can still be used.
        let spare = folder.try_clone().ok();
        Ok(Self { above, name: name.to_owned(), id: FileId::of(&folder)?, folder, path, spare })
    }

    /// The path at which it was created. If the parent directory is not private, another user may have replaced the
    /// directory at this path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The identity of the directory.
    #[must_use]
    pub const fn id(&self) -> FileId {
        self.id
    }

    /// The owner of the directory. It is not the effective user if the file system maps owners.
    ///
    /// # Errors
    /// Fails if the directory cannot be examined.
    pub fn owner(&self) -> io::Result<u32> {
        Ok(rustix::fs::fstat(&self.folder)?.st_uid)
    }

    /// Lets other users open files in the directory whose names they know. They cannot list or change the directory.
    ///
    /// # Errors
    /// Fails if the permissions cannot be changed.
    pub fn let_others_enter(&self) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.folder, Mode::from_raw_mode(0o711))?)
    }

    /// Creates a file in the directory for writing. Only this user can read it.
    ///
    /// # Errors
    /// Fails if the name exists or the file cannot be created.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR)?))
    }

    /// Opens a regular file in the directory for reading.
    ///
    /// # Errors
    /// Fails if the file does not exist, is a link, or cannot be opened.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.folder, name, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
    }

    /// Removes a file from the directory. It is not an error if the file does not exist.
    ///
    /// # Errors
    /// Fails if the file cannot be removed.
    pub fn remove_file(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Locks the directory until this value is dropped. Returns false if another process holds the lock, or if the file
    /// system does not support locks.
    #[must_use]
    pub fn lock(&self) -> bool {
        rustix::fs::flock(&self.folder, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// Whether the directory has no entries.
    ///
    /// # Errors
    /// Fails if the directory cannot be listed.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.names()?.is_empty())
    }

    /// Whether the directory has no other entries than these.
    ///
    /// # Errors
    /// Fails if the directory cannot be listed.
    pub fn has_only(&self, allowed: &[&str]) -> io::Result<bool> {
        Ok(self.names()?.iter().all(|name| allowed.iter().any(|allowed| name.as_bytes() == allowed.as_bytes())))
    }

    /// The names of the entries.
    fn names(&self) -> io::Result<Vec<CString>> {
        names(self.folder.as_fd())
    }

    /// Removes all entries except `keep`.
    ///
    /// # Errors
    /// Fails if an entry cannot be removed.
    pub fn empty(&self, keep: Option<&str>) -> io::Result<()> {
        let keep = keep.map(str::as_bytes);
        let mut names = self.names()?;
        names.retain(|name| Some(name.as_bytes()) != keep);
        remove_entries(self.folder.as_fd(), names)
    }

    /// Removes the directory and its content.
    ///
    /// # Errors
    /// Fails if an entry cannot be removed, or if another directory has its name now. That directory is not changed.
    pub fn remove(mut self) -> Result<(), FolderError> {
        self.spare = None;
        self.empty(None)?;
        self.remove_empty()
    }

    /// Removes the directory if it is empty.
    ///
    /// # Errors
    /// See [`PrivateFolder::remove`].
    pub fn remove_empty(self) -> Result<(), FolderError> {
        if FileId::at(&self.above, &self.name) != Ok(self.id) {
            return Err(FolderError::Replaced);
        }
        // If another user replaces the directory at this moment, this call can only remove an empty directory.
        Ok(rustix::fs::unlinkat(&self.above, &self.name, AtFlags::REMOVEDIR)?)
    }
}

/// Makes the directory at `path` the working directory of this process, if it is still the directory `id`. Relative
/// paths then lead into this directory, even if another directory gets its name.
///
/// # Errors
/// Fails if the path no longer leads to that directory.
pub fn enter(path: &Path, id: FileId) -> Result<(), FolderError> {
    let folder = open_folder(rustix::fs::CWD, path.as_os_str())?;
    if FileId::of(&folder)? != id {
        return Err(FolderError::Replaced);
    }
    Ok(rustix::process::fchdir(&folder)?)
}

/// The absolute path of a file for messages. It is needed by a process that has entered a directory and uses relative
/// paths.
#[must_use]
pub fn shown(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn open_folder(above: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, FolderError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(above, name, flags, Mode::empty()).map_err(|errno| match errno {
        // For a link, the combination of O_DIRECTORY and O_NOFOLLOW fails with ENOTDIR.
        Errno::LOOP | Errno::NOTDIR => FolderError::NotAFolder,
        errno => errno.into(),
    })
}

/// Whether only the effective user and root can rename the entries of a directory that belong to them. In a sticky directory,
/// its owner can rename all entries, and other users only their own.
fn only_owners_rename(folder: &OwnedFd) -> io::Result<bool> {
    let stat = rustix::fs::fstat(folder)?;
    let owners = [Some(0), Some(rustix::process::geteuid().as_raw()), cufile_ffi::unmapped_owner()];
    let is_sticky = stat.st_mode & 0o1000 != 0;
    Ok(owners.contains(&Some(stat.st_uid)) && (is_sticky || !others_write(folder, &stat)))
}

/// Whether users other than the owner have write permission.
fn others_write(folder: impl AsFd, stat: &rustix::fs::Stat) -> bool {
    stat.st_mode & writers(stat.st_gid, own_ids(), has_access_list(folder)) != 0
}

/// The effective user and group.
#[must_use]
pub fn own_ids() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// Whether an open file has a POSIX access control list.
#[must_use]
pub fn has_access_list(file: impl AsFd) -> bool {
    rustix::fs::fgetxattr(file, ACCESS_LIST, &mut [0_u8; 0][..]).is_ok()
}

/// The bits of a mode with which other users may write a file of this group, for a user with its group. Many systems
/// create a private group for each user and permit it to write with their umask (002). An access control list could
/// permit other users.
#[must_use]
pub fn writers(group: u32, (user, own_group): (u32, u32), has_list: bool) -> u32 {
    let is_private = !has_list && cufile_ffi::private_group(user, own_group) == Some(group);
    if is_private { 0o002 } else { OTHERS_WRITE }
}

/// The owner that a directory's file system gives to new files of this process. This is not the effective user if the
/// file system maps owners (NFS with root_squash, or mounts with a fixed uid).
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
    listed(&mut rustix::fs::Dir::read_from(folder)?)
}

fn listed(folder: &mut rustix::fs::Dir) -> io::Result<Vec<CString>> {
    let mut found = Vec::new();
    for entry in folder {
        let name = entry?.file_name().to_owned();
        if name.as_bytes() != b"." && name.as_bytes() != b".." {
            found.push(name);
        }
    }
    Ok(found)
}

/// Removes entries of a directory: files, links, and directories with their content. Links are removed and never followed. If
/// another file system or directory is mounted on an entry, the function fails. Directories inside of directories are first moved to
/// the top, so that one descriptor is enough for any depth.
fn remove_entries(top: BorrowedFd<'_>, mut names: Vec<CString>) -> io::Result<()> {
    let mount = Mount::of(top)?;
    let mut moved = 0_u32;
    while let Some(name) = names.pop() {
        if is_unlinked(top, &name)? {
            continue;
        }
        is_on(mount, top, &name)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut inner = rustix::fs::Dir::new(rustix::fs::openat(top, &name, flags, Mode::empty())?)?;
        for entry in listed(&mut inner)? {
            if is_unlinked(inner.fd()?, &entry)? {
                continue;
            }
            is_on(mount, inner.fd()?, &entry)?;
            loop {
                let free = CString::new(format!(".gds-top-removed-{moved}"))?;
                moved = moved.checked_add(1).ok_or(Errno::OVERFLOW)?;
                match rustix::fs::renameat(inner.fd()?, &entry, top, &free) {
                    Ok(()) => {
                        names.push(free);
                        break;
                    }
                    // A directory or a file has this name.
                    Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        drop(inner);
        rustix::fs::unlinkat(top, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Removes an entry if it is not a directory. Returns false if it is one.
fn is_unlinked(folder: BorrowedFd<'_>, name: &CString) -> io::Result<bool> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        // For a directory, Linux returns EISDIR. POSIX also allows EPERM.
        Err(Errno::ISDIR | Errno::PERM) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Fails if an entry is on another mount, also of the same file system.
fn is_on(mount: Mount, folder: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    if Mount::at(folder, name)? == mount {
        return Ok(());
    }
    Err(io::Error::other(format!("another directory or file system is mounted at {}", name.to_string_lossy())))
}

#[cfg(test)]
#[path = "folder_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
