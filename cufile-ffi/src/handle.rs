//! A registered file, and transfers between a file and memory.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::driver::Driver;
use crate::error::Error;
use crate::memory::{IoMemory, offset, within};
use crate::raw::{CUfileDescr, CUfileDescrHandle, CUfileHandle};
use crate::values::HANDLE_TYPE_OPAQUE_FD;

/// A file that is registered with cuFile. It is deregistered before its descriptor is closed: the library uses the
/// number as key, and after an earlier close the number stays occupied (5028). Threads can share it.
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

// SAFETY: cuFile handles can be used from every thread, also at the same time (best-practices guide).
unsafe impl Send for FileHandle<'_> {}
// SAFETY: as above.
unsafe impl Sync for FileHandle<'_> {}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the file to memory.
    Read,
    /// From memory to the file.
    Write,
}

impl FileHandle<'static> {
    /// Registers an open file and takes ownership of it. It takes 0.6 to 3 ms for the first file of a file system,
    /// and about 10 µs for later ones.
    ///
    /// # Errors
    /// The error of `cuFileHandleRegister` (5027: usually there is no udev record of the file system's device).
    pub fn register(driver: &Driver, file: impl Into<OwnedFd>) -> Result<Self, Error> {
        Self::new(driver, Descriptor::Owned(file.into()))
    }
}

impl<'f> FileHandle<'f> {
    /// Registers a file without taking ownership of it.
    ///
    /// # Errors
    /// The same as [`FileHandle::register`].
    pub fn register_borrowed(driver: &Driver, file: BorrowedFd<'f>) -> Result<Self, Error> {
        Self::new(driver, Descriptor::Borrowed(file))
    }

    fn new(driver: &Driver, fd: Descriptor<'f>) -> Result<Self, Error> {
        let library = driver.library();
        let f = library.need(library.symbols().handle_register, "cuFileHandleRegister")?;
        library.need(library.symbols().handle_deregister, "cuFileHandleDeregister")?;
        let mut description = CUfileDescr {
            handle_type: HANDLE_TYPE_OPAQUE_FD,
            // The pointer initialises all eight bytes of the union. The descriptor is then written to its lower half.
            handle: CUfileDescrHandle { handle: std::ptr::null_mut() },
            fs_ops: std::ptr::null(),
        };
        description.handle.fd = match &fd {
            Descriptor::Owned(fd) => fd.as_raw_fd(),
            Descriptor::Borrowed(fd) => fd.as_raw_fd(),
        };
        let mut raw: CUfileHandle = std::ptr::null_mut();
        // SAFETY: both arguments exist during the call, and the library copies the description.
        library.check("cuFileHandleRegister", unsafe { f(&raw mut raw, &raw mut description) })?;
        Ok(Self { raw, driver: driver.clone(), fd })
    }

    /// The driver with which it is registered.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    pub(crate) fn raw(&self) -> CUfileHandle {
        self.raw
    }

    /// Reads `len` bytes of the file from `file_offset` to `memory_offset` of `memory`. Returns the number of bytes
    /// read, which is smaller at the end of the file and 0 after it. Several threads can read to parts of the same
    /// memory.
    ///
    /// For a registered transfer, pass a [`crate::BufferRegistration`] as the memory.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], or the error of `cuFileRead`.
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
        // SAFETY: the handle is registered as long as self exists. The range is in memory that IoMemory guarantees to
        // be valid.
        let returned = unsafe { f(self.raw, memory.base(), len, from, to) };
        library.check_bytes("cuFileRead", returned, errno(), len)
    }

    /// Writes `len` bytes from `memory_offset` of `memory` to the file at `file_offset`. Returns the number of bytes
    /// written.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], or the error of `cuFileWrite`.
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
        // SAFETY: as in `read_at`. The library only reads the memory.
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
            // SAFETY: it was registered here and is deregistered once. The descriptor and the driver are dropped
            // later.
            unsafe { f(self.raw) };
        }
    }
}

/// The errno of the calling thread. Read it before any other call can change it.
fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
