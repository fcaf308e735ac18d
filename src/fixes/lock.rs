//! Ensures that only one process changes the journal at a time, so that a running fix is not treated as interrupted.

use super::error::FixError;
use super::journal::{Journal, LOCK};
use super::stop::set_working;
use super::store::distrust;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// The maximum time to wait for the lock. Commands that change nothing hold it only briefly.
const PATIENCE: Duration = Duration::from_secs(1);

/// A lock on the journal. The kernel releases it when the process ends.
#[derive(Debug)]
pub(super) struct Lock(OwnedFd);

impl Lock {
    fn new(file: OwnedFd) -> Self {
        set_working(true);
        Self(file)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The lock is released explicitly, because a child process that another thread starts has a copy of the
        // descriptor until it executes its program.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
        set_working(false);
    }
}

/// Locks the journal.
pub(super) fn lock(journal: &Journal) -> Result<Lock, FixError> {
    let folder = journal.folder()?;
    let bad = |what: String| FixError::File { path: journal.path().join(LOCK), what: format!("this file {what}") };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let until = Instant::now() + PATIENCE;
    loop {
        let fd = rustix::fs::openat(folder, LOCK, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|e| bad(format!("cannot be opened: {e}")))?;
        if let Some(what) = distrust(&fd, false) {
            return Err(bad(what));
        }
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            // Another process may have removed this file together with the empty journal before it released the lock.
            Ok(()) if is_still_there(folder, &fd) => return Ok(Lock::new(fd)),
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            Err(Errno::WOULDBLOCK) => return Err(FixError::Busy { journal: journal.path().to_owned() }),
            // The file system does not support locks.
            Err(_) => return Ok(Lock::new(fd)),
        }
    }
}

fn is_still_there(folder: &OwnedFd, file: &OwnedFd) -> bool {
    let named = rustix::fs::statat(folder, LOCK, AtFlags::SYMLINK_NOFOLLOW);
    let open = rustix::fs::fstat(file);
    matches!((named, open), (Ok(a), Ok(b)) if (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
}

/// Whether another process is using the journal. It writes nothing.
pub(super) fn is_locked(journal: &Journal) -> bool {
    let Ok(folder) = journal.folder() else { return false };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(fd) = rustix::fs::openat(folder, LOCK, flags, Mode::empty()) else { return false };
    let locked = rustix::fs::flock(&fd, FlockOperation::NonBlockingLockShared);
    let _ = rustix::fs::flock(&fd, FlockOperation::Unlock);
    locked == Err(Errno::WOULDBLOCK)
}
