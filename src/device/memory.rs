//! Memory that a model is loaded into: one allocation on the GPU or in the host.

use super::Device;
use super::cuda::CudaDevice;
use super::error::DeviceError;
use crate::core::units;
use cudarc::driver::result;
use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

/// One allocation on the target. Writes into it from several threads go to disjoint ranges: engines divide the model into blocks, and each
/// block is handed out once.
#[derive(Debug)]
pub struct DeviceMemory {
    pub(super) base: u64,
    len: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Keeps the context alive until the memory is freed.
    Cuda(Arc<CudaDevice>),
    Host,
}

/// Host targets and staging are mapped in units of this, so that the kernel can back them with huge pages.
pub(super) const HUGE: usize = 2 << 20;

/// Maps anonymous memory in multiples of [`HUGE`], aligned to it, and asks for huge pages. Pages of 4 KiB would cut a
/// read of 512 KiB into 128 pieces for the disk: on an H200's virtual disk that was 2.5 GB/s instead of 4.
pub(super) fn map_huge(len: usize) -> Result<*mut u8, DeviceError> {
    let doing = || format!("mapping {} of host memory", units::bytes(len as u64));
    let too_large = || DeviceError::system(doing(), "the size is beyond the address space");
    let kept = len.checked_next_multiple_of(HUGE).ok_or_else(too_large)?;
    let padded = kept.checked_add(HUGE).ok_or_else(too_large)?;
    // SAFETY: an anonymous private mapping at an address of the kernel's choice touches nothing that exists.
    let raw = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            padded,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if raw == libc::MAP_FAILED {
        return Err(DeviceError::mapping(doing(), &std::io::Error::last_os_error()));
    }
    let start = raw as usize;
    let aligned = start.next_multiple_of(HUGE);
    let head = aligned - start;
    // SAFETY: both ranges lie inside the mapping made above and outside the part that is kept: head + kept + tail = kept + HUGE, and the tail is
    // never empty because the head is shorter than HUGE.
    unsafe {
        if head > 0 {
            libc::munmap(raw, head);
        }
        libc::munmap((aligned + kept) as *mut c_void, HUGE - head);
        // Advice only: without transparent huge pages the memory works all the same.
        libc::madvise(aligned as *mut c_void, kept, libc::MADV_HUGEPAGE);
    }
    Ok(aligned as *mut u8)
}

/// Gives back memory of [`map_huge`].
///
/// # Safety
/// `base` and `len` must be what `map_huge` returned and was given, and nothing may use the memory any more.
pub(super) unsafe fn unmap_huge(base: *mut u8, len: usize) {
    // SAFETY: by the contract of this function; the length was checked to round up when the memory was mapped.
    unsafe { libc::munmap(base.cast(), len.next_multiple_of(HUGE)) };
}

