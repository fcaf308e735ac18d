//! The report of a running process that was attached.

use super::route::{Route, RouteProof};
use serde::{Deserialize, Serialize};

/// The name of the entry that all files above a limit share.
pub const MORE_FILES: &str = "(more files)";

/// The name of the entry of all files whose path is not known.
pub const UNKNOWN_FILE: &str = "(unknown file)";

/// A running process, according to procfs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttachedProcess {
    /// The process id.
    pub pid: u32,
    /// Whether kernel probes record its calls.
    pub recorded: bool,
    /// Whether a libcufile was loaded after the attach, so that its first calls may be missing.
    pub loaded_late: bool,
    /// The number of known processes that are the process or its descendants. 0 if they are not recorded.
    pub processes: u64,
    /// The reason why its calls are not recorded.
    pub not_recorded: Option<String>,
    /// Whether its mappings and descriptors could be read.
    pub readable: bool,
    /// Whether another user owns it.
    pub other_user: bool,
    /// The libcufile that it has mapped.
    pub libcufile: Option<String>,
    /// The files that it has open or mapped, without devices and libraries.
    pub files: Vec<AttachedFile>,
    /// The bytes that the process and its descendants read by system calls since the attach: read calls, sendfile and
    /// copy_file_range. Direct routes of cuFile make no such calls.
    pub read_call_bytes: Option<u64>,
    /// The bytes that the process and its descendants read from storage through the kernel since the attach.
    pub storage_read_bytes: Option<u64>,
    /// Whether both numbers are lower bounds, because a process could not be examined, or ended after its last reading.
    pub reads_at_least: bool,
    /// The largest number of processes that were not examined at one time: they did not answer, or a limit was reached.
    pub unexamined_processes: u64,
    /// Whether its open files were not examined, because another user has made its mounts.
    pub has_foreign_mounts: bool,
    /// The reads that nvidia-fs counted since the attach, of all processes.
    pub nvfs_reads: Option<u64>,
    /// The route that its settings, its log and nvidia-fs suggest if its calls are not recorded. [`Route::None`] if they
    /// suggest none.
    pub route: Route,
    /// The evidence for the route. It is never a proof.
    pub route_proof: RouteProof,
    /// Its cufile.log, if it has one open that may be read.
    pub log: Option<AttachedLog>,
}

/// The cufile.log of a running process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedLog {
    /// Its path, as the process sees it.
    pub path: String,
    /// The number of its lines that are from the process.
    pub lines: u64,
    /// Whether the process reported compat mode.
    pub compat: bool,
    /// The causes of problems in these lines, with the remedies.
    pub causes: Vec<String>,
}

/// A file of a running process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedFile {
    /// Its path.
    pub path: String,
    /// Its size. 0 if it is unknown.
    #[serde(default)]
    pub bytes: u64,
    /// The number of its descriptors.
    pub descriptors: u64,
    /// Whether all descriptors have `O_DIRECT`.
    pub o_direct: bool,
    /// Whether it is mapped.
    pub mapped: bool,
}
