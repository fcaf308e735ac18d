//! The life cycle that model loads, KV-cache workloads and the storage grid share: a process that reads its order and
//! reports on a separate descriptor, the parts of its set-up, published counters, memory peaks, and verification.

use super::context::Counters;
use super::error::LoadError;
use super::protocol::{Frame, LaneMessage, monotonic_ns};
use super::room::free_gpu_bytes;
use crate::core::{LaneOrder, LaneStage, LogLevel, PackedSpans, RunResult, Span, Target, units};
use crate::device::{CudaDevice, Device};
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The interval between two publications of the counters.
const PUBLISH_EVERY: Duration = Duration::from_millis(50);
/// The maximum number of spans in one message.
const SPANS_A_FRAME: usize = 16 << 10;

/// Sends messages to the session.
pub(crate) struct Sender(Mutex<File>);

impl Sender {
    pub(crate) fn send(&self, message: LaneMessage) {
        self.send_at(monotonic_ns(), message);
    }

    pub(super) fn send_at(&self, at_monotonic_ns: u64, message: LaneMessage) {
        let frame = Frame { at_monotonic_ns, message };
        let Ok(mut line) = serde_json::to_vec(&frame) else { return };
        line.push(b'\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // When the session ends, the kernel kills this process (parent death signal), so a failed write is ignored.
        let _ = file.write_all(&line);
    }

    pub(crate) fn say(&self, level: LogLevel, text: impl Into<String>) {
        self.send(LaneMessage::Said { level, text: text.into() });
    }
}

/// Runs a child process of a session. `work` gets its order (one line of JSON on standard input) and the descriptor
/// for its messages. Native libraries print to standard output, so it is redirected to standard error. Returns the
/// exit status, which is 2 if the order cannot be read.
pub(crate) fn process<O: DeserializeOwned>(work: impl FnOnce(&O, File)) -> u8 {
    let out = match claim_stdout() {
        Ok(out) => out,
        Err(error) => {
            eprintln!("gds-top: the process cannot claim its output: {error}");
            return 2;
        }
    };
    let mut text = String::new();
    // The order is one line. Later lines are messages to continue.
    let order: O = match std::io::stdin().read_line(&mut text).map(|_| serde_json::from_str(&text)) {
        Ok(Ok(order)) => order,
        Ok(Err(error)) => {
            eprintln!("gds-top: the order is malformed: {error}");
            return 2;
        }
        Err(error) => {
            eprintln!("gds-top: the order cannot be read: {error}");
            return 2;
        }
    };
    drop(text);
    work(&order, out);
    0
}

/// Runs the process of a run. `fill` measures, and its error becomes part of the result.
pub(crate) fn lane_process(fill: impl FnOnce(&LaneOrder, &Sender, &mut RunResult) -> Result<(), LoadError>) -> u8 {
    process(|order: &LaneOrder, out| {
        let sender = Sender(Mutex::new(out));
        let mut result = blank(order);
        if let Err(error) = fill(order, &sender, &mut result) {
            result.error = Some(error.to_string());
        }
        sender.send(LaneMessage::Finished { result });
    })
}

/// Duplicates standard output for the protocol, and redirects descriptor 1 to standard error.
fn claim_stdout() -> std::io::Result<File> {
    let own = rustix::io::fcntl_dupfd_cloexec(std::io::stdout().as_fd(), 3)?;
    rustix::stdio::dup2_stdout(std::io::stderr().as_fd())?;
    Ok(File::from(own))
}

/// A result without measurements.
fn blank(order: &LaneOrder) -> RunResult {
    RunResult {
        repeat: order.repeat,
        bytes: order.model.tensor_bytes(),
        ..RunResult::new(order.engine.clone(), &order.model.name, order.cache, &order.target)
    }
}

/// Opens the device of a target.
pub(crate) fn open_device(target: &Target) -> Result<Device, LoadError> {
    Ok(match target {
        Target::Gpu { ordinal, uuid, .. } => Device::Cuda(Arc::new(CudaDevice::open(*ordinal, uuid.as_deref())?)),
        Target::Host => Device::Host,
    })
}

/// The parts of the set-up with their times, from the start of the process.
pub(crate) struct SetupParts {
    spawned_ns: u64,
    at_ns: u64,
    pub(crate) parts: BTreeMap<String, u64>,
}

impl SetupParts {
    pub(crate) fn new(spawned_ns: u64) -> Self {
        Self { spawned_ns, at_ns: spawned_ns, parts: BTreeMap::new() }
    }

    /// Ends a part. It started at the end of the previous part.
    pub(crate) fn end(&mut self, name: &str) {
        let now = monotonic_ns();
        self.parts.insert(name.to_owned(), now.saturating_sub(self.at_ns));
        self.at_ns = now;
    }

