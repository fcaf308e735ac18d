//! The report of a watched program: its cuFile calls, files, libraries and buffers.

use super::finding::Route;
use serde::{Deserialize, Serialize};

/// All facts about a watched program so far. A later report replaces an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchReport {
    /// The command, or the program of the process that was attached to.
    pub command: Vec<String>,
    /// Its end; `None` while it runs.
    pub ended: Option<ProgramEnd>,
    /// Time since it started, nanoseconds.
    pub wall_ns: u64,
    /// Programs that were started with the recording library, child processes included.
    pub processes: u64,
    /// Copies of libcufile that were loaded.
    pub libraries: Vec<WatchedLibrary>,
    /// cuFile functions that were called, in the order of cufile.h.
    pub calls: Vec<CallTotal>,
    /// Files that were registered or transferred, the most bytes first.
    pub files: Vec<WatchedFile>,
    /// Threads that called cuFile.
    pub threads: u64,
    /// Threads that read by cuFile.
    pub reading_threads: u64,
    /// Calls whose details were not recorded. The totals of [`WatchReport::calls`] contain them unless [`WatchReport::uncounted`] is above 0.
    pub lost_events: u64,
    /// Calls that are in no total, because no memory was left for their thread.
    pub uncounted: u64,
    /// Copies of libcufile in one process beyond the first four; their calls are not recorded.
    pub libraries_left_out: u64,
    /// Reads by size: each class has the reads up to `up_to_bytes` and above the class before.
    pub sizes: Vec<SizeClass>,
    /// Errors that cuFile returned.
    pub failures: Vec<WatchedFailure>,
    /// Registrations of buffers.
    pub buffers: BufferUse,
    /// Stream transfers whose end was not seen.
    pub unfinished: u64,
    /// libcufile's level-3 statistics of all processes, if they were switched on and read.
    pub statistics: Option<RouteStatistics>,
    /// The running process that was attached to.
    pub attached: Option<AttachedProcess>,
    /// Large reads and mappings of files by libc, and copies by libcuda.
    pub other_calls: Vec<CallTotal>,
    /// Reads of all kinds and page faults of the processes, as procfs counts them; `None` if it was not read.
    pub process_io: Option<ProcessIo>,
    /// The cufile.json that libcufile reads, by the environment of the processes.
    pub configurations: Vec<WatchedConfiguration>,
    /// libcufile's properties, when the program asked for them.
    pub properties: Option<DriverProperties>,
    /// cuFile calls by duration: each class has the calls up to `up_to_ns` and above the class before.
    pub latencies: Vec<LatencyClass>,
}

/// Counters of procfs, of all processes that were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessIo {
    /// Bytes that read calls returned.
    pub read_call_bytes: u64,
    /// Bytes that storage delivered through the kernel.
    pub storage_read_bytes: u64,
    /// Page faults that waited for storage.
    pub major_faults: u64,
    /// Page faults that did not.
    pub minor_faults: u64,
    /// Requests that io_uring completed.
    pub io_uring_requests: u64,
}

/// A cufile.json.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedConfiguration {
    /// Its path.
    pub path: String,
    /// Whether it is there; libcufile uses its defaults otherwise.
    pub exists: bool,
    /// Whether `CUFILE_ENV_PATH_JSON` names it.
    pub from_environment: bool,
}

/// What cuFileDriverGetProperties returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverProperties {
    /// Version of nvidia-fs; 0.0 without it.
    pub nvfs_major: u32,
    /// Version of nvidia-fs.
    pub nvfs_minor: u32,
    /// `dstatusflags` of cufile.h.
    pub status_flags: u32,
    /// `dcontrolflags` of cufile.h.
    pub control_flags: u32,
    /// `fflags` of cufile.h.
    pub features: u32,
}

/// Single reads of a size class and a class of duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyClass {
    /// Largest size of the size class.
    pub up_to_bytes: u64,
    /// Longest duration of the class, nanoseconds.
    pub up_to_ns: u64,
    /// Reads.
    pub count: u64,
}

