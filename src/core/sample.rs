//! Samples: readings of metrics at one time. A metric that could not be read is absent, never zero.

use super::run::LaneId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A metric. Its name includes the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// GPU memory in use by all processes (NVML).
    GpuMemoryBytes,
    /// GPU utilisation, 0 to 100 (NVML).
    GpuUtilizationPercent,
    /// PCIe bytes per second that the GPU receives (NVML, over about 20 ms).
    PcieRxBytesPerS,
    /// PCIe bytes per second that the GPU sends (NVML, over about 20 ms).
    PcieTxBytesPerS,
    /// Board power in watts (NVML).
    PowerWatts,
    /// BAR1 memory in use (NVML).
    Bar1UsedBytes,
    /// Resident memory of the run's process (`VmRSS` of `/proc/PID/status`).
    LaneRssBytes,
    /// The anonymous part of that memory (`RssAnon`).
    LaneRssAnonBytes,
    /// The mapped-file part of that memory (`RssFile`).
    LaneRssFileBytes,
    /// Pinned memory of the run, as its allocator counts it.
    LanePinnedBytes,
    /// CPU time of the run so far, user and system (`/proc/PID/stat`).
    LaneCpuNs,
    /// Bytes that the run read from storage so far (`read_bytes` of `/proc/PID/io`).
    LaneStorageReadBytes,
    /// Bytes that the run read with system calls so far (`rchar` of `/proc/PID/io`).
    LaneReadCallBytes,
    /// The number of threads of the run.
    LaneThreads,
    /// Page cache of the machine (`/proc/meminfo` Cached).
    PageCacheBytes,
    /// Bytes read from the storage device of the model so far (`/proc/diskstats`).
    DeviceReadBytes,
    /// The share of the last ten seconds in which a task of the machine waited for a CPU, 0 to 100
    /// (`/proc/pressure/cpu`).
    CpuPressurePercent,
    /// The share of the last ten seconds in which a task waited for storage, 0 to 100 (`/proc/pressure/io`).
    IoPressurePercent,
    /// The share of the last ten seconds in which a task waited for memory, 0 to 100 (`/proc/pressure/memory`).
    MemoryPressurePercent,
    /// Bytes of the model on the target, as the run counts them.
    LandedBytes,
    /// CPU use of gds-top's main process, in percent of one core.
    SelfCpuPercent,
    /// Resident memory of gds-top's main process.
    SelfRssBytes,
}

/// Readings that were taken at the same time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The run that the readings belong to. `None` if no run was active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneId>,
    /// The readings.
    pub values: BTreeMap<Metric, f64>,
}
