//! The directory of the journal. It is opened component by component without following links. It is used only if no
//! other user can write to it or to a directory above it.

use super::error::FixError;
use crate::trust::{has_access_list, own_ids, unmapped_owner, writers};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Component, Path, PathBuf};

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// Why a directory of the journal is not used.
#[derive(Debug)]
pub(super) enum Closed {
    /// This user has no permission to open it.
    Denied(PathBuf),
    /// Another user could have written to it, or it cannot be opened.
    Refused(PathBuf, String),
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(path) => write!(f, "{}: the journal cannot be opened: permission denied", path.display()),
            Self::Refused(path, what) => write!(f, "{}: the journal is not used: this {what}", path.display()),
        }
    }
}

impl From<Closed> for FixError {
    fn from(closed: Closed) -> Self {
        Self::Journal { what: closed.to_string() }
    }
}

/// The directory in which the search for the journal starts, and the names below it.
#[derive(Debug)]
pub(super) struct Chain {
    top: OwnedFd,
    shown: PathBuf,
    names: Vec<OsString>,
}

impl Chain {
    /// The directory `names` below an open directory that the user named.
    pub(super) fn below(top: OwnedFd, shown: &Path, names: &[&str]) -> Self {
        Self { top, shown: shown.to_owned(), names: names.iter().map(OsString::from).collect() }
    }

    /// A directory by its absolute path. Links in the path are resolved first, and then every directory from `/` on
    /// is examined.
    pub(super) fn from_root(path: &Path) -> Result<Self, Closed> {
        let refused = |what: String| Closed::Refused(path.to_owned(), what);
        let there = path.ancestors().find(|part| part.symlink_metadata().is_ok()).unwrap_or(Path::new("/"));
        let real = there.canonicalize().map_err(|e| refused(format!("directory cannot be resolved: {e}")))?;
        let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
        let mut names = Vec::new();
        for part in real.components().chain(rest.components()) {
            match part {
                Component::Normal(name) => names.push(name.to_owned()),
                Component::RootDir => {}
                _ => return Err(refused("directory is not named by an absolute path without '..'".to_owned())),
            }
        }
        let top = rustix::fs::open("/", FOLDER, Mode::empty())
            .map_err(|e| refused(format!("directory cannot be opened: {e}")))?;
        Ok(Self { top, shown: PathBuf::from("/"), names })
    }

    /// Opens the last directory. `None` if a directory does not exist. With `make`, missing directories are created
    /// with access only for this user, independent of the umask.
    pub(super) fn open(&self, make: bool) -> Result<Option<OwnedFd>, Closed> {
        self.descend(self.names.len(), make)
    }

    fn descend(&self, count: usize, make: bool) -> Result<Option<OwnedFd>, Closed> {
        let mut at = self.shown.clone();
        let failed = |at: &Path, e: Errno| match e {
            Errno::ACCESS => Closed::Denied(at.to_owned()),
            e => Closed::Refused(at.to_owned(), format!("directory cannot be opened: {e}")),
        };
        let mut folder = self.top.try_clone().map_err(|e| Closed::Refused(at.clone(), e.to_string()))?;
        trust(&folder, &at, count == 0)?;
        for (number, name) in self.names[..count].iter().enumerate() {
            at.push(name);
            let mut next = rustix::fs::openat(&folder, name, FOLDER, Mode::empty());
            if next.as_ref().err() == Some(&Errno::NOENT) {
                if !make {
                    return Ok(None);
                }
                match rustix::fs::mkdirat(&folder, name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(e) => return Err(Closed::Refused(at, format!("directory cannot be created: {e}"))),
                }
                next = rustix::fs::openat(&folder, name, FOLDER, Mode::empty());
            }
            folder = next.map_err(|e| match e {
                // For a link, O_DIRECTORY with O_NOFOLLOW fails with ENOTDIR.
                Errno::LOOP | Errno::NOTDIR if is_link(&folder, name) => Closed::Refused(
                    at.clone(),
                    "directory is a symbolic link, and fixes never write through one".to_owned(),
                ),
                e => failed(&at, e),
            })?;
            trust(&folder, &at, number + 1 == count)?;
        }
        Ok(Some(folder))
    }

    /// Removes the last `count` directories if they are empty, innermost first.
    pub(super) fn remove_empty(&self, count: usize) {
        for left in (self.names.len().saturating_sub(count)..self.names.len()).rev() {
            let Ok(Some(parent)) = self.descend(left, false) else { return };
            if rustix::fs::unlinkat(&parent, &self.names[left], AtFlags::REMOVEDIR).is_err() {
                return;
            }
        }
    }
}

