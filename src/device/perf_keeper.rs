//! A process that removes probes after this one has ended.
//!
//! The kernel waits up to 0.1 s when the last descriptor of a probe is closed, for one probe after another. With the
//! probes of 16 CPUs, this takes a minute, in which a process cannot end. So a second process has copies of the
//! descriptors. It closes them when this process has closed its own, or was killed.
//!
//! The kernel holds a lock while it removes a probe. To add one it needs the same lock, so without further measures
//! each new probe would wait for one removal. So the second process pauses while another process adds probes.

use rustix::fs::{FlockOperation, flock};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, PipeWriter, pipe};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// The request that stops a perf event (linux/perf_event.h).
const DISABLE: libc::c_ulong = 0x2401;
/// The file whose lock a process has while it adds or removes probes.
pub(super) const LOCKED: &str = "/sys/bus/event_source/devices/uprobe/type";
/// The file whose lock a process has while it removes all its probes. So only one of them competes for the other lock
/// with a process that adds probes.
const LOCKED_BY_REMOVER: &str = "/sys/bus/event_source/devices/uprobe/format/retprobe";
/// Time between two attempts to get the lock. A process that adds probes gets it first.
const TRY_EVERY: Duration = Duration::from_micros(200);
const REMOVER_TRIES_EVERY_US: libc::c_uint = 2000;
/// Any user can lock these files. So a lock is only waited for this long: two seconds for a process that adds probes.
/// A removal waits five minutes for all its locks together, of which one second for each probe.
const ADDER_WAITS: Duration = Duration::from_secs(2);
const REMOVER_TRIES: u32 = 500;
const ALL_REMOVER_TRIES: u32 = 150_000;

/// Stops the removal of the probes of other sessions until it is dropped.
#[derive(Debug)]
pub(super) struct NoRemoval(Option<File>);

impl NoRemoval {
    /// Waits until no probe is being removed.
    pub(super) fn new() -> Self {
        let until = Instant::now() + ADDER_WAITS;
        let Ok(file) = File::open(LOCKED) else { return Self(None) };
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() > until {
                return Self(None);
            }
            std::thread::sleep(TRY_EVERY);
        }
        Self(Some(file))
    }
}

impl Drop for NoRemoval {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            // A forked process may still have the file open, so closing it is not enough.
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

/// The connection to the second process, which ends when this is closed.
#[derive(Debug)]
pub(super) struct Keeper {
    _alive: PipeWriter,
}

impl Keeper {
    /// Starts the second process.
    ///
    /// # Errors
    /// Fails if it cannot be started. The descriptors are then closed by this process.
    pub(super) fn start(events: &[OwnedFd]) -> io::Result<Self> {
        let (reader, writer) = pipe()?;
        let mut kept: Vec<i32> = events.iter().map(AsRawFd::as_raw_fd).collect();
        kept.push(reader.as_raw_fd());
        kept.sort_unstable();
        let locks = [CString::new(LOCKED)?, CString::new(LOCKED_BY_REMOVER)?];
        // SAFETY: the child only makes system calls until it ends, because other threads may hold locks.
        unsafe {
            match libc::fork() {
                -1 => return Err(io::Error::last_os_error()),
                // The grandchild belongs to the init process, which takes its exit status.
                0 => match libc::fork() {
                    0 => keep(&kept, reader.as_raw_fd(), &locks),
                    _ => libc::_exit(0),
                },
                child => _ = libc::waitpid(child, std::ptr::null_mut(), 0),
            }
        }
        Ok(Self { _alive: writer })
    }
}

/// Tries to lock a file once, and again up to `tries` times, of which `left` are left for all calls. The file is not locked if the
/// descriptor is negative.
///
/// # Safety
/// Only system calls are made, so this may be called in a forked child.
unsafe fn try_lock(file: i32, tries: u32, left: &mut u32) {
    let until = left.saturating_sub(tries);
    // SAFETY: both calls have no conditions.
    unsafe {
        while file >= 0 && libc::flock(file, libc::LOCK_EX | libc::LOCK_NB) < 0 && *left > until {
            *left -= 1;
            libc::usleep(REMOVER_TRIES_EVERY_US);
        }
    }
}

/// Waits until the other end of the pipe is closed, closes the descriptors, and ends.
///
/// # Safety
/// The process must be a forked child without other threads.
unsafe fn keep(kept: &[i32], reader: i32, locks: &[CString; 2]) -> ! {
    // SAFETY: only system calls with descriptors of this process, a buffer of one byte and paths.
    unsafe {
        // A signal from the terminal must not end this process before the other one.
        libc::setsid();
        // Other descriptors, for example of pipes and locks, must not stay open.
        let mut from: libc::c_uint = 0;
        for fd in kept {
            let fd = fd.cast_unsigned();
            if fd > from {
                libc::syscall(libc::SYS_close_range, from, fd - 1, 0);
            }
            from = fd + 1;
        }
        libc::syscall(libc::SYS_close_range, from, libc::c_uint::MAX, 0);
        let mut byte = 0_u8;
        while libc::read(reader, (&raw mut byte).cast(), 1) < 0 && *libc::__errno_location() == libc::EINTR {}
        for fd in kept.iter().filter(|fd| **fd != reader) {
            libc::ioctl(*fd, DISABLE as _, 0);
        }
        let [lock, turn] = [0, 1].map(|at: usize| libc::open(locks[at].as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC));
        let mut left = ALL_REMOVER_TRIES;
        // Half of the time is for the removals of other sessions.
        try_lock(turn, ALL_REMOVER_TRIES / 2, &mut left);
        for fd in kept.iter().filter(|fd| **fd != reader) {
            try_lock(lock, REMOVER_TRIES, &mut left);
            libc::close(*fd);
            libc::flock(lock, libc::LOCK_UN);
            // Other processes can get the lock now.
            libc::usleep(REMOVER_TRIES_EVERY_US);
        }
        libc::_exit(0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_another_user_holds_delays_the_removal_of_all_probes_for_a_limited_time() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let held = File::open(path.path()).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        let file = File::open(path.path()).unwrap();
        let mut left = 8;
        for expected in [5, 2, 0, 0] {
            // SAFETY: the function has no further conditions outside a forked child.
            unsafe { try_lock(file.as_raw_fd(), 3, &mut left) };
            assert_eq!(left, expected);
        }
        drop(held);
        // SAFETY: as above.
        unsafe { try_lock(file.as_raw_fd(), 3, &mut left) };
        assert!(flock(File::open(path.path()).unwrap(), FlockOperation::NonBlockingLockExclusive).is_err());
    }
}
