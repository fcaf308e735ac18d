//! Workloads other than loads of models: the orders of their lanes and their measurements.

use super::histogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The order of a lane of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadOrder {
    /// The hidden subcommand whose process the lane is.
    pub child: String,
    /// Environment of that process, on top of the session's.
    pub environment: BTreeMap<String, String>,
    /// The workload's own order, which only it reads.
    pub order: serde_json::Value,
}

/// Measurements of a workload's lane other than time, bytes and phases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkloadResult {
    /// The workload: `lmcache`.
    pub workload: String,
    /// The path of the bytes: `gds`, `gds-registered`, `ram`, `disk`, with the settings that differ between lanes.
    pub variant: String,
    /// `read` (storage to target) or `write`.
    pub direction: String,
    /// The shape of the KV cache, by name.
    pub shape: String,
    /// Tokens of a sequence.
    pub tokens: u64,
    /// Sequences.
    pub batch: u64,
    /// Transfers made.
    pub operations: u64,
    /// Bytes of the largest transfer.
    pub operation_bytes: u64,
    /// Time in which at least one transfer was in flight.
    pub busy_ns: u64,
    /// Bytes over `busy_ns`: the rate while there was something to transfer.
    pub busy_bytes_per_s: Option<f64>,
    /// `busy_ns` over the wall time, 0 to 1: the utilisation of the path to the storage.
    pub busy_fraction: Option<f64>,
    /// Latency of a transfer, including opening and registering if necessary.
    pub latency_ns: Option<Percentiles>,
    /// The same latencies by buckets; `None` in recordings of older programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_histogram: Option<Histogram>,
    /// Files or chunks that were looked up; `None` for writes.
    pub lookups: Option<u64>,
    /// Those that were found completely.
    pub hits: Option<u64>,
    /// `hits` over `lookups`, 0 to 1.
    pub hit_rate_fraction: Option<f64>,
    /// Time of all lookups together.
    pub lookup_ns: Option<u64>,
    /// The cache of file handles; `None` if no file is opened.
    pub handle_cache: Option<HandleCacheCounts>,
    /// Calls of `cuFileHandleRegister` that went well.
    pub handle_registrations: u64,
    /// Calls of `cuFileBufRegister` that went well.
    pub buffer_registrations: u64,
    /// Chunks removed because the store was over its limit; `None` without a limit.
    pub evicted_chunks: Option<u64>,
    /// Transfers with a fallback, by reason.
    pub fallbacks: Vec<Fallback>,
    /// Layers of a layer-wise read, in order; empty otherwise.
    pub layers: Vec<LayerTimes>,
    /// Computing time that was simulated for each layer.
    pub simulated_compute_ns: Option<u64>,
    /// When the simulated computing of the last layer ended, on the run's clock.
    pub computed_ns: Option<u64>,
    /// Share of the time with transfers in flight in which computing did not wait for them, 0 to 1.
    pub hidden_fraction: Option<f64>,
    /// Writes at the same time as a read; `None` without such writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<BesideWrites>,
    /// The CUDA streams that transfers ran on; `None` where they were synchronous.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_streams: Option<OnStreams>,
    /// Failures that a run did not look for, as LMCache's multi-process mode does not; `None` if results were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unchecked: Option<Unchecked>,
}

/// Asynchronous transfers whose results were not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unchecked {
    /// Transfers that failed or moved less than asked.
    pub operations: u64,
    /// Bytes that they did not move.
    pub lost_bytes: u64,
}

/// Asynchronous transfers on CUDA streams, with a callback at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnStreams {
    /// Streams, one a worker.
    pub streams: u64,
    /// The limit of transfers in flight per worker.
    pub depth: u64,
    /// The largest number in flight on one stream.
    pub most_under_way: u64,
    /// Time inside the calls, of all transfers together.
    pub in_call_ns: u64,
    /// Time from the call to its callback, of all transfers together.
    pub in_flight_ns: u64,
}

impl OnStreams {
    /// This and what another worker saw.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            streams: self.streams + other.streams,
            depth: self.depth.max(other.depth),
            most_under_way: self.most_under_way.max(other.most_under_way),
            in_call_ns: self.in_call_ns + other.in_call_ns,
            in_flight_ns: self.in_flight_ns + other.in_flight_ns,
        }
    }

    /// Share of the workers' time that passed inside the calls, 0 to 1, of a run of this length: near 1 if the
    /// library makes a transfer before its call returns. The time to the callbacks does not show this: with many in
    /// flight, each of them waits while the others are called. `None` without workers or time.
    #[must_use]
    pub fn in_call_fraction(&self, wall_ns: u64) -> Option<f64> {
        let at_work = self.streams.saturating_mul(wall_ns);
        (at_work > 0).then(|| (self.in_call_ns as f64 / at_work as f64).min(1.0))
    }
}

/// Writes by the threads of a read while it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BesideWrites {
    /// Files.
    pub files: u64,
    /// Transfers.
    pub operations: u64,
    /// Bytes.
    pub bytes: u64,
    /// Transfers that had ended when the last read did.
    pub before_last_read_operations: u64,
    /// When the last of them ended, on the run's clock.
    pub ended_ns: u64,
    /// Whether three of four threads took reads before writes.
    pub read_priority: bool,
}

