//! A process that removes probes after this one has ended.
//!
//! The kernel waits about 0.1 s when the last descriptor of a probe is closed, for one probe after another. With the
//! probes of 16 CPUs, this takes a minute, in which a process cannot end. So a second process has copies of the
//! descriptors. It closes them when this process has closed its own, or was killed.

use std::io::{self, PipeWriter, pipe};
use std::os::fd::{AsRawFd, OwnedFd};

/// The request that stops a perf event (linux/perf_event.h).
const DISABLE: libc::c_ulong = 0x2401;

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
        // SAFETY: the child only makes system calls until it ends, because other threads may hold locks.
        unsafe {
            match libc::fork() {
                -1 => return Err(io::Error::last_os_error()),
                // The grandchild belongs to the init process, which takes its exit status.
                0 => match libc::fork() {
                    0 => keep(&kept, reader.as_raw_fd()),
                    _ => libc::_exit(0),
                },
                child => _ = libc::waitpid(child, std::ptr::null_mut(), 0),
            }
        }
        Ok(Self { _alive: writer })
    }
}

/// Waits until the other end of the pipe is closed, and ends. This closes the descriptors.
///
/// # Safety
/// The process must be a forked child without other threads.
unsafe fn keep(kept: &[i32], reader: i32) -> ! {
    // SAFETY: only system calls with descriptors of this process and a buffer of one byte.
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
        libc::_exit(0)
    }
}
