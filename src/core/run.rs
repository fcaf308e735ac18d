//! The order of a lane and its result.

use super::engine::{CacheState, Engine, Target};
use super::failure::Failure;
use super::finding::Route;
use super::model::ModelInfo;
use super::phase::PhaseTimes;
use super::settings::EngineSettings;
use super::spec::Setting;
use super::workload::{WorkloadOrder, WorkloadResult};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Number of a lane within a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LaneId(pub u32);

/// The order that a lane process reads from its standard input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneOrder {
    /// The engine.
    pub engine: Engine,
    /// The model, already parsed by the session.
    /// Shared: a race of a thousand runs plans a thousand of these.
    #[serde(with = "shared")]
    pub model: Arc<ModelInfo>,
    /// Cache state to make before the run.
    pub cache: CacheState,
    /// The target.
    pub target: Target,
    /// Number of this run, from 0.
    pub repeat: u32,
    /// Compare the bytes on the target with the file afterwards.
    pub verify: bool,
    /// The settings that were ordered. The engine chooses the others.
    pub settings: EngineSettings,
    /// Time limit for a command or loader, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_s: Option<u64>,
    /// The libcufile that the session found; if absent, it is searched again.
    pub libcufile: Option<PathBuf>,
    /// Folder for cufile.log and other droppings of the lane.
    pub scratch: PathBuf,
    /// CLOCK_MONOTONIC when the session spawned the lane: the start of its set-up time.
    pub spawned_monotonic_ns: u64,
    /// The range of each file that this lane loads, if the model is divided among several targets (begins are
    /// multiples of 4 KiB); `model` then has only the tensors, and pieces of tensors, in these ranges. Empty for the
    /// complete model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<std::ops::Range<u64>>,
    /// The lane runs together with others: it waits for the word to start its clock, and again before it verifies.
    #[serde(default)]
    pub gated: bool,
    /// Fill the target with a pattern before the load (outside the clock's claim to speed), so that bytes that never arrive are seen.
    pub poison: bool,
    /// Drop the complete page cache if files of the model stay in it before a cold run.
    #[serde(default)]
    pub drop_caches: bool,
    /// For a lane of a workload: its order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadOrder>,
}

/// A shared model is written and read as a model.
mod shared {
    use super::ModelInfo;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    pub(super) fn serialize<S: Serializer>(model: &Arc<ModelInfo>, serializer: S) -> Result<S::Ok, S::Error> {
        model.as_ref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<ModelInfo>, D::Error> {
        ModelInfo::deserialize(deserializer).map(Arc::new)
    }
}

/// Reads by route, with the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteCounts {
    /// The route that these counts show.
    pub route: Route,
    /// Reads by nvidia-fs.
    pub nvfs_reads: Option<u64>,
    /// Reads by P2PDMA.
    pub p2p_reads: Option<u64>,
    /// POSIX reads inside libcufile (compat).
    pub posix_reads: Option<u64>,
    /// The source: `cuFile level-3 statistics`, `/proc/driver/nvidia-fs/stats`, or the reason why there is none.
    pub source: String,
    /// Whether the source is proof (counters) and not inference.
    pub proven: bool,
}

impl RouteCounts {
    /// A route that libcufile's counters do not show: from the counters of nvidia-fs if they changed, or by
    /// inference.
    #[must_use]
    pub const fn without_libcufile(route: Route, nvfs_reads: Option<u64>, source: String, proven: bool) -> Self {
        Self { route, nvfs_reads, p2p_reads: None, posix_reads: None, source, proven }
    }

    /// Whether all that was counted went straight to the GPU, by counters.
    #[must_use]
    pub fn straight(&self) -> bool {
        self.proven && self.route.is_direct() && self.posix_reads.unwrap_or(0) == 0
    }
}

/// Additional observations of a command from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outside {
    /// Name and version, as the command reported them.
    pub program: Option<String>,
    /// `status 0` or `signal 9`.
    pub exit: String,
    /// The end of its standard output and standard error.
    #[serde(alias = "last_words")]
    pub stderr_tail: Option<String>,
    /// The begin and end of the wall time.
    pub clock: String,
    /// The source of the number of bytes.
    pub bytes_source: String,
    /// Most processes at once.
    pub processes: u32,
    /// Bytes read by system calls during the clock (rchar of /proc/PID/io), all processes.
    pub read_call_bytes: Option<u64>,
    /// Bytes fetched from storage during the clock (read_bytes), all processes.
    pub storage_read_bytes: Option<u64>,
    /// Page faults during the clock that needed storage.
    pub major_faults: Option<u64>,
    /// Most resident memory, shared pages counted for each process.
    pub rss_peak_bytes: Option<u64>,
    /// Most resident memory, shared pages counted once.
    pub pss_peak_bytes: Option<u64>,
}

/// The engine that `auto` chose for a run, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoChoice {
    /// The engine that loaded the model.
    pub engine: Engine,
    /// Why; `None` if it was not recorded, or if several loads gave different reasons.
    pub reason: Option<AutoReason>,
}

