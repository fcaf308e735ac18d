//! The report of a watched program: its cuFile calls, files, libraries and buffers.

use super::attached::AttachedProcess;
use super::route_statistics::RouteStatistics;
use super::watched_call::Caller;
use super::watched_file::WatchedFile;
use serde::{Deserialize, Serialize};

/// The facts about a watched program so far. A later report replaces an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchReport {
    /// The command, or the program of the process that was attached.
    pub command: Vec<String>,
    /// How it ended. `None` while it runs.
    pub ended: Option<ProgramEnd>,
    /// The time since it started, in nanoseconds: until its end, or the end of the last recorded call of a process that
    /// ran longer.
    pub wall_ns: u64,
    /// The number of programs that were started with the recording library. A process that starts another program in
    /// its place counts twice, and a forked process without a new program does not count.
    #[serde(alias = "processes")]
    pub programs: u64,
    /// The copies of libcufile that were loaded.
    pub libraries: Vec<WatchedLibrary>,
    /// The cuFile functions that were called, in the order of cufile.h.
    pub calls: Vec<CallTotal>,
    /// The files that were registered or transferred. Files with the most bytes are first.
    pub files: Vec<WatchedFile>,
    /// The number of threads that called cuFile.
    pub threads: u64,
    /// The number of threads that read with cuFile.
    pub reading_threads: u64,
    /// The number of calls whose details were not recorded. The totals in [`WatchReport::calls`] include them unless
    /// [`WatchReport::uncounted`] is above 0.
    pub lost_events: u64,
    /// The number of calls that are in no total, because there was no memory left for their thread, or because they were
    /// too many to record with kernel probes.
    pub uncounted: u64,
    /// Whether the program paused the recording, as benchmarks do. Its calls during the pauses are in no total.
    pub paused: bool,
    /// The number of copies of libcufile beyond the first four in one process. Their calls are not recorded.
    pub libraries_left_out: u64,
    /// The reason why no program loaded the recording library. `None` if one did, or if the reason is unknown.
    pub not_loaded: Option<NotLoaded>,
    /// The programs that were started and did not load the recording library, and those that have libcufile mapped without
    /// it or whose mappings cannot be read.
    pub unrecorded: Vec<String>,
    /// The programs whose calls another session of gds-top records, because `gds-top watch` started them inside the
    /// watched program.
    pub in_other_session: Vec<String>,
    /// The number of recorded processes that were still running at the end of the recording, up to 0.3 s after that of
    /// the program.
    pub still_running: u64,
    /// The number of processes that had libcuda mapped.
    pub cuda_processes: u64,
    /// The largest number of processes of a started program that were not examined at one time: they did not answer, or a
    /// limit was reached.
    pub unexamined_processes: u64,
    /// The reads by size. Each class has the reads above the previous class and up to `up_to_bytes`.
    pub sizes: Vec<SizeClass>,
    /// The errors that cuFile returned.
    pub failures: Vec<WatchedFailure>,
    /// The registrations of buffers.
    pub buffers: BufferUse,
    /// The number of stream transfers and batch entries whose end was not recorded.
    pub unfinished: u64,
    /// cuFile calls that had not returned at the time of this report, or when their process ended.
    pub open_calls: Vec<OpenCall>,
    /// The durations of cuFile calls that did not fail, by function and size.
    pub paces: Vec<CallPace>,
    /// Whether the level-3 statistics were requested.
    #[serde(default)]
    pub wants_statistics: bool,
    /// Whether a proven direct route was required for every transfer.
    pub requires_direct: bool,
    /// The level-3 statistics of libcufile for all processes, if they were on and could be read.
    pub statistics: Option<RouteStatistics>,
    /// The transfers that libcufile counted and that were not recorded. `None` while the program runs.
    pub unseen: Option<UnseenTransfers>,
    /// The running process that was attached.
    pub attached: Option<AttachedProcess>,
    /// Large reads and mappings of files with libc, and copies with libcuda.
    pub other_calls: Vec<CallTotal>,
    /// The reads and page faults of the processes in procfs. `None` if they could not be read.
    pub process_io: Option<ProcessIo>,
    /// The cufile.json that libcufile reads, according to the environment of the processes.
    pub configurations: Vec<WatchedConfiguration>,
    /// The properties of libcufile, if the program requested them.
    pub properties: Option<DriverProperties>,
    /// The cuFile calls by duration. Each class has the calls above the previous class and up to `up_to_ns`.
    pub latencies: Vec<LatencyClass>,
}

