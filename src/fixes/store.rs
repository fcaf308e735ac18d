//! The folder of the journal: opened part by part without following a link, and used only if no other user can write in it or in a folder above it.

use super::FixError;
use crate::trust::unmapped_owner;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Component, Path, PathBuf};

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// Why a folder of the journal is not used.
#[derive(Debug)]
pub(super) enum Closed {
    /// This user may not open it.
    Denied(PathBuf),
    /// Another user could have written there, or it cannot be opened.
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

/// The folder in which the search for the journal begins, and the names that follow.
#[derive(Debug)]
pub(super) struct Chain {
    top: OwnedFd,
    shown: PathBuf,
    names: Vec<OsString>,
}

impl Chain {
    /// The folder `names` below an open folder that the user named.
    pub(super) fn below(top: OwnedFd, shown: &Path, names: &[&str]) -> Self {
        Self { top, shown: shown.to_owned(), names: names.iter().map(OsString::from).collect() }
    }

    /// A folder by its absolute path, from `/` on. Links on the way to it are resolved first, and every folder of the result is examined.
    pub(super) fn from_root(path: &Path) -> Result<Self, Closed> {
        let refused = |what: String| Closed::Refused(path.to_owned(), what);
        let there = path.ancestors().find(|part| part.symlink_metadata().is_ok()).unwrap_or(Path::new("/"));
        let real = there.canonicalize().map_err(|e| refused(format!("folder cannot be resolved: {e}")))?;
        let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
        let mut names = Vec::new();
        for part in real.components().chain(rest.components()) {
            match part {
                Component::Normal(name) => names.push(name.to_owned()),
                Component::RootDir => {}
                _ => return Err(refused("folder is not named by an absolute path without '..'".to_owned())),
            }
        }
        let top = rustix::fs::open("/", FOLDER, Mode::empty())
            .map_err(|e| refused(format!("folder cannot be opened: {e}")))?;
        Ok(Self { top, shown: PathBuf::from("/"), names })
    }

    /// The last folder; `None` if one on the way does not exist. With `make`, missing ones are made for this user alone, whatever the umask is.
    pub(super) fn open(&self, make: bool) -> Result<Option<OwnedFd>, Closed> {
        self.descend(self.names.len(), make)
    }

    fn descend(&self, count: usize, make: bool) -> Result<Option<OwnedFd>, Closed> {
        let mut at = self.shown.clone();
        let failed = |at: &Path, e: Errno| match e {
            Errno::ACCESS => Closed::Denied(at.to_owned()),
            e => Closed::Refused(at.to_owned(), format!("folder cannot be opened: {e}")),
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
                    Err(e) => return Err(Closed::Refused(at, format!("folder cannot be made: {e}"))),
                }
                next = rustix::fs::openat(&folder, name, FOLDER, Mode::empty());
            }
            folder = next.map_err(|e| match e {
                // O_DIRECTORY with O_NOFOLLOW answers a link with ENOTDIR.
                Errno::LOOP | Errno::NOTDIR if is_link(&folder, name) => Closed::Refused(
                    at.clone(),
                    "folder is a symbolic link, and fixes never write through one".to_owned(),
                ),
                e => failed(&at, e),
            })?;
            trust(&folder, &at, number + 1 == count)?;
        }
        Ok(Some(folder))
    }

    /// Removes the last `count` folders as far as they are empty, the innermost first.
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
        Some(what) => Err(Closed::Refused(at.to_owned(), format!("folder {what}"))),
    }
}

/// Why another user could have written a file or folder, as a part of a sentence: it must belong to this user or
/// root, and no other user may write to it.
///
/// `is_on_the_way`: a folder with the sticky bit is then enough. Others can add names to it, but they can neither remove nor rename the next folder, which is
/// examined as well.
pub(super) fn distrust(file: impl AsFd, is_on_the_way: bool) -> Option<String> {
    let stat = match rustix::fs::fstat(&file) {
        Ok(stat) => stat,
        Err(e) => return Some(format!("cannot be examined: {e}")),
    };
    let facts = Facts {
        owner: stat.st_uid,
        group: stat.st_gid,
        mode: stat.st_mode & 0o7777,
        has_list: rustix::fs::fgetxattr(&file, "system.posix_acl_access", &mut [0_u8; 0][..]).is_ok(),
        is_on_the_way,
    };
    let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    facts.distrust(user, unmapped_owner())
}

/// The facts that decide whether a file or folder is trusted.
#[derive(Clone, Copy)]
struct Facts {
    owner: u32,
    group: u32,
    mode: u32,
    /// It has an access list.
    has_list: bool,
    is_on_the_way: bool,
}

impl Facts {
    fn distrust(self, (user, group): (u32, u32), unmapped: Option<u32>) -> Option<String> {
        // In a container in which root is not mapped, `/` and the folders of the system show the overflow owner.
        let is_of_the_system = self.owner == 0 || (self.is_on_the_way && unmapped == Some(self.owner));
        if !is_of_the_system && self.owner != user {
            return Some(format!("belongs to another user (uid {}); use one that belongs to you", self.owner));
        }
        let is_sticky = self.is_on_the_way && self.mode & 0o1000 != 0;
        // The group of a user alone, which many systems make with the user and let write by their umask (002). An access list could let others in.
        let is_alone = user != 0 && self.group == user && self.group == group && !self.has_list;
        let others = if is_alone { 0o002 } else { 0o022 };
        (self.mode & others != 0 && !is_sticky).then(|| {
            format!("can be written by other users (mode {:04o}); see what is in it, then run chmod go-w", self.mode)
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
            // A sticky folder may be on the way, not the last one; its owner could exchange what is in it.
            (above(0, 0, 0o1777), ALICE, None, true),
            (facts(0, 0, 0o1777), ALICE, None, false),
            (above(1001, 1001, 0o1777), ALICE, None, false),
            (above(0, 0, 0o777), ALICE, None, false),
            // The group of this user alone.
            (facts(1000, 1000, 0o775), ALICE, None, true),
            (facts(1000, 100, 0o775), ALICE, None, false),
            (listed(1000, 1000, 0o775), ALICE, None, false),
            (facts(1000, 1000, 0o775), (1000, 100), None, false),
            // A container in which root is not mapped.
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