/// Why `auto` chose an engine. The cached share of the model that it looked at first is [`RunResult::cache_resident_before_fraction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutoReason {
    /// So much of the model is in the page cache that reads through it are faster.
    Cached,
    /// A read before the clock took this direct route, by the counters of cuFile.
    DirectRoute(Route),
    /// The model is not cached, and its file system accepts O_DIRECT reads.
    NotCached,
    /// The model is not cached, but its file system does not support O_DIRECT reads.
    NoDirectIo,
}

/// One load, measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The engine.
    pub engine: Engine,
    /// The model's name.
    pub model: String,
    /// The requested cache state.
    pub cache: CacheState,
    /// Share of the model's pages in the page cache just before the clock started, 0 to 1; `None` where it could not be read.
    pub cache_resident_before_fraction: Option<f64>,
    /// The target of the bytes: a GPU's name, or `host memory`.
    pub target: String,
    /// Number of the run, from 0.
    pub repeat: u32,
    /// Tensor bytes loaded.
    pub bytes: u64,
    /// From 'context up, nothing pinned' to 'all tensors on the target', in nanoseconds.
    pub wall_ns: u64,
    /// Process start, CUDA context, library and driver open: before the clock.
    pub setup_ns: u64,
    /// `bytes` over `wall_ns`.
    pub bytes_per_s: f64,
    /// Whether every byte on the target equals the file; `None` when not asked for or not finished.
    pub verified: Option<bool>,
    /// The route of the reads; `None` for engines that do not use cuFile.
    pub route: Option<RouteCounts>,
    /// Time by phase, averaged over the slots, so that with `idle` they add up to `wall_ns`.
    pub phases: PhaseTimes,
    /// Number of slots (worker timelines).
    pub slots: u32,
    /// Peak resident memory of the lane process during the load (VmHWM).
    pub host_peak_bytes: Option<u64>,
    /// Of the resident memory at the end of the load, the part that is not of files (RssAnon and RssShmem).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_anonymous_bytes: Option<u64>,
    /// The part that is mapped files, which the kernel can drop (RssFile).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_file_bytes: Option<u64>,
    /// Most memory pinned at once.
    pub pinned_peak_bytes: Option<u64>,
    /// Device memory allocated by the engine.
    pub gpu_peak_bytes: Option<u64>,
    /// CPU time of the lane during the clock, user and system.
    pub cpu_ns: Option<u64>,
    /// Settings that the engine used, by name.
    #[serde(alias = "knobs")]
    pub settings: BTreeMap<String, u64>,
    /// The reason for each of them, in a few words: the machine, the model, or the order.
    #[serde(default, alias = "knobs_why", skip_serializing_if = "BTreeMap::is_empty")]
    pub settings_why: BTreeMap<String, String>,
    /// Set-up parts by name, in nanoseconds: `process`, `context`, `library`, `driver_open`.
    pub setup_parts_ns: BTreeMap<String, u64>,
    /// The engine that `auto` chose; `None` for other engines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_choice: Option<AutoChoice>,
    /// The first place where the bytes on the target differ from the file; `None` if none was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<String>,
    /// cuFile reads that failed and were repeated by pread and a copy; `None` for engines that repeat none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated_reads: Option<u64>,
    /// Notes of the engine: fallbacks, limits, values that could not be measured.
    pub notes: Vec<String>,
    /// The reason why the run failed, in a sentence.
    pub error: Option<String>,
    /// Observations of a command from outside; `None` for engines of this program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<Outside>,
    /// Measurements that only workloads have; `None` for loads of models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadResult>,
}

impl RunResult {
    /// The value of a setting that the engine used.
    #[must_use]
    pub fn setting(&self, setting: Setting) -> Option<u64> {
        self.settings.get(setting.name()).copied()
    }

    /// The engine that `auto` chose.
    #[must_use]
    pub fn chosen_engine(&self) -> Option<&Engine> {
        self.auto_choice.as_ref().map(|choice| &choice.engine)
    }

    /// The reason why the run failed; `None` if it succeeded.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        match (&self.error, self.verified) {
            (Some(error), _) => Some(Failure::Error(error.clone())),
            (None, Some(false)) => Some(Failure::WrongBytes(self.first_difference.clone())),
            (None, _) => None,
        }
    }

    /// Whether its time and bytes count: it finished, took time, and its bytes were not found wrong.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        self.error.is_none() && !matches!(self.verified, Some(false)) && self.wall_ns > 0
    }

    /// Whether it is unknown if the model was loaded: a command that compared no bytes and for which less than half a
    /// model of `whole_bytes` was reported or counted. It may have read from mappings, which are not counted, or
    /// nothing at all.
    #[must_use]
    pub fn in_doubt(&self, whole_bytes: u64) -> bool {
        self.outside.is_some() && self.verified.is_none() && self.bytes < whole_bytes / 2
    }
}
