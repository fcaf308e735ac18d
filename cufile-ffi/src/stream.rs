//! Transfers in the order of a CUDA stream.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::driver::Driver;
use crate::error::Error;
use crate::handle::{Direction, FileHandle};
use crate::memory::{IoMemory, offset, within};
use crate::raw::CUstream;

/// A callback that is called when a stream has finished all earlier work. Its argument is the result of that work. An
/// error contains the text of CUDA.
pub type Notice = Box<dyn FnOnce(Result<(), String>) + Send>;

/// A CUDA stream.
///
/// # Safety
/// `raw` must be a valid `CUstream` (or null for the default stream) that does not change as long as the value
/// exists. `synchronize` must return Ok only after all earlier work on the stream has ended, and `notify` must pass
/// Ok to a notice only after that.
pub unsafe trait IoStream: Send + Sync + 'static {
    /// The stream in the CUDA driver API.
    fn raw(&self) -> CUstream;
    /// Waits for all earlier work on the stream.
    ///
    /// # Errors
    /// The message of CUDA.
    fn synchronize(&self) -> Result<(), String>;
    /// Calls the notice once on any thread when the stream has finished all earlier work. CUDA forbids calls to CUDA
    /// in it.
    ///
    /// # Errors
    /// The message of CUDA. The notice is then never called.
    fn notify(&self, notice: Notice) -> Result<(), String>;
}

/// A stream for cuFile transfers. When the last stream of a driver is dropped, all of them are deregistered and
/// released, and so are the parameters of their transfers. The reason is a fault in libcufile (1.15 and 1.20 in compat mode, on an H200): after it
/// has deregistered a stream, the first reads on other registered streams sometimes report success or 0 bytes, but
/// move no data. When each thread deregistered its own streams, 13 of 90 small loads with eight threads and two
/// streams each were wrong. Since this rule, none of 119 was wrong.
///
/// The parameters are kept for another reason. A library that writes a result after the stream has reported the end
/// would damage the heap if they were freed then. This was not seen in isolation: it is one possible cause of crashes in
/// transfers with callbacks (1.15, H200).
///
/// Transfers can also use a stream that is not registered, see [`StreamIo::unregistered`].
pub struct StreamIo<S: IoStream + ?Sized> {
    driver: Driver,
    registered: bool,
    stream: Arc<S>,
    /// The parameters of all transfers of this stream.
    used: Mutex<Vec<Arc<Kept>>>,
}

/// The parameters that the library reads and writes between the submission and the end of a transfer.
struct Parameters {
    size: usize,
    file_offset: libc::off_t,
    memory_offset: libc::off_t,
    bytes: isize,
}

/// An active transfer on a stream. Dropping it waits for the stream, unless a notice ([`AsyncIo::on_end`]) has
/// reported the end of the transfer.
pub struct AsyncIo<S: IoStream + ?Sized> {
    call: &'static str,
    len: usize,
    driver: Driver,
    stream: Arc<StreamIo<S>>,
    /// `None` after the transfer has ended.
    held: Option<Held>,
}

/// The objects that must outlive the transfer.
struct Held {
    kept: Arc<Kept>,
    _handle: Arc<FileHandle<'static>>,
    _memory: Arc<dyn IoMemory>,
}

/// The parameters. They are not moved before the transfer has completed, because the library may read them when the
/// stream executes the transfer, independent of the registration flags (LMCache/LMCache#3589). The stream keeps them
/// longer (see [`StreamIo`]).
struct Kept {
    parameters: UnsafeCell<Parameters>,
    /// Set when the stream has finished the transfer.
    ended: AtomicBool,
}

// SAFETY: the fields are numbers.
unsafe impl Send for Kept {}
// SAFETY: this crate writes the parameters only before the submission and reads them only after the end of the
// transfer. The library does not write them any more then.
unsafe impl Sync for Kept {}

impl Kept {
    /// The number of bytes moved, or the error.
    ///
    /// # Safety
    /// The stream must have finished the transfer.
    unsafe fn bytes(&self) -> isize {
        // SAFETY: by the contract of this function, the parameters are not written any more.
        unsafe { (*self.parameters.get()).bytes }
    }
}

impl<S: IoStream + ?Sized> StreamIo<S> {
    /// Registers a stream with the flags `STREAM_*` of [`crate::values`].
    ///
    /// # Errors
    /// The error of `cuFileStreamRegister`, or [`Error::MissingSymbol`] before GDS 1.7.
    pub fn register(driver: &Driver, stream: &Arc<S>, flags: u32) -> Result<Arc<Self>, Error> {
        let library = driver.library();
        let f = library.need(library.symbols().stream_register, "cuFileStreamRegister")?;
        library.need(library.symbols().stream_deregister, "cuFileStreamDeregister")?;
        // The lock is held during the call, so that no stream is deregistered before this one is counted.
        let mut streams = driver.streams();
        // SAFETY: IoStream guarantees a valid stream. It is kept until it is deregistered.
        library.check("cuFileStreamRegister", unsafe { f(stream.raw(), flags) })?;
        streams.in_use += 1;
        drop(streams);
        Ok(Self::of(driver, stream, true))
    }

