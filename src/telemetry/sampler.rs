//! The sampler: a thread that reads all meters at fixed times and sends samples.

use super::meters::{LaneMeters, MachineMeters, SelfMeters, Values, cpu_ns};
use super::nvml::{GpuRef, NvmlThread};
use crate::core::{LaneId, Sample};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// GPU readings that are older than this number of intervals are left out of a sample.
const STALE_INTERVALS: u32 = 3;

/// The meters to sample.
#[derive(Clone, Debug)]
pub struct SamplerConfig {
    /// Time between samples.
    pub interval: Duration,
    /// The GPU that is read from NVML. With `None`, NVML is not loaded.
    pub gpu: Option<GpuRef>,
    /// The path of NVML. `None` means the path in `GDS_TOP_NVML`, or else `libnvidia-ml.so.1`.
    pub nvml_library: Option<PathBuf>,
    /// Device number (major, minor) of the block device with the model (see [`super::meters::device_of`]).
    pub model_device: Option<(u32, u32)>,
}

impl Default for SamplerConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(100),
            gpu: None,
            nvml_library: std::env::var_os("GDS_TOP_NVML").filter(|path| !path.is_empty()).map(PathBuf::from),
            model_device: None,
        }
    }
}

/// The CPU time that sampling used in this process, without the NVML thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Number of samples.
    pub samples: u64,
    /// Number of samples that were skipped because the sampler was late.
    pub missed: u64,
    /// CPU time of the sampler's thread in nanoseconds, including the time in `emit`.
    pub cpu_ns: u64,
}

enum Order {
    Watch(Option<(LaneId, u32)>),
    Gpu(Option<GpuRef>),
    Stop,
}

/// A running sampler. It stops when dropped.
pub struct Sampler {
    orders: Sender<Order>,
    thread: Option<JoinHandle<Cost>>,
    gpu_problem: Arc<Mutex<Option<String>>>,
}