    /// Records a part with a known duration. The next part starts now.
    pub(crate) fn split(&mut self, name: &str, ns: u64) {
        self.parts.insert(name.to_owned(), ns);
        self.at_ns = monotonic_ns();
    }

    /// The time from the start of the process to the end of the last part, in nanoseconds.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.at_ns.saturating_sub(self.spawned_ns)
    }

    /// The sum of all parts in nanoseconds.
    pub(crate) fn sum_ns(&self) -> u64 {
        self.parts.values().sum()
    }
}

/// The memory peaks of a run.
pub(crate) struct Peaks {
    free_before: Option<u64>,
    is_host_reset: bool,
}

impl Peaks {
    /// Records the memory of the GPU at the start.
    pub(crate) fn begin(device: &Device) -> Self {
        Self { free_before: free_gpu_bytes(device), is_host_reset: false }
    }

    /// Resets VmHWM, so that it is the peak of this run only ("5" resets it, proc_pid_clear_refs(5)).
    pub(crate) fn reset_host(&mut self) {
        self.is_host_reset = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    }

    /// Writes the peaks so far to the result.
    pub(crate) fn record(&self, device: &Device, counters: &Counters, result: &mut RunResult) {
        result.host_peak_bytes = own_peak_bytes().filter(|_| self.is_host_reset);
        counters.sample_files();
        // A mapping of the load is gone now, so the peak is divided and not the present memory.
        let files = counters.file_peak_bytes.load(Ordering::Relaxed);
        result.host_file_bytes = result.host_peak_bytes.map(|peak| files.min(peak));
        result.host_anonymous_bytes = result.host_peak_bytes.map(|peak| peak.saturating_sub(files));
        let free = self.free_before.zip(free_gpu_bytes(device));
        result.gpu_peak_bytes = free.map(|(before, after)| before.saturating_sub(after));
        result.pinned_peak_bytes = Some(counters.pinned_peak_bytes.load(Ordering::Relaxed));
    }
}

/// Runs `work` while another thread publishes the counters.
pub(crate) fn with_progress<T>(
    sender: &Sender,
    counters: &Counters,
    order: &LaneOrder,
    work: impl FnOnce() -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    let (ticker, ticks) = bounded::<()>(0);
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .spawn_scoped(scope, || publish(sender, counters, order.model.tensor_bytes(), &ticks))
            .map_err(|source| LoadError::Threads { threads: 1, source })?;
        let done = work();
        drop(ticker);
        done
    })
}

/// The verification stage. `compare` returns the first difference, which is written to the result.
pub(crate) fn verify(
    sender: &Sender,
    counters: &Counters,
    order: &LaneOrder,
    result: &mut RunResult,
    compare: impl FnOnce() -> Result<Option<String>, LoadError>,
) -> Result<(), LoadError> {
    sender.send(LaneMessage::Stage { stage: LaneStage::Verifying });
    result.first_difference = with_progress(sender, counters, order, compare)?;
    result.verified = Some(result.first_difference.is_none());
    if let Some(route) = result.route.as_mut().filter(|_| result.first_difference.is_some()) {
        route.brought_wrong_bytes();
    }
    Ok(())
}

/// Sends all spans, divided into messages.
pub(crate) fn send_spans(sender: &Sender, spans: &[Span]) {
    for spans in spans.chunks(SPANS_A_FRAME) {
        sender.send(LaneMessage::Spans { spans: PackedSpans::pack(spans) });
    }
}

/// Sends the counters at intervals until the sender of `ticks` is dropped, and then a last time.
fn publish(sender: &Sender, counters: &Counters, total_bytes: u64, ticks: &Receiver<()>) {
    loop {
        let ended = ticks.recv_timeout(PUBLISH_EVERY) != Err(RecvTimeoutError::Timeout);
        sender.send(LaneMessage::Progress {
            // Engines that read complete blocks also count headers and padding.
            landed_bytes: counters.landed_bytes.load(Ordering::Relaxed).min(total_bytes),
            pinned_bytes: counters.pinned_bytes.load(Ordering::Relaxed),
            verified_bytes: counters.verified_bytes.load(Ordering::Relaxed),
        });
        if ended {
            return;
        }
    }
}

/// The CPU time of this process (user and system) in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as u64 * units::NS_PER_S + now.tv_nsec as u64
}

/// VmHWM of this process in bytes.
fn own_peak_bytes() -> Option<u64> {
    procfs::process::Process::myself().and_then(|p| p.status()).ok()?.vmhwm.map(|kib| kib * units::KIB)
}
