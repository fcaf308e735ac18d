//! Transfers in the order of a CUDA stream.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::driver::Driver;
use crate::error::Error;
use crate::handle::{Direction, FileHandle};
use crate::memory::{IoMemory, offset, within};
use crate::raw::CUstream;

/// A callback for when a stream reaches this point. It receives the result of the earlier work; an error has CUDA's
/// text.
pub type Notice = Box<dyn FnOnce(Result<(), String>) + Send>;

/// A CUDA stream.
///
/// # Safety
/// `raw` is a valid `CUstream` (or null for the default stream) that does not change as long as the value lives; `synchronize` returns Ok
/// only when all work put on the stream before has ended, and `notify` gives a notice Ok only then.
pub unsafe trait IoStream: Send + Sync + 'static {
    /// The stream for the CUDA driver API.
    fn raw(&self) -> CUstream;
    /// Waits for all work put on the stream so far; the words say what CUDA answered.
    ///
    /// # Errors
    /// The words of CUDA's answer.
    fn synchronize(&self) -> Result<(), String>;
    /// Calls the notice once, on whatever thread, when the stream is past all work put on it so far. CUDA forbids its own calls there.
    ///
    /// # Errors
    /// The words of CUDA's answer; the notice is then never called.
    fn notify(&self, notice: Notice) -> Result<(), String>;
}

/// A stream registered with cuFile. When the last registered stream of a driver is dropped, all are deregistered and
/// released: once libcufile (1.15 and 1.20 in compat mode, on an H200) has deregistered a stream, the first reads on
/// other registered streams sometimes report success, or 0 bytes, and move no data. Of 90 small loads by eight
/// threads with two streams each, 13 were wrong while each thread deregistered its own; of 119 since then, none.
///
/// Transfers may also use a stream that is not registered: see [`StreamIo::unregistered`].
pub struct StreamIo<S: IoStream + ?Sized> {
    driver: Driver,
    registered: bool,
    stream: Arc<S>,
}

/// The parameters that the library reads and writes between submission and completion.
struct Parameters {
    size: usize,
    file_offset: libc::off_t,
    memory_offset: libc::off_t,
    bytes: isize,
}

/// A transfer running on a stream. Dropping it waits for the stream, unless a notice ([`AsyncIo::on_end`]) has
/// reported the end of the transfer.
pub struct AsyncIo<S: IoStream + ?Sized> {
    call: &'static str,
    len: usize,
    driver: Driver,
    stream: Arc<StreamIo<S>>,
    /// None once the transfer has ended.
    held: Option<Held>,
}

/// The objects that must outlive the transfer.
struct Held {
    kept: Arc<Kept>,
    _handle: Arc<FileHandle<'static>>,
    _memory: Arc<dyn IoMemory>,
}

/// The parameters, in one place until completion: the library may read them when the stream gets there, whatever the registration flags say
/// (LMCache/LMCache#3589).
struct Kept {
    parameters: UnsafeCell<Parameters>,
    /// Set once the stream is known to be past the transfer.
    ended: AtomicBool,
}

// SAFETY: plain numbers.
unsafe impl Send for Kept {}
// SAFETY: this side writes the parameters before submission only, and reads them only after the transfer's end, when
// there are no more writes.
unsafe impl Sync for Kept {}

impl Kept {
    /// Bytes moved, or the failure.
    ///
    /// # Safety
    /// The stream is past the transfer.
    unsafe fn bytes(&self) -> isize {
        // SAFETY: by the contract of this function the parameters are not written any more.
        unsafe { (*self.parameters.get()).bytes }
    }
}

impl<S: IoStream + ?Sized> StreamIo<S> {
    /// Registers a stream with flags `STREAM_*` of [`crate::values`].
    ///
    /// # Errors
    /// What `cuFileStreamRegister` answered; [`Error::MissingSymbol`] before GDS 1.7.
    pub fn register(driver: &Driver, stream: &Arc<S>, flags: u32) -> Result<Arc<Self>, Error> {
        let library = driver.library();
        let f = library.need(library.symbols().stream_register, "cuFileStreamRegister")?;
        library.need(library.symbols().stream_deregister, "cuFileStreamDeregister")?;
        // Held over the call: none is deregistered between this one's registration and its being counted.
        let mut streams = driver.streams();
        // SAFETY: IoStream promises a valid stream; it is kept until deregistered.
        library.check("cuFileStreamRegister", unsafe { f(stream.raw(), flags) })?;
        streams.in_use += 1;
        drop(streams);
        Ok(Arc::new(Self { driver: driver.clone(), registered: true, stream: Arc::clone(stream) }))
    }

    /// Whether the library has the calls that transfers on streams need.
    ///
    /// # Errors
    /// [`Error::MissingSymbol`] before GDS 1.7.
    pub fn available(driver: &Driver, direction: Direction) -> Result<(), Error> {
        let library = driver.library();
        let symbols = library.symbols();
        match direction {
            Direction::Read => library.need(symbols.read_async, "cuFileReadAsync").map(|_| ()),
            Direction::Write => library.need(symbols.write_async, "cuFileWriteAsync").map(|_| ()),
        }
    }

    /// Uses a stream without registering it.
    pub fn unregistered(driver: &Driver, stream: &Arc<S>) -> Arc<Self> {
        Arc::new(Self { driver: driver.clone(), registered: false, stream: Arc::clone(stream) })
    }

    /// The stream.
    pub fn stream(&self) -> &Arc<S> {
        &self.stream
    }

