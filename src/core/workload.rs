//! Workloads other than loads of models: the orders of their runs and their results.

use super::histogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The order of a workload run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadOrder {
    /// The hidden subcommand that the process runs.
    pub child: String,
    /// Environment variables of that process, in addition to those of the session.
    pub environment: BTreeMap<String, String>,
    /// The order in the workload's format. Only the workload reads it.
    pub order: serde_json::Value,
}

/// Results of a workload run other than time, bytes and phases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkloadResult {
    /// The name of the workload: `lmcache`.
    pub workload: String,
    /// The path of the bytes (`gds`, `gds-registered`, `ram`, `disk`) and the settings that differ between runs.
    pub variant: String,
    /// `read` (from storage to the target) or `write`.
    pub direction: String,
    /// The name of the KV-cache shape.
    pub shape: String,
    /// The tokens of a sequence.
    pub tokens: u64,
    /// The number of sequences.
    pub batch: u64,
    /// The number of transfers.
    pub operations: u64,
    /// The size of the largest transfer in bytes.
    pub operation_bytes: u64,
    /// The time with at least one transfer in flight, in nanoseconds.
    pub busy_ns: u64,
    /// The bytes divided by `busy_ns`, per second: the rate while transfers were in flight.
    pub busy_bytes_per_s: Option<f64>,
    /// `busy_ns` divided by the wall time, 0 to 1.
    pub busy_fraction: Option<f64>,
    /// The latency of a transfer, including the time to open and register if that was necessary.
    pub latency_ns: Option<Percentiles>,
    /// The same latencies as a histogram. `None` in recordings of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_histogram: Option<Histogram>,
    /// The number of files or chunks that were looked up. `None` for writes.
    pub lookups: Option<u64>,
    /// The number of files or chunks that were found complete.
    pub hits: Option<u64>,
    /// `hits` divided by `lookups`, 0 to 1.
    pub hit_rate_fraction: Option<f64>,
    /// The time of all lookups in nanoseconds.
    pub lookup_ns: Option<u64>,
    /// The cache of file handles; `None` if no file is opened.
    pub handle_cache: Option<HandleCacheCounts>,
    /// The number of successful `cuFileHandleRegister` calls.
    pub handle_registrations: u64,
    /// The number of successful `cuFileBufRegister` calls.
    pub buffer_registrations: u64,
    /// The number of chunks that were removed because the store exceeded its limit. `None` without a limit.
    pub evicted_chunks: Option<u64>,
    /// The transfers with a fallback, by reason. Staged transfers are part of `operations`; dropped and ignored ones
    /// are not.
    pub fallbacks: Vec<Fallback>,
    /// The number of transfers that were requested, if some of them were dropped or ignored. A file with a failed transfer
    /// is abandoned, so the transfers after it were not made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<u64>,
    /// The layers of a layer-wise read in order. It is empty for other reads.
    pub layers: Vec<LayerTimes>,
    /// The simulated computing time of each layer in nanoseconds.
    pub simulated_compute_ns: Option<u64>,
    /// The end of the simulated computing of the last layer, in nanoseconds since the clock started.
    pub computed_ns: Option<u64>,
    /// The share of the transfer time in which computing did not wait for transfers, 0 to 1.
    pub hidden_fraction: Option<f64>,
    /// Whether the writes end in the page cache, before the disk has the bytes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_page_cache: bool,
    /// The writes during a read. `None` if there were none.
    #[serde(alias = "beside", skip_serializing_if = "Option::is_none")]
    pub concurrent_writes: Option<ConcurrentWrites>,
    /// The CUDA streams of the transfers. `None` if the transfers were synchronous.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_streams: Option<OnStreams>,
    /// The failures that the workload ignores, as the multi-process mode of LMCache does. `None` if it checks
    /// results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unchecked: Option<Unchecked>,
    /// The read compared with computing all tokens. `None` if no time per token was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recompute: Option<Recompute>,
}

/// The time to the first token without the cache and with it. Computing is calculated with a given time per token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recompute {
    /// The given time to compute one token, in nanoseconds.
    pub token_ns: u64,
    /// The tokens of all sequences.
    pub tokens: u64,
    /// The tokens that were read from the cache.
    pub read_tokens: u64,
    /// The time to compute all tokens, in nanoseconds.
    pub without_ns: u64,
    /// The time of the read and of computing the other tokens, in nanoseconds.
    pub first_token_ns: u64,
}

