//! A process group that the kernel kills when the last process that holds a pipe's writing end has ended. No process
//! has to be running for that, so it also works after SIGKILL of several processes at the same time.

use rustix::io::{FdFlags, fcntl_setfd};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsRawFd;

/// include/uapi/asm-generic/fcntl.h. The crate `libc` has no name for it on all systems.
const F_SETSIG: libc::c_int = 10;

/// The writing end. Only this process holds it. The kernel kills the group when it closes.
#[derive(Debug)]
pub struct GroupEnd {
    /// The group's processes inherit the reading end. The kernel needs a process that holds it.
    reading: Option<PipeReader>,
    _writing: PipeWriter,
}

impl GroupEnd {
    /// Creates the pipe. Child processes that are started next inherit its reading end.
    ///
    /// # Errors
    /// Fails if no descriptors are left.
    pub fn new() -> io::Result<Self> {
        let (reading, writing) = io::pipe()?;
        fcntl_setfd(&reading, FdFlags::empty())?;
        Ok(Self { reading: Some(reading), _writing: writing })
    }

    /// Names the group, and closes the reading end in this process.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn name(&mut self, group: u32) -> io::Result<()> {
        let Some(reading) = self.reading.take() else { return Ok(()) };
        let group = i32::try_from(group).map_err(io::Error::other)?;
        let fd = reading.as_raw_fd();
        // SAFETY: the descriptor is open during all calls, and the arguments are plain numbers.
        let done = unsafe {
            // The signal is sent when the pipe changes. Nothing is written to it, so its close is the only change.
            libc::fcntl(fd, F_SETSIG, libc::SIGKILL) == 0
                && libc::fcntl(fd, libc::F_SETOWN, -group) == 0
                && libc::fcntl(fd, libc::F_SETFL, libc::O_ASYNC) == 0
        };
        if done { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    #[test]
    fn the_group_is_killed_when_the_pipe_closes() {
        let mut end = GroupEnd::new().unwrap();
        let mut child = Command::new("sh").args(["-c", "sleep 3600 & wait"]).process_group(0).spawn().unwrap();
        end.name(child.id()).unwrap();
        assert!(child.try_wait().unwrap().is_none());
        drop(end);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}
