//! Pinned staging buffers: reads fill their slots, and queues copy the slots to the target.

use super::cuda::CudaDevice;
use super::error::DeviceError;
use super::memory::{DeviceMemory, map_huge, unmap_huge};
use super::stream::Stream;
use super::target::Device;
use crate::core::units;
use cudarc::driver::{result, sys};
use std::sync::{Arc, Mutex, PoisonError};

/// A range of host memory in huge pages, divided into [`Slot`]s. If there is a GPU, the memory is pinned.
#[derive(Debug)]
struct Pinned {
    base: *mut u8,
    len: usize,
    /// The GPU that it is pinned for. `None` for a host target, which needs no pinned memory.
    cuda: Option<Arc<CudaDevice>>,
    /// The starts of the registered ranges.
    registered: Mutex<Vec<usize>>,
}

impl Pinned {
    /// Registers `len` bytes from `start` with the driver. It does nothing for a host target. The context must be
    /// current on the calling thread.
    fn register(&self, start: *mut u8, len: usize) -> Result<(), DeviceError> {
        if self.cuda.is_none() {
            return Ok(());
        }
        // SAFETY: the range is part of this private anonymous mapping, which outlives the registration (see `drop`).
        let said = unsafe { sys::cuMemHostRegister_v2(start.cast(), len, sys::CU_MEMHOSTREGISTER_PORTABLE) };
        said.result().map_err(|e| {
            DeviceError::cuda(format!("pinning {} of staging memory", units::bytes(len as u64)), e).if_out_of_memory(
                "the host cannot pin more memory: use fewer threads, fewer slots or smaller blocks (--set slots=1)",
            )
        })?;
        self.registered.lock().unwrap_or_else(PoisonError::into_inner).push(start as usize);
        Ok(())
    }
}

// SAFETY: the memory is accessed only through slots, which are exclusive ranges of it.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(cuda) = &self.cuda
            && cuda.bind().is_ok()
        {
            for start in self.registered.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
                // SAFETY: it was registered once, in `register`. Every slot holds an Arc of this value, so no copy is
                // in flight.
                let _ = unsafe { sys::cuMemHostUnregister(start as *mut std::ffi::c_void) };
            }
        }
        // SAFETY: `map_huge` returned it for this length, and there are no slots any more.
        unsafe { unmap_huge(self.base, self.len) };
    }
}

/// Creates slots. Each worker thread has its own staging, so that pinning is parallel and the pages are on the
/// worker's NUMA node.
#[derive(Debug)]
pub struct Staging;

/// An exclusive range of pinned memory.
#[derive(Debug)]
pub struct Slot {
    base: *mut u8,
    len: usize,
    is_pinned: bool,
    /// Marks the end of the slot's last copy. It is created once, because creating and destroying an event needs the
    /// driver lock that all copying threads use.
    event: Option<Event>,
    pinned: Arc<Pinned>,
}

/// A CUDA event without timing.
#[derive(Debug)]
struct Event(sys::CUevent);

// SAFETY: every thread with the current context can record and wait for a CUevent.
unsafe impl Send for Event {}

impl Event {
    fn new() -> Result<Self, result::DriverError> {
        result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map(Self)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it was created in `new` and is destroyed once. CUDA keeps the data of a pending event. Without a
        // current context the call fails, and the event is destroyed with its context.
        let _ = unsafe { result::event::destroy(self.0) };
    }
}

// SAFETY: the slot is the only access to its range, like a `Box<[u8]>`.
unsafe impl Send for Slot {}
// SAFETY: a shared slot only allows its bytes to be read. Only the copy that owns the slot uses its event.
unsafe impl Sync for Slot {}

impl Staging {
    /// Maps, touches and pins `count` slots of `slot_bytes` each in one mapping.
    ///
    /// # Errors
    /// If memory cannot be mapped or pinned.
    pub fn slots(device: &Device, count: usize, slot_bytes: usize) -> Result<Vec<Slot>, DeviceError> {
        let mut slots = Self::unpinned(device, count, slot_bytes)?;
        Self::pin(&mut slots)?;
        Ok(slots)
    }

