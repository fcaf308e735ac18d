//! Pinned staging: slots that are filled by reads and emptied by copies to the target, and the queues that copy.

use super::Device;
use super::cuda::CudaDevice;
use super::error::DeviceError;
use super::memory::{DeviceMemory, map_huge, unmap_huge};
use super::stream::Stream;
use crate::core::units;
use cudarc::driver::{result, sys};
use std::sync::{Arc, Mutex, PoisonError};

/// A piece of host memory in huge pages, pinned for the GPU if there is one, and divided into [`Slot`]s.
#[derive(Debug)]
struct Pinned {
    base: *mut u8,
    len: usize,
    /// The device it is pinned for; `None` for a host target, which needs no pinning.
    cuda: Option<Arc<CudaDevice>>,
    /// Starts of the ranges that were registered.
    registered: Mutex<Vec<usize>>,
}

impl Pinned {
    /// Registers `len` bytes from `start` with the driver; nothing for a host target. The caller's thread has the context current.
    fn register(&self, start: *mut u8, len: usize) -> Result<(), DeviceError> {
        if self.cuda.is_none() {
            return Ok(());
        }
        // SAFETY: the range is part of this private anonymous mapping, which outlives the registration (see `drop`).
        let said = unsafe { sys::cuMemHostRegister_v2(start.cast(), len, sys::CU_MEMHOSTREGISTER_PORTABLE) };
        said.result().map_err(|e| {
            DeviceError::cuda(format!("pinning {} of staging memory", units::bytes(len as u64)), e).if_out_of_memory(
                "the host can pin no more: use fewer threads, fewer slots or smaller blocks (--set slots=1)",
            )
        })?;
        self.registered.lock().unwrap_or_else(PoisonError::into_inner).push(start as usize);
        Ok(())
    }
}

// SAFETY: the memory is only reached through slots, which are exclusive ranges of it.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(cuda) = &self.cuda
            && cuda.bind().is_ok()
        {
            for start in self.registered.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
                // SAFETY: registered once in `register`; every slot holds an Arc of this, so no copy is in flight.
                let _ = unsafe { sys::cuMemHostUnregister(start as *mut std::ffi::c_void) };
            }
        }
        // SAFETY: from `map_huge` with this length, and no slot is left.
        unsafe { unmap_huge(self.base, self.len) };
    }
}

/// Creates slots. Each worker thread has one, so that pinning runs in parallel and pages are on the worker's node.
#[derive(Debug)]
pub struct Staging;

/// An exclusive range of pinned memory.
#[derive(Debug)]
pub struct Slot {
    base: *mut u8,
    len: usize,
    is_pinned: bool,
    /// Marks the end of the slot's last copy; made once, because making and destroying one takes the driver's lock that all threads copy under.
    event: Option<Event>,
    pinned: Arc<Pinned>,
}

/// A CUDA event without a time.
#[derive(Debug)]
struct Event(sys::CUevent);

// SAFETY: a CUevent may be recorded and waited for from any thread with the context current.
unsafe impl Send for Event {}

impl Event {
    fn new() -> Result<Self, result::DriverError> {
        result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map(Self)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once. CUDA keeps what a pending event needs; without a current context it refuses, and the
        // event goes with its context.
        let _ = unsafe { result::event::destroy(self.0) };
    }
}

// SAFETY: a slot is the only way to its range, as a `Box<[u8]>` would be.
unsafe impl Send for Slot {}
// SAFETY: a shared slot gives its bytes to be read and nothing else; its event is only touched by the copy that owns the slot.
unsafe impl Sync for Slot {}

impl Staging {
    /// Maps, touches and pins `count` slots of `slot_bytes` each, together in one mapping.
    ///
    /// # Errors
    /// When memory cannot be mapped or pinned.
    pub fn slots(device: &Device, count: usize, slot_bytes: usize) -> Result<Vec<Slot>, DeviceError> {
        let mut slots = Self::unpinned(device, count, slot_bytes)?;
        Self::pin(&mut slots)?;
        Ok(slots)
    }

