//! The errors of loads, as sentences.

use crate::core::units;
use crate::device::DeviceError;
use crate::models::WeightsError;
use std::path::PathBuf;
use thiserror::Error;

/// Why a load failed.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Device or host memory could not be allocated.
    #[error("{0}")]
    Device(#[from] DeviceError),
    /// The model's files have changed or are malformed.
    #[error("{0}")]
    Weights(#[from] WeightsError),
    /// A file could not be opened or read.
    #[error("{doing} {} failed: {source}", path.display())]
    File {
        /// The operation: `reading`, `opening`, …
        doing: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// A read failed.
    #[error("reading {} at byte {at} failed: {source}{}", path.display(), if_the_disk(source))]
    Unread {
        /// The path of the file.
        path: PathBuf,
        /// The offset of the read in bytes.
        at: u64,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The process cannot open more files.
    #[error(
        "opening {} failed: this process can have at most {} open files; raise the limit (ulimit -n, LimitNOFILE= of a systemd unit) above the number of the model's files",
        path.display(), may.map_or_else(|| "no more than the system's".to_owned(), |may| format!("{may}"))
    )]
    TooManyFiles {
        /// The path of the file.
        path: PathBuf,
        /// The limit of the process. `None` if it is unlimited.
        may: Option<u64>,
    },
    /// The system could not start a thread.
    #[error(
        "starting {} failed: {source}; raise the limit of processes (ulimit -u, pids.max of the cgroup), or use fewer threads (--set threads=1, for 'odirect' also depth=1)",
        units::plural(*threads as u64, "thread")
    )]
    Threads {
        /// The number of requested threads.
        threads: usize,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The target has too little free memory for the model.
    #[error("this takes {}, and {free}: {advice}", units::bytes(*needs))]
    NoRoom {
        /// The bytes that the engine would allocate.
        needs: u64,
        /// The free memory, in words.
        free: String,
        /// The advice for the user.
        advice: &'static str,
    },
    /// A read found the end of the file before the bytes that the header promises.
    #[error("{} ended at or before byte {at}, but its header promises bytes up to at least {expected}: the file changed during the load; load it again when no process writes to it", path.display())]
    Short {
        /// The path of the file.
        path: PathBuf,
        /// The offset at which the read returned no bytes. The file may end before it.
        at: u64,
        /// The end of the requested range. The file must be at least this long.
        expected: u64,
    },
    /// The model has changed since the session opened it.
    #[error("the model changed between opening and loading ({what}); start again when no process writes to it")]
    Changed {
        /// The difference.
        what: String,
    },
    /// The file system does not support `O_DIRECT`.
    #[error("{} cannot be opened with O_DIRECT ({source}): its file system does not support direct I/O; move the model to ext4 or xfs on a disk, or use the engine 'pread'", path.display())]
    NoDirect {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// cuFile reported an error.
    #[error("{0}")]
    CuFile(String),
    /// NIXL was not found, or failed.
    #[error("{0}")]
    Nixl(String),
    /// The order names an engine that this version does not have.
    #[error("the engine '{engine}' is not part of this version")]
    Unsupported {
        /// The name of the engine.
        engine: String,
    },
    /// The session did not send the message to continue.
    #[error(
        "the runs of this group cannot continue (gate {gate}, received {said}): the session that started them has ended"
    )]
    Together {
        /// 0 before the clock, 1 before verification.
        gate: u32,
        /// The unexpected input.
        said: String,
    },
    /// Another thread of the load failed first.
    #[error("stopped because another thread failed")]
    Stopped,
}

/// The text of a cuFile error with its usual cause.
pub(crate) fn explain(doing: &str, error: &cufile_ffi::Error) -> LoadError {
    let hint = match error.code() {
        Some(5027) => {
            "; usually the udev database has no record of the file system's disk, or the file is on tmpfs or overlayfs: 'gds-top check' shows which, and 'gds-top fix' adds a missing record"
        }
        Some(5008) => "; the file's path has no direct route and compat mode is forbidden: see 'gds-top check'",
        Some(5016 | 5036) => "; the GPU's BAR1 or the pinned-memory limit is used up: see 'gds-top check'",
        _ => "",
    };
    LoadError::CuFile(format!("{doing} failed: {error}{hint}"))
}

/// The usual cause if the kernel could not read.
fn if_the_disk(error: &std::io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EIO) => {
            "; the disk, or the path to it, did not return these bytes: the kernel's log has details (dmesg)"
        }
        _ => "",
    }
}
