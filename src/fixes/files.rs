//! Writes files atomically and never through a symbolic link.

use super::error::FixError;
use super::store::is_link;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid, XattrFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};

/// The maximum size in bytes of a file that a fix changes.
const MAX_BYTES: u64 = 4 << 20;

/// The maximum size of the names of a file's extended attributes, and of one value (the limit of Linux).
const MAX_LABELS: usize = 64 << 10;

/// The content of a file, its permission bits and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) text: String,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// An open directory and a file name in it. The directory was opened component by component without following links.
pub(super) struct Spot {
    folder: OwnedFd,
    name: OsString,
    path: PathBuf,
}

/// Opens the directory of `path` below an open directory. With `make`, missing directories are created.
///
/// `Ok(None)` means that a directory is missing. This is possible only without `make`.
pub(super) fn spot(root: &OwnedFd, path: &Path, make: bool) -> Result<Option<Spot>, FixError> {
    let bad = |what: String| FixError::File { path: path.to_owned(), what };
    let mut names: Vec<OsString> = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name.to_owned()),
            Component::RootDir => {}
            _ => return Err(bad("a fix writes to absolute paths without '..' only".to_owned())),
        }
    }
    let Some(name) = names.pop() else { return Err(bad("this is not a regular file".to_owned())) };
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let mut folder = rustix::io::fcntl_dupfd_cloexec(root, 0).map_err(|e| bad(format!("it cannot be opened: {e}")))?;
    let mut at = PathBuf::from("/");
    for part in names {
        at.push(&part);
        let mut next = rustix::fs::openat(&folder, &part, flags, Mode::empty());
        if next.as_ref().err() == Some(&Errno::NOENT) {
            if !make {
                return Ok(None);
            }
            rustix::fs::mkdirat(&folder, &part, Mode::from_raw_mode(0o755))
                .map_err(|e| bad(format!("the directory {} cannot be created: {e}", at.display())))?;
            sync(&folder);
            next = rustix::fs::openat(&folder, &part, flags, Mode::empty());
            // The mode does not depend on the shell's umask, because other users must be able to read the
            // configuration.
            if let Ok(made) = &next {
                rustix::fs::fchmod(made, Mode::from_raw_mode(0o755))
                    .map_err(|e| bad(format!("the mode of {} cannot be set: {e}", at.display())))?;
            }
        }
        folder = next.map_err(|e| match e {
            // For a link, O_DIRECTORY with O_NOFOLLOW fails with ENOTDIR, so the type of the entry is read.
            Errno::LOOP | Errno::NOTDIR if is_link(&folder, &part) => FixError::Symlink { path: at.clone() },
            e => bad(format!("the directory {} cannot be opened: {e}", at.display())),
        })?;
    }
    Ok(Some(Spot { folder, name, path: path.to_owned() }))
}

fn sync(folder: &OwnedFd) {
    // Some file systems cannot sync a directory. The rename is then as durable as the file system makes it.
    let _ = rustix::fs::fsync(folder);
}

impl Spot {
    fn bad(&self, what: impl Into<String>) -> FixError {
        FixError::File { path: self.path.clone(), what: what.into() }
    }

