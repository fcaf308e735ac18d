//! Asynchronous transfers of a worker, like UCM's `S2DAsync` and `D2SAsync` and LMCache's GDS L1. Several transfers
//! run at once on the worker's CUDA stream. A callback of the stream reports each of them. Until then, everything
//! that a transfer uses is kept: the parameters, the memory, and the file with its reference in the handle cache.

use super::job::{Job, wrong};
use super::layout::Task;
use super::order::Settings;
use super::params::KvSetting;
use super::window::Window;
use crate::core::OnStreams;
use crate::device::{Device, IoQueue};
use crate::engines::cufile::CuFile;
use crate::engines::{Clock, LoadError, explain, stream_for};
use crossbeam_channel::{Receiver, Sender, unbounded};
use cufile_ffi::{AsyncIo, Batch, Direction, Error, FileHandle, Route, StreamIo};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The behaviour if a call is rejected. UCM and LMCache do the same.
pub(super) const ABORTED: &str = "the job is aborted without a synchronous fallback; async=0 uses synchronous calls";

/// A worker's stream, registered with cuFile.
pub(super) type Line = Arc<StreamIo<IoQueue>>;

/// Creates a stream for each worker before the clock starts. Empty if transfers are synchronous.
pub(super) fn lines(
    device: &Device,
    cufile: Option<&CuFile>,
    job: &Job,
    threads: usize,
) -> Result<Vec<Line>, LoadError> {
    let Job { lane, settings, .. } = job;
    let Some(cufile) = cufile.filter(|_| settings.on(KvSetting::Async)) else { return Ok(Vec::new()) };
    if !device.is_gpu() {
        return Err(wrong(format!(
            "asynchronous transfers need a CUDA stream, but the target is host memory: select a GPU with --target; {ABORTED}"
        )));
    }
    let refused = |doing: &str, error: &Error| LoadError::CuFile(format!("{}; {ABORTED}", explain(doing, error)));
    StreamIo::<IoQueue>::available(&cufile.driver, direction(lane.write))
        .map_err(|e| refused("asking libcufile for asynchronous transfers", &e))?;
    (0..threads)
        .map(|_| {
            let stream = Arc::new(IoQueue::new(device)?);
            stream_for(cufile, &stream, settings.get(KvSetting::StreamFlags))
                .map_err(|e| refused("registering a CUDA stream with cuFile", &e))
        })
        .collect()
}

/// The number of outstanding transfers on each stream: the setting, or fewer in compat mode without registered memory.
/// There each transfer needs a buffer of libcufile's pool. Synchronous calls and batches wait for a free buffer. The
/// behaviour of asynchronous calls without one is not known: with 32 streams of 16 transfers, two of three reads crashed
/// inside a native library (1.15, H200, 2026-11-23). With one transfer a stream, three of three ended (2026-11-24).
pub(super) fn depth(cufile: Option<&CuFile>, settings: &Settings, streams: usize, registered: bool) -> usize {
    let wanted = settings.get(KvSetting::AsyncDepth).max(1) as usize;
    let Some(cufile) = cufile.filter(|cufile| !registered && !cufile.direct_possible) else { return wanted };
    let all = Batch::limit_of(&cufile.driver, wanted.saturating_mul(streams), Route::MaybeCompat);
    wanted.min((all / streams.max(1)).max(1))
}

pub(super) const fn direction(write: bool) -> Direction {
    if write { Direction::Write } else { Direction::Read }
}

/// The unfinished transfers of a worker.
pub(super) struct Flights {
    pub(super) stream: Line,
    pub(super) depth: usize,
    pub(super) clock: Clock,
    /// Gets each completed transfer, if computing waits for layers.
    pub(super) window: Option<Arc<Window>>,
    pub(super) landing_sender: Sender<Landed>,
    pub(super) landings: Receiver<Landed>,
    pub(super) in_progress: BTreeMap<u64, Flight>,
    pub(super) next: u64,
    /// Free slots in the staging memory, which are used in rotation like in LMCache. Empty if transfers need no slot.
    pub(super) slots: VecDeque<u64>,
    /// Number of transfers on the stream whose callback was not called yet.
    pub(super) on_stream: Arc<AtomicU64>,
    pub(super) most: u64,
    pub(super) in_call_ns: u64,
    pub(super) in_flight_ns: u64,
}

/// A part of a transfer: its offset in the transfer and its length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// An unfinished transfer.
pub(super) struct Flight {
    /// These must be dropped before the file, because they keep a reference to it.
    pub(super) ios: Vec<AsyncIo<IoQueue>>,
    pub(super) handle: Arc<FileHandle<'static>>,
    pub(super) task: Task,
    /// The offset of its bytes on the target or in the staging memory, and the slot in the staging memory.
    pub(super) place: u64,
    pub(super) slot: Option<u64>,
    /// Number of segments on the stream, and number of bytes that have landed.
    pub(super) left: usize,
    pub(super) done: u64,
    /// The time at which the worker began the transfer, and the time of its first call.
    pub(super) start_ns: u64,
    pub(super) called_ns: u64,
}

/// The message of a callback: the transfer and segment, the result, and the time.
pub(super) struct Landed {
    pub(super) number: u64,
    pub(super) segment: Segment,
    pub(super) moved: Result<usize, Error>,
    pub(super) at_ns: u64,
}

impl Flights {
    pub(super) fn new(
        stream: Line,
        depth: usize,
        clock: Clock,
        window: Option<Arc<Window>>,
        slots: VecDeque<u64>,
    ) -> Self {
        let (landing_sender, landings) = unbounded();
        Self {
            stream,
            depth,
            clock,
            window,
            landing_sender,
            landings,
            in_progress: BTreeMap::new(),
            next: 0,
            slots,
            on_stream: Arc::default(),
            most: 0,
            in_call_ns: 0,
            in_flight_ns: 0,
        }
    }

    /// The measurements of this worker's stream. Those of all workers are combined with [`OnStreams::and`].
    pub(super) fn seen(&self) -> OnStreams {
        OnStreams {
            streams: 1,
            depth: self.depth as u64,
            most_under_way: self.most,
            in_call_ns: self.in_call_ns,
            in_flight_ns: self.in_flight_ns,
        }
    }

    /// The callback after a transfer of the stream, which runs on a thread of CUDA. Computing that waits for the
    /// layer continues immediately, even if the worker is busy.
    pub(super) fn callback(
        &self,
        number: u64,
        layer: u32,
        segment: Segment,
        ends_transfer: bool,
    ) -> impl FnOnce(Result<usize, Error>) + Send + use<> {
        let (clock, on_stream) = (self.clock, Arc::clone(&self.on_stream));
        let (window, landing_sender) = (self.window.clone(), self.landing_sender.clone());
        move |moved| {
            let at_ns = clock.now_ns();
            on_stream.fetch_sub(1, Ordering::Relaxed);
            if let Some(window) = window.filter(|_| ends_transfer)
                && moved.as_ref().is_ok_and(|moved| *moved as u64 == segment.bytes)
            {
                window.landed(layer as usize);
            }
            // The receiver was dropped if the worker failed.
            let _ = landing_sender.send(Landed { number, segment, moved, at_ns });
        }
    }
}