    /// Puts a transfer on the stream. In compat mode the call does the transfer itself.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; what `cuFileReadAsync` or `cuFileWriteAsync` answered at submission; [`Error::MissingSymbol`] before GDS 1.7.
    pub fn transfer(
        self: &Arc<Self>,
        direction: Direction,
        handle: &Arc<FileHandle<'static>>,
        memory: Arc<dyn IoMemory>,
        memory_offset: usize,
        len: usize,
        file_offset: u64,
    ) -> Result<AsyncIo<S>, Error> {
        let library = self.driver.library();
        let (call, f) = match direction {
            Direction::Read => ("cuFileReadAsync", library.symbols().read_async),
            Direction::Write => ("cuFileWriteAsync", library.symbols().write_async),
        };
        let f = library.need(f, call)?;
        within(&*memory, memory_offset, len)?;
        let kept = Arc::new(Kept {
            parameters: UnsafeCell::new(Parameters {
                size: len,
                file_offset: offset(file_offset)?,
                memory_offset: offset(memory_offset as u64)?,
                bytes: 0,
            }),
            ended: AtomicBool::new(false),
        });
        let base = memory.base();
        let p = kept.parameters.get();
        // SAFETY: the four parameters are in one allocation that is kept until the end of the transfer, as are handle
        // and memory; the range is in memory that IoMemory guarantees to be valid.
        let status = unsafe {
            f(
                handle.raw(),
                base,
                &raw mut (*p).size,
                &raw mut (*p).file_offset,
                &raw mut (*p).memory_offset,
                &raw mut (*p).bytes,
                self.stream.raw(),
            )
        };
        let io = AsyncIo {
            call,
            len,
            driver: self.driver.clone(),
            stream: Arc::clone(self),
            held: Some(Held { kept, _handle: Arc::clone(handle), _memory: memory }),
        };
        // On a failure `io` drops, which waits for the stream before anything is let go.
        library.check(call, status)?;
        Ok(io)
    }
}

impl<S: IoStream + ?Sized> Drop for StreamIo<S> {
    fn drop(&mut self) {
        if !self.registered {
            return;
        }
        let deregister = self.driver.library().symbols().stream_deregister;
        let stream = Arc::clone(&self.stream);
        let mut streams = self.driver.streams();
        streams.dropped.push(Box::new(move || {
            if let Some(f) = deregister {
                // SAFETY: registered by `register`, deregistered once, before the stream is let go.
                let _ = unsafe { f(stream.raw()) };
            }
        }));
        streams.in_use -= 1;
        if streams.in_use == 0 {
            // The lock is held, so that none is registered meanwhile.
            streams.dropped.drain(..).for_each(|done| done());
        }
    }
}

impl<S: IoStream + ?Sized> AsyncIo<S> {
    /// Calls `done` with the bytes moved or the error at the end of the transfer, or at once if the transfer has
    /// ended. The call is on a thread of CUDA that blocks other work of the stream and must not call CUDA. So the
    /// transfer's resources are not released there, but when this value is dropped, which then no longer waits.
    ///
    /// # Errors
    /// [`Error::Refused`] if the stream rejects it; `done` is then never called.
    pub fn on_end(&self, done: impl FnOnce(Result<usize, Error>) + Send + 'static) -> Result<(), Error> {
        let Some(held) = &self.held else { return Ok(()) };
        let (kept, library) = (Arc::clone(&held.kept), self.driver.library().clone());
        let (call, len) = (self.call, self.len);
        let notice = move |ended: Result<(), String>| {
            done(match ended {
                Ok(()) => {
                    kept.ended.store(true, Ordering::Release);
                    // SAFETY: the stream is past what was put on it before the notice, by the promise of IoStream.
                    let bytes = unsafe { kept.bytes() };
                    library.check_bytes(call, bytes, 0, len)
                }
                Err(words) => Err(Error::Refused(format!("the CUDA stream of {call} failed: {words}"))),
            });
        };
        self.stream.stream.notify(Box::new(notice)).map_err(|words| {
            Error::Refused(format!("the CUDA stream of {call} rejected a notice for the end of the transfer: {words}"))
        })
    }

    /// Waits for the stream, unless it is known to be past the transfer, and gives the bytes moved.
    ///
    /// # Errors
    /// [`Error::Refused`] where the stream could not be waited for; how the transfer failed.
    pub fn wait(mut self) -> Result<usize, Error> {
        if !self.has_ended() {
            self.stream.stream.synchronize().map_err(|words| {
                Error::Refused(format!(
                    "the CUDA stream of {} could not be waited for: {words}; its memory is kept for ever",
                    self.call
                ))
            })?;
        }
        let Some(held) = self.held.take() else {
            return Ok(0);
        };
        // SAFETY: the stream is past the transfer.
        let bytes = unsafe { held.kept.bytes() };
        self.driver.library().check_bytes(self.call, bytes, 0, self.len)
    }

    /// Whether a notice said that the stream is past the transfer.
    fn has_ended(&self) -> bool {
        self.held.as_ref().is_none_or(|held| held.kept.ended.load(Ordering::Acquire))
    }
}

impl<S: IoStream + ?Sized> Drop for AsyncIo<S> {
    fn drop(&mut self) {
        if !self.has_ended() && self.stream.stream.synchronize().is_err() {
            // The transfer may still run, so its resources are never released.
            std::mem::forget(self.held.take());
        }
    }
}
