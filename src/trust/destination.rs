//! A directory into which results are written. Its path is resolved once, without links of other users. All files in it
//! are created, examined, renamed and removed by name in the open directory.
//!
//! The directory may belong to another user. That user can change its entries at any time. No call follows a link in it
//! and no name contains a directory, so that user can only affect entries of this directory.

use super::file_id::FileId;
use super::maker::Maker;
use super::walk::{Made, Owners, listable, make_folder, make_folders, open_folder, open_nearest};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, flock};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

/// The prefix of the names of unfinished files.
const PREFIX: &str = ".gds-top-file-";
/// Maximum number of entries of a directory that are examined for files of killed processes.
const MOST_EXAMINED: usize = 20_000;

/// An open directory for results. The directories that were created for it are removed when it is dropped, if they are
/// empty.
#[derive(Debug)]
pub struct Destination {
    held: OwnedFd,
    path: PathBuf,
    made: Vec<Made>,
}

impl Destination {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// Fails if it does not exist, is not a directory, or is behind a link of another user.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { held: open_folder(path)?, path: path.to_owned(), made: Vec::new() })
    }

    /// Opens a directory and creates it if it is missing.
    ///
    /// # Errors
    /// Fails if it cannot be created, is not a directory, is behind a link of another user, or if `owners` forbids it.
    pub fn make(path: &Path, owners: Owners) -> io::Result<Self> {
        let mut made = Unneeded(Vec::new());
        let held = make_folders(path, owners, &mut made.0)?;
        Ok(Self { held, path: path.to_owned(), made: std::mem::take(&mut made.0) })
    }

    /// Opens the nearest existing directory, without creating one. The second value is true if the directory is missing.
    ///
    /// # Errors
    /// See [`Destination::open`].
    pub fn nearest(path: &Path, owners: Owners) -> io::Result<(Self, bool)> {
        let (held, missing) = open_nearest(path, owners)?;
        Ok((Self { held, path: path.to_owned(), made: Vec::new() }, missing))
    }

    /// Opens the directory of a file, which need not exist, and returns the name of the file.
    ///
    /// # Errors
    /// Fails if the path has no file name. The errors of [`Destination::open`].
    pub fn of_file(path: &Path) -> io::Result<(Self, OsString)> {
        let name =
            path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it is not a file name"))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok((Self::open(folder)?, name.to_owned()))
    }

    /// Opens a directory in this one and creates it if it is missing. A link is not followed.
    ///
    /// # Errors
    /// Fails if it cannot be created, or if its name belongs to a link or a file.
    pub fn inner(&self, name: &str) -> io::Result<Self> {
        let mut made = Unneeded(make_folder(&self.held, OsStr::new(name), Owners::Any)?.into_iter().collect());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::openat(&self.held, name, flags, Mode::empty())?;
        Ok(Self { held, path: self.path.join(name), made: std::mem::take(&mut made.0) })
    }

    /// Keeps the directories that were created, also if they are empty.
    pub fn keep(mut self) {
        self.made.clear();
    }

    /// The path of an entry, for messages.
    #[must_use]
    pub fn shown(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// Whether the directory was created for this value.
    #[must_use]
    pub fn is_new(&self) -> bool {
        !self.made.is_empty()
    }

    /// The directory, for other `*at` calls and for reading through procfs.
    #[must_use]
    pub const fn held(&self) -> &OwnedFd {
        &self.held
    }

    /// The absolute path without links, as procfs shows it.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn real(&self) -> io::Result<PathBuf> {
        let held = format!("/proc/self/fd/{}", self.held.as_raw_fd());
        std::fs::read_link(held).or_else(|_| std::fs::canonicalize(&self.path))
    }

    /// The identity of an entry; `None` if it does not exist. A link is not followed.
    #[must_use]
    pub fn id(&self, name: impl AsRef<OsStr>) -> Option<FileId> {
        FileId::at(&self.held, name.as_ref()).ok()
    }

    /// Creates a file for reading and writing. `mode` is reduced by the umask.
    ///
    /// # Errors
    /// Fails if the name exists or the file cannot be created.
    pub fn create(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.held, name.as_ref(), flags, Mode::from_raw_mode(mode))?))
    }

    /// Opens a regular file for reading; `None` if the name does not exist. A link is not followed, and a FIFO is not
    /// waited for.
    ///
    /// # Errors
    /// Fails if the entry is not a regular file, or if it cannot be opened.
    pub fn read(&self, name: impl AsRef<OsStr>) -> io::Result<Option<File>> {
        let not_regular = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
        let stat = match rustix::fs::statat(&self.held, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        // Opening a device could change it.
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(not_regular());
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.held, name.as_ref(), flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(Some(file)) } else { Err(not_regular()) }
    }

    /// Renames an entry and replaces an entry with the new name.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.held, from.as_ref(), &self.held, to.as_ref())?)
    }

    /// Renames an entry if the new name is free.
    ///
    /// # Errors
    /// Fails with [`io::ErrorKind::AlreadyExists`] if the new name exists.
    pub fn rename_new(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        match rustix::fs::renameat_with(&self.held, from, &self.held, to, RenameFlags::NOREPLACE) {
            // The file system does not support the flag.
            Err(Errno::INVAL | Errno::NOSYS) if self.id(to).is_none() => self.rename(from, to),
            Err(Errno::INVAL | Errno::NOSYS) => Err(Errno::EXIST.into()),
            renamed => Ok(renamed?),
        }
    }

    /// Removes a file or a link. It is not an error if it does not exist.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.held, name.as_ref(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes a file if its name still belongs to `id`.
    pub fn remove_same(&self, name: impl AsRef<OsStr>, id: FileId) {
        if self.id(&name) == Some(id) {
            // If this fails, nothing more can be done.
            let _ = self.remove(name);
        }
    }

    /// Flushes the entries to the disk.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(listable(&self.held)?)?)
    }

    /// Creates a private file that is renamed when it is complete. It is removed when its value is dropped. Files of
    /// killed processes are removed first.
    ///
    /// # Errors
    /// Fails if the file cannot be created.
    pub fn unfinished_file(&self) -> io::Result<Unfinished<'_>> {
        self.unfinished(0o600)
    }

    /// Like [`Self::unfinished_file`], but other users can read the file if the umask permits it. They cannot write it,
    /// whatever the umask is.
    ///
    /// # Errors
    /// Fails if the file cannot be created.
    pub fn unfinished_shared_file(&self) -> io::Result<Unfinished<'_>> {
        self.unfinished(0o644)
    }

    fn unfinished(&self, mode: u32) -> io::Result<Unfinished<'_>> {
        self.remove_unfinished(|maker| !maker.may_live());
        // The operating system provides the seed of each state.
        let number = std::hash::RandomState::new().build_hasher().finish();
        let name = format!("{PREFIX}{}-{number:016x}", Maker::own());
        let file = self.create(&name, mode)?;
        let id = match FileId::of(&file) {
            Ok(id) => id,
            Err(errno) => {
                let _ = self.remove(&name);
                return Err(errno.into());
            }
        };
        // The lock shows other processes that the creator is alive, even if they cannot see it, for example from
        // another container.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(Unfinished { folder: self, name, id, file })
    }

    /// Removes the unfinished files of these processes. Links and files of other users are kept.
    pub(super) fn remove_unfinished(&self, is_left_by: impl Fn(Maker) -> bool) {
        let Ok(entries) = listable(&self.held).and_then(rustix::fs::Dir::new) else { return };
        for entry in entries.take(MOST_EXAMINED).flatten() {
            let name = entry.file_name();
            let maker = name.to_str().ok().filter(|name| name.starts_with(PREFIX)).and_then(Maker::of);
            if !maker.is_some_and(&is_left_by) {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let Ok(file) = rustix::fs::openat(&self.held, name, flags, Mode::empty()) else { continue };
            let is_ours = rustix::fs::fstat(&file).is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw());
            if is_ours && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                // If another user replaces the file at this moment, only the entry of that user is removed.
                let _ = rustix::fs::unlinkat(&self.held, name, AtFlags::empty());
            }
        }
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        drop(Unneeded(std::mem::take(&mut self.made)));
    }
}