/// One call, for timelines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedCall {
    /// Process number.
    pub process: u32,
    /// Thread number.
    pub thread: u32,
    /// The function.
    pub function: String,
    /// When it began, nanoseconds since the program started.
    pub start_ns: u64,
    /// How long it took, nanoseconds.
    pub duration_ns: u64,
    /// Bytes that it asked for.
    pub bytes: u64,
    /// The file, if it concerns one.
    pub file: Option<String>,
    /// The error that it returned; 0 if it worked.
    pub error: i64,
}

/// A running process, as procfs shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttachedProcess {
    /// Process number.
    pub pid: u32,
    /// Whether its calls are recorded, by probes of the kernel.
    pub recorded: bool,
    /// Why its calls are not recorded.
    pub not_recorded: Option<String>,
    /// Whether its mappings and descriptors could be read.
    pub readable: bool,
    /// The libcufile that it has mapped.
    pub libcufile: Option<String>,
    /// Files that it has open or mapped, without devices and libraries.
    pub files: Vec<AttachedFile>,
    /// Bytes that its read calls returned since it was attached to; cuFile's direct routes make none.
    pub read_call_bytes: Option<u64>,
    /// Bytes that storage delivered to it through the kernel since then.
    pub storage_read_bytes: Option<u64>,
    /// Reads that nvidia-fs counted since then, of all processes.
    pub nvfs_reads: Option<u64>,
}

/// A file of a running process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedFile {
    /// Its path.
    pub path: String,
    /// Descriptors.
    pub descriptors: u64,
    /// Whether all of them have O_DIRECT.
    pub o_direct: bool,
    /// Whether it is mapped.
    pub mapped: bool,
}

/// The end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramEnd {
    /// With this exit status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// Unknown: only the parent of a process gets its status.
    Unknown,
}

/// A libcufile that was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedLibrary {
    /// Its path.
    pub path: String,
    /// Processes that loaded it.
    pub processes: u64,
    /// Its answer to cuFileGetVersion, for example 1200; `None` if the program did not ask.
    pub version: Option<u64>,
}

/// All calls of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTotal {
    /// The function.
    pub function: String,
    /// Calls.
    pub count: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Bytes that the calls reported as transferred.
    pub bytes: u64,
    /// Time inside the calls, nanoseconds.
    pub total_ns: u64,
}

/// Transfers of a file in one direction. Batch entries and stream transfers count once each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfers {
    /// Transfers that were submitted.
    pub count: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Transfers that failed.
    pub errors: u64,
    /// Transfers of less than 1 MiB.
    pub below_mib: u64,
    /// Transfers whose offset, size or memory address is not a multiple of 4 KiB.
    pub unaligned: u64,
    /// Transfers to or from memory that was not registered.
    pub unregistered: u64,
    /// Transfers as entries of a batch.
    pub batched: u64,
    /// Transfers on a stream.
    pub streamed: u64,
}

/// A file that cuFile used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchedFile {
    /// Its path when it was registered.
    pub path: String,
    /// The route of its transfers; [`Route::None`] if nothing shows it.
    pub route: Route,
    /// Whether the route was proven.
    pub proven: bool,
    /// The evidence for the route.
    pub proof: RouteProof,
    /// Reads.
    pub reads: Transfers,
    /// Writes.
    pub writes: Transfers,
    /// Registrations of a descriptor of this file.
    pub registrations: u64,
    /// Registrations that failed.
    pub failed_registrations: u64,
    /// Whether its descriptors had O_DIRECT; `None` if this is not known or differs.
    pub o_direct: Option<bool>,
    /// Tensors that were read, for a safetensors file.
    pub tensors: Vec<WatchedTensor>,
    /// Tensors of the file; 0 if it is not a safetensors file.
    pub tensors_of_file: u64,
    /// The content of a KV-cache system's file, from its name.
    #[serde(default)]
    pub kv: Option<KvName>,
    /// Reads by libc and mappings.
    #[serde(default)]
    pub plain: PlainReads,
}