    /// Touches and pins slots of [`Self::unpinned`], adjacent ones together; returns the bytes that are pinned by this call. The context must be current.
    ///
    /// # Errors
    /// When the host can pin no more.
    pub fn pin(slots: &mut [Slot]) -> Result<usize, DeviceError> {
        let mut pinned = 0;
        let adjacent = |a: &Slot, b: &Slot| {
            !a.is_pinned
                && !b.is_pinned
                && Arc::ptr_eq(&a.pinned, &b.pinned)
                && a.base as usize + a.len == b.base as usize
        };
        for run in slots.chunk_by_mut(adjacent) {
            let len: usize = run.iter().map(|slot| slot.len).sum();
            let Some(first) = run.first().filter(|slot| !slot.is_pinned) else { continue };
            let (mapping, start) = (first.pinned.clone(), first.base);
            // Touched from the thread that will use them, before pinning: pinning faults pages one by one under a lock.
            run.iter_mut().for_each(|slot| slot.bytes_mut().iter_mut().step_by(4096).for_each(|byte| *byte = 0));
            mapping.register(start, len)?;
            run.iter_mut().for_each(|slot| slot.is_pinned = true);
            pinned += if mapping.cuda.is_some() { len } else { 0 };
        }
        Ok(pinned)
    }

    /// Maps `count` slots of `slot_bytes` each. A read may fill one before [`Slot::pin`]: the first fill touches its
    /// pages, and one thread pins while others read.
    ///
    /// # Errors
    /// When memory cannot be mapped.
    pub fn unpinned(device: &Device, count: usize, slot_bytes: usize) -> Result<Vec<Slot>, DeviceError> {
        let slot_bytes = slot_bytes.next_multiple_of(4096);
        let len = count.checked_mul(slot_bytes).filter(|len| *len > 0).ok_or_else(|| {
            DeviceError::system("making staging memory", "the size is zero or beyond the address space")
        })?;
        let base = map_huge(len)?;
        let cuda = match device {
            Device::Cuda(cuda) => Some(cuda.clone()),
            Device::Host => None,
        };
        let pinned = Arc::new(Pinned { base, len, cuda, registered: Mutex::new(Vec::new()) });
        Ok((0..count)
            .map(|i| Slot {
                // SAFETY: i * slot_bytes < len.
                base: unsafe { base.add(i * slot_bytes) },
                len: slot_bytes,
                is_pinned: false,
                event: None,
                pinned: pinned.clone(),
            })
            .collect())
    }
}

impl Slot {
    /// The bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        // SAFETY: exclusive range of a live mapping; anonymous pages that nothing wrote yet read as zeros.
        unsafe { std::slice::from_raw_parts(self.base, self.len) }
    }

    /// The bytes, to be written.
    pub const fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.len) }
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Never: slots have at least a page.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the GPU can fetch from it without a further copy.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.is_pinned && self.pinned.cuda.is_some()
    }

    /// Pins a slot of [`Staging::unpinned`] for the GPU, once; returns the bytes that are pinned by this call. The context must be current.
    ///
    /// # Errors
    /// When the host can pin no more.
    pub fn pin(&mut self) -> Result<usize, DeviceError> {
        if self.is_pinned {
            return Ok(0);
        }
        self.pinned.register(self.base, self.len)?;
        self.is_pinned = true;
        Ok(if self.pinned.cuda.is_some() { self.len } else { 0 })
    }

    pub(super) const fn address(&self) -> *mut u8 {
        self.base
    }
}

/// A queue of copies from slots to the target: a CUDA stream, or nothing for a host target, where copies are done at once.
#[derive(Debug)]
pub struct CopyQueue(pub(super) Option<Stream>);

/// A slot whose bytes are on their way to the target.
#[derive(Debug)]
pub struct InFlight {
    slot: Option<Slot>,
    /// Whether the slot's event marks a copy that may still run.
    pending: bool,
}

