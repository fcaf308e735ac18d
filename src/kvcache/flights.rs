//! Asynchronous transfers of a worker, in the way of UCM's `S2DAsync` and `D2SAsync`: put on its CUDA stream, several at once, and told of by a callback of
//! the stream. What a transfer uses is kept until then: parameters, memory, and the file with its reference in the cache of handles.

use super::layout::Task;
use super::order::{LaneName, Settings};
use super::prepare::wrong;
use super::transfer::{OpenFile, Worker};
use super::window::Window;
use crate::device::{Device, IoQueue, MemoryPart};
use crate::domain::{OnStreams, Phase};
use crate::engines::cufile::{CuFile, explain};
use crate::engines::{Clock, LoadError, stream_for};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use cufile_ffi::{AsyncIo, Direction, Error, FileHandle, IoMemory, StreamIo};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often a waiting worker looks whether another failed.
const LOOK: Duration = Duration::from_millis(20);
/// What UCM does where a transfer cannot be made, and so what is done here.
const ABORTED: &str = "the job is aborted, as UCM aborts it, and nothing is done synchronously instead; async=0 makes the synchronous calls";

/// A worker's stream, as cuFile's.
pub(super) type Line = Arc<StreamIo<IoQueue>>;

/// A stream for each worker, made before the clock; none where transfers are synchronous.
pub(super) fn lines(
    device: &Device,
    cufile: Option<&CuFile>,
    lane: &LaneName,
    settings: &Settings,
    threads: usize,
) -> Result<Vec<Line>, LoadError> {
    let Some(cufile) = cufile.filter(|_| settings.on("async")) else { return Ok(Vec::new()) };
    if !device.is_gpu() {
        return Err(wrong(format!(
            "asynchronous transfers run on a CUDA stream, and the target is host memory: choose a GPU with --gpu; {ABORTED}"
        )));
    }
    let refused = |doing: &str, error: &Error| LoadError::CuFile(format!("{}; {ABORTED}", explain(doing, error)));
    StreamIo::<IoQueue>::available(&cufile.driver, direction(lane.write))
        .map_err(|e| refused("asking libcufile for asynchronous transfers", &e))?;
    (0..threads)
        .map(|_| {
            let stream = Arc::new(IoQueue::new(device)?);
            stream_for(cufile, &stream, settings.get("stream_flags"))
                .map_err(|e| refused("registering a CUDA stream with cuFile", &e))
        })
        .collect()
}

const fn direction(write: bool) -> Direction {
    if write { Direction::Write } else { Direction::Read }
}

/// What a worker has under way.
pub(super) struct Flights {
    stream: Line,
    depth: usize,
    clock: Clock,
    /// Told of each transfer that landed, where layers are waited for.
    window: Option<Arc<Window>>,
    tell: Sender<Told>,
    told: Receiver<Told>,
    under_way: BTreeMap<u64, Flight>,
    next: u64,
    /// Transfers on the stream whose callback was not called yet.
    on_stream: Arc<AtomicU64>,
    most: u64,
    in_call_ns: u64,
    in_flight_ns: u64,
}

/// A transfer that is under way.
struct Flight {
    /// Dropped before the file, which it keeps too.
    io: Option<AsyncIo<IoQueue>>,
    handle: Arc<FileHandle<'static>>,
    task: Task,
    done: u64,
    /// When the worker took it up, and when it made the last call.
    start_ns: u64,
    called_ns: u64,
}

/// What the callback says: which transfer, how it went, and when that was.
struct Told {
    number: u64,
    moved: Result<usize, Error>,
    at_ns: u64,
}

impl Flights {
    pub(super) fn new(stream: Line, settings: &Settings, clock: Clock, window: Option<Arc<Window>>) -> Self {
        let (tell, told) = unbounded();
        Self {
            stream,
            depth: settings.get("async_depth").max(1) as usize,
            clock,
            window,
            tell,
            told,
            under_way: BTreeMap::new(),
            next: 0,
            on_stream: Arc::default(),
            most: 0,
            in_call_ns: 0,
            in_flight_ns: 0,
        }
    }

    /// What this worker's stream saw; the parts of a lane are put together by [`OnStreams::and`].
    pub(super) fn seen(&self) -> OnStreams {
        OnStreams {
            streams: 1,
            depth: self.depth as u64,
            most_under_way: self.most,
            in_call_ns: self.in_call_ns,
            in_flight_ns: self.in_flight_ns,
        }
    }

    /// What is called when the stream is past a transfer, on a thread of CUDA's. A layer that waits for it goes on at once, whatever the worker is at.
    fn callback(&self, number: u64, layer: u32, rest: u64) -> impl FnOnce(Result<usize, Error>) + Send + use<> {
        let (clock, on_stream) = (self.clock, Arc::clone(&self.on_stream));
        let (window, tell) = (self.window.clone(), self.tell.clone());
        move |moved| {
            let at_ns = clock.now_ns();
            on_stream.fetch_sub(1, Ordering::Relaxed);
            if let Some(window) = window
                && moved.as_ref().is_ok_and(|moved| *moved as u64 == rest)
            {
                window.landed(layer as usize);
            }
            // Nobody listens where the worker failed.
            let _ = tell.send(Told { number, moved, at_ns });
        }
    }
}

