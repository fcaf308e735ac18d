//! The notes of a run as data: fallbacks, limits, and values that could not be measured. `present` words them.

use super::nixl_plugin::NixlPlugin;
use super::spec::Setting;
use super::workload::{ConcurrentWrites, FallbackReason, OnStreams};
use serde::{Deserialize, Serialize};

/// The reason why a setting of the user has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unused {
    /// Only io_uring registers buffers.
    NeedsIoUring,
    /// Reads into host memory need no staging.
    NoStaging,
    /// Nothing was registered.
    NothingRegistered,
}

/// The reason why a model is not completely cold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum NotCold {
    /// A file is in a file system in memory.
    InMemory {
        /// The file.
        path: String,
    },
    /// Dropping the files left pages, and dropping the complete page cache was not permitted.
    PagesLeft,
    /// Dropping the complete page cache failed.
    NeedsRoot {
        /// The error of the system.
        error: String,
    },
}

/// A note of a run. Sizes are in bytes, times in nanoseconds, shares from 0 to 1. `error` is the message of a library
/// or of the system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Note {
    /// Settings of the user had no effect.
    Unused { settings: Vec<Setting>, why: Unused },
    /// Threads read, because io_uring failed. `locked_memory` is whether RLIMIT_MEMLOCK is too low.
    NoIoUring { threads: u64, error: String, locked_memory: bool },
    /// The staging buffers are not registered with io_uring.
    StagingNotRegistered { error: String, locked_memory: bool },
    /// cuFile moves the bytes of a batch inside the call that submits it.
    BatchMovesInSubmit,
    /// The pool of libcufile limits the entries of a batch.
    BatchLimited { entries: u64, wanted: u64 },
    /// The slab is not registered from this byte on.
    SlabNotRegistered { from_bytes: u64, slab_bytes: u64, error: String },
    /// A file was opened without O_DIRECT.
    WithoutOdirect { path: String, error: String },
    /// cuFile reads failed and were repeated with pread.
    RepeatedReads { repeated: u64, reads: u64, first_error: String },
    /// `auto` chose an engine without cuFile, because it did not open.
    AutoWithoutCufile { error: String },
    /// The version and the plugin of NIXL.
    Nixl { library: String, plugin: NixlPlugin },
    /// The plugin got the parameter mode=mt.
    NixlModeMt,
    /// A load with one transfer was divided, because the plugin or compat mode supports only a number of requests.
    NixlTransfers { transfers: u64, requests: u64, compat: bool },
    /// The plugin POSIX reads into host memory.
    NixlPosixCopies,
    /// cuFile counted failed reads that NIXL did not report.
    NixlHidFailures { failed: u64 },
    /// The model is not completely cold.
    NotCold(NotCold),
    /// The complete page cache was dropped. `cached` is the share of the model that is still cached.
    PageCacheDropped { cached: Option<f64> },
    /// This share of the files stayed in the page cache.
    FilesCached { share: f64 },

    /// The files were written before the clock.
    FilesPrepared { files: u64 },
    /// The process may not open more files.
    HandleCacheLimited { files: u64, open_files: u64 },
    /// cuFile could not be used. `transfers` is whether there were transfers.
    KvWithoutCufile { reason: FallbackReason, detail: String, transfers: bool },
    /// The run did not reach the fault that the user requested.
    FaultNotReached { fault: FallbackReason },
    /// Blocks are registered without cuFile's flag for RDMA.
    RegisteredWithoutRdma,
    /// Only some buffers are registered.
    BuffersNotRegistered { registered: u64, buffers: u64, error: String },
    /// The buffers and files of NIXL were registered before the clock.
    NixlRegistered { library: String, plugin: NixlPlugin, pages: u64, files: u64 },
    /// Files existed but were not complete.
    FilesRejected { files: u64, first_error: String },
    /// The store is too small for all files.
    StoreLimited { setting: String, value: u64, kept: u64, files: u64 },
    /// Plain writes end in the page cache.
    WritesInPageCache,
    /// Writes off the 4 KiB grid seem to end in the page cache (libcufile 1.15, compat mode: 1 GiB at 3.3 GB/s onto a
    /// disk that wrote 1.0 GB/s on the grid).
    MisalignedWritesInPageCache,
    /// Each layer sleeps this time.
    ComputingSimulated { us: u64 },
    /// Files were written during the read.
    ConcurrentWrites(ConcurrentWrites),
    /// Transfers were asynchronous. `in_call` is the share of the time that the workers spent inside the calls.
    OnStreams { seen: OnStreams, in_call: f64 },
    /// The pool of libcufile limits the outstanding transfers of a stream.
    StreamsLimited { depth: u64, wanted: u64 },
    /// Offsets are off the 4 KiB grid on purpose.
    MisalignedOffsets { bytes: u64 },
    /// Lengths are off the 4 KiB grid on purpose.
    MisalignedLengths { bytes: u64 },

    /// Name and version of an external loader.
    Program { program: String },
    /// A sentence of an external loader.
    Claim { text: String },
    /// The lines of the command were too long or too many.
    LinesDropped { lines: u64, longest_kib: u64, most_per_s: u64 },
    /// A line of the command was not understood.
    LineNotUnderstood { error: String, line: String },
    /// More lines were not understood.
    MoreLinesNotUnderstood { lines: u64 },
    /// The command sent more phases than are kept.
    TooManyPhases { kept: u64 },
    /// A phase has no duration.
    PhaseWithoutTime { phase: String },
    /// The name is not a phase.
    UnknownPhase { phase: String },
    /// The command claimed too many bytes.
    ImplausibleBytes { claimed: u64, files_bytes: u64 },
    /// The clock includes the set-up of the process.
    ClockIncludesSetup,
    /// The time cannot be split.
    NoPhases,
    /// The bytes that were read, seen from outside.
    SeenFromOutside { read_call_bytes: Option<u64>, storage_read_bytes: Option<u64> },
    /// The command read less than half of the files.
    ReadTooLittle { read_bytes: u64, files_bytes: u64 },
    /// The command read this multiple of the files.
    ReadTooMuch { times: f64 },
    /// The source of the number of bytes.
    BytesSource { source: String },
    /// NVML counted the GPU memory of the processes.
    GpuMemoryOfProcesses,
    /// The GPU memory is the growth of the GPU's total use.
    GpuMemoryOfGpu,
    /// The evidence for the route.
    RouteEvidence { evidence: String },
    /// The command compared its bytes itself.
    VerifiedByCommand,
    /// Processes were still running when the main process ended.
    ProcessesLeft { processes: u64 },

    /// A sentence, as versions before 0.1.0 recorded notes.
    #[serde(untagged)]
    Text(String),
}