/// The end of the entry in [`WatchReport::unrecorded`] for programs to which a limit leaves too little address space.
pub const WITHOUT_SPACE: &str = "with too little address space";

/// Transfers that only the statistics of libcufile show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnseenTransfers {
    /// Their number. 0 if it is not known.
    pub transfers: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A call that has not returned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    /// The function.
    pub function: String,
    /// The process id.
    pub process: u32,
    /// The thread id.
    pub thread: u32,
    /// The time since the start of the call in nanoseconds. For a process that has ended, until this report.
    pub age_ns: u64,
    /// Its process at the end of the recording.
    #[serde(default)]
    pub caller: Caller,
}

/// The durations of the calls of a function with similar sizes that did not fail, in parts of the program's time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallPace {
    /// The function. For entries of batches it is `batch entry`.
    pub function: String,
    /// The upper bound of the size class in bytes, as in [`SizeClass`]. 0 for functions without a size.
    pub up_to_bytes: u64,
    /// The requested bytes of all calls.
    pub bytes: u64,
    /// The count and the nanoseconds of the calls that ended in each part. All parts have the same length. Parts
    /// without calls are left out.
    pub parts: Vec<(u64, u64)>,
}

/// The reason why the dynamic linker did not load the recording library into a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotLoaded {
    /// The program has the set-user-ID or set-group-ID bit, or capabilities. The linker then ignores `LD_AUDIT`.
    ElevatedRights,
    /// The program is statically linked.
    Static,
    /// The linker of the program is not that of glibc.
    OtherLibc,
    /// The file with the recorded calls became shorter, so it is not known whether the library was loaded.
    Truncated,
    /// A program wrote impossible values into the file with the recorded calls, so no value in it is known.
    Overwritten,
}

/// The procfs counters of all observed processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessIo {
    /// The bytes that system calls read: read calls, sendfile and copy_file_range.
    pub read_call_bytes: u64,
    /// The bytes that were read from storage through the kernel.
    pub storage_read_bytes: u64,
    /// The page faults that waited for storage.
    pub major_faults: u64,
    /// The page faults that did not wait for storage.
    pub minor_faults: u64,
    /// The requests that io_uring completed.
    pub io_uring_requests: u64,
}

/// A cufile.json.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedConfiguration {
    /// Its path.
    pub path: String,
    /// Whether the file exists. Without it, libcufile uses its defaults.
    pub exists: bool,
    /// Whether `CUFILE_ENV_PATH_JSON` contains the path.
    pub from_environment: bool,
    /// Whether the file was not examined for one of its processes: it is in the mounts of another user, or its file system
    /// did not answer.
    #[serde(default)]
    pub not_examined: bool,
}

/// The result of cuFileDriverGetProperties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverProperties {
    /// The major version of nvidia-fs. 0 without nvidia-fs.
    pub nvfs_major: u32,
    /// The minor version of nvidia-fs.
    pub nvfs_minor: u32,
    /// `dstatusflags` of cufile.h.
    pub status_flags: u32,
    /// `dcontrolflags` of cufile.h.
    pub control_flags: u32,
    /// `fflags` of cufile.h.
    pub features: u32,
}

/// The reads in one size class and one duration class, as in [`SizeClass`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyClass {
    /// The upper bound of the size class in bytes.
    pub up_to_bytes: u64,
    /// The upper bound of the duration class in nanoseconds.
    pub up_to_ns: u64,
    /// The number of reads.
    pub count: u64,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramEnd {
    /// It exited with this status.
    Status(i32),
    /// This signal ended it.
    Signal(i32),
    /// It is unknown, because only the parent of a process gets its status.
    Unknown,
}