/// The name of a file of a KV cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvName {
    /// `lmcache`, `llmd` or `ucm`.
    pub system: String,
    /// The chunk or block, in hexadecimal digits.
    pub chunk: String,
    /// The layer or group, if the name has one.
    pub layer: Option<String>,
    /// The model, if the name has one.
    pub model: Option<String>,
}

/// Reads of a file that do not go through cuFile. Reads of less than 64 KiB are not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlainReads {
    /// Read calls.
    pub count: u64,
    /// Bytes that they returned.
    pub bytes: u64,
    /// Read calls that failed.
    pub errors: u64,
    /// Time inside them, nanoseconds.
    pub total_ns: u64,
    /// Mappings.
    pub mappings: u64,
    /// Bytes of the largest mapping.
    pub mapped_bytes: u64,
    /// Mapped bytes that were in the page tables of a process when it was looked at: those that it touched or that the kernel mapped around them.
    pub touched_bytes: u64,
}

/// The evidence for the route of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteProof {
    /// Nothing does.
    #[default]
    Nothing,
    /// It was not transferred, so it has none.
    NoTransfer,
    /// All transfers failed.
    AllFailed,
    /// libcufile's level-3 statistics count all transfers of the program on this route.
    Statistics,
    /// libcufile's level-3 statistics count several routes, so the route of one file is open.
    MixedStatistics,
    /// nvidia-fs counted reads while the program ran. It counts the reads of all processes.
    NvidiaFsCounter,
    /// Inferred: the module nvidia-fs is not loaded, and p2pdma is not configured.
    NoDirectRoute,
}

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedTensor {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Reads that touched it.
    pub reads: u64,
    /// Its bytes that were read; a byte that was read twice counts twice.
    pub bytes: u64,
}

/// Reads of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeClass {
    /// Largest size of the class.
    pub up_to_bytes: u64,
    /// Calls of cuFileRead.
    pub count: u64,
    /// Time inside them, nanoseconds.
    pub total_ns: u64,
    /// Longest of them, nanoseconds.
    pub longest_ns: u64,
}

/// An error that cuFile returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedFailure {
    /// The function, or `batch entry` and `stream transfer` for errors after the submission.
    pub function: String,
    /// The code: a cuFile code, or below zero what a transfer returned.
    pub code: i64,
    /// Its name, if cufile.h has one.
    pub name: Option<String>,
    /// How often.
    pub count: u64,
    /// The first file that it concerned.
    pub file: Option<String>,
    /// Whether only the result after the submission shows it.
    pub after_submission: bool,
}

/// Registrations of buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferUse {
    /// Registrations that worked.
    pub registered: u64,
    /// Time to register and deregister, nanoseconds.
    pub total_ns: u64,
    /// Most bytes registered at one time in one process.
    pub most_bytes: u64,
}

/// Counters of libcufile's level-3 statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteStatistics {
    /// Processes whose statistics were read.
    pub processes: u64,
    /// Processes that made transfers and whose statistics were not read.
    pub missing_processes: u64,
    /// Reads that libcufile counted in these processes, single reads only.
    pub reads: u64,
    /// Writes that libcufile counted.
    pub writes: u64,
    /// Entries of batches that libcufile processed.
    pub batch_entries: u64,
    /// Transfers by p2pdma.
    pub p2pdma: u64,
    /// Transfers by nvidia-fs.
    pub nvfs: u64,
    /// Transfers by POSIX calls, in compat mode.
    pub posix: u64,
    /// Bytes of the reads that were counted by route. Entries of batches are not among them in all versions.
    #[serde(default)]
    pub read_bytes: u64,
}

impl WatchReport {
    /// Transfers of all files that did not fail.
    #[must_use]
    pub fn transfers(&self) -> u64 {
        let worked = |t: &Transfers| t.count.saturating_sub(t.errors);
        let of = |file: &WatchedFile| worked(&file.reads).saturating_add(worked(&file.writes));
        self.files.iter().map(of).fold(0, u64::saturating_add)
    }
}
