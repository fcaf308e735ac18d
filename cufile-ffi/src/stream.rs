//! Transfers in the order of a CUDA stream.

use std::cell::UnsafeCell;
use std::sync::Arc;

use crate::batch::Direction;
use crate::driver::Driver;
use crate::error::Error;
use crate::handle::FileHandle;
use crate::memory::{IoMemory, offset, within};
use crate::raw::CUstream;

/// A CUDA stream.
///
/// # Safety
/// `raw` is a valid `CUstream` (or null for the default stream) that does not change as long as the value lives, and `synchronize`
/// returns Ok only when all work put on the stream before has ended.
pub unsafe trait IoStream: Send + Sync {
    /// The stream for the CUDA driver API.
    fn raw(&self) -> CUstream;
    /// Waits for all work put on the stream so far; the words say what CUDA answered.
    ///
    /// # Errors
    /// The words of CUDA's answer.
    fn synchronize(&self) -> Result<(), String>;
}

/// A stream registered with cuFile; deregistered before the stream is let go. Transfers may also use a stream that is not registered:
/// see [`StreamIo::unregistered`].
pub struct StreamIo<S: IoStream + ?Sized> {
    driver: Driver,
    registered: bool,
    // Dropped after `drop` has deregistered.
    stream: Arc<S>,
}

/// What the library reads and writes between submission and completion.
struct Parameters {
    size: usize,
    file_offset: libc::off_t,
    memory_offset: libc::off_t,
    bytes: isize,
}

/// A transfer under way on a stream. Dropping it waits for the stream.
pub struct AsyncIo<S: IoStream + ?Sized> {
    call: &'static str,
    len: usize,
    driver: Driver,
    stream: Arc<StreamIo<S>>,
    /// None once the transfer has ended.
    held: Option<Held>,
}

/// What must outlive the transfer.
struct Held {
    /// In one place until completion: the library may read it when the stream gets there, whatever the registration flags say
    /// (LMCache/LMCache#3589).
    parameters: Box<UnsafeCell<Parameters>>,
    _handle: Arc<FileHandle<'static>>,
    _memory: Arc<dyn IoMemory>,
}

// SAFETY: the parameters are touched by this side only before submission and after completion.
unsafe impl<S: IoStream + ?Sized> Send for AsyncIo<S> {}

impl<S: IoStream + ?Sized> StreamIo<S> {
    /// Registers a stream with flags `STREAM_*` of [`crate::values`].
    ///
    /// # Errors
    /// What `cuFileStreamRegister` answered; [`Error::MissingSymbol`] before GDS 1.7.
    pub fn register(driver: &Driver, stream: &Arc<S>, flags: u32) -> Result<Arc<Self>, Error> {
        let library = driver.library();
        let f = library.need(library.symbols().stream_register, "cuFileStreamRegister")?;
        library.need(library.symbols().stream_deregister, "cuFileStreamDeregister")?;
        // SAFETY: IoStream promises a valid stream; it is kept until deregistered.
        library.check("cuFileStreamRegister", unsafe { f(stream.raw(), flags) })?;
        Ok(Arc::new(Self { driver: driver.clone(), registered: true, stream: Arc::clone(stream) }))
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
        let parameters = Box::new(UnsafeCell::new(Parameters {
            size: len,
            file_offset: offset(file_offset)?,
            memory_offset: offset(memory_offset as u64)?,
            bytes: 0,
        }));
        let base = memory.base();
        let p = parameters.get();
        // SAFETY: the four parameters lie in a box that is kept until the stream is past the transfer, as are handle and memory; the range lies in
        // memory that IoMemory promises to be valid.
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
            held: Some(Held { parameters, _handle: Arc::clone(handle), _memory: memory }),
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
        if let Some(f) = self.driver.library().symbols().stream_deregister {
            // SAFETY: registered by `register`, deregistered once, before the stream is let go.
            let _ = unsafe { f(self.stream.raw()) };
        }
    }
}

impl<S: IoStream + ?Sized> AsyncIo<S> {
    /// Waits for the stream and gives the bytes moved.
    ///
    /// # Errors
    /// [`Error::Refused`] where the stream could not be waited for; how the transfer failed.
    pub fn wait(mut self) -> Result<usize, Error> {
        self.stream.stream.synchronize().map_err(|words| {
            Error::Refused(format!(
                "the CUDA stream of {} could not be waited for: {words}; its memory is kept for ever",
                self.call
            ))
        })?;
        let Some(held) = self.held.take() else {
            return Ok(0);
        };
        let bytes = held.parameters.into_inner().bytes;
        self.driver.library().check_bytes(self.call, bytes, 0, self.len)
    }
}

impl<S: IoStream + ?Sized> Drop for AsyncIo<S> {
    fn drop(&mut self) {
        if self.held.is_some() && self.stream.stream.synchronize().is_err() {
            // The transfer may still run: what it uses is never let go.
            std::mem::forget(self.held.take());
        }
    }
}
