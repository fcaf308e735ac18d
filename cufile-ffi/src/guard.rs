//! Protects the process from side effects when the driver is opened: changes of descriptors 0 and 1, and an endless
//! loop.
//!
//! Sources: a failed open closed descriptor 0 (NVIDIA/DALI#5902, foundation-model-stack/fastsafetensors#102). The
//! library prints to standard output. From 1.16 on, it never returns if /proc/modules cannot be opened (seen with
//! 1.16 to 1.20).

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::error::Error;
use crate::library::Library;
use crate::version::Version;

/// Returns an error if the library would loop forever.
///
/// It uses open(2) of the C library, as libcufile does, so that both have the same view of the file system.
pub(crate) fn refuse_endless_open(library: &Library) -> Result<(), Error> {
    if !library.at_least(Version::new(1, 16)) {
        return Ok(());
    }
    // SAFETY: the argument is a constant C string, and the result is checked.
    let fd = unsafe { libc::open(c"/proc/modules".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        let reason = std::io::Error::last_os_error();
        let version = library.version().map_or_else(String::new, |v| format!(" {v}"));
        return Err(Error::Refused(format!(
            "the cuFile driver was not opened: /proc/modules cannot be opened here ({reason}), and libcufile{version} would loop forever. \
             Run where /proc/modules can be read (a kernel with modules, /proc not masked), or use libcufile before 1.16"
        )));
    }
    // SAFETY: the descriptor was just opened and has no other owner.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

/// Returns an error if another user could have written the settings that the library reads as root.
pub(crate) fn refuse_foreign_settings() -> Result<(), Error> {
    match crate::trust::foreign_settings() {
        None => Ok(()),
        Some(why) => Err(Error::Refused(format!("the cuFile driver was not opened: {why}"))),
    }
}

/// While it exists, descriptor 1 refers to descriptor 2. Dropping it restores descriptors 0 and 1.
pub(crate) struct Descriptors {
    stdin: Option<Saved>,
    stdout: Option<OwnedFd>,
}

struct Saved {
    copy: OwnedFd,
    /// The device and the inode. They show whether the descriptor still refers to the same file.
    identity: Option<(u64, u64)>,
}

impl Descriptors {
    /// Saves descriptors 0 and 1, and redirects 1 to 2, or to /dev/null if 2 is closed.
    pub(crate) fn guard() -> Self {
        let stdin = duplicate(0).map(|copy| Saved { copy, identity: identity(0) });
        flush_c_streams();
        let stdout = duplicate(1);
        if stdout.is_some() {
            // SAFETY: the arguments are descriptor numbers. Descriptor 1 is open, so the call only changes its
            // target.
            if unsafe { libc::dup2(2, 1) } < 0 {
                // SAFETY: the argument is a constant C string, and the result is checked.
                let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
                if null >= 0 {
                    // SAFETY: `null` was just opened and is closed once, here.
                    unsafe {
                        libc::dup2(null, 1);
                        libc::close(null);
                    }
                }
            }
        }
        Self { stdin, stdout }
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // The output of the library is in the buffer of the C stream. It must be flushed before descriptor 1 is
        // restored.
        flush_c_streams();
        if let Some(stdout) = &self.stdout {
            // SAFETY: this duplicates an open descriptor onto 1, as before.
            unsafe { libc::dup2(stdout.as_raw_fd(), 1) };
        }
        if let Some(saved) = &self.stdin
            && identity(0) != saved.identity
        {
            // SAFETY: this duplicates an open descriptor onto 0, as before.
            unsafe { libc::dup2(saved.copy.as_raw_fd(), 0) };
        }
    }
}

/// A copy of the descriptor above the standard descriptors. `None` if `fd` is closed.
fn duplicate(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: fcntl checks the descriptor number.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    // SAFETY: this is a new descriptor without another owner.
    (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) })
}

fn identity(fd: RawFd) -> Option<(u64, u64)> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: there is space for one stat. It is read only if fstat succeeded and filled it.
    unsafe { (libc::fstat(fd, stat.as_mut_ptr()) == 0).then(|| stat.assume_init()) }.map(|s| (s.st_dev, s.st_ino))
}

fn flush_c_streams() {
    // SAFETY: null means all output streams of the C library, which locks each of them.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, PoisonError};

    /// Descriptors are shared by the process, so only one test runs at a time.
    static ONE: Mutex<()> = Mutex::new(());

    #[test]
    fn a_closed_or_replaced_descriptor_0_comes_back() {
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let before = identity(0);
        if before.is_none() {
            return; // The runner has no descriptor 0 to lose.
        }
        {
            let _guard = Descriptors::guard();
            // SAFETY: the guard holds a copy.
            unsafe { libc::close(0) };
            assert_eq!(identity(0), None);
        }
        assert_eq!(identity(0), before);
    }

    #[test]
    fn descriptor_1_is_what_it_was_after_the_guard() {
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let before = identity(1);
        drop(Descriptors::guard());
        assert_eq!(identity(1), before);
    }
}