impl DeviceMemory {
    /// Allocates `len` bytes (at least one page) on the device.
    ///
    /// # Errors
    /// When the device has too little memory.
    pub fn allocate(device: &Device, len: u64) -> Result<Self, DeviceError> {
        let len = usize::try_from(len.max(4096))
            .map_err(|_| DeviceError::system("allocating", "the size is beyond the address space"))?;
        match device {
            Device::Cuda(cuda) => {
                let doing = || {
                    let free = cuda
                        .memory()
                        .map_or_else(|_| String::new(), |(free, _)| format!(" ({} are free)", units::bytes(free)));
                    format!("allocating {} on {}{free}", units::bytes(len as u64), cuda.info().name)
                };
                // SAFETY: plain cuMemAlloc; the pointer is freed once, in `drop`, while the context still lives. (Stream-ordered memory is
                // not used: cuFileBufRegister is not documented to take it.)
                let base = unsafe { result::malloc_sync(len) }.map_err(|e| {
                    DeviceError::cuda(doing(), e).if_out_of_memory(
                        "the GPU has too little free memory: choose another with --gpu, or a smaller model",
                    )
                })?;
                Ok(Self { base, len, kind: Kind::Cuda(cuda.clone()) })
            }
            Device::Host => {
                let base = map_huge(len)?;
                Ok(Self { base: base as u64, len, kind: Kind::Host })
            }
        }
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Never: allocations are at least a page.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it is host memory.
    #[must_use]
    pub const fn is_host(&self) -> bool {
        matches!(self.kind, Kind::Host)
    }

    /// Fills everything with `value`, so that bytes which never arrive are seen by verification.
    ///
    /// # Errors
    /// When CUDA refuses.
    pub fn fill(&self, value: u8) -> Result<(), DeviceError> {
        match &self.kind {
            Kind::Cuda(cuda) => {
                // SAFETY: the range is this allocation.
                unsafe { result::memset_d8_sync(self.base, value, self.len) }
                    .map_err(|e| DeviceError::cuda("filling GPU memory", e))?;
                cuda.synchronize()
            }
            Kind::Host => {
                // SAFETY: the range is this allocation, and filling happens before any engine writes into it.
                unsafe { std::ptr::write_bytes(self.base as *mut u8, value, self.len) };
                Ok(())
            }
        }
    }

    pub(super) fn check(&self, offset: u64, len: usize) -> Result<u64, DeviceError> {
        let fits = offset.checked_add(len as u64).is_some_and(|end| end <= self.len as u64);
        if fits {
            Ok(self.base + offset)
        } else {
            Err(DeviceError::system(
                "addressing the target",
                format!("{len} bytes at offset {offset} lie outside the allocation of {} bytes", self.len),
            ))
        }
    }

    /// Copies pageable host bytes to `offset` and waits, as a loader without pinned memory does.
    ///
    /// # Errors
    /// When the range is outside or CUDA refuses.
    pub fn write_pageable(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let to = self.check(offset, bytes.len())?;
        match self.kind {
            // SAFETY: the destination was checked to lie inside this allocation; the source is a slice.
            Kind::Cuda(_) => unsafe { result::memcpy_htod_sync(to, bytes) }
                .map_err(|e| DeviceError::cuda("copying pageable memory to the GPU", e)),
            Kind::Host => {
                // SAFETY: checked range; a slice of the caller cannot overlap this private mapping.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
                Ok(())
            }
        }
    }

    /// Copies `len` bytes of host memory to `offset` and waits; a pageable copy where this is GPU memory.
    ///
    /// # Errors
    /// When a range is outside, the source is not host memory, or CUDA refuses.
    pub fn copy_from_host(&self, offset: u64, host: &Self, host_offset: u64, len: usize) -> Result<(), DeviceError> {
        if !host.is_host() {
            return Err(DeviceError::system("copying from host memory", "the source is GPU memory"));
        }
        let from = host.check(host_offset, len)?;
        let to = self.check(offset, len)?;
        match self.kind {
            // SAFETY: both ranges were checked to lie inside their allocations, which are different ones. The source may be written to by others
            // in principle; it is only read as bytes, by the driver, through an address.
            Kind::Cuda(_) => unsafe { cudarc::driver::sys::cuMemcpyHtoD_v2(to, from as *const c_void, len) }
                .result()
                .map_err(|e| DeviceError::cuda("copying pageable memory to the GPU", e)),
            Kind::Host => {
                // SAFETY: as above; `copy` accepts a source and a destination in one allocation.
                unsafe { std::ptr::copy(from as *const u8, to as *mut u8, len) };
                Ok(())
            }
        }
    }

    /// Copies bytes at `offset` back into `bytes` and waits.
    ///
    /// # Errors
    /// When the range is outside or CUDA refuses.
    pub fn read_back(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let from = self.check(offset, bytes.len())?;
        match self.kind {
            // SAFETY: the source was checked to lie inside this allocation; the destination is an exclusive slice.
            Kind::Cuda(_) => unsafe { result::memcpy_dtoh_sync(bytes, from) }
                .map_err(|e| DeviceError::cuda("reading bytes back from the GPU", e)),
            Kind::Host => {
                // SAFETY: checked range; the destination is exclusive and cannot overlap this private mapping.
                unsafe { std::ptr::copy_nonoverlapping(from as *const u8, bytes.as_mut_ptr(), bytes.len()) };
                Ok(())
            }
        }
    }
}

// SAFETY: base and length never change, the allocation lives as long as the value, moving the value does not move it, and no reference to its
// bytes is ever handed out: all access is by copies.
unsafe impl cufile_ffi::IoMemory for DeviceMemory {
    fn base(&self) -> *mut c_void {
        self.base as *mut c_void
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// A range of an allocation as separate memory.
#[derive(Debug)]
pub struct MemoryPart {
    memory: std::sync::Arc<DeviceMemory>,
    offset: usize,
    len: usize,
}

impl MemoryPart {
    /// The `len` bytes of `memory` from `offset`.
    ///
    /// # Errors
    /// When the range is outside the allocation.
    pub fn new(memory: &std::sync::Arc<DeviceMemory>, offset: u64, len: usize) -> Result<Self, DeviceError> {
        memory.check(offset, len)?;
        Ok(Self { memory: std::sync::Arc::clone(memory), offset: offset as usize, len })
    }
}

// SAFETY: a checked range of an allocation that the Arc keeps alive and that promises the rest itself.
unsafe impl cufile_ffi::IoMemory for MemoryPart {
    fn base(&self) -> *mut c_void {
        (self.memory.base + self.offset as u64) as *mut c_void
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// A range of host memory that is read into without a stop on the way.
#[derive(Debug)]
pub struct HostPart {
    memory: Arc<DeviceMemory>,
    offset: usize,
    len: usize,
}

impl HostPart {
    /// The `len` bytes of `memory` from `offset`.
    ///
    /// # Errors
    /// When the range is outside the allocation, or that is a GPU's.
    pub fn new(memory: &Arc<DeviceMemory>, offset: u64, len: usize) -> Result<Self, DeviceError> {
        if !memory.is_host() {
            return Err(DeviceError::system("reading straight into the target", "it is GPU memory"));
        }
        memory.check(offset, len)?;
        Ok(Self { memory: Arc::clone(memory), offset: offset as usize, len })
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads once from the file at `file_offset` into the range from its byte `from` on; returns how many bytes came.
    ///
    /// # Errors
    /// What the kernel says of the read.
    pub fn read(&mut self, from: usize, file: BorrowedFd<'_>, file_offset: u64) -> std::io::Result<usize> {
        let (Some(room), Ok(file_offset)) = (self.len.checked_sub(from), libc::off_t::try_from(file_offset)) else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        // SAFETY: the kernel writes at most `room` bytes from `from` on, which lie inside the range that was checked; no reference to them exists.
        let got = unsafe { libc::pread(file.as_raw_fd(), self.address().add(from).cast(), room, file_offset) };
        usize::try_from(got).map_err(|_| std::io::Error::last_os_error())
    }

    pub(super) fn address(&self) -> *mut u8 {
        (self.memory.base + self.offset as u64) as *mut u8
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        match &self.kind {
            Kind::Cuda(cuda) => {
                // Freed from whichever thread drops it, so the context is bound first; a failure leaves the memory to the process's end.
                if cuda.bind().is_ok() {
                    // SAFETY: allocated by cuMemAlloc in `allocate`, freed once.
                    let _ = unsafe { result::free_sync(self.base) };
                }
            }
            // SAFETY: from `map_huge` with this length; `self` is going away, and slots never point into it.
            Kind::Host => unsafe { unmap_huge(self.base as *mut u8, self.len) },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn memory_that_the_kernel_has_no_room_for_is_refused_with_what_to_do() {
        let said = DeviceMemory::allocate(&Device::Host, 1 << 60).unwrap_err().to_string();
        assert!(said.contains("of host memory failed") && said.ends_with("(ulimit -v)"), "{said}");
    }

    #[test]
    fn host_memory_gives_back_what_was_written_and_refuses_what_lies_outside() {
        let memory = DeviceMemory::allocate(&Device::Host, 3 * 4096 + 5).unwrap();
        memory.fill(0xa5).unwrap();
        memory.write_pageable(4090, &[1, 2, 3]).unwrap();
        let mut back = [0; 5];
        memory.read_back(4089, &mut back).unwrap();
        assert_eq!(back, [0xa5, 1, 2, 3, 0xa5]);
        let outside = memory.write_pageable(3 * 4096 + 4, &[0, 0]).unwrap_err();
        assert!(outside.to_string().contains("outside the allocation"), "{outside}");
        assert!(memory.read_back(u64::MAX, &mut back).is_err());
    }

    #[test]
    fn a_part_takes_what_a_file_has_and_no_more_than_it_holds() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1, 2, 3, 4, 5, 6]).unwrap();
        let memory = Arc::new(DeviceMemory::allocate(&Device::Host, 4096).unwrap());
        let mut part = HostPart::new(&memory, 10, 3).unwrap();
        assert_eq!(part.read(1, file.as_fd(), 2).unwrap(), 2, "two are left of three");
        assert_eq!(part.read(0, file.as_fd(), 9).unwrap(), 0, "behind the end");
        assert!(part.read(4, file.as_fd(), 0).is_err() && part.read(0, file.as_fd(), u64::MAX).is_err());
        let mut back = [0; 5];
        memory.read_back(9, &mut back).unwrap();
        assert_eq!(back, [0, 0, 3, 4, 0]);
        assert!(HostPart::new(&memory, 4095, 2).is_err());
    }

    #[test]
    fn mappings_of_any_size_can_be_written_to_their_last_byte() {
        for len in [1, 4095, 4096, 4097, HUGE - 1, HUGE, HUGE + 1, 3 * HUGE + 4096] {
            let memory = DeviceMemory::allocate(&Device::Host, len as u64).unwrap();
            memory.fill(7).unwrap();
            let mut last = [0];
            memory.read_back(memory.len() as u64 - 1, &mut last).unwrap();
            assert_eq!(last, [7]);
        }
    }
}
