//! Samples the state of the machine every two seconds while the System screen is open: GPUs from NVML, disks and
//! processes from procfs.

use super::processes::{Processes, Seen};
use crate::core::{DiskUse, GpuUse, HiddenProcess, SystemSample};
use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::PcieUtilCounter;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two samples.
const INTERVAL: Duration = Duration::from_secs(2);
/// Time between the first and the second sample. It is short, because the first sample has no rates.
const SECOND: Duration = Duration::from_millis(500);

/// Maximum number of processes in a sample that could not be examined.
const MOST_HIDDEN: usize = 256;

/// A thread that samples the state of the machine. It ends when this value is dropped. A driver call that hangs is
/// abandoned.
#[derive(Debug)]
pub struct SystemWatch {
    _stop: Sender<()>,
}

impl SystemWatch {
    /// Starts the thread. `emit` is called on this thread, for the first time immediately.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub fn start(mut emit: impl FnMut(SystemSample) + Send + 'static) -> std::io::Result<Self> {
        let (stop, stopped) = bounded::<()>(0);
        std::thread::Builder::new().name("gds-top-system".to_owned()).spawn(move || {
            let library = std::env::var_os("GDS_TOP_NVML").filter(|path| !path.is_empty()).map(PathBuf::from);
            let nvml = match &library {
                Some(path) => Nvml::builder().lib_path(path.as_os_str()).init(),
                None => Nvml::init(),
            };
            let mut machine = Machine::new(Path::new("/proc"), Path::new("/sys"));
            let mut wait = SECOND;
            loop {
                let mut sample = machine.look(Instant::now());
                match &nvml {
                    Ok(nvml) => gpus(nvml, &mut sample),
                    // Usually the library is missing. The error message of the loader does not help the user.
                    Err(NvmlError::LibloadingError(error)) => {
                        sample.gpu_problem = Some(format!(
                            "GPUs cannot be watched: the driver's library for it (NVML) cannot be loaded. Is the NVIDIA driver installed? ({error})"
                        ));
                    }
                    Err(error) => sample.gpu_problem = Some(format!("NVML could not be started: {error}")),
                }
                // The screen was closed during a slow driver call.
                if stopped.try_recv() == Err(crossbeam_channel::TryRecvError::Disconnected) {
                    return;
                }
                emit(sample);
                match stopped.recv_timeout(wait) {
                    Err(RecvTimeoutError::Timeout) => wait = INTERVAL,
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        Ok(Self { _stop: stop })
    }
}

/// The readings of procfs, and the previous readings from which rates are computed.
struct Machine {
    diskstats: PathBuf,
    blocks: PathBuf,
    processes: Processes,
    disks: BTreeMap<String, (Instant, Disk)>,
}

/// Counters of a disk (Documentation/admin-guide/iostats.rst).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Disk {
    reads: u64,
    read_sectors: u64,
    read_ms: u64,
    written_sectors: u64,
    busy_ms: u64,
    queued_ms: u64,
}

impl Disk {
    fn parse(line: &str) -> Option<(String, Self)> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|f| f.parse::<u64>().ok());
        Some((
            (*fields.get(2)?).to_owned(),
            Self {
                reads: number(3)?,
                read_sectors: number(5)?,
                read_ms: number(6)?,
                written_sectors: number(9)?,
                busy_ms: number(12)?,
                queued_ms: number(13)?,
            },
        ))
    }

    fn since(self, before: Self, seconds: f64, name: String) -> DiskUse {
        let grown = |new: u64, old: u64| new.saturating_sub(old) as f64;
        let reads = grown(self.reads, before.reads);
        DiskUse {
            name,
            read_bytes_per_s: Some(grown(self.read_sectors, before.read_sectors) * 512.0 / seconds),
            written_bytes_per_s: Some(grown(self.written_sectors, before.written_sectors) * 512.0 / seconds),
            reads_per_s: Some(reads / seconds),
            read_latency_ns: (reads > 0.0).then(|| grown(self.read_ms, before.read_ms) * 1e6 / reads),
            queue: Some(grown(self.queued_ms, before.queued_ms) / 1e3 / seconds),
            busy_percent: Some((grown(self.busy_ms, before.busy_ms) / 10.0 / seconds).min(100.0)),
        }
    }
}

impl Machine {
    fn new(proc: &Path, sys: &Path) -> Self {
        Self {
            diskstats: proc.join("diskstats"),
            blocks: sys.join("block"),
            processes: Processes::new(proc.to_owned()),
            disks: BTreeMap::new(),
        }
    }

    fn look(&mut self, now: Instant) -> SystemSample {
        let Seen { found: processes, denied, unexamined } = self.processes.look(now);
        let number = |list: &[HiddenProcess]| u32::try_from(list.len()).unwrap_or(u32::MAX);
        let (hidden_processes, unexamined_processes) = (number(&denied), number(&unexamined));
        // The reasons of these are rarer.
        let hidden = unexamined.into_iter().chain(denied).take(MOST_HIDDEN).collect();
        let by_root = rustix::process::geteuid().is_root();
        let disks = self.look_at_disks(now);
        SystemSample {
            disks,
            processes,
            hidden_processes,
            unexamined_processes,
            hidden,
            by_root,
            ..SystemSample::default()
        }
    }