impl Worker<'_, '_> {
    /// Puts a transfer on the stream once there is room, and takes what has landed.
    pub(super) fn launch(&mut self, task: &Task) -> Result<(), LoadError> {
        let depth = self.flights.as_ref().map_or(1, |flights| flights.depth);
        while self.under_way() >= depth {
            self.land(true)?;
        }
        let start_ns = self.rec.now();
        if self.shared.lane.write {
            self.begin_file(task.file)?;
        }
        let opened = self.open(task.file, true).map_err(|refused| refused.error)?;
        let OpenFile::Gds(handle) = &*opened else {
            return Err(wrong("the file is not registered with cuFile".to_owned()));
        };
        let handle = Arc::clone(handle);
        self.put(Flight { io: None, handle, task: *task, done: 0, start_ns, called_ns: start_ns })?;
        while self.land(false)? {}
        Ok(())
    }

    /// Waits for all that is under way.
    pub(super) fn land_all(&mut self) -> Result<(), LoadError> {
        while self.under_way() > 0 {
            self.land(true)?;
        }
        Ok(())
    }

    fn under_way(&self) -> usize {
        self.flights.as_ref().map_or(0, |flights| flights.under_way.len())
    }

    /// Calls cuFile for what is left of a transfer.
    fn put(&mut self, mut flight: Flight) -> Result<(), LoadError> {
        let (task, done) = (flight.task, flight.done);
        let rest = task.bytes - done;
        flight.called_ns = self.rec.now();
        let place = self.place(&task) + done;
        let (memory, offset): (Arc<dyn IoMemory>, usize) = match self.registration(place, rest) {
            Some((start, registration)) => (Arc::clone(registration) as _, (place - start) as usize),
            // The address itself: in compat mode libcufile 1.15 to 1.20 answers EIO at an offset of a larger allocation.
            None => (Arc::new(MemoryPart::new(self.memory(), place, rest as usize)?), 0),
        };
        let direction = direction(self.shared.lane.write);
        let file_offset = self.shared.layout.data_offset + task.offset + done;
        let Some(flights) = &mut self.flights else { return Err(LoadError::Stopped) };
        let number = flights.next;
        flights.next += 1;
        flights.most = flights.most.max(flights.on_stream.fetch_add(1, Ordering::Relaxed) + 1);
        let called = flights
            .stream
            .transfer(direction, &flight.handle, memory, offset, rest as usize, file_offset)
            .and_then(|io| {
                io.on_end(flights.callback(number, task.layer, rest))?;
                Ok(io)
            });
        let io = called.map_err(|error| self.aborted(&task, &error))?;
        let of = self.of(&task, false);
        let end_ns = self.rec.end(Phase::Submit, flight.called_ns, of);
        if let Some(flights) = &mut self.flights {
            flights.in_call_ns += end_ns - flight.called_ns;
            flight.io = Some(io);
            flights.under_way.insert(number, flight);
        }
        Ok(())
    }

    /// Takes a transfer that landed, and tells whether there was one; it waits for one where that is wanted.
    fn land(&mut self, wait: bool) -> Result<bool, LoadError> {
        let at = self.rec.now();
        let Some(told) = self.next_told(wait)? else { return Ok(false) };
        let flights = self.flights.as_mut();
        let Some((flights, mut flight)) =
            flights.and_then(|all| all.under_way.remove(&told.number).map(|flight| (all, flight)))
        else {
            return Ok(true);
        };
        flights.in_flight_ns += told.at_ns.saturating_sub(flight.called_ns);
        let task = flight.task;
        // It has ended, so this waits for nothing.
        drop(flight.io.take());
        match told.moved {
            Ok(0) => return Err(self.ended_early(&task, flight.done)),
            Ok(moved) => flight.done += moved as u64,
            Err(error) => return Err(self.aborted(&task, &error)),
        }
        let landed = flight.done == task.bytes;
        let of = self.of(&task, landed);
        self.rec.end(Phase::Transfer, at, of);
        if !landed {
            return self.put(flight).map(|()| true);
        }
        self.operations.push((task.layer, flight.start_ns, told.at_ns));
        self.shared.context.landed(task.bytes);
        drop(flight);
        self.close(task.file, true);
        if self.shared.lane.write {
            self.end_file(task.file, 1)?;
        }
        Ok(true)
    }

    /// The next word of a callback; `None` where none is there and none is waited for.
    fn next_told(&self, wait: bool) -> Result<Option<Told>, LoadError> {
        let Some(flights) = &self.flights else { return Ok(None) };
        if !wait {
            return Ok(flights.told.try_recv().ok());
        }
        loop {
            match flights.told.recv_timeout(LOOK) {
                Ok(told) => return Ok(Some(told)),
                Err(RecvTimeoutError::Timeout) if !self.shared.context.stopped() => {}
                Err(_) => return Err(LoadError::Stopped),
            }
        }
    }

    /// A transfer that cuFile refused or failed.
    fn aborted(&self, task: &Task, error: &Error) -> LoadError {
        let said = self.failed_by_cufile(task, ", asynchronously,", error);
        let errno = error.cufile().and_then(|e| e.errno);
        let hint = match errno {
            Some(libc::ENOSPC) => return said,
            Some(libc::EIO) if !self.shared.registered.is_empty() => {
                "; in compat mode libcufile answers so at an offset of registered memory: the variant gds leaves it unregistered"
            }
            _ => "",
        };
        LoadError::CuFile(format!("{said}{hint}; {ABORTED}"))
    }
}
