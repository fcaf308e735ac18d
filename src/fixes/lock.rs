//! One process at a time: who recovers must not take for interrupted what another is still doing.

use super::{FixError, Place};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::io;

/// Held while the journal is worked on; the kernel releases it with the process, however that ends.
#[derive(Debug)]
pub(super) struct Lock(OwnedFd);

impl Drop for Lock {
    fn drop(&mut self) {
        // By word, not by closing alone: a child that another thread is starting holds a copy until it runs its program.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// Locks the folder of the journal; with `make` it is made first. `Ok(None)`: there is none.
pub(super) fn lock(place: &Place, make: bool) -> Result<Option<Lock>, FixError> {
    let folder = &place.state;
    let bad = |e: io::Error| FixError::File {
        path: folder.clone(),
        what: format!("the folder of the journal cannot be used: {e}; nothing was changed"),
    };
    if make {
        std::fs::create_dir_all(folder).map_err(bad)?;
    }
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let fd = match rustix::fs::open(folder, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(e) => return Err(bad(e.into())),
    };
    // Its entries say what is written back: those of somebody else are not to be believed.
    let owner = rustix::fs::fstat(&fd).map_err(|e| bad(e.into()))?.st_uid;
    if place.is_live() && owner != rustix::process::geteuid().as_raw() {
        return Err(bad(io::Error::other(format!("it belongs to another user (uid {owner})"))));
    }
    match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Lock(fd))),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(FixError::Busy { journal: folder.clone() }),
        // A file system without locks: then there is none to respect.
        Err(_) => Ok(Some(Lock(fd))),
    }
}

/// Whether another process works on the journal now. The lock is held for a moment only, and nothing is written.
pub(super) fn is_locked(place: &Place) -> bool {
    matches!(lock(place, false), Err(FixError::Busy { .. }))
}

/// Removes the journal's folder of a folder that stands for a machine, when nothing is in it any more.
pub(super) fn tidy(place: &Place) {
    if !place.is_live() {
        let _ = std::fs::remove_dir(place.state.join("journal"));
        let _ = std::fs::remove_dir(&place.state);
    }
}
