//! Memory that cuFile reads into and writes from, and its registration.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use crate::driver::Driver;
use crate::error::Error;

/// A range of GPU or host memory that transfers may use.
///
/// cuFile wants a GPU range's CUDA context current on the calling thread; without it the calls answer with an error.
///
/// # Safety
/// As long as the value lives: `base` and `len` do not change, `base..base+len` is one allocation (device or host) that stays valid for
/// reads and writes through this address, and its contents may change at any time, from any thread or device: no Rust reference to its
/// bytes exists while a transfer may run, other than to atomics or `UnsafeCell`s. Moving the value must not move the range.
pub unsafe trait IoMemory: Send + Sync {
    /// The first byte.
    fn base(&self) -> *mut c_void;
    /// Length in bytes.
    fn len(&self) -> usize;
    /// True for a range without bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

// SAFETY: the shared value lives at least as long as the Arc and promises the rest itself.
unsafe impl<M: IoMemory + ?Sized> IoMemory for Arc<M> {
    fn base(&self) -> *mut c_void {
        (**self).base()
    }

    fn len(&self) -> usize {
        (**self).len()
    }
}

// SAFETY: the referent outlives the reference and promises the rest itself.
unsafe impl<M: IoMemory + ?Sized> IoMemory for &M {
    fn base(&self) -> *mut c_void {
        (**self).base()
    }

