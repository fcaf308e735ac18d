//! Reads the meters of one GPU from NVML, on a separate thread.

use super::meters::Values;
use crate::core::{Metric, Target};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use nvml_wrapper::enum_wrappers::device::PcieUtilCounter;
use nvml_wrapper::{Device, Nvml};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Selects a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuRef {
    /// The index in NVML, which numbers GPUs by PCI address.
    Index(u32),
    /// The UUID in the format of NVML, `GPU-…`.
    Uuid(String),
}

impl GpuRef {
    /// The GPU of a target; `None` for host memory. The UUID is used if it is known, because CUDA and NVML may number
    /// GPUs differently.
    #[must_use]
    pub fn of(target: &Target) -> Option<Self> {
        match target {
            Target::Gpu { uuid: Some(uuid), .. } => Some(Self::Uuid(uuid.clone())),
            Target::Gpu { ordinal, uuid: None, .. } => Some(Self::Index(*ordinal)),
            Target::Host => None,
        }
    }
}

/// The state that is shared with the thread.
#[derive(Default)]
struct Shared {
    latest: Option<(Instant, Values)>,
    problem: Option<String>,
}

/// A running NVML thread.
pub(super) struct NvmlThread {
    shared: Arc<Mutex<Shared>>,
    stop: Sender<()>,
    ended: Receiver<()>,
}

impl NvmlThread {
    /// Starts the thread, which loads `library` (default `libnvidia-ml.so.1`). Its errors are returned by
    /// [`Self::problem`].
    pub(super) fn start(gpu: GpuRef, library: Option<PathBuf>, interval: Duration) -> std::io::Result<Self> {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (stop, stopped) = bounded(1);
        let (end, ended) = bounded::<()>(1);
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new().name("gds-top-nvml".to_owned()).spawn(move || {
            if let Err(problem) = poll(&gpu, library, interval, &theirs, &stopped) {
                lock(&theirs).problem = Some(problem);
            }
            drop(end);
        })?;
        Ok(Self { shared, stop, ended })
    }

    /// Adds the latest readings if they are not older than `max_age`.
    pub(super) fn read(&self, max_age: Duration, into: &mut Values) {
        if let Some((taken, values)) = &lock(&self.shared).latest
            && taken.elapsed() <= max_age
        {
            into.extend(values.iter().map(|(metric, value)| (*metric, *value)));
        }
    }

    /// A sentence with the reason why there are no readings.
    pub(super) fn problem(&self) -> Option<String> {
        lock(&self.shared).problem.clone()
    }

    /// Stops the thread. If a driver call hangs, the thread is abandoned after one second; it holds no resources of
    /// gds-top.
    pub(super) fn stop(self) {
        let _ = self.stop.try_send(());
        let _ = self.ended.recv_timeout(Duration::from_secs(1));
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn poll(
    gpu: &GpuRef,
    library: Option<PathBuf>,
    interval: Duration,
    shared: &Mutex<Shared>,
    stopped: &Receiver<()>,
) -> Result<(), String> {
    let nvml = match &library {
        Some(path) => Nvml::builder().lib_path(path.as_os_str()).init(),
        None => Nvml::init(),
    }
    .map_err(|error| {
        format!("NVML could not be started ({error}), so there are no GPU meters; is the NVIDIA driver installed?")
    })?;
    let device = match gpu {
        GpuRef::Index(index) => nvml.device_by_index(*index),
        GpuRef::Uuid(uuid) => nvml.device_by_uuid(uuid.as_str()),
    }
    .map_err(|error| {
        let name = match gpu {
            GpuRef::Index(index) => format!("number {index}"),
            GpuRef::Uuid(uuid) => uuid.clone(),
        };
        format!("NVML does not find GPU {name} ({error}), so there are no GPU meters")
    })?;
    let mut next = Instant::now();
    loop {
        let values = read(&device);
        lock(shared).latest = Some((Instant::now(), values));
        // If a slow driver delays readings, the missed readings are skipped.
        while next <= Instant::now() {
            next += interval;
        }
        match stopped.recv_deadline(next) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// Reads all meters. A meter that fails is left out.
fn read(device: &Device<'_>) -> Values {
    let mut values = Values::new();
    let mut put = |metric, value: Option<f64>| {
        if let Some(value) = value {
            values.insert(metric, value);
        }
    };
    put(Metric::GpuMemoryBytes, device.memory_info().ok().map(|memory| memory.used as f64));
    put(Metric::GpuUtilizationPercent, device.utilization_rates().ok().map(|rates| f64::from(rates.gpu)));
    put(Metric::PowerWatts, device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3));
    put(Metric::Bar1UsedBytes, device.bar1_memory_info().ok().map(|bar1| bar1.used as f64));
    // The value is in KB/s, averaged over 20 ms (NVML reference, nvmlDeviceGetPcieThroughput). Each call blocks for
    // that time.
    let mut pcie = |metric, counter| put(metric, device.pcie_throughput(counter).ok().map(|kb| f64::from(kb) * 1e3));
    pcie(Metric::PcieRxBytesPerS, PcieUtilCounter::Receive);
    pcie(Metric::PcieTxBytesPerS, PcieUtilCounter::Send);
    values
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_a_problem_in_words_and_gives_no_readings() {
        let nvml = NvmlThread::start(
            GpuRef::Index(0),
            Some("/nonexistent/libnvidia-ml.so.1".into()),
            Duration::from_millis(5),
        )
        .unwrap();
        let start = Instant::now();
        while nvml.problem().is_none() && start.elapsed().as_secs() < 180 {
            std::thread::sleep(Duration::from_millis(2));
        }
        let problem = nvml.problem().unwrap();
        assert!(problem.contains("NVML could not be started") && problem.contains("no GPU meters"), "{problem}");
        let mut values = Values::new();
        nvml.read(Duration::from_secs(60), &mut values);
        assert!(values.is_empty());
        nvml.stop();
    }

    #[test]
    fn the_uuid_of_a_target_is_preferred_to_its_number() {
        let gpu = |uuid: Option<&str>| Target::Gpu { ordinal: 3, uuid: uuid.map(str::to_owned), name: "x".to_owned() };
        assert_eq!(GpuRef::of(&gpu(Some("GPU-1"))), Some(GpuRef::Uuid("GPU-1".to_owned())));
        assert_eq!(GpuRef::of(&gpu(None)), Some(GpuRef::Index(3)));
        assert_eq!(GpuRef::of(&Target::Host), None);
    }
}
