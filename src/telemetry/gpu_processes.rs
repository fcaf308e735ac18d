//! Reads the GPU memory of single processes from NVML. It uses a separate thread, because a driver call can hang and
//! must not block the screens.

use super::nvml::GpuRef;
use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::{Device, Nvml};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// GPU memory in bytes by process id, from the last reading.
type ByProcess = BTreeMap<u32, u64>;

/// A thread that asks NVML for the processes that compute on a GPU and their memory
/// (nvmlDeviceGetComputeRunningProcesses). It stops when this value is dropped. If NVML cannot answer (no driver, no
/// permission, or process ids of another container), there are no values.
#[derive(Debug)]
pub struct GpuProcesses {
    latest: Arc<Mutex<ByProcess>>,
    _stop: Sender<()>,
}

impl GpuProcesses {
    /// Starts the thread. `library` is the path of NVML; `None` means the path in `GDS_TOP_NVML`, or else
    /// `libnvidia-ml.so.1`.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub fn start(gpu: GpuRef, library: Option<PathBuf>, interval: Duration) -> std::io::Result<Self> {
        let latest = Arc::new(Mutex::new(ByProcess::new()));
        let (stop, stopped) = bounded::<()>(0);
        let theirs = Arc::clone(&latest);
        std::thread::Builder::new().name("gds-top-gpu-processes".to_owned()).spawn(move || {
            let named = std::env::var_os("GDS_TOP_NVML").filter(|path| !path.is_empty());
            let library = library.map(PathBuf::into_os_string).or(named);
            let started = match &library {
                Some(path) => Nvml::builder().lib_path(path).init(),
                None => Nvml::init(),
            };
            // The meters use the same library and report why it cannot be loaded.
            let Ok(nvml) = started else { return };
            let device = match &gpu {
                GpuRef::Index(index) => nvml.device_by_index(*index),
                GpuRef::Uuid(uuid) => nvml.device_by_uuid(uuid.as_str()),
            };
            let Ok(device) = device else { return };
            loop {
                let read = read(&device);
                *theirs.lock().unwrap_or_else(PoisonError::into_inner) = read;
                if stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })?;
        Ok(Self { latest, _stop: stop })
    }

    /// The total GPU memory of these processes in bytes, including their CUDA contexts. `None` if NVML lists none of
    /// them.
    #[must_use]
    pub fn bytes_of(&self, pids: &[u32]) -> Option<u64> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        pids.iter().filter_map(|pid| latest.get(pid)).copied().reduce(u64::saturating_add)
    }
}

fn read(device: &Device<'_>) -> ByProcess {
    let mut found = ByProcess::new();
    for process in device.running_compute_processes().unwrap_or_default() {
        if let UsedGpuMemory::Used(bytes) = process.used_gpu_memory {
            let sum = found.entry(process.pid).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn without_nvml_nothing_is_known_of_any_process() {
        let library = Some("/nonexistent/libnvidia-ml.so.1".into());
        let watch = GpuProcesses::start(GpuRef::Index(0), library, Duration::from_millis(1)).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(watch.bytes_of(&[std::process::id()]), None);
        assert_eq!(watch.bytes_of(&[]), None);
    }
}