    fn of(driver: &Driver, stream: &Arc<S>, registered: bool) -> Arc<Self> {
        Arc::new(Self { driver: driver.clone(), registered, stream: Arc::clone(stream), used: Mutex::default() })
    }

    /// Checks that the library has the functions for transfers on streams.
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
        driver.streams().in_use += 1;
        Self::of(driver, stream, false)
    }

    /// The CUDA stream.
    pub fn stream(&self) -> &Arc<S> {
        &self.stream
    }

    /// Submits a transfer to the stream. In compat mode, this call can make the transfer.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], the error of `cuFileReadAsync` or `cuFileWriteAsync` at submission, or
    /// [`Error::MissingSymbol`] before GDS 1.7.
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
        self.used.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&kept));
        let base = memory.base();
        let p = kept.parameters.get();
        // SAFETY: the four parameters are in one allocation that is kept until the end of the transfer, like the
        // handle and the memory. The range is in memory that IoMemory guarantees to be valid.
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
        // On an error, `io` is dropped. This waits for the stream before anything is released.
        library.check(call, status)?;
        Ok(io)
    }
}

impl<S: IoStream + ?Sized> Drop for StreamIo<S> {
    fn drop(&mut self) {
        let deregister = self.driver.library().symbols().stream_deregister.filter(|_| self.registered);
        let stream = Arc::clone(&self.stream);
        let used = std::mem::take(self.used.get_mut().unwrap_or_else(PoisonError::into_inner));
        let mut streams = self.driver.streams();
        streams.dropped.push(Box::new(move || {
            let ended = stream.synchronize().is_ok();
            if let Some(f) = deregister {
                // SAFETY: `register` registered the stream, and it is deregistered once before it is released.
                let _ = unsafe { f(stream.raw()) };
            }
            if !ended {
                // A transfer may still be active, so its parameters are never released.
                std::mem::forget(used);
            }
        }));
        streams.in_use -= 1;
        if streams.in_use == 0 {
            // The lock is held, so that no stream is registered during this time.
            streams.dropped.drain(..).for_each(|done| done());
        }
    }
}

impl<S: IoStream + ?Sized> AsyncIo<S> {
    /// Calls `done` with the number of bytes or the error when the transfer ends, or immediately if it has ended.
    /// CUDA makes the call on a thread that blocks other work of the stream, and the callback must not call CUDA. So
    /// the resources of the transfer are released only when this value is dropped, which does not wait then.
    ///
    /// # Errors
    /// [`Error::Refused`] if the stream rejects the notice. `done` is then never called.
    pub fn on_end(&self, done: impl FnOnce(Result<usize, Error>) + Send + 'static) -> Result<(), Error> {
        let Some(held) = &self.held else { return Ok(()) };
        let (kept, library) = (Arc::clone(&held.kept), self.driver.library().clone());
        let (call, len) = (self.call, self.len);
        let notice = move |ended: Result<(), String>| {
            done(match ended {
                Ok(()) => {
                    kept.ended.store(true, Ordering::Release);
                    // SAFETY: IoStream guarantees that the stream has finished the work before the notice.
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

    /// Waits until the stream has finished the transfer, and returns the number of bytes.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is not possible to wait for the stream. Otherwise the error of the transfer.
    pub fn wait(mut self) -> Result<usize, Error> {
        if !self.has_ended() {
            self.stream.stream.synchronize().map_err(|words| {
                Error::Refused(format!(
                    "the CUDA stream of {} could not be synchronized: {words}; its memory is never released",
                    self.call
                ))
            })?;
        }
        let Some(held) = self.held.take() else {
            return Ok(0);
        };
        // SAFETY: the stream has finished the transfer.
        let bytes = unsafe { held.kept.bytes() };
        self.driver.library().check_bytes(self.call, bytes, 0, self.len)
    }

    /// Whether a notice has reported the end of the transfer.
    fn has_ended(&self) -> bool {
        self.held.as_ref().is_none_or(|held| held.kept.ended.load(Ordering::Acquire))
    }
}

impl<S: IoStream + ?Sized> Drop for AsyncIo<S> {
    fn drop(&mut self) {
        if !self.has_ended() && self.stream.stream.synchronize().is_err() {
            // The transfer may still be active, so its resources are never released.
            std::mem::forget(self.held.take());
        }
    }
}
