//! A registered file, and transfers between it and memory.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::driver::Driver;
use crate::error::Error;
use crate::memory::{IoMemory, offset, within};
use crate::raw::{CUfileDescr, CUfileDescrHandle, CUfileHandle};
use crate::values::HANDLE_TYPE_OPAQUE_FD;

/// A file registered with cuFile. Deregistered before its descriptor closes: the library keys on the number, and a descriptor closed
/// earlier leaves the number taken (5028). Threads may share it.
#[derive(Debug)]
pub struct FileHandle<'f> {
    raw: CUfileHandle,
    driver: Driver,
    fd: Descriptor<'f>,
}

#[derive(Debug)]
enum Descriptor<'f> {
    Owned(OwnedFd),
    Borrowed(BorrowedFd<'f>),
}

// SAFETY: cuFile handles may be used from any thread, several at once (best-practices guide).
unsafe impl Send for FileHandle<'_> {}
// SAFETY: as above.
unsafe impl Sync for FileHandle<'_> {}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// File to memory.
    Read,
    /// Memory to file.
    Write,
}

impl FileHandle<'static> {
    /// Registers an open file and takes it over. 0.6 to 3 ms for the first file of a file system, then about 10 µs.
    ///
    /// # Errors
    /// What `cuFileHandleRegister` answered (5027: mostly no udev record of the file system's device).
    pub fn register(driver: &Driver, file: impl Into<OwnedFd>) -> Result<Self, Error> {
        Self::new(driver, Descriptor::Owned(file.into()))
    }
}

impl<'f> FileHandle<'f> {
    /// Registers a file that stays the caller's.
    ///
    /// # Errors
    /// As [`FileHandle::register`].
    pub fn register_borrowed(driver: &Driver, file: BorrowedFd<'f>) -> Result<Self, Error> {
        Self::new(driver, Descriptor::Borrowed(file))
    }

    fn new(driver: &Driver, fd: Descriptor<'f>) -> Result<Self, Error> {
        let library = driver.library();
        let f = library.need(library.symbols().handle_register, "cuFileHandleRegister")?;
        library.need(library.symbols().handle_deregister, "cuFileHandleDeregister")?;
        let mut description = CUfileDescr {
            handle_type: HANDLE_TYPE_OPAQUE_FD,
            // All eight bytes of the union defined: the pointer first, then the descriptor over its lower half.
            handle: CUfileDescrHandle { handle: std::ptr::null_mut() },
            fs_ops: std::ptr::null(),
        };
        description.handle.fd = match &fd {
            Descriptor::Owned(fd) => fd.as_raw_fd(),
            Descriptor::Borrowed(fd) => fd.as_raw_fd(),
        };
        let mut raw: CUfileHandle = std::ptr::null_mut();
        // SAFETY: both places live through the call; the library copies the description.
        library.check("cuFileHandleRegister", unsafe { f(&raw mut raw, &raw mut description) })?;
        Ok(Self { raw, driver: driver.clone(), fd })
    }

    /// The driver it is registered with.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    pub(crate) fn raw(&self) -> CUfileHandle {
        self.raw
    }

    /// Reads `len` bytes of the file from `file_offset` to `memory_offset` of `memory`, and gives the number of bytes that came: fewer at
    /// the end of the file, 0 beyond it. Several threads may read into parts of the same memory.
    ///
    /// Give a [`crate::BufferRegistration`] as the memory for a registered transfer.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; what `cuFileRead` answered.
    pub fn read_at(
        &self,
        memory: &(impl IoMemory + ?Sized),
        memory_offset: usize,
        len: usize,
        file_offset: u64,
    ) -> Result<usize, Error> {
        let library = self.driver.library();
        let f = library.need(library.symbols().read, "cuFileRead")?;
        within(memory, memory_offset, len)?;
        let (from, to) = (offset(file_offset)?, offset(memory_offset as u64)?);
        // SAFETY: the handle is registered as long as self lives; the range is in memory that IoMemory guarantees to
        // be valid.
        let returned = unsafe { f(self.raw, memory.base(), len, from, to) };
        library.check_bytes("cuFileRead", returned, errno(), len)
    }

    /// Writes `len` bytes from `memory_offset` of `memory` to the file at `file_offset`, and gives the number written.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; what `cuFileWrite` answered.
    pub fn write_at(
        &self,
        memory: &(impl IoMemory + ?Sized),
        memory_offset: usize,
        len: usize,
        file_offset: u64,
    ) -> Result<usize, Error> {
        let library = self.driver.library();
        let f = library.need(library.symbols().write, "cuFileWrite")?;
        within(memory, memory_offset, len)?;
        let (to, from) = (offset(file_offset)?, offset(memory_offset as u64)?);
        // SAFETY: as in `read_at`; the library only reads the memory.
        let returned = unsafe { f(self.raw, memory.base(), len, to, from) };
        library.check_bytes("cuFileWrite", returned, errno(), len)
    }
}

impl AsFd for FileHandle<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.fd {
            Descriptor::Owned(fd) => fd.as_fd(),
            Descriptor::Borrowed(fd) => *fd,
        }
    }
}

impl Drop for FileHandle<'_> {
    fn drop(&mut self) {
        if let Some(f) = self.driver.library().symbols().handle_deregister {
            // SAFETY: registered by us, deregistered once; the descriptor and the driver are dropped after this.
            unsafe { f(self.raw) };
        }
    }
}

/// The calling thread's errno; to be read before anything else may change it.
fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