impl Recompute {
    /// A read of `read_tokens` in `read_ns` nanoseconds.
    #[must_use]
    pub fn of(token_ns: u64, tokens: u64, read_tokens: u64, read_ns: u64) -> Self {
        let computed = tokens.saturating_sub(read_tokens).saturating_mul(token_ns);
        Self {
            token_ns,
            tokens,
            read_tokens,
            without_ns: tokens.saturating_mul(token_ns),
            first_token_ns: read_ns.saturating_add(computed),
        }
    }

    /// The saved time in seconds. It is negative if the read takes longer than computing.
    #[must_use]
    pub fn saved_s(&self) -> f64 {
        (self.without_ns as f64 - self.first_token_ns as f64) / 1e9
    }
}

/// Asynchronous transfers whose results are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unchecked {
    /// The number of transfers that failed or moved fewer bytes than requested.
    pub operations: u64,
    /// The bytes that these transfers did not move.
    pub lost_bytes: u64,
}

/// Asynchronous transfers on CUDA streams with a callback at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnStreams {
    /// The number of streams, one per worker.
    pub streams: u64,
    /// The limit of transfers in flight per worker.
    pub depth: u64,
    /// The largest number of transfers in flight on one stream.
    pub most_under_way: u64,
    /// The time inside the calls of all transfers, in nanoseconds.
    pub in_call_ns: u64,
    /// The time from the call to its callback, summed over all transfers, in nanoseconds.
    pub in_flight_ns: u64,
}

impl OnStreams {
    /// The sum of this and the counters of another worker.
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

    /// The share of the workers' time that was spent inside the calls, 0 to 1. It is near 1 if the library finishes a
    /// transfer before its call returns. The time to the callbacks does not show this, because with many transfers in
    /// flight each one waits for the other calls. `None` without workers or time.
    #[must_use]
    pub fn in_call_fraction(&self, wall_ns: u64) -> Option<f64> {
        let at_work = self.streams.saturating_mul(wall_ns);
        (at_work > 0).then(|| (self.in_call_ns as f64 / at_work as f64).min(1.0))
    }
}

/// Writes that the threads of a read made during the read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConcurrentWrites {
    /// The number of files.
    pub files: u64,
    /// The number of transfers.
    pub operations: u64,
    /// The bytes that were written.
    pub bytes: u64,
    /// The number of transfers that ended before the last read ended.
    pub before_last_read_operations: u64,
    /// The end of the last transfer, in nanoseconds since the clock started.
    pub ended_ns: u64,
    /// Whether three of four threads preferred reads to writes.
    pub read_priority: bool,
}

/// Percentiles by the nearest-rank method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// 50 % of the values are at most this.
    pub p50: u64,
    /// 90 % of the values are at most this.
    pub p90: u64,
    /// 99 % of the values are at most this.
    pub p99: u64,
    /// The largest value.
    pub max: u64,
}

impl Percentiles {
    /// The percentiles of these values. The values are sorted in place. `None` if there are none.
    #[must_use]
    pub fn of(values: &mut [u64]) -> Option<Self> {
        values.sort_unstable();
        let rank = |percent: usize| values.get((values.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Some(Self { p50: rank(50)?, p90: rank(90)?, p99: rank(99)?, max: *values.last()? })
    }
}

/// The counters of a cache of file handles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandleCacheCounts {
    /// The largest number of handles that are kept. 0 closes each handle after its use.
    pub limit: u64,
    /// The number of handles that were found in the cache.
    pub hits: u64,
    /// The number of handles that had to be opened.
    pub misses: u64,
    /// The number of unused handles that were closed because of the limit.
    pub evictions: u64,
    /// The largest number of handles that were open at one time.
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
    /// The transfer failed, or the registration of its file.
    OperationFailed,
    /// The offset, length or address is not a multiple of 4 KiB, and the system does not use cuFile for such a
    /// transfer.
    Misaligned,
}

impl FallbackReason {
    /// All reasons, in the order in which they are tested.
    pub const ALL: [Self; 5] =
        [Self::NoLibrary, Self::InitFailed, Self::NoOdirect, Self::OperationFailed, Self::Misaligned];

