//! The processes on the complete machine that use GPUs and storage at one moment. Values that could not be read are
//! absent.

use super::route::RouteProof;
use serde::{Deserialize, Serialize};

/// The state of the machine at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemSample {
    /// GPUs by NVML index.
    pub gpus: Vec<GpuUse>,
    /// The reason why there are no GPUs in the list, in a sentence.
    pub gpu_problem: Option<String>,
    /// The disks without partitions that were read since the machine started.
    pub disks: Vec<DiskUse>,
    /// The processes that have libcuda or libcufile mapped, by process id.
    pub processes: Vec<ProcessUse>,
    /// The number of processes whose mappings could not be read, usually those of other users. They may use GPUs.
    pub hidden_processes: u32,
    /// The number of processes that were not examined, because they did not answer or a limit was reached.
    #[serde(default)]
    pub unexamined_processes: u32,
    /// The first processes of both numbers, at most 256.
    #[serde(default)]
    pub hidden: Vec<HiddenProcess>,
    /// Whether root made the sample.
    #[serde(default)]
    pub by_root: bool,
}

impl SystemSample {
    /// The number of processes that could not be examined.
    #[must_use]
    pub fn not_seen(&self) -> u64 {
        u64::from(self.hidden_processes) + u64::from(self.unexamined_processes)
    }
}

/// A process that could not be examined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenProcess {
    /// The process id.
    pub pid: u32,
    /// Its short name.
    pub name: String,
    /// The user id of its owner.
    pub uid: Option<u32>,
    /// The file that could not be read with the error of the system, or the reason why the process was not examined.
    pub denied: String,
}

/// The state of a GPU at one moment (NVML).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuUse {
    /// The index in NVML.
    pub index: u32,
    /// Marketing name.
    pub name: String,
    /// The memory in use by all processes, in bytes.
    pub memory_used_bytes: Option<u64>,
    /// The total memory in bytes.
    pub memory_total_bytes: Option<u64>,
    /// The share of time in which a kernel ran, 0 to 100.
    pub utilization_percent: Option<f64>,
    /// The PCIe bytes received per second, over about 20 ms.
    pub rx_bytes_per_s: Option<f64>,
    /// The PCIe bytes sent per second, over about 20 ms.
    pub tx_bytes_per_s: Option<f64>,
    /// The BAR1 memory in use, in bytes.
    pub bar1_used_bytes: Option<u64>,
    /// The size of BAR1 in bytes.
    pub bar1_total_bytes: Option<u64>,
    /// The board power in watts.
    pub power_watts: Option<f64>,
}

/// The activity of a disk since the previous sample (`/proc/diskstats`).
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
    /// The mean time from the submission of a read to its completion, including the time in queues. `None` if there
    /// was no read.
    pub read_latency_ns: Option<f64>,
    /// The mean number of requests in flight.
    pub queue: Option<f64>,
    /// The share of time with at least one request in flight, 0 to 100.
    pub busy_percent: Option<f64>,
}

/// A process that has a CUDA or cuFile library mapped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// The process id.
    pub pid: u32,
    /// Its short name.
    pub name: String,
    /// Its command line, truncated.
    pub command: String,
    /// The user id of its owner.
    pub uid: Option<u32>,
    /// Whether libcuda is mapped.
    pub cuda: bool,
    /// File name of the libcufile that is mapped, `libcufile.so.1.15.1`.
    pub cufile: Option<String>,
    /// The CPU use since the previous sample, in percent of one core.
    pub cpu_percent: Option<f64>,
    /// The resident memory in bytes.
    pub rss_bytes: Option<u64>,
    /// The resident pages of files that it has mapped, in bytes.
    #[serde(default)]
    pub page_cache_bytes: Option<u64>,
    /// The number of threads.
    pub threads: Option<u32>,
    /// The GPU memory on all GPUs in bytes (NVML).
    pub gpu_memory_bytes: Option<u64>,
    /// The bytes read from storage per second (`read_bytes` of `/proc/PID/io`). It is also `None` without permission.
    pub storage_bytes_per_s: Option<f64>,
    /// The bytes that system calls read per second (`rchar` of `/proc/PID/io`), from the page cache or from storage.
    pub call_bytes_per_s: Option<f64>,
    /// How it probably reads models.
    pub route: SeenRoute,
    /// The evidence in its settings and its log for compat mode.
    #[serde(default)]
    pub compat_proof: Option<RouteProof>,
    /// Whether it has a cufile.log open.
    #[serde(default)]
    pub log_open: bool,
    /// The files with endings of models that it has mapped.
    pub mapped: Vec<String>,
    /// The files with endings of models that it has open.
    pub files: Vec<OpenFile>,
    /// Whether its open files could be listed.
    pub files_readable: bool,
}

/// How a process probably reads, judged from outside. It is never a proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeenRoute {
    /// There is no indication.
    #[default]
    Unknown,
    /// It uses cuFile and has the nvidia-fs device open.
    NvidiaFs,
    /// It uses cuFile without the nvidia-fs device: by P2PDMA or in compat mode.
    Cufile,
    /// It uses cuFile, and its log or its settings and the missing modules allow only compat mode.
    Compat,
    /// It has such files open with `O_DIRECT` and does not use cuFile.
    Direct,
    /// It has such files mapped.
    Mapped,
    /// It has such files open for reads through the page cache. Nothing shows that it uses cuFile.
    Cached,
}

/// A file with an ending of models that a process has open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFile {
    /// Its path.
    pub path: String,
    /// The current offset of the file, where its next read starts. Positioned reads do not change it.
    pub offset: u64,
    /// The size of the file in bytes.
    pub bytes: Option<u64>,
    /// Whether it is open with `O_DIRECT`.
    pub direct: bool,
}
