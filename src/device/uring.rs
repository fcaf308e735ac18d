//! Reads with io_uring into slots or directly into a target in host memory. The ring owns the destination until its
//! read has completed.

use super::error::DeviceError;
use super::memory::HostPart;
use super::staging::Slot;
use crate::core::units;
use io_uring::{IoUring, opcode, types};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Host memory that the kernel can write to.
///
/// # Safety
/// The `length` bytes from `address` must be host memory that does not move while the value exists, even if the value
/// moves. No reference to these bytes may be used during this time.
pub unsafe trait ReadBuffer {
    /// The address of the first byte.
    fn address(&self) -> *mut u8;
    /// The number of bytes.
    fn length(&self) -> usize;
}

// SAFETY: only the slot has access to its range of a mapping that it keeps. The owner of the slot has no reference to
// its bytes.
unsafe impl ReadBuffer for Slot {
    fn address(&self) -> *mut u8 {
        Self::address(self)
    }

    fn length(&self) -> usize {
        self.len()
    }
}

// SAFETY: this is a range of a host allocation that it keeps. There are no references to these bytes.
unsafe impl ReadBuffer for HostPart {
    fn address(&self) -> *mut u8 {
        Self::address(self)
    }

    fn length(&self) -> usize {
        self.len()
    }
}

/// A ring of reads in flight.
pub struct ReadRing<B: ReadBuffer = Slot> {
    ring: IoUring,
    /// The destinations of active reads. The index is the user data of the read.
    busy: Vec<Option<(B, u64)>>,
    free: Vec<usize>,
    /// The addresses that the kernel has registered until the ring is dropped.
    registered: Range<usize>,
}

impl<B: ReadBuffer> std::fmt::Debug for ReadRing<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadRing").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}

/// A read that has completed.
#[derive(Debug)]
pub struct Completed<B = Slot> {
    /// The destination. The bytes start at its first byte.
    pub buffer: B,
    /// The tag that the caller chose.
    pub tag: u64,
    /// The number of bytes read, or the error.
    pub result: std::io::Result<usize>,
}

impl<B: ReadBuffer> ReadRing<B> {
    /// Creates a ring for `depth` reads. Many containers forbid io_uring (seccomp), which is an ordinary error.
    ///
    /// # Errors
    /// If the kernel rejects io_uring.
    pub fn new(depth: u32) -> Result<Self, DeviceError> {
        let ring = IoUring::new(depth.next_power_of_two()).map_err(|e| DeviceError::io("setting up io_uring", &e))?;
        Ok(Self {
            ring,
            busy: (0..depth).map(|_| None).collect(),
            free: (0..depth as usize).rev().collect(),
            registered: 0..0,
        })
    }

    /// Registers the memory of contiguous buffers with the kernel, so that it does not look up and pin their pages
    /// for each read. Call it once.
    ///
    /// # Errors
    /// If the kernel rejects it: the memory counts as locked memory (RLIMIT_MEMLOCK), and it can be at most 1 GiB.
    /// Reads work without it.
    pub fn register(&mut self, buffers: &[B]) -> Result<(), DeviceError> {
        let doing = "registering buffers with io_uring";
        let start = buffers.iter().map(|buffer| buffer.address() as usize).min().unwrap_or(0);
        let len: usize = buffers.iter().map(ReadBuffer::length).sum();
        let end = buffers.iter().map(|buffer| buffer.address() as usize + buffer.length()).max().unwrap_or(0);
        if len == 0 || end - start != len || !self.registered.is_empty() {
            return Err(DeviceError::system(doing, "they do not lie side by side, or others were registered"));
        }
        let all = libc::iovec { iov_base: start as *mut libc::c_void, iov_len: len };
        // SAFETY: the range consists exactly of the buffers, which do not overlap and have no gaps. The kernel keeps
        // its pages until the ring is dropped, and writes only for reads that own their buffer.
        unsafe { self.ring.submitter().register_buffers(&[all]) }.map_err(|e| DeviceError::io(doing, &e))?;
        self.registered = start..end;
        Ok(())
    }

    /// The number of reads in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.busy.len() - self.free.len()
    }

    /// Whether another read can be started.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Queues a read of `len` bytes at `offset` to the start of the buffer. [`Self::submit`] starts it.
    ///
    /// # Errors
    /// If the ring is full, or if `len` exceeds the buffer. The buffer is then dropped.
    pub fn queue_read(
        &mut self,
        file: BorrowedFd<'_>,
        buffer: B,
        len: usize,
        offset: u64,
        tag: u64,
    ) -> Result<(), DeviceError> {
        let Some(index) = self.free.pop() else {
            return Err(DeviceError::system("queueing a read", "the ring is full"));
        };
        if len > buffer.length() || u32::try_from(len).is_err() {
            self.free.push(index);
            return Err(DeviceError::system(
                "queueing a read",
                format!("{} do not fit into the buffer", units::bytes(len as u64)),
            ));
        }
        let (file, address) = (types::Fd(file.as_raw_fd()), buffer.address());
        let entry = if self.registered.contains(&(address as usize)) {
            opcode::ReadFixed::new(file, address, len as u32, 0).offset(offset).build()
        } else {
            opcode::Read::new(file, address, len as u32).offset(offset).build()
        }
        .user_data(index as u64);
        self.busy[index] = Some((buffer, tag));
        // SAFETY: by the contract of `ReadBuffer`, no other code uses the buffer. It stays in `busy` until its
        // completion is read (`drop` waits for all). If the caller closes the descriptor, the read only fails.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        if pushed.is_err() {
            self.busy[index] = None;
            self.free.push(index);
            return Err(DeviceError::system("queueing a read", "the submission queue is full"));
        }
        Ok(())
    }

    /// Starts queued reads, and waits until at least `wait` of all reads in flight have completed.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn submit(&mut self, wait: usize) -> Result<(), DeviceError> {
        loop {
            match self.ring.submit_and_wait(wait) {
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(DeviceError::system("submitting reads", e)),
            }
        }
    }

    /// The next completed read. `None` if there is none.
    pub fn completed(&mut self) -> Option<Completed<B>> {
        let entry = self.ring.completion().next()?;
        let index = entry.user_data() as usize;
        let (buffer, tag) = self.busy.get_mut(index)?.take()?;
        self.free.push(index);
        let result = if entry.result() < 0 {
            Err(std::io::Error::from_raw_os_error(-entry.result()))
        } else {
            Ok(entry.result() as usize)
        };
        Some(Completed { buffer, tag, result })
    }
}