    /// The name of the reason in reports and options.
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

/// The fallback for a transfer that cuFile did not make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackAction {
    /// The bytes were copied through a staging buffer.
    #[default]
    Staged,
    /// The write was dropped, so the file is not in the store.
    Dropped,
    /// The read was ignored, so the target keeps its previous bytes.
    Ignored,
}

impl FallbackAction {
    /// The name of the fallback in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Staged => "staged",
            Self::Dropped => "dropped",
            Self::Ignored => "ignored",
        }
    }
}

/// The transfers with a fallback for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// The reason.
    pub reason: FallbackReason,
    /// The fallback.
    #[serde(default)]
    pub action: FallbackAction,
    /// Whether the user requested the fallback as a test.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub provoked: bool,
    /// The number of transfers.
    pub operations: u64,
    /// The number of files that cuFile could not open or register, or for which it was not available. All transfers of
    /// these files are in `operations`.
    #[serde(default)]
    pub files: u64,
    /// The first case, in a sentence.
    pub detail: String,
}

impl Fallback {
    /// The number of staged transfers.
    #[must_use]
    pub fn staged(fallbacks: &[Self]) -> u64 {
        let staged = fallbacks.iter().filter(|fallback| fallback.action == FallbackAction::Staged);
        staged.fold(0, |sum, fallback| sum.saturating_add(fallback.operations))
    }
}

impl WorkloadResult {
    /// Whether transfers should have used cuFile, but all of them were staged.
    #[must_use]
    pub fn is_all_staged(&self) -> bool {
        self.operations > 0 && Fallback::staged(&self.fallbacks) >= self.operations
    }

    /// The number of transfers, including those that were dropped or ignored.
    #[must_use]
    pub fn requested_operations(&self) -> u64 {
        if let Some(all) = self.requested {
            return all;
        }
        let all = self.fallbacks.iter().fold(0, |sum: u64, fallback| sum.saturating_add(fallback.operations));
        self.operations.saturating_add(all - Fallback::staged(&self.fallbacks))
    }
}

/// One layer of a layer-wise read. Starts are in nanoseconds since the clock started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerTimes {
    /// The start of its first transfer.
    pub load_start_ns: u64,
    /// The time from the start of its first transfer to the end of its last one, in nanoseconds.
    pub load_ns: u64,
    /// The start of its simulated computing.
    pub compute_start_ns: u64,
    /// The duration of its simulated computing in nanoseconds.
    pub compute_ns: u64,
    /// The time that computing waited for the bytes of this layer, in nanoseconds.
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
    fn a_read_saves_the_computing_of_its_tokens_or_costs_time() {
        let all = Recompute::of(1_000_000, 100, 75, 20_000_000);
        assert_eq!((all.without_ns, all.first_token_ns), (100_000_000, 45_000_000));
        assert!((all.saved_s() - 0.055).abs() < 1e-12);
        assert!(Recompute::of(1000, 100, 100, 20_000_000).saved_s() < 0.0);
    }

    #[test]
    fn transfers_that_fell_back_are_counted_in_the_unit_of_all_transfers() {
        let fallback = |action, operations| Fallback {
            reason: FallbackReason::OperationFailed,
            action,
            provoked: false,
            operations,
            files: 0,
            detail: String::new(),
        };
        let of = |operations, fallbacks| WorkloadResult { operations, fallbacks, ..WorkloadResult::default() };
        let staged = of(2, vec![fallback(FallbackAction::Staged, 2)]);
        assert_eq!((staged.requested_operations(), staged.is_all_staged()), (2, true));
        // Half of the transfers were dropped, so they are not among the transfers that were made.
        let dropped = of(4, vec![fallback(FallbackAction::Dropped, 3), fallback(FallbackAction::Staged, 1)]);
        assert_eq!((dropped.requested_operations(), dropped.is_all_staged()), (7, false));
        // The transfers of a file after its failed one were not made either.
        let counted = WorkloadResult { requested: Some(24), ..dropped };
        assert_eq!(counted.requested_operations(), 24);
        assert!(!of(0, Vec::new()).is_all_staged());
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
        // 16 transfers on one stream whose calls take the complete time. The time that each one waits for the others
        // does not change the share.
        let full = OnStreams { streams: 1, depth: 16, most_under_way: 16, in_call_ns: 90, in_flight_ns: 1440 };
        assert_eq!(full.in_call_fraction(100), Some(0.9));
    }
}