    /// The current file. `None` if it does not exist.
    pub(super) fn read(&self) -> Result<Option<Found>, FixError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(FixError::Symlink { path: self.path.clone() }),
            Err(e) => return Err(self.bad(format!("it cannot be read: {e}"))),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|e| self.bad(format!("it cannot be examined: {e}")))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(self.bad("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        File::from(fd)
            .take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| self.bad(format!("it cannot be read: {e}")))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(self.bad("it is longer than 4 MiB"));
        }
        let text = String::from_utf8(bytes).map_err(|_| FixError::NotText { path: self.path.clone() })?;
        Ok(Some(Found { text, mode: stat.st_mode & 0o7777, uid: stat.st_uid, gid: stat.st_gid }))
    }

    fn temporary(&self) -> OsString {
        let mut name = OsString::from(".gds-top-");
        name.push(&self.name);
        name
    }

    /// Writes the new content to a temporary file in the same directory. `half` is called when half of it is written.
    /// If it returns an error, the work stops.
    pub(super) fn stage(
        &self,
        text: &str,
        mode: u32,
        owner: Option<(u32, u32)>,
        half: &mut dyn FnMut() -> Result<(), FixError>,
    ) -> Result<(), FixError> {
        self.clear();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = self.temporary();
        let fd = rustix::fs::openat(&self.folder, &name, flags, Mode::from_raw_mode(0o600))
            .map_err(|e| self.bad(format!("a temporary file next to it cannot be created: {e}")))?;
        let mut file = File::from(fd);
        let (first, second) = text.as_bytes().split_at(text.len() / 2);
        let begun = file.write_all(first);
        if begun.is_ok() {
            half()?;
        }
        let done = begun.and_then(|()| {
            file.write_all(second)?;
            if let Some((uid, gid)) = owner {
                let now = rustix::fs::fstat(&file)?;
                if (now.st_uid, now.st_gid) != (uid, gid) {
                    rustix::fs::fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
                }
            }
            if owner.is_some() {
                self.keep_labels(&file)?;
            }
            // Set-id bits are never set, because no fix edits a program.
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o777))?;
            file.sync_all()
        });
        done.map_err(|e| {
            self.clear();
            self.bad(format!("the new content cannot be written: {e}"))
        })
    }

    /// Copies the labels and access lists of the replaced file to the new one.
    fn keep_labels(&self, new: &File) -> std::io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(old) = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty()) else { return Ok(()) };
        let mut names = vec![0_u8; MAX_LABELS];
        let Ok(length) = rustix::fs::flistxattr(&old, &mut names[..]) else { return Ok(()) };
        for name in names[..length].split(|b| *b == 0).filter(|name| !name.is_empty()) {
            // Some kernel attributes belong to the old bytes (security.ima), and others cannot be set.
            let kept: [&[u8]; 4] = [b"user.", b"trusted.", b"security.selinux", b"system.posix_acl_access"];
            if !kept.iter().any(|kept| name.starts_with(kept)) {
                continue;
            }
            let (mut was, mut is) = (vec![0_u8; MAX_LABELS], vec![0_u8; MAX_LABELS]);
            let Ok(was_length) = rustix::fs::fgetxattr(&old, name, &mut was[..]) else { continue };
            let has = rustix::fs::fgetxattr(new, name, &mut is[..]).is_ok_and(|n| is[..n] == was[..was_length]);
            if !has {
                rustix::fs::fsetxattr(new, name, &was[..was_length], XattrFlags::empty()).map_err(|e| {
                    let name = String::from_utf8_lossy(name);
                    std::io::Error::other(format!("its attribute {name} cannot be copied: {e}"))
                })?;
            }
        }
        Ok(())
    }

    /// Replaces the file by the staged content atomically.
    pub(super) fn commit(&self) -> Result<(), FixError> {
        rustix::fs::renameat(&self.folder, self.temporary(), &self.folder, &self.name).map_err(|e| {
            let hint = match e {
                Errno::PERM => "; it may be immutable: check with lsattr, change with chattr -i",
                Errno::BUSY => "; it is a separate mount, as in a container: change the mounted file",
                _ => "",
            };
            self.bad(format!("the file cannot be replaced: {e}{hint}"))
        })?;
        sync(&self.folder);
        Ok(())
    }

    /// Removes the temporary file of an interrupted fix.
    pub(super) fn clear(&self) {
        let _ = rustix::fs::unlinkat(&self.folder, self.temporary(), AtFlags::empty());
    }

    /// Removes the file.
    pub(super) fn remove(&self) -> Result<(), FixError> {
        match rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {
                sync(&self.folder);
                Ok(())
            }
            Err(e) => Err(self.bad(format!("it cannot be removed: {e}"))),
        }
    }
}

/// The current file below `root`. `None` if it does not exist.
pub(super) fn look(root: &OwnedFd, path: &Path) -> Result<Option<Found>, FixError> {
    match spot(root, path, false)? {
        Some(spot) => spot.read(),
        None => Ok(None),
    }
}

/// Whether a file below `root` is readable and has this text.
pub(super) fn has_text(root: &OwnedFd, path: &Path, text: &str) -> bool {
    matches!(look(root, path), Ok(Some(found)) if found.text == text)
}

/// The missing directories of `path`, outermost first.
pub(super) fn missing_folders(root: &OwnedFd, path: &Path) -> Result<Vec<PathBuf>, FixError> {
    let mut out = Vec::new();
    for folder in path.ancestors().skip(1).filter(|folder| folder.parent().is_some()) {
        // If a file is missing, there is no directory below it.
        match spot(root, &folder.join("x"), false)? {
            Some(_) => break,
            None => out.push(folder.to_owned()),
        }
    }
    out.reverse();
    Ok(out)
}

/// Removes empty directories that a fix created, innermost first.
pub(super) fn remove_folders(root: &OwnedFd, folders: &[PathBuf]) {
    for folder in folders.iter().rev() {
        if let Ok(Some(spot)) = spot(root, folder, false) {
            if rustix::fs::unlinkat(&spot.folder, &spot.name, AtFlags::REMOVEDIR).is_err() {
                return;
            }
            sync(&spot.folder);
        }
    }
}
