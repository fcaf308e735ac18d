//! The processes that use GPUs and storage at a moment, on the complete machine and not only in the session's lanes.
//! Values that could not be read are absent.

use serde::{Deserialize, Serialize};

/// The machine at a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemSample {
    /// GPUs by NVML index.
    pub gpus: Vec<GpuUse>,
    /// The reason why it has no GPUs, in a sentence.
    pub gpu_problem: Option<String>,
    /// Disks (not partitions) that have been read since the machine started.
    pub disks: Vec<DiskUse>,
    /// Processes that have libcuda or libcufile mapped, by process number.
    pub processes: Vec<ProcessUse>,
    /// Processes of other users whose mappings could not be read, so that it is not known whether they belong here.
    pub hidden_processes: u32,
}

/// A GPU at a moment (NVML).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuUse {
    /// NVML index.
    pub index: u32,
    /// Marketing name.
    pub name: String,
    /// Memory in use by all processes.
    pub memory_used_bytes: Option<u64>,
    /// Memory in all.
    pub memory_total_bytes: Option<u64>,
    /// Share of time in which a kernel ran, 0 to 100.
    pub utilization_percent: Option<f64>,
    /// PCIe bytes received a second, over about 20 ms.
    pub rx_bytes_per_s: Option<f64>,
    /// PCIe bytes sent a second, over about 20 ms.
    pub tx_bytes_per_s: Option<f64>,
    /// BAR1 in use.
    pub bar1_used_bytes: Option<u64>,
    /// BAR1 in all.
    pub bar1_total_bytes: Option<u64>,
    /// Board power.
    pub power_watts: Option<f64>,
}

/// A disk since the picture before (`/proc/diskstats`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskUse {
    /// Kernel name, `nvme0n1`.
    pub name: String,
    /// Bytes read a second.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes written a second.
    pub written_bytes_per_s: Option<f64>,
    /// Reads a second.
    pub reads_per_s: Option<f64>,
    /// Mean time from a read's submission to its completion, queueing included; absent where there was no read.
    pub read_latency_ns: Option<f64>,
    /// Mean number of requests in flight.
    pub queue: Option<f64>,
    /// Share of time with at least one request in flight, 0 to 100.
    pub busy_percent: Option<f64>,
}

/// A process with a CUDA or cuFile library in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// Process number.
    pub pid: u32,
    /// Its short name.
    pub name: String,
    /// Its command line, cut.
    pub command: String,
    /// Owner's number.
    pub uid: Option<u32>,
    /// Whether libcuda is mapped.
    pub cuda: bool,
    /// File name of the libcufile that is mapped, `libcufile.so.1.15.1`.
    pub cufile: Option<String>,
    /// CPU use since the picture before, percent of one core.
    pub cpu_percent: Option<f64>,
    /// Resident memory.
    pub rss_bytes: Option<u64>,
    /// Page cache that it has mapped: its resident pages of files.
    #[serde(default)]
    pub page_cache_bytes: Option<u64>,
    /// Threads.
    pub threads: Option<u32>,
    /// GPU memory, over all GPUs (NVML).
    pub gpu_memory_bytes: Option<u64>,
    /// Bytes fetched from storage a second (`/proc/PID/io` read_bytes); `None` also without permission.
    pub storage_bytes_per_s: Option<f64>,
    /// Bytes read by system calls a second (`/proc/PID/io` rchar), from the page cache or not.
    pub call_bytes_per_s: Option<f64>,
    /// The apparent route of its reads of models.
    pub route: SeenRoute,
    /// The evidence for it.
    pub evidence: String,
    /// Model files that are mapped.
    pub mapped: Vec<String>,
    /// Model files that are open.
    pub files: Vec<OpenFile>,
    /// Whether its open files could be read.
    pub files_readable: bool,
}

/// The apparent route of reads, from outside. It is never a proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeenRoute {
    /// Nothing points to a way.
    #[default]
    Unknown,
    /// cuFile with the nvidia-fs device open.
    NvidiaFs,
    /// cuFile without the nvidia-fs device.
    Cufile,
    /// Model files open with `O_DIRECT`, without cuFile.
    Direct,
    /// Model files mapped.
    Mapped,
    /// Model files open for reads through the page cache.
    Cached,
}

/// A model file that a process has open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFile {
    /// Its path.
    pub path: String,
    /// The current offset of the file, at which its next read begins; positioned reads do not move it.
    pub offset: u64,
    /// Its length.
    pub bytes: Option<u64>,
    /// Whether it is open with `O_DIRECT`.
    pub direct: bool,
}