impl CopyQueue {
    /// Opens a queue.
    ///
    /// # Errors
    /// When CUDA cannot make a stream.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Stream::open(device).map(Self)
    }

    /// Starts copying `len` bytes from `from` in the slot to `offset` of the target. The slot comes back from [`InFlight::finish`].
    ///
    /// # Errors
    /// When the range is outside the slot or the target, or CUDA refuses; the slot is then lost (its memory is freed).
    pub fn copy(
        &self,
        mut slot: Slot,
        from: usize,
        len: usize,
        to: &Arc<DeviceMemory>,
        offset: u64,
    ) -> Result<InFlight, DeviceError> {
        if from.checked_add(len).is_none_or(|end| end > slot.len) {
            return Err(DeviceError::system(
                "copying from staging",
                format!("{len} bytes at {from} lie outside the slot of {} bytes", slot.len),
            ));
        }
        let target = to.check(offset, len)?;
        let Some(stream) = &self.0 else {
            to.write_pageable(offset, &slot.bytes()[from..from + len])?;
            return Ok(InFlight { slot: Some(slot), pending: false });
        };
        if to.is_host() {
            return Err(DeviceError::system(
                "copying from staging",
                "the queue is a GPU's but the target is host memory",
            ));
        }
        let doing = |what: &str| format!("{what} a copy of {} to the GPU", units::bytes(len as u64));
        let event = match &slot.event {
            Some(event) => event.0,
            None => slot.event.insert(Event::new().map_err(|e| DeviceError::cuda(doing("preparing"), e))?).0,
        };
        let in_flight = InFlight { slot: Some(slot), pending: true };
        let source = in_flight.slot.as_ref().map_or(&[][..], |s| &s.bytes()[from..from + len]);
        // SAFETY: source and target ranges were checked; the source stays untouched because `InFlight` owns the slot until the event (recorded
        // right behind the copy on the same stream) has completed; the target outlives the copy because engines synchronize before they
        // drop it, and `InFlight::drop` waits.
        unsafe {
            result::memcpy_htod_async(target, source, stream.raw())
                .map_err(|e| DeviceError::cuda(doing("starting"), e))?;
            result::event::record(event, stream.raw()).map_err(|e| DeviceError::cuda(doing("marking"), e))?;
        }
        Ok(in_flight)
    }

    /// Waits for all copies of this queue.
    ///
    /// # Errors
    /// When one of them failed.
    pub fn drain(&self) -> Result<(), DeviceError> {
        self.0.as_ref().map_or(Ok(()), |stream| stream.synchronize("waiting for copies to the GPU"))
    }
}

impl InFlight {
    /// Whether the copy has finished.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let Some(event) = self.pending.then(|| self.slot.as_ref()?.event.as_ref()).flatten() else { return true };
        // SAFETY: the event lives as long as its slot.
        unsafe { result::event::query(event.0) }.is_ok()
    }

    /// Waits for the copy and returns the slot.
    ///
    /// # Errors
    /// When the copy failed.
    pub fn finish(mut self) -> Result<Slot, DeviceError> {
        self.wait()?;
        self.slot.take().ok_or_else(|| DeviceError::system("finishing a copy", "its slot is gone"))
    }

    fn wait(&mut self) -> Result<(), DeviceError> {
        let pending = std::mem::take(&mut self.pending);
        let Some(event) = pending.then(|| self.slot.as_ref()?.event.as_ref()).flatten() else { return Ok(()) };
        // SAFETY: the event lives as long as its slot.
        unsafe { result::event::synchronize(event.0) }
            .map_err(|e| DeviceError::cuda("waiting for a copy to the GPU", e))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        // The slot must not be freed while the GPU reads it. If waiting fails the context is broken, and no copy runs any more.
        let _ = self.wait();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_disjoint_and_copies_land_where_they_were_sent() {
        let device = Device::Host;
        let target = Arc::new(DeviceMemory::allocate(&device, 64 << 10).unwrap());
        let queue = CopyQueue::new(&device).unwrap();
        let mut slots = Staging::slots(&device, 3, 5000).unwrap();
        assert_eq!(slots[0].len(), 8192, "slots are complete pages");
        for (i, slot) in slots.iter_mut().enumerate() {
            slot.bytes_mut().fill(i as u8 + 1);
        }
        assert!(slots.iter().enumerate().all(|(i, s)| s.bytes().iter().all(|b| *b == i as u8 + 1)));
        for (i, slot) in slots.into_iter().enumerate() {
            let back = queue.copy(slot, 10, 100, &target, i as u64 * 1000).unwrap().finish().unwrap();
            assert_eq!(back.len(), 8192);
        }
        let mut seen = [0; 100];
        target.read_back(2000, &mut seen).unwrap();
        assert!(seen.iter().all(|b| *b == 3));
    }

    #[test]
    fn copies_outside_slot_or_target_are_refused() {
        let device = Device::Host;
        let target = Arc::new(DeviceMemory::allocate(&device, 4096).unwrap());
        let queue = CopyQueue::new(&device).unwrap();
        let mut slots = Staging::slots(&device, 2, 4096).unwrap();
        assert!(queue.copy(slots.pop().unwrap(), 4000, 200, &target, 0).is_err());
        assert!(queue.copy(slots.pop().unwrap(), 0, 200, &target, 4000).is_err());
    }
}