    /// Touches and pins slots of [`Self::unpinned`]. Adjacent slots are pinned together. Returns the bytes that this
    /// call pinned. The context must be current.
    ///
    /// # Errors
    /// If the host cannot pin more memory.
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
            // The thread that will use the pages touches them before they are pinned, because pinning faults pages
            // one by one under a lock.
            run.iter_mut().for_each(|slot| slot.bytes_mut().iter_mut().step_by(4096).for_each(|byte| *byte = 0));
            mapping.register(start, len)?;
            run.iter_mut().for_each(|slot| slot.is_pinned = true);
            pinned += if mapping.cuda.is_some() { len } else { 0 };
        }
        Ok(pinned)
    }

    /// Maps `count` slots of `slot_bytes` each. A read can fill a slot before [`Slot::pin`], which touches its pages.
    /// So one thread can pin while others read.
    ///
    /// # Errors
    /// If memory cannot be mapped.
    pub fn unpinned(device: &Device, count: usize, slot_bytes: usize) -> Result<Vec<Slot>, DeviceError> {
        let slot_bytes = slot_bytes.next_multiple_of(4096);
        let len = count.checked_mul(slot_bytes).filter(|len| *len > 0).ok_or_else(|| {
            DeviceError::system("making staging memory", "the size is zero or exceeds the address space")
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
    /// The bytes of the slot.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        // SAFETY: this is an exclusive range of an existing mapping. Anonymous pages that were never written contain
        // zeros.
        unsafe { std::slice::from_raw_parts(self.base, self.len) }
    }

    /// The bytes of the slot, for writing.
    pub const fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.len) }
    }

    /// The length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Always false, because a slot has at least one page.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the GPU can read it without a further copy.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.is_pinned && self.pinned.cuda.is_some()
    }

    /// Pins a slot of [`Staging::unpinned`] for the GPU if it is not pinned yet. Returns the bytes that this call
    /// pinned. The context must be current.
    ///
    /// # Errors
    /// If the host cannot pin more memory.
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

/// A queue of copies from slots to the target. It is a CUDA stream for a GPU. For a host target, copies are made
/// immediately.
#[derive(Debug)]
pub struct CopyQueue(pub(super) Option<Stream>);

/// A slot that is being copied to the target.
#[derive(Debug)]
pub struct InFlight {
    slot: Option<Slot>,
    /// Whether the event of the slot marks an active copy.
    pending: bool,
}

impl CopyQueue {
    /// Opens a queue.
    ///
    /// # Errors
    /// If CUDA cannot create a stream.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Stream::open(device).map(Self)
    }

    /// Starts a copy of `len` bytes from offset `from` in the slot to `offset` in the target. [`InFlight::finish`]
    /// returns the slot.
    ///
    /// # Errors
    /// If the range is outside of the slot or the target, or if CUDA reports an error. The slot is then freed.
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
        // SAFETY: the source and target ranges were checked. The source is not changed, because `InFlight` owns the
        // slot until the event after the copy has completed. The target outlives the copy, because engines
        // synchronize before they drop it, and `InFlight::drop` waits.
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
    /// If a copy failed.
    pub fn drain(&self) -> Result<(), DeviceError> {
        self.0.as_ref().map_or(Ok(()), |stream| stream.synchronize("waiting for copies to the GPU"))
    }
}

impl InFlight {
    /// Whether the copy has finished.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let Some(event) = self.pending.then(|| self.slot.as_ref()?.event.as_ref()).flatten() else { return true };
        // SAFETY: the event exists as long as its slot.
        unsafe { result::event::query(event.0) }.is_ok()
    }

    /// Waits for the copy and returns the slot.
    ///
    /// # Errors
    /// If the copy failed.
    pub fn finish(mut self) -> Result<Slot, DeviceError> {
        self.wait()?;
        self.slot.take().ok_or_else(|| DeviceError::system("finishing a copy", "its slot was already returned"))
    }

    fn wait(&mut self) -> Result<(), DeviceError> {
        let pending = std::mem::take(&mut self.pending);
        let Some(event) = pending.then(|| self.slot.as_ref()?.event.as_ref()).flatten() else { return Ok(()) };
        // SAFETY: the event exists as long as its slot.
        unsafe { result::event::synchronize(event.0) }
            .map_err(|e| DeviceError::cuda("waiting for a copy to the GPU", e))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        // The slot must not be freed while the GPU reads it. If the wait fails, the context is broken and no copy is
        // active any more.
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
