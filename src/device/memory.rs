//! The memory that a model is loaded into: one allocation on the GPU or the host.

use super::cuda::CudaDevice;
use super::error::DeviceError;
use super::target::Device;
use crate::core::units;
use cudarc::driver::result;
use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

/// One allocation on the target. Several threads write to disjoint ranges of it: engines divide the model into
/// blocks, and each block belongs to one thread.
#[derive(Debug)]
pub struct DeviceMemory {
    pub(super) base: u64,
    len: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// The context must exist until the memory is freed.
    Cuda(Arc<CudaDevice>),
    Host,
}

/// Host targets and staging buffers are mapped in multiples of this, so that the kernel can use huge pages.
pub(super) const HUGE: usize = 2 << 20;

/// Maps anonymous memory in aligned multiples of [`HUGE`] and requests huge pages. With pages of 4 KiB, a disk gets a
/// read of 512 KiB in 128 pieces. On the virtual disk of an H200 machine, that read 2.5 GB/s and not 4 GB/s.
pub(super) fn map_huge(len: usize) -> Result<*mut u8, DeviceError> {
    let doing = || format!("mapping {} of host memory", units::bytes(len as u64));
    let too_large = || DeviceError::system(doing(), "the size exceeds the address space");
    let kept = len.checked_next_multiple_of(HUGE).ok_or_else(too_large)?;
    let padded = kept.checked_add(HUGE).ok_or_else(too_large)?;
    // SAFETY: an anonymous private mapping at an address that the kernel chooses does not affect existing memory.
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
    // SAFETY: both ranges are inside the new mapping and outside of the kept part, because head + kept + tail = kept
    // + HUGE. The tail is never empty, because the head is shorter than HUGE.
    unsafe {
        if head > 0 {
            libc::munmap(raw, head);
        }
        libc::munmap((aligned + kept) as *mut c_void, HUGE - head);
        // The call is only advice. Without transparent huge pages the memory works too.
        libc::madvise(aligned as *mut c_void, kept, libc::MADV_HUGEPAGE);
    }
    Ok(aligned as *mut u8)
}

/// Releases memory of [`map_huge`].
///
/// # Safety
/// `base` must be the result of `map_huge` for this `len`, and the memory must not be in use.
pub(super) unsafe fn unmap_huge(base: *mut u8, len: usize) {
    // SAFETY: the contract of this function. The rounded length was valid when the memory was mapped.
    unsafe { libc::munmap(base.cast(), len.next_multiple_of(HUGE)) };
}

