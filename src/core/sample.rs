//! Samples: readings of meters at a time. A meter that could not be read is absent, never zero.

use super::run::LaneId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A meter. The name carries the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// GPU memory in use by all processes (NVML).
    GpuMemoryBytes,
    /// GPU utilisation, 0 to 100 (NVML).
    GpuUtilizationPercent,
    /// PCIe bytes the GPU receives a second (NVML, over about 20 ms).
    PcieRxBytesPerS,
    /// PCIe bytes the GPU sends a second (NVML).
    PcieTxBytesPerS,
    /// Board power in watts (NVML).
    PowerWatts,
    /// BAR1 in use (NVML).
    Bar1UsedBytes,
    /// Resident memory of the lane process (`/proc/PID/status` VmRSS).
    LaneRssBytes,
    /// Anonymous part of it (RssAnon).
    LaneRssAnonBytes,
    /// Mapped-file part of it (RssFile).
    LaneRssFileBytes,
    /// Pinned memory of the lane, as its own allocator counts it.
    LanePinnedBytes,
    /// CPU time of the lane so far, user and system (`/proc/PID/stat`).
    LaneCpuNs,
    /// Bytes the lane fetched from storage so far (`/proc/PID/io` read_bytes).
    LaneStorageReadBytes,
    /// Bytes the lane read by system calls so far (`/proc/PID/io` rchar).
    LaneReadCallBytes,
    /// Threads of the lane.
    LaneThreads,
    /// Page cache of the machine (`/proc/meminfo` Cached).
    PageCacheBytes,
    /// Bytes read from the storage device of the model so far (`/proc/diskstats`).
    DeviceReadBytes,
    /// Share of the last ten seconds in which some task of the machine waited for a CPU, 0 to 100 (`/proc/pressure/cpu`).
    CpuPressurePercent,
    /// The same for storage (`/proc/pressure/io`).
    IoPressurePercent,
    /// The same for memory (`/proc/pressure/memory`).
    MemoryPressurePercent,
    /// Bytes of the model that have arrived on the target, as the lane counts them.
    LandedBytes,
    /// CPU of gds-top's own screen process, percent of one core.
    SelfCpuPercent,
    /// Resident memory of gds-top's own screen process.
    SelfRssBytes,
}

/// Readings taken together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The lane that was being watched, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneId>,
    /// The readings.
    pub values: BTreeMap<Metric, f64>,
}