    fn len(&self) -> usize {
        (**self).len()
    }
}

/// Refuses a range that reaches beyond `memory`.
pub(crate) fn within(memory: &(impl IoMemory + ?Sized), offset: usize, len: usize) -> Result<(), Error> {
    match offset.checked_add(len) {
        Some(end) if end <= memory.len() => Ok(()),
        _ => Err(Error::OutOfBounds(format!("{len} bytes at {offset} reach beyond memory of {} bytes", memory.len()))),
    }
}

/// A number as `off_t`.
pub(crate) fn offset(number: u64) -> Result<libc::off_t, Error> {
    libc::off_t::try_from(number)
        .map_err(|_| Error::OutOfBounds(format!("offset {number} is beyond what a file can have")))
}

/// Memory registered with cuFile. It is itself [`IoMemory`] of exactly the registered range: transfers given the registration pass the
/// registered base and an offset, the only form that counts as registered (ai-dynamo/nixl#2032).
///
/// Dropping it deregisters before the memory is let go and before the driver closes.
#[derive(Debug)]
pub struct BufferRegistration<M: IoMemory + ?Sized> {
    base: *mut c_void,
    len: usize,
    driver: Driver,
    registered: bool,
    // Dropped after `drop` has deregistered.
    memory: Arc<M>,
}

// SAFETY: the address is only passed to the library, and its calls are thread-safe; M is Send and Sync.
unsafe impl<M: IoMemory + ?Sized> Send for BufferRegistration<M> {}
// SAFETY: as above.
unsafe impl<M: IoMemory + ?Sized> Sync for BufferRegistration<M> {}

// SAFETY: a part of M, which lives in the same value and promises the rest.
unsafe impl<M: IoMemory + ?Sized> IoMemory for BufferRegistration<M> {
    fn base(&self) -> *mut c_void {
        self.base
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl<M: IoMemory + ?Sized> BufferRegistration<M> {
    pub(crate) fn new(driver: &Driver, memory: &Arc<M>, offset: usize, len: usize, flags: u32) -> Result<Self, Error> {
        within(&**memory, offset, len)?;
        let flags = i32::try_from(flags)
            .map_err(|_| Error::OutOfBounds(format!("registration flags {flags:#x} do not fit an int")))?;
        let library = driver.library();
        let f = library.need(library.symbols().buf_register, "cuFileBufRegister")?;
        library.need(library.symbols().buf_deregister, "cuFileBufDeregister")?;
        let base = memory.base().wrapping_byte_add(offset);
        // SAFETY: `base..base+len` is in memory that IoMemory guarantees to be valid and that outlives the
        // registration.
        library.check("cuFileBufRegister", unsafe { f(base, len, flags) })?;
        Ok(Self { base, len, driver: driver.clone(), registered: true, memory: Arc::clone(memory) })
    }

    /// The memory it is a part of.
    pub fn memory(&self) -> &Arc<M> {
        &self.memory
    }

    /// Deregisters and returns the result, which a drop cannot.
    ///
    /// # Errors
    /// The result of `cuFileBufDeregister`.
    pub fn deregister(mut self) -> Result<(), Error> {
        self.release()
    }

    fn release(&mut self) -> Result<(), Error> {
        if !std::mem::replace(&mut self.registered, false) {
            return Ok(());
        }
        let library = self.driver.library();
        let f = library.need(library.symbols().buf_deregister, "cuFileBufDeregister")?;
        // SAFETY: this base was registered by `new` and is deregistered once; the driver is still open, since we hold it.
        library.check("cuFileBufDeregister", unsafe { f(self.base) })
    }
}

impl<M: IoMemory + ?Sized> Drop for BufferRegistration<M> {
    fn drop(&mut self) {
        // A drop cannot return an error; call `deregister` to see it.
        let _ = self.release();
    }
}

impl Driver {
    /// Registers `len` bytes of `memory` from `offset`. Optional for transfers; in compat mode it only adds time
    /// (milliseconds) and host memory of the same size.
    ///
    /// While a shorter range is registered at the same base, the library holds transfers that give this base to that
    /// range: entries of a batch beyond it are refused at the submit with 5040 (seen with 1.16 and 1.18) or 5017
    /// (1.20). So register the complete range that one base serves.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; the result of `cuFileBufRegister` (5023: this base is registered already).
    pub fn register<M: IoMemory + ?Sized>(
        &self,
        memory: &Arc<M>,
        offset: usize,
        len: usize,
        flags: u32,
    ) -> Result<BufferRegistration<M>, Error> {
        BufferRegistration::new(self, memory, offset, len, flags)
    }
}

/// Page-aligned, zeroed host memory, for use without a GPU: libcufile from 1.16 on takes host addresses.
#[derive(Debug)]
pub struct HostMemory {
    base: *mut c_void,
    len: usize,
    /// One copy in or out at a time.
    copying: Mutex<()>,
}

// SAFETY: a private mapping that only the methods below and transfers touch.
unsafe impl Send for HostMemory {}
// SAFETY: as above; `read` and `write` exclude each other by the lock. Bytes that a transfer is changing may be read torn, as with any
// memory that a device writes.
unsafe impl Sync for HostMemory {}

// SAFETY: an anonymous mapping of `len` bytes that lives until drop; no reference to its bytes is ever given out.
unsafe impl IoMemory for HostMemory {
    fn base(&self) -> *mut c_void {
        self.base
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl HostMemory {
    /// Maps `len` bytes of zeros.
    ///
    /// # Errors
    /// [`Error::System`] where the system has no memory; [`Error::OutOfBounds`] for a length of 0.
    pub fn new(len: usize) -> Result<Self, Error> {
        if len == 0 {
            return Err(Error::OutOfBounds("memory of 0 bytes cannot be mapped".to_owned()));
        }
        // SAFETY: a fresh anonymous mapping, checked below.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(Error::last_os(format!("{len} bytes of host memory could not be mapped")));
        }
        Ok(Self { base, len, copying: Mutex::new(()) })
    }

    /// A copy of `len` bytes from `offset`.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    pub fn read(&self, offset: usize, len: usize) -> Result<Vec<u8>, Error> {
        within(self, offset, len)?;
        let mut out = vec![0; len];
        let _one = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: both ranges are `len` bytes long and apart; no reference to the mapping is made.
        unsafe { std::ptr::copy_nonoverlapping(self.base.cast::<u8>().add(offset), out.as_mut_ptr(), len) };
        Ok(out)
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        within(self, offset, bytes.len())?;
        let _one = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.cast::<u8>().add(offset), bytes.len()) };
        Ok(())
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, unmapped once.
        unsafe { libc::munmap(self.base, self.len) };
    }
}