impl DeviceMemory {
    /// Allocates `len` bytes (at least one page) on the device.
    ///
    /// # Errors
    /// If the device has too little memory.
    pub fn allocate(device: &Device, len: u64) -> Result<Self, DeviceError> {
        let len = usize::try_from(len.max(4096))
            .map_err(|_| DeviceError::system("allocating", "the size exceeds the address space"))?;
        match device {
            Device::Cuda(cuda) => {
                let doing = || {
                    let free = cuda
                        .memory()
                        .map_or_else(|_| String::new(), |(free, _)| format!(" ({} are free)", units::bytes(free)));
                    format!("allocating {} on {}{free}", units::bytes(len as u64), cuda.info().name)
                };
                // SAFETY: this is a plain cuMemAlloc. `drop` frees the pointer once, while the context exists.
                // Stream-ordered memory is not used, because cuFileBufRegister does not document support for it.
                let base = unsafe { result::malloc_sync(len) }.map_err(|e| {
                    DeviceError::cuda(doing(), e).if_out_of_memory(
                        "the GPU has too little free memory: choose another with --target, or a smaller model",
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

    /// The length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Always false, because an allocation has at least one page.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it is host memory.
    #[must_use]
    pub const fn is_host(&self) -> bool {
        matches!(self.kind, Kind::Host)
    }

    /// Fills the memory with `value`, so that verification detects missing bytes.
    ///
    /// # Errors
    /// If CUDA reports an error.
    pub fn fill(&self, value: u8) -> Result<(), DeviceError> {
        match &self.kind {
            Kind::Cuda(cuda) => {
                // SAFETY: the range is this allocation.
                unsafe { result::memset_d8_sync(self.base, value, self.len) }
                    .map_err(|e| DeviceError::cuda("filling GPU memory", e))?;
                cuda.synchronize()
            }
            Kind::Host => {
                // SAFETY: the range is this allocation, and no engine writes to it yet.
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
    /// If the range is outside of the allocation, or if CUDA reports an error.
    pub fn write_pageable(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let to = self.check(offset, bytes.len())?;
        match self.kind {
            // SAFETY: the destination was checked to be inside this allocation. The source is a slice.
            Kind::Cuda(_) => unsafe { result::memcpy_htod_sync(to, bytes) }
                .map_err(|e| DeviceError::cuda("copying pageable memory to the GPU", e)),
            Kind::Host => {
                // SAFETY: the range was checked. A slice of the caller cannot overlap this private mapping.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
                Ok(())
            }
        }
    }

    /// Copies `len` bytes of host memory to `offset` and waits. If this is GPU memory, it is a pageable copy.
    ///
    /// # Errors
    /// If a range is outside of its allocation, if the source is not host memory, or if CUDA reports an error.
    pub fn copy_from_host(&self, offset: u64, host: &Self, host_offset: u64, len: usize) -> Result<(), DeviceError> {
        if !host.is_host() {
            return Err(DeviceError::system("copying from host memory", "the source is GPU memory"));
        }
        let from = host.check(host_offset, len)?;
        let to = self.check(offset, len)?;
        match self.kind {
            // SAFETY: both ranges were checked to be inside their allocations, which are different. Other threads may
            // write to the source, but the driver only reads it as bytes through an address.
            Kind::Cuda(_) => unsafe { cudarc::driver::sys::cuMemcpyHtoD_v2(to, from as *const c_void, len) }
                .result()
                .map_err(|e| DeviceError::cuda("copying pageable memory to the GPU", e)),
            Kind::Host => {
                // SAFETY: as above. `copy` permits overlapping ranges.
                unsafe { std::ptr::copy(from as *const u8, to as *mut u8, len) };
                Ok(())
            }
        }
    }

    /// Copies the bytes at `offset` into `bytes` and waits.
    ///
    /// # Errors
    /// If the range is outside of the allocation, or if CUDA reports an error.
    pub fn read_back(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let from = self.check(offset, bytes.len())?;
        match self.kind {
            // SAFETY: the source was checked to be inside this allocation. The destination is an exclusive slice.
            Kind::Cuda(_) => unsafe { result::memcpy_dtoh_sync(bytes, from) }
                .map_err(|e| DeviceError::cuda("reading bytes back from the GPU", e)),
            Kind::Host => {
                // SAFETY: the range was checked. The destination is exclusive and cannot overlap this private
                // mapping.
                unsafe { std::ptr::copy_nonoverlapping(from as *const u8, bytes.as_mut_ptr(), bytes.len()) };
                Ok(())
            }
        }
    }
}

// SAFETY: base and length never change, and the allocation exists as long as the value. Moving the value does not
// move the allocation. There are no references to its bytes, because all access is by copies.
unsafe impl cufile_ffi::IoMemory for DeviceMemory {
    fn base(&self) -> *mut c_void {
        self.base as *mut c_void
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// A range of an allocation.
#[derive(Debug)]
pub struct MemoryPart {
    memory: std::sync::Arc<DeviceMemory>,
    offset: usize,
    len: usize,
}

impl MemoryPart {
    /// The `len` bytes of `memory` from `offset` on.
    ///
    /// # Errors
    /// If the range is outside of the allocation.
    pub fn new(memory: &std::sync::Arc<DeviceMemory>, offset: u64, len: usize) -> Result<Self, DeviceError> {
        memory.check(offset, len)?;
        Ok(Self { memory: std::sync::Arc::clone(memory), offset: offset as usize, len })
    }
}

// SAFETY: the range was checked, and the Arc keeps the allocation. The allocation itself meets the other
// requirements.
unsafe impl cufile_ffi::IoMemory for MemoryPart {
    fn base(&self) -> *mut c_void {
        (self.memory.base + self.offset as u64) as *mut c_void
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// A range of host memory that the kernel reads into without a staging buffer.
#[derive(Debug)]
pub struct HostPart {
    memory: Arc<DeviceMemory>,
    offset: usize,
    len: usize,
}

impl HostPart {
    /// The `len` bytes of `memory` from `offset` on.
    ///
    /// # Errors
    /// If the range is outside of the allocation, or if the allocation is on a GPU.
    pub fn new(memory: &Arc<DeviceMemory>, offset: u64, len: usize) -> Result<Self, DeviceError> {
        if !memory.is_host() {
            return Err(DeviceError::system("reading straight into the target", "it is GPU memory"));
        }
        memory.check(offset, len)?;
        Ok(Self { memory: Arc::clone(memory), offset: offset as usize, len })
    }

    /// The length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads once from the file at `file_offset` into the range, starting at its byte `from`. Returns the number of
    /// bytes read.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn read(&mut self, from: usize, file: BorrowedFd<'_>, file_offset: u64) -> std::io::Result<usize> {
        let (Some(room), Ok(file_offset)) = (self.len.checked_sub(from), libc::off_t::try_from(file_offset)) else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        // SAFETY: the kernel writes at most `room` bytes from `from` on. They are inside the checked range, and there
        // are no references to them.
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
                // Any thread can drop the memory, so the context is bound first. If that fails, the memory is freed
                // when the process ends.
                if cuda.bind().is_ok() {
                    // SAFETY: cuMemAlloc allocated it in `allocate`, and it is freed once.
                    let _ = unsafe { result::free_sync(self.base) };
                }
            }
            // SAFETY: `map_huge` returned it for this length. `self` is being dropped, and slots never point into it.
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
