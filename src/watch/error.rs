//! The reason why a program cannot be watched.

use std::ffi::OsString;
use std::path::PathBuf;

/// The reason why a program cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The recording library does not support this system.
    #[error(
        "watch needs a glibc system on x86-64 or ARM64: programs are recorded by the audit interface of its dynamic linker"
    )]
    Unsupported,
    /// A temporary file could not be written.
    #[error("{} cannot be written: {}", .0.display(), .1)]
    File(PathBuf, std::io::Error),
    /// There is no directory for the recording library. The error names the directory.
    #[error("cannot create a directory for the recording library: {0}")]
    Folder(std::io::Error),
    /// The program could not be started.
    #[error("cannot start {}: {}", if .0.is_empty() { "a program without a name".into() } else { .0.to_string_lossy() }, .1)]
    Start(OsString, std::io::Error),
    /// The shared file lost a part.
    #[error(
        "the file with the recorded calls became shorter, so the calls are not known: the watched program truncated it, or its file system (/dev/shm or TMPDIR) is full"
    )]
    Cut,
    /// gds-top could not attach to the process.
    #[error("cannot attach to process {0}: {1}")]
    Attach(u32, String),
    /// Waiting for the program failed.
    #[error("cannot wait for the program: {0}")]
    Wait(std::io::Error),
}