impl Sampler {
    /// Starts sampling. `emit` is called on the sampler's thread, for the first time immediately. Samples have
    /// absolute times, so they do not drift, and missed samples are skipped.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub fn start(config: SamplerConfig, emit: impl FnMut(Sample) + Send + 'static) -> std::io::Result<Self> {
        let (orders, receive) = unbounded();
        let gpu_problem = Arc::new(Mutex::new(None));
        let worker = Worker {
            interval: config.interval.max(Duration::from_millis(1)),
            nvml_library: config.nvml_library,
            lane: None,
            machine: MachineMeters { device: config.model_device },
            own: SelfMeters::default(),
            nvml: None,
            gpu_problem: Arc::clone(&gpu_problem),
        };
        let thread = std::thread::Builder::new()
            .name("gds-top-sampler".to_owned())
            .spawn(move || worker.run(config.gpu, &receive, emit))?;
        Ok(Self { orders, thread: Some(thread), gpu_problem })
    }

    /// Selects the process of another run, or no process. It takes effect with the next sample.
    pub fn watch(&self, lane: Option<(LaneId, u32)>) {
        let _ = self.orders.send(Order::Watch(lane));
    }

    /// Selects another GPU, or no GPU. It takes effect with the next sample.
    pub fn set_gpu(&self, gpu: Option<GpuRef>) {
        let _ = self.orders.send(Order::Gpu(gpu));
    }

    /// A sentence with the reason why there are no GPU meters.
    #[must_use]
    pub fn gpu_problem(&self) -> Option<String> {
        self.gpu_problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops sampling, waits for the thread, and returns its CPU time. No sample follows.
    #[must_use = "drop the sampler instead if the cost does not matter"]
    pub fn stop(mut self) -> Cost {
        self.end()
    }

    fn end(&mut self) -> Cost {
        let _ = self.orders.send(Order::Stop);
        // If `emit` panicked, its message was already printed.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

struct Worker {
    interval: Duration,
    nvml_library: Option<PathBuf>,
    lane: Option<(LaneId, LaneMeters)>,
    machine: MachineMeters,
    own: SelfMeters,
    nvml: Option<NvmlThread>,
    gpu_problem: Arc<Mutex<Option<String>>>,
}

impl Worker {
    fn run(mut self, gpu: Option<GpuRef>, orders: &Receiver<Order>, mut emit: impl FnMut(Sample)) -> Cost {
        self.set_gpu(gpu);
        let mut cost = Cost::default();
        let mut next = Instant::now();
        'sampling: loop {
            loop {
                match orders.recv_deadline(next) {
                    Ok(Order::Watch(lane)) => self.lane = lane.map(|(id, pid)| (id, LaneMeters::of(pid))),
                    Ok(Order::Gpu(gpu)) => self.set_gpu(gpu),
                    Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => break 'sampling,
                    Err(RecvTimeoutError::Timeout) => break,
                }
            }
            emit(self.sample());
            cost.samples += 1;
            let missed;
            (next, missed) = after(next, self.interval, Instant::now());
            cost.missed += missed;
        }
        if let Some(nvml) = self.nvml.take() {
            nvml.stop();
        }
        cost.cpu_ns = cpu_ns(rustix::time::ClockId::ThreadCPUTime);
        cost
    }

    fn set_gpu(&mut self, gpu: Option<GpuRef>) {
        if let Some(nvml) = self.nvml.take() {
            nvml.stop();
        }
        let started = gpu.map(|gpu| NvmlThread::start(gpu, self.nvml_library.clone(), self.interval)).transpose();
        let problem = match started {
            Ok(nvml) => {
                self.nvml = nvml;
                None
            }
            Err(error) => Some(format!("no thread could be started for NVML ({error}), so there are no GPU meters")),
        };
        *self.gpu_problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    fn sample(&mut self) -> Sample {
        let mut values = Values::new();
        if let Some((_, meters)) = &self.lane {
            meters.read(&mut values);
        }
        self.machine.read(&mut values);
        self.own.read(&mut values);
        if let Some(nvml) = &self.nvml {
            nvml.read(self.interval * STALE_INTERVALS, &mut values);
            if let Some(problem) = nvml.problem() {
                *self.gpu_problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
            }
        }
        Sample { lane: self.lane.as_ref().map(|(id, _)| *id), values }
    }
}

/// The next sampling time after `last` that is not over yet, and the number of missed times before it.
fn after(last: Instant, interval: Duration, now: Instant) -> (Instant, u64) {
    let (mut next, mut missed) = (last + interval, 0);
    while next <= now {
        next += interval;
        missed += 1;
    }
    (next, missed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::core::Metric;

    fn config(interval_ms: u64) -> SamplerConfig {
        SamplerConfig { interval: Duration::from_millis(interval_ms), nvml_library: None, ..SamplerConfig::default() }
    }

    /// Time limit of the test. It only prevents that the test hangs.
    const PATIENCE: Duration = Duration::from_secs(180);

    fn next(samples: &Receiver<Sample>) -> Sample {
        samples.recv_timeout(PATIENCE).unwrap()
    }

    #[test]
    fn a_lane_is_watched_from_the_order_on_and_no_longer_than_told() {
        let (send, samples) = unbounded();
        let sampler = Sampler::start(config(5), move |sample| drop(send.send(sample))).unwrap();
        let first = next(&samples);
        assert!(first.lane.is_none() && !first.values.contains_key(&Metric::LaneRssBytes));
        assert!(first.values.contains_key(&Metric::PageCacheBytes));
        assert!(
            !first.values.contains_key(&Metric::GpuMemoryBytes) && !first.values.contains_key(&Metric::DeviceReadBytes)
        );
        sampler.watch(Some((LaneId(7), std::process::id())));
        let watched = std::iter::repeat_with(|| next(&samples)).find(|s| s.lane == Some(LaneId(7))).unwrap();
        assert!(watched.values[&Metric::LaneRssBytes] > 0.0);
        assert!(watched.values.contains_key(&Metric::SelfCpuPercent));
        sampler.watch(None);
        let free = std::iter::repeat_with(|| next(&samples)).find(|s| s.lane.is_none()).unwrap();
        assert!(!free.values.contains_key(&Metric::LaneRssBytes));
        let cost = sampler.stop();
        assert!(cost.samples >= 3 && cost.cpu_ns > 0, "{cost:?}");
        // The iterator ends only if the thread has dropped its sender. Otherwise this test would hang.
        assert!(samples.iter().count() as u64 <= cost.samples);
    }

    #[test]
    fn the_schedule_does_not_drift_although_the_receiver_is_slow() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut next = start;
        // Each row has: the end of the previous sample, the time of the next sample, and the number of skipped
        // samples.
        for (ended, due, left_out) in [(8, 20, 0), (28, 40, 0), (59, 60, 0), (60, 80, 0), (145, 160, 3), (180, 200, 1)]
        {
            let missed;
            (next, missed) = after(next, ms(20), start + ms(ended));
            assert_eq!((next, missed), (start + ms(due), left_out), "{ended} ms");
        }
    }

    #[test]
    fn samples_come_no_more_often_than_told() {
        let (send, samples) = unbounded();
        let start = Instant::now();
        let sampler = Sampler::start(config(20), move |_| assert!(send.send(Instant::now()).is_ok())).unwrap();
        for number in 0..10 {
            let at = samples.recv_timeout(PATIENCE).unwrap();
            assert!(at.duration_since(start) >= Duration::from_millis(number * 20), "sample {number}");
        }
        drop(sampler);
    }

    #[test]
    fn dropping_the_sampler_stops_it() {
        let (send, samples) = unbounded();
        drop(Sampler::start(config(1), move |sample| drop(send.send(sample))).unwrap());
        // The iterator ends only if the thread has dropped its sender. Otherwise this test would hang.
        samples.iter().for_each(drop);
    }

    #[test]
    fn a_gpu_that_cannot_be_read_leaves_gaps_and_a_reason() {
        let (send, samples) = unbounded();
        let config = SamplerConfig {
            gpu: Some(GpuRef::Index(0)),
            nvml_library: Some("/nonexistent/libnvidia-ml.so.1".into()),
            ..config(2)
        };
        let sampler = Sampler::start(config, move |sample| drop(send.send(sample))).unwrap();
        let start = Instant::now();
        while sampler.gpu_problem().is_none() {
            assert!(!next(&samples).values.contains_key(&Metric::GpuMemoryBytes));
            assert!(start.elapsed() < PATIENCE);
        }
        sampler.set_gpu(None);
        while sampler.gpu_problem().is_some() {
            next(&samples);
            assert!(start.elapsed() < PATIENCE);
        }
    }
}