/// Percentiles by the nearest rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Half are not longer.
    pub p50: u64,
    /// Nine of ten are not longer.
    pub p90: u64,
    /// 99 of 100 are not longer.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

impl Percentiles {
    /// Of these values, which are sorted on the way; `None` of none.
    #[must_use]
    pub fn of(values: &mut [u64]) -> Option<Self> {
        values.sort_unstable();
        let rank = |percent: usize| values.get((values.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Some(Self { p50: rank(50)?, p90: rank(90)?, p99: rank(99)?, max: *values.last()? })
    }
}

/// Counters of a cache of file handles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandleCacheCounts {
    /// Most handles kept; 0 keeps none beyond their use.
    pub limit: u64,
    /// Handles that were there.
    pub hits: u64,
    /// Handles that had to be opened.
    pub misses: u64,
    /// Unused handles that were closed to keep the limit.
    pub evictions: u64,
    /// Most handles open at once.
    pub peak: u64,
}

/// The reason why a cuFile transfer fell back to a staging buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackReason {
    /// libcufile was not found.
    NoLibrary,
    /// The cuFile driver did not open.
    InitFailed,
    /// The file system does not support O_DIRECT.
    NoOdirect,
    /// The transfer, or registering its file, failed.
    OperationFailed,
    /// Offset, length or address was not a multiple of 4 KiB, and the system does not give such a transfer to cuFile.
    Misaligned,
}

impl FallbackReason {
    /// All reasons, in the order in which they are tested.
    pub const ALL: [Self; 5] =
        [Self::NoLibrary, Self::InitFailed, Self::NoOdirect, Self::OperationFailed, Self::Misaligned];

    /// The reason as reports and options name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoLibrary => "no_library",
            Self::InitFailed => "init_failed",
            Self::NoOdirect => "no_odirect",
            Self::OperationFailed => "operation_failed",
            Self::Misaligned => "misaligned",
        }
    }
}

impl std::fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for FallbackReason {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = text.replace('-', "_");
        Self::ALL.into_iter().find(|reason| reason.name() == wanted).ok_or_else(|| {
            format!("'{text}' is not a reason to fall back; known reasons: {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// The fallback of a transfer that cuFile did not make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackAction {
    /// It was made through a staging buffer.
    #[default]
    Staged,
    /// The write was dropped: the file is not in the store.
    Dropped,
    /// The read was ignored: the target keeps its old bytes.
    Ignored,
}

impl FallbackAction {
    /// The action as reports name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Staged => "staged",
            Self::Dropped => "dropped",
            Self::Ignored => "ignored",
        }
    }
}

/// Transfers with a fallback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// Why.
    pub reason: FallbackReason,
    /// Their fallback.
    #[serde(default)]
    pub action: FallbackAction,
    /// Whether the workload falls back for this reason on request, as a test.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub provoked: bool,
    /// How many transfers.
    pub operations: u64,
    /// The first case in a sentence.
    pub detail: String,
}

/// One layer of a layer-wise read, on the run's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerTimes {
    /// Start of its first transfer.
    pub load_start_ns: u64,
    /// From there to the end of its last transfer.
    pub load_ns: u64,
    /// Start of its simulated computing.
    pub compute_start_ns: u64,
    /// Length of that.
    pub compute_ns: u64,
    /// The time that computing waited for this layer's bytes.
    pub wait_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let mut hundred: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(Percentiles::of(&mut hundred), Some(Percentiles { p50: 50, p90: 90, p99: 99, max: 100 }));
        assert_eq!(Percentiles::of(&mut [7]), Some(Percentiles { p50: 7, p90: 7, p99: 7, max: 7 }));
        assert_eq!(Percentiles::of(&mut [9, 1, 5]), Some(Percentiles { p50: 5, p90: 9, p99: 9, max: 9 }));
        assert_eq!(Percentiles::of(&mut []), None);
    }

    #[test]
    fn results_of_older_programs_are_read_with_gaps() {
        let read: WorkloadResult = serde_json::from_str(r#"{"workload":"ucm","operations":3}"#).unwrap_or_default();
        assert_eq!((read.operations, read.latency_ns, read.hit_rate_fraction), (3, None, None));
    }

    #[test]
    fn what_workers_saw_of_their_streams_is_put_together() {
        let one = OnStreams { streams: 1, depth: 16, most_under_way: 3, in_call_ns: 10, in_flight_ns: 40 };
        let other = OnStreams { streams: 1, depth: 16, most_under_way: 9, in_call_ns: 20, in_flight_ns: 20 };
        let all = OnStreams { streams: 2, depth: 16, most_under_way: 9, in_call_ns: 30, in_flight_ns: 60 };
        assert_eq!((one.and(other), all.in_call_fraction(30)), (all, Some(0.5)));
        assert_eq!((OnStreams::default().in_call_fraction(30), all.in_call_fraction(0)), (None, None));
        // Sixteen on one stream with calls that fill the time: waiting for the others changes nothing.
        let full = OnStreams { streams: 1, depth: 16, most_under_way: 16, in_call_ns: 90, in_flight_ns: 1440 };
        assert_eq!(full.in_call_fraction(100), Some(0.9));
    }
}