/// A libcufile that was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedLibrary {
    /// Its path.
    pub path: String,
    /// The number of processes that loaded it. With [`WatchReport::attached`], those that called it or had it mapped when
    /// they were examined.
    pub processes: u64,
    /// The result of cuFileGetVersion, for example 1200. If the program did not call it, the version in the name of the
    /// file or of its package. `None` if neither has one.
    pub version: Option<u64>,
}

impl WatchedLibrary {
    /// The version as text, `1.15`.
    #[must_use]
    pub fn version_text(&self) -> Option<String> {
        self.version.map(|version| format!("{}.{}", version / 1000, version % 1000 / 10))
    }
}

/// All calls of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTotal {
    /// The function.
    pub function: String,
    /// The number of calls.
    pub count: u64,
    /// The number of failed calls.
    pub errors: u64,
    /// Bytes that the calls reported as transferred.
    pub bytes: u64,
    /// The time inside the calls in nanoseconds.
    pub total_ns: u64,
}

impl CallTotal {
    /// Whether the calls copy to or from GPU memory, or move managed memory.
    #[must_use]
    pub fn is_gpu_copy(&self) -> bool {
        self.function.starts_with("cuMem")
    }

    /// Whether the calls are reads by Linux AIO, from their submission. Their end is not recorded.
    #[must_use]
    pub fn is_aio(&self) -> bool {
        self.function == "io_submit"
    }
}

/// The reads in one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeClass {
    /// The upper bound of the class in bytes.
    pub up_to_bytes: u64,
    /// The number of reads that did not fail: calls of cuFileRead and cuFileReadv, and entries of batches.
    pub count: u64,
    /// Their time in nanoseconds: inside the call, or from the submission of a batch until the program saw that the
    /// entry had ended.
    pub total_ns: u64,
    /// The duration of the longest in nanoseconds.
    pub longest_ns: u64,
}

/// An error that cuFile returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedFailure {
    /// The function. For errors after the submission it is `batch entry` or `stream transfer`.
    pub function: String,
    /// The code of cuFile, or the negative result of a transfer.
    pub code: i64,
    /// Its name, or the text for `errno`. `None` if cufile.h has none.
    pub name: Option<String>,
    /// The `errno` of a transfer that returned -1. `None` if it is unknown.
    #[serde(default)]
    pub errno: Option<i32>,
    /// The number of times it was returned.
    pub count: u64,
    /// The first file with this error.
    pub file: Option<String>,
    /// Whether only the result after the submission has the error.
    pub after_submission: bool,
}

/// The registrations of buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferUse {
    /// The number of successful registrations.
    pub registered: u64,
    /// The time to register and deregister in nanoseconds.
    pub total_ns: u64,
    /// The peak of registered bytes in one process.
    pub most_bytes: u64,
}

impl WatchReport {
    /// The transfers of all files that moved bytes, or whose result is not known.
    #[must_use]
    pub fn transfers(&self) -> u64 {
        self.files.iter().map(WatchedFile::moved).fold(0, u64::saturating_add)
    }

    /// The largest number of processes that were not examined at one time.
    #[must_use]
    pub fn unexamined(&self) -> u64 {
        self.attached.as_ref().map_or(self.unexamined_processes, |process| process.unexamined_processes)
    }

    /// Whether a libcufile 1.15 was loaded, which counts some transfers twice.
    #[must_use]
    pub fn has_libcufile_1_15(&self) -> bool {
        self.libraries.iter().any(|library| library.version.is_some_and(|version| version / 10 == 115))
    }

    /// The first function with which the program stopped, reset or lowered libcufile's statistics, which then lack
    /// transfers.
    #[must_use]
    pub fn changed_statistics(&self) -> Option<&str> {
        let names = ["cuFileSetStatsLevel", "cuFileStatsStart", "cuFileStatsStop", "cuFileStatsReset"];
        let changes = |call: &&CallTotal| call.count > call.errors && names.contains(&call.function.as_str());
        self.calls.iter().find(changes).map(|call| call.function.as_str())
    }

    /// Whether libcufile's statistics count transfers and none of them by route.
    #[must_use]
    pub fn statistics_name_no_route(&self) -> bool {
        self.statistics.is_some_and(|seen| seen.by_route() == 0 && seen.transfers() > 0)
    }
}
