//! Memory for cuFile transfers, and its registration.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use crate::driver::Driver;
use crate::error::Error;

/// A range of GPU or host memory for transfers.
///
/// For a GPU range, its CUDA context must be current on the calling thread. Otherwise the calls return an error.
///
/// # Safety
/// As long as the value exists, the following must be true. `base` and `len` do not change. `base..base+len` is one
/// allocation (device or host) that can be read and written through this address. Any thread or device can change its
/// content at any time, so no Rust reference to its bytes exists during a transfer, except to atomics or
/// `UnsafeCell`s. Moving the value does not move the range.
pub unsafe trait IoMemory: Send + Sync {
    /// The address of the first byte.
    fn base(&self) -> *mut c_void;
    /// The length in bytes.
    fn len(&self) -> usize;
    /// Whether the range has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

// SAFETY: the shared value exists at least as long as the Arc, and it meets the other requirements.
unsafe impl<M: IoMemory + ?Sized> IoMemory for Arc<M> {
    fn base(&self) -> *mut c_void {
        (**self).base()
    }

    fn len(&self) -> usize {
        (**self).len()
    }
}

// SAFETY: the referenced value outlives the reference, and it meets the other requirements.
unsafe impl<M: IoMemory + ?Sized> IoMemory for &M {
    fn base(&self) -> *mut c_void {
        (**self).base()
    }

    fn len(&self) -> usize {
        (**self).len()
    }
}

/// Returns an error if a range exceeds `memory`.
pub(crate) fn within(memory: &(impl IoMemory + ?Sized), offset: usize, len: usize) -> Result<(), Error> {
    match offset.checked_add(len) {
        Some(end) if end <= memory.len() => Ok(()),
        _ => Err(Error::OutOfBounds(format!("{len} bytes at {offset} exceed the memory of {} bytes", memory.len()))),
    }
}

/// Converts a number to `off_t`.
pub(crate) fn offset(number: u64) -> Result<libc::off_t, Error> {
    libc::off_t::try_from(number)
        .map_err(|_| Error::OutOfBounds(format!("offset {number} is larger than a file offset can be")))
}

/// Memory that is registered with cuFile. It implements [`IoMemory`] for exactly the registered range: transfers with
/// the registration pass the registered base and an offset. Only this form counts as registered
/// (ai-dynamo/nixl#2032).
///
/// Dropping it deregisters the memory before the memory is released and before the driver is closed.
#[derive(Debug)]
pub struct BufferRegistration<M: IoMemory + ?Sized> {
    base: *mut c_void,
    len: usize,
    driver: Driver,
    registered: bool,
    // This is dropped after `drop` has deregistered it.
    memory: Arc<M>,
}

// SAFETY: the address is only passed to the library, and its calls are thread-safe. M is Send and Sync.
unsafe impl<M: IoMemory + ?Sized> Send for BufferRegistration<M> {}
// SAFETY: as above.
unsafe impl<M: IoMemory + ?Sized> Sync for BufferRegistration<M> {}

// SAFETY: it is a part of M, which is in the same value and meets the other requirements.
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
            .map_err(|_| Error::OutOfBounds(format!("registration flags {flags:#x} do not fit into an int")))?;
        let library = driver.library();
        let f = library.need(library.symbols().buf_register, "cuFileBufRegister")?;
        library.need(library.symbols().buf_deregister, "cuFileBufDeregister")?;
        let base = memory.base().wrapping_byte_add(offset);
        // SAFETY: `base..base+len` is in memory that IoMemory guarantees to be valid and that outlives the
        // registration.
        library.check("cuFileBufRegister", unsafe { f(base, len, flags) })?;
        Ok(Self { base, len, driver: driver.clone(), registered: true, memory: Arc::clone(memory) })
    }

    /// The memory that contains the registered range.
    pub fn memory(&self) -> &Arc<M> {
        &self.memory
    }

    /// Deregisters the memory and returns the result. Dropping it cannot return a result.
    ///
    /// # Errors
    /// The error of `cuFileBufDeregister`.
    pub fn deregister(mut self) -> Result<(), Error> {
        self.release()
    }

    fn release(&mut self) -> Result<(), Error> {
        if !std::mem::replace(&mut self.registered, false) {
            return Ok(());
        }
        let library = self.driver.library();
        let f = library.need(library.symbols().buf_deregister, "cuFileBufDeregister")?;
        // SAFETY: `new` registered this base, and it is deregistered once. This value holds the driver, so it is
        // still open.
        library.check("cuFileBufDeregister", unsafe { f(self.base) })
    }
}

impl<M: IoMemory + ?Sized> Drop for BufferRegistration<M> {
    fn drop(&mut self) {
        // Dropping cannot return an error. `deregister` can.
        let _ = self.release();
    }
}

impl Driver {
    /// Registers `len` bytes of `memory` from `offset` on. Transfers do not need it. In compat mode it only takes
    /// time (milliseconds) and host memory of the same size.
    ///
    /// If a shorter range is registered at the same base, the library limits transfers with this base to that range.
    /// It rejects batch entries after the range at the submit with 5040 (seen with 1.16 and 1.18) or 5017 (1.20). So
    /// register the complete range for a base.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], or the error of `cuFileBufRegister` (5023: this base is already registered).
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

/// Page-aligned host memory that contains zeros, for use without a GPU. libcufile accepts host addresses since 1.16.
#[derive(Debug)]
pub struct HostMemory {
    base: *mut c_void,
    len: usize,
    /// Only one copy to or from the memory is active at a time.
    copying: Mutex<()>,
}

// SAFETY: this is a private mapping that only the methods below and transfers access.
unsafe impl Send for HostMemory {}
// SAFETY: as above. The lock ensures that `read` and `write` are not active at the same time. A read during a
// transfer can return a mixture of old and new bytes, as with all memory that a device writes.
unsafe impl Sync for HostMemory {}

// SAFETY: this is an anonymous mapping of `len` bytes that exists until drop. There are no references to its bytes.
unsafe impl IoMemory for HostMemory {
    fn base(&self) -> *mut c_void {
        self.base
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl HostMemory {
    /// Maps `len` bytes that contain zeros.
    ///
    /// # Errors
    /// [`Error::System`] if the system has too little memory, or [`Error::OutOfBounds`] for a length of 0.
    pub fn new(len: usize) -> Result<Self, Error> {
        if len == 0 {
            return Err(Error::OutOfBounds("memory of 0 bytes cannot be mapped".to_owned()));
        }
        // SAFETY: this is a new anonymous mapping, and the result is checked below.
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

    /// A copy of `len` bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] if the range exceeds the memory.
    pub fn read(&self, offset: usize, len: usize) -> Result<Vec<u8>, Error> {
        within(self, offset, len)?;
        let mut out = vec![0; len];
        let _one = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: both ranges have `len` bytes and do not overlap. There is no reference to the mapping.
        unsafe { std::ptr::copy_nonoverlapping(self.base.cast::<u8>().add(offset), out.as_mut_ptr(), len) };
        Ok(out)
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] if the range exceeds the memory.
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
        // SAFETY: `new` mapped it, and it is unmapped once.
        unsafe { libc::munmap(self.base, self.len) };
    }
}