/// Created directories, which are removed on drop if they are empty.
struct Unneeded(Vec<Made>);

impl Drop for Unneeded {
    fn drop(&mut self) {
        for one in self.0.iter().rev() {
            if FileId::at(&one.above, &one.name) == Ok(one.id) {
                // This call only removes empty directories.
                let _ = rustix::fs::unlinkat(&one.above, &one.name, AtFlags::REMOVEDIR);
            }
        }
    }
}

/// A private file that has no final name yet.
#[derive(Debug)]
pub struct Unfinished<'a> {
    folder: &'a Destination,
    name: String,
    id: FileId,
    file: File,
}

impl Unfinished<'_> {
    /// The open file.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// The open file.
    pub const fn file_mut(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives the file its name and replaces an existing file.
    ///
    /// # Errors
    /// Fails if another file has the temporary name now, or if renaming fails.
    pub fn persist(self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.check()?;
        self.folder.rename(&self.name, name)
    }

    /// Gives the file its name if the name is free.
    ///
    /// # Errors
    /// Fails with [`io::ErrorKind::AlreadyExists`] if the name exists.
    pub fn persist_new(self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.check()?;
        self.folder.rename_new(&self.name, name)
    }

    fn check(&self) -> io::Result<()> {
        let is_same = self.folder.id(&self.name) == Some(self.id);
        is_same.then_some(()).ok_or_else(|| io::Error::other("another file took the place of the temporary file"))
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // After a rename, the name no longer belongs to the file.
        self.folder.remove_same(&self.name, self.id);
    }
}

#[cfg(test)]
#[path = "destination_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
