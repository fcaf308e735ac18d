//! The first line of a recording, its version, and the errors of writing and reading a recording.

use crate::trust::is_full;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// The version that this program writes, which is also the newest version that it reads.
pub const RECORDING_VERSION: u32 = 2;

/// The first line of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format, see [`RECORDING_VERSION`].
    pub gds_top_recording: u32,
    /// The program that wrote it, for example `gds-top 0.1.0`.
    pub tool: String,
    /// Resolution of span times in nanoseconds. It is 1 unless the recording had to be made smaller (see
    /// [`super::Writer::finish`]).
    #[serde(default = "one")]
    pub span_resolution_ns: u64,
}

fn one() -> u64 {
    1
}

/// An error of writing or reading a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The operating system reported an error.
    #[error("recording {path}: {doing} failed: {source}", path = path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The failed operation.
        doing: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The path is a directory, a FIFO, a device or another special file.
    #[error("{path} is not a regular file; a recording is a file written with --record", path = path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The target exists and is not a recording.
    #[error("{path} exists and is not a recording; pass another file", path = path.display())]
    WouldOverwrite {
        /// The path.
        path: PathBuf,
    },
    /// Another session records to the same file.
    #[error("another gds-top records to {path} now ({path}.partial is locked); wait for it or pass another file", path = path.display())]
    InUse {
        /// Path of the file.
        path: PathBuf,
    },
    /// The session of this recording is still running or was killed.
    #[error("{path} does not exist; its session is running or was killed, and {partial} has the part so far", path = path.display(), partial = partial.display())]
    OnlyPartial {
        /// Path of the recording.
        path: PathBuf,
        /// The file with the events so far.
        partial: PathBuf,
    },
    /// Another program changed the file during the session.
    #[error("another program changed {path} while this session ran; this session is recorded in {partial}", path = path.display(), partial = partial.display())]
    Changed {
        /// Path of the file.
        path: PathBuf,
        /// The file with the recording of this session.
        partial: PathBuf,
    },
    /// The file does not begin like a recording.
    #[error("{path} is not a gds-top recording: {found}", path = path.display())]
    NotARecording {
        /// Path of the file.
        path: PathBuf,
        /// The content that was found instead.
        found: String,
    },
    /// A later version of the program wrote the file.
    #[error("{path} is a recording of version {version}, this program reads up to {RECORDING_VERSION}; use a newer gds-top", path = path.display())]
    TooNew {
        /// Path of the file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// A line is not an event.
    #[error("{path}, line {line}: {found}; the recording is damaged from here on", path = path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Line number. The header is line 1.
        line: u64,
        /// The content that was found instead.
        found: String,
    },
    /// The file exceeds a limit of this program.
    #[error("{path}, line {line}: {what}; reading stops here", path = path.display())]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
        /// Line number. The header is line 1.
        line: u64,
        /// The limit that was exceeded.
        what: String,
    },
}

impl RecordingError {
    /// Whether the disk has no space for the recording.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_full(source))
    }
}

/// The file into which a session with `--record PATH` writes while it runs.
pub(super) fn partial_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".partial");
    PathBuf::from(name)
}