    fn look_at_disks(&mut self, now: Instant) -> Vec<DiskUse> {
        let text = std::fs::read_to_string(&self.diskstats).unwrap_or_default();
        let mut disks = Vec::new();
        for (name, counts) in text.lines().filter_map(Disk::parse) {
            // Partitions are parts of disks. Loop and RAM devices are not relevant for models.
            let is_disk = self.blocks.join(&name).exists();
            if !is_disk || counts.reads == 0 || ["loop", "ram", "zram", "sr"].iter().any(|p| name.starts_with(p)) {
                continue;
            }
            let before = self.disks.insert(name.clone(), (now, counts));
            let seconds = before.map(|(at, _)| now.duration_since(at).as_secs_f64()).filter(|s| *s > 0.0);
            disks.push(match (before, seconds) {
                (Some((_, before)), Some(seconds)) => counts.since(before, seconds, name),
                _ => DiskUse { name, ..DiskUse::default() },
            });
        }
        disks
    }
}

/// Adds the GPUs, and the GPU memory of each process from NVML.
fn gpus(nvml: &Nvml, sample: &mut SystemSample) {
    let count = match nvml.device_count() {
        Ok(count) => count,
        Err(error) => {
            sample.gpu_problem = Some(format!("NVML cannot count the GPUs: {error}"));
            return;
        }
    };
    for index in 0..count {
        let Ok(device) = nvml.device_by_index(index) else { continue };
        let memory = device.memory_info().ok();
        let bar1 = device.bar1_memory_info().ok();
        // The value is in KB/s, averaged over 20 ms (NVML reference, nvmlDeviceGetPcieThroughput).
        let pcie = |counter| device.pcie_throughput(counter).ok().map(|kb| f64::from(kb) * 1e3);
        sample.gpus.push(GpuUse {
            index,
            name: device.name().unwrap_or_default(),
            memory_used_bytes: memory.as_ref().map(|m| m.used),
            memory_total_bytes: memory.as_ref().map(|m| m.total),
            utilization_percent: device.utilization_rates().ok().map(|rates| f64::from(rates.gpu)),
            rx_bytes_per_s: pcie(PcieUtilCounter::Receive),
            tx_bytes_per_s: pcie(PcieUtilCounter::Send),
            bar1_used_bytes: bar1.as_ref().map(|b| b.used),
            bar1_total_bytes: bar1.as_ref().map(|b| b.total),
            power_watts: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
        });
        for process in device.running_compute_processes().unwrap_or_default() {
            if let UsedGpuMemory::Used(bytes) = process.used_gpu_memory
                && let Some(seen) = sample.processes.iter_mut().find(|p| p.pid == process.pid)
            {
                seen.gpu_memory_bytes = Some(seen.gpu_memory_bytes.unwrap_or(0).saturating_add(bytes));
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_latency_of_a_disk_are_those_between_two_looks() {
        let folder = tempfile::tempdir().unwrap();
        let (proc, sys) = (folder.path().join("proc"), folder.path().join("sys"));
        std::fs::create_dir_all(sys.join("block/nvme0n1")).unwrap();
        std::fs::create_dir_all(&proc).unwrap();
        let stats = |reads: u64, sectors: u64, ms: u64| {
            let text = format!(
                " 259 0 nvme0n1 {reads} 0 {sectors} {ms} 5 0 8 0 0 {ms} {ms}\n 259 1 nvme0n1p1 9 0 9 9 0 0 0 0 0 9 9\n 7 0 loop0 1 0 1 1 0 0 0 0 0 1 1\n"
            );
            std::fs::write(proc.join("diskstats"), text).unwrap();
        };
        let mut machine = Machine::new(&proc, &sys);
        let start = Instant::now();
        stats(10, 100, 50);
        let first = machine.look(start);
        assert_eq!(first.disks, [DiskUse { name: "nvme0n1".into(), ..DiskUse::default() }]);
        stats(30, 4_100, 1_050);
        let second = machine.look(start + Duration::from_secs(2));
        let disk = &second.disks[0];
        assert_eq!(disk.read_bytes_per_s, Some(1_024_000.0));
        assert_eq!((disk.reads_per_s, disk.read_latency_ns), (Some(10.0), Some(50e6)));
        assert_eq!((disk.queue, disk.busy_percent), (Some(0.5), Some(50.0)));
        assert_eq!(machine.look(start + Duration::from_secs(4)).disks[0].read_latency_ns, None, "no read, no latency");
    }

    #[test]
    fn the_watch_looks_at_once_and_ends_when_dropped() {
        let (send, samples) = crossbeam_channel::unbounded();
        let watch = SystemWatch::start(move |sample| drop(send.send(sample))).unwrap();
        let patience = Duration::from_secs(180);
        samples.recv_timeout(patience).unwrap();
        drop(watch);
        // At most one sample was in progress in addition to the queued ones. After these the sender must be dropped.
        let left = samples.len() + 1;
        let after = (0..=left).find_map(|_| samples.recv_timeout(patience).err());
        assert_eq!(after, Some(RecvTimeoutError::Disconnected));
    }
}