impl<B: ReadBuffer> Drop for ReadRing<B> {
    fn drop(&mut self) {
        // The kernel still writes into the buffers in flight, so they must not be freed before their reads complete.
        while self.in_flight() > 0 {
            if self.submit(1).is_err() {
                // The ring is broken and the state of its reads is unknown. Their memory is leaked, so that it is
                // never used again.
                for buffer in self.busy.drain(..).flatten() {
                    std::mem::forget(buffer);
                }
                return;
            }
            while self.completed().is_some() {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::device::{Device, DeviceMemory, Staging};
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::sync::Arc;

    #[test]
    fn reads_come_back_with_their_slot_tag_and_length() {
        let Ok(mut ring) = ReadRing::<Slot>::new(4) else {
            eprintln!("skipped: this kernel or sandbox refuses io_uring");
            return;
        };
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[5; 10_000]).unwrap();
        for (tag, slot) in Staging::slots(&Device::Host, 3, 8192).unwrap().into_iter().enumerate() {
            ring.queue_read(file.as_fd(), slot, 8192, tag as u64 * 4096, tag as u64).unwrap();
        }
        assert_eq!(ring.in_flight(), 3);
        let mut lengths = [0; 3];
        while ring.in_flight() > 0 {
            ring.submit(1).unwrap();
            while let Some(done) = ring.completed() {
                let length = done.result.unwrap();
                assert!(done.buffer.bytes()[..length].iter().all(|b| *b == 5));
                lengths[done.tag as usize] = length;
            }
        }
        assert_eq!(lengths, [8192, 10_000 - 4096, 10_000 - 8192]);
    }

    #[test]
    fn registered_buffers_are_read_into_like_others_and_only_once_registered() {
        let Ok(mut ring) = ReadRing::<Slot>::new(4) else {
            eprintln!("skipped: this kernel or sandbox refuses io_uring");
            return;
        };
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        let mut slots = Staging::slots(&Device::Host, 3, 8192).unwrap();
        let apart = slots.remove(1);
        assert!(ring.register(&slots).is_err(), "the gap is not part of the buffers");
        slots.insert(1, apart);
        if let Err(error) = ring.register(&slots) {
            eprintln!("skipped: {error}");
            return;
        }
        assert!(ring.register(&slots).is_err(), "once");
        for (tag, slot) in slots.into_iter().enumerate() {
            ring.queue_read(file.as_fd(), slot, 8192, tag as u64 * 4096, tag as u64).unwrap();
        }
        ring.submit(3).unwrap();
        for _ in 0..3 {
            let done = ring.completed().unwrap();
            let length = done.result.unwrap();
            assert_eq!(length, (10_000 - done.tag as usize * 4096).min(8192));
            assert!(done.buffer.bytes()[..length].iter().all(|b| *b == 7));
        }
    }

    #[test]
    fn dropping_a_ring_with_reads_in_flight_waits_for_them() {
        let Ok(mut ring) = ReadRing::<Slot>::new(2) else {
            eprintln!("skipped: this kernel or sandbox refuses io_uring");
            return;
        };
        let file = tempfile::tempfile().unwrap();
        let slot = Staging::slots(&Device::Host, 1, 4096).unwrap().pop().unwrap();
        ring.queue_read(file.as_fd(), slot, 4096, 0, 0).unwrap();
        drop(ring);
    }

    #[test]
    fn reads_into_a_target_land_at_their_place_and_nowhere_else() {
        let Ok(mut ring) = ReadRing::new(1) else {
            eprintln!("skipped: this kernel or sandbox refuses io_uring");
            return;
        };
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[5; 3000]).unwrap();
        let target = Arc::new(DeviceMemory::allocate(&Device::Host, 16 << 10).unwrap());
        let part = HostPart::new(&target, 4096, 4096).unwrap();
        ring.queue_read(file.as_fd(), part, 4096, 0, 7).unwrap();
        ring.submit(1).unwrap();
        let done = ring.completed().unwrap();
        assert_eq!((done.result.unwrap(), done.tag), (3000, 7));
        assert!(ring.queue_read(file.as_fd(), done.buffer, 4097, 0, 8).is_err());
        let mut bytes = [9; 4096 + 3001];
        target.read_back(0, &mut bytes).unwrap();
        assert!(bytes[..4096].iter().all(|b| *b == 0) && bytes[4096..7096].iter().all(|b| *b == 5) && bytes[7096] == 0);
    }
}