pub(super) fn is_link(folder: &OwnedFd, name: &OsStr) -> bool {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

fn trust(folder: &OwnedFd, at: &Path, is_last: bool) -> Result<(), Closed> {
    match distrust(folder, !is_last) {
        None => Ok(()),
        Some(what) => Err(Closed::Refused(at.to_owned(), format!("directory {what}"))),
    }
}

/// Why another user could have written a file or directory, as a part of a sentence. It must belong to this user or
/// root, and no other user may have write permission.
///
/// If `is_on_the_way` is set, a directory with the sticky bit is accepted. Other users can then add names to it, but
/// they cannot remove or rename the next directory, which is also examined.
pub(super) fn distrust(file: impl AsFd, is_on_the_way: bool) -> Option<String> {
    let stat = match rustix::fs::fstat(&file) {
        Ok(stat) => stat,
        Err(e) => return Some(format!("cannot be examined: {e}")),
    };
    let facts = Facts {
        owner: stat.st_uid,
        group: stat.st_gid,
        mode: stat.st_mode & 0o7777,
        has_list: has_access_list(&file),
        is_on_the_way,
    };
    facts.distrust(own_ids(), unmapped_owner())
}

/// The facts that determine whether a file or directory is trusted.
#[derive(Clone, Copy)]
struct Facts {
    owner: u32,
    group: u32,
    mode: u32,
    /// Whether it has an access control list.
    has_list: bool,
    is_on_the_way: bool,
}

impl Facts {
    fn distrust(self, (user, group): (u32, u32), unmapped: Option<u32>) -> Option<String> {
        // In a container in which root is not mapped, `/` and system directories have the overflow user id as their
        // owner.
        let is_of_the_system = self.owner == 0 || (self.is_on_the_way && unmapped == Some(self.owner));
        if !is_of_the_system && self.owner != user {
            return Some(format!("belongs to another user (uid {}); use one that belongs to you", self.owner));
        }
        let is_sticky = self.is_on_the_way && self.mode & 0o1000 != 0;
        let others = writers(self.group, (user, group), self.has_list);
        (self.mode & others != 0 && !is_sticky).then(|| {
            format!("can be written by other users (mode {:04o}); check its content, then run chmod go-w", self.mode)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_trusted_if_no_other_user_can_write_in_it() {
        let facts = |owner, group, mode| Facts { owner, group, mode, has_list: false, is_on_the_way: false };
        let above = |owner, group, mode| Facts { is_on_the_way: true, ..facts(owner, group, mode) };
        let listed = |owner, group, mode| Facts { has_list: true, ..facts(owner, group, mode) };
        const ROOT: (u32, u32) = (0, 0);
        const ALICE: (u32, u32) = (1000, 1000);
        for (number, (facts, user, unmapped, wanted)) in [
            (facts(0, 0, 0o700), ROOT, None, true),
            (facts(0, 0, 0o755), ALICE, None, true),
            (facts(1000, 1000, 0o700), ALICE, None, true),
            (facts(1000, 1000, 0o700), ROOT, None, false),
            (facts(1001, 1001, 0o700), ALICE, None, false),
            (facts(0, 0, 0o777), ROOT, None, false),
            (facts(0, 0, 0o775), ROOT, None, false),
            // A directory with the sticky bit is accepted above the journal, but not as its own directory, because
            // its owner could replace its content.
            (above(0, 0, 0o1777), ALICE, None, true),
            (facts(0, 0, 0o1777), ALICE, None, false),
            (above(1001, 1001, 0o1777), ALICE, None, false),
            (above(0, 0, 0o777), ALICE, None, false),
            // The group is the private group of this user.
            (facts(1000, 1000, 0o775), ALICE, None, true),
            (facts(1000, 100, 0o775), ALICE, None, false),
            (listed(1000, 1000, 0o775), ALICE, None, false),
            (facts(1000, 1000, 0o775), (1000, 100), None, false),
            // This is a container in which root is not mapped.
            (above(65534, 65534, 0o755), ALICE, Some(65534), true),
            (facts(65534, 65534, 0o755), ALICE, Some(65534), false),
            (above(65534, 65534, 0o755), ALICE, None, false),
        ]
        .into_iter()
        .enumerate()
        {
            let why = facts.distrust(user, unmapped);
            assert_eq!(why.is_none(), wanted, "row {number}: {why:?}");
        }
    }
}
