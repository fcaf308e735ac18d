//! The first line of a recording, its version, and why a recording cannot be written or read.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// The version of the form that this program writes, and the newest that it reads.
pub const RECORDING_VERSION: u32 = 2;

/// The first line of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the form, see [`RECORDING_VERSION`].
    pub gds_top_recording: u32,
    /// The program that wrote it, `gds-top 0.1.0`.
    pub tool: String,
    /// Times of spans are multiples of this, in nanoseconds: 1 unless the recording had to be made smaller (see [`super::Writer::finish`]).
    #[serde(default = "one")]
    pub span_resolution_ns: u64,
}

fn one() -> u64 {
    1
}

/// The reason why a recording could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file system reported an error.
    #[error("recording {path}: {doing} failed: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The system's words.
        source: io::Error,
    },
    /// It is a folder, a FIFO, a device or another file that is not regular.
    #[error("{path} is not a regular file; a recording is a file written with --record", path = path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The target exists and is something else than a recording.
    #[error("{path} exists and is not a recording; name another file", path = path.display())]
    WouldOverwrite {
        /// The path.
        path: PathBuf,
    },
    /// Another session records to the same file.
    #[error("another gds-top records to {path} now ({path}.partial is locked); wait for it or name another file", path = path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The session that was to be recorded there runs, or was killed.
    #[error("{path} does not exist; its session is running or was killed, and {partial} has the part so far", path = path.display(), partial = partial.display())]
    OnlyPartial {
        /// The file.
        path: PathBuf,
        /// The file with the session.
        partial: PathBuf,
    },
    /// Another program wrote to the file while the session ran.
    #[error("another program changed {path} while this session ran; this session is recorded in {partial}", path = path.display(), partial = partial.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// The file with the session.
        partial: PathBuf,
    },
    /// The file does not begin as a recording does.
    #[error("{path} is not a gds-top recording: {found}", path = path.display())]
    NotARecording {
        /// The file.
        path: PathBuf,
        /// The actual content.
        found: String,
    },
    /// The file was written by a later program.
    #[error("{path} is a recording of version {version}, this program reads up to {RECORDING_VERSION}; use a newer gds-top", path = path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// A line is not an event.
    #[error("{path}, line {line}: {found}; the recording is damaged from here on", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Line number from 1, the header being 1.
        line: u64,
        /// The actual content.
        found: String,
    },
    /// The file is larger than the limit of this program.
    #[error("{path}, line {line}: {what}; reading stops here", path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Line number from 1.
        line: u64,
        /// Which limit was passed.
        what: String,
    },
}

/// The file that a session with `--record PATH` writes while it runs.
pub(super) fn partial_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".partial");
    PathBuf::from(name)
}
