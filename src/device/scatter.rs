//! Scatter and gather: many small copies between two allocations of a device in one batch.

use super::error::DeviceError;
use super::memory::DeviceMemory;
use super::staging::{CopyQueue, Slot};
use crate::core::units;
use cudarc::driver::result;

/// One copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The offset in the source memory.
    pub from: u64,
    /// The offset in the target memory.
    pub to: u64,
    /// The length in bytes.
    pub bytes: u64,
}

impl CopyQueue {
    /// Makes all copies from one allocation to another and waits for them.
    ///
    /// # Errors
    /// If a range is outside of its allocation, if one allocation is on a GPU and the other on the host, or if CUDA
    /// reports an error.
    pub fn copy_pieces(&self, from: &DeviceMemory, to: &DeviceMemory, pieces: &[Piece]) -> Result<(), DeviceError> {
        let total = pieces.iter().fold(0_u64, |sum, piece| sum.saturating_add(piece.bytes));
        let doing = |what: &str| format!("{what} {} copies of {} together", pieces.len(), units::bytes(total));
        if from.is_host() != to.is_host() || from.is_host() != self.0.is_none() {
            return Err(DeviceError::system(doing("starting"), "source, target and queue belong to different devices"));
        }
        if from.base == to.base {
            return Err(DeviceError::system(
                doing("starting"),
                "source and target are one allocation, and might overlap",
            ));
        }
        // All ranges are checked before the first copy is queued, because no copy may be active after an error is
        // returned.
        let checked = pieces
            .iter()
            .map(|piece| {
                let length = usize::try_from(piece.bytes)
                    .map_err(|_| DeviceError::system(doing("starting"), "a length exceeds the address space"))?;
                Ok((from.check(piece.from, length)?, to.check(piece.to, length)?, length))
            })
            .collect::<Result<Vec<_>, DeviceError>>()?;
        for (source, target, length) in checked {
            if let Some(stream) = &self.0 {
                // SAFETY: both ranges were checked to be inside existing allocations. The borrows keep the
                // allocations until the wait below.
                let started = unsafe { result::memcpy_dtod_async(target, source, length, stream.raw()) };
                if let Err(error) = started {
                    // The copies that are already queued must end before the caller frees the memory.
                    let _ = self.drain();
                    return Err(DeviceError::cuda(doing("starting"), error));
                }
            } else {
                // SAFETY: the ranges were checked and belong to two different allocations, so they do not overlap.
                // There are no references to their bytes.
                unsafe { std::ptr::copy_nonoverlapping(source as *const u8, target as *mut u8, length) };
            }
        }
        self.drain()
    }
}

/// Checks the host range of each piece against the slot and its device range against the allocation. Returns (host
/// offset, device address, length).
fn checked_pieces(
    slot: &Slot,
    memory: &DeviceMemory,
    pieces: &[Piece],
) -> Result<Vec<(usize, u64, usize)>, DeviceError> {
    pieces
        .iter()
        .map(|piece| {
            let end = piece.from.checked_add(piece.bytes).filter(|end| *end <= slot.len() as u64);
            if end.is_none() {
                let doing = format!("copying {} of staging", units::bytes(piece.bytes));
                return Err(DeviceError::system(doing, "the range is outside the slot"));
            }
            let length = piece.bytes as usize;
            Ok((piece.from as usize, memory.check(piece.to, length)?, length))
        })
        .collect()
}

impl CopyQueue {
    /// Copies pieces of a slot to the target in one batch and waits for them. `from` is the offset in the slot.
    ///
    /// # Errors
    /// If a range is outside of the slot or the target, or if CUDA reports an error.
    pub fn scatter_pieces(&self, slot: &Slot, to: &DeviceMemory, pieces: &[Piece]) -> Result<(), DeviceError> {
        let checked = checked_pieces(slot, to, pieces)?;
        let Some(stream) = &self.0 else {
            return pieces.iter().try_for_each(|piece| {
                to.write_pageable(piece.to, &slot.bytes()[piece.from as usize..(piece.from + piece.bytes) as usize])
            });
        };
        for (from, target, length) in checked {
            // SAFETY: the ranges were checked. Slot and target are borrowed until the wait below, also after an
            // error.
            let started =
                unsafe { result::memcpy_htod_async(target, &slot.bytes()[from..from + length], stream.raw()) };
            if let Err(error) = started {
                let _ = self.drain();
                return Err(DeviceError::cuda("starting a batch of copies to the GPU", error));
            }
        }
        self.drain()
    }

    /// Copies pieces of the target into a slot in one batch and waits for them. `from` is the offset in the slot.
    ///
    /// # Errors
    /// If a range is outside of the slot or the target, or if CUDA reports an error.
    pub fn gather_pieces(&self, from: &DeviceMemory, slot: &mut Slot, pieces: &[Piece]) -> Result<(), DeviceError> {
        let checked = checked_pieces(slot, from, pieces)?;
        let Some(stream) = &self.0 else {
            return pieces.iter().try_for_each(|piece| {
                let range = piece.from as usize..(piece.from + piece.bytes) as usize;
                from.read_back(piece.to, &mut slot.bytes_mut()[range])
            });
        };
        for (to, source, length) in checked {
            let range = &mut slot.bytes_mut()[to..to + length];
            // SAFETY: the ranges were checked. Slot and target are borrowed until the wait below, also after an
            // error. The pieces of a slot are disjoint, because each is a different part of one file.
            let started = unsafe { result::memcpy_dtoh_async(range, source, stream.raw()) };
            if let Err(error) = started {
                let _ = self.drain();
                return Err(DeviceError::cuda("starting a batch of copies from the GPU", error));
            }
        }
        self.drain()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::device::Device;

    #[test]
    fn pieces_land_where_they_are_sent_and_ranges_are_checked() {
        let device = Device::Host;
        let from = DeviceMemory::allocate(&device, 8192).unwrap();
        let to = DeviceMemory::allocate(&device, 8192).unwrap();
        let queue = CopyQueue::new(&device).unwrap();
        from.write_pageable(0, &[1, 2, 3, 4]).unwrap();
        let pieces = [Piece { from: 0, to: 100, bytes: 2 }, Piece { from: 2, to: 10, bytes: 2 }];
        queue.copy_pieces(&from, &to, &pieces).unwrap();
        let mut back = [0; 2];
        to.read_back(100, &mut back).unwrap();
        assert_eq!(back, [1, 2]);
        to.read_back(10, &mut back).unwrap();
        assert_eq!(back, [3, 4]);
        assert!(queue.copy_pieces(&from, &to, &[Piece { from: 8191, to: 0, bytes: 2 }]).is_err());
        assert!(queue.copy_pieces(&from, &to, &[Piece { from: 0, to: u64::MAX, bytes: 2 }]).is_err());
        assert!(queue.copy_pieces(&from, &from, &pieces).is_err());
    }

    #[test]
    fn a_slot_is_scattered_and_gathered_and_ranges_are_checked() {
        let device = Device::Host;
        let memory = DeviceMemory::allocate(&device, 8192).unwrap();
        let queue = CopyQueue::new(&device).unwrap();
        let mut slot = crate::device::Staging::slots(&device, 1, 4096).unwrap().pop().unwrap();
        slot.bytes_mut()[..4].copy_from_slice(&[1, 2, 3, 4]);
        let pieces = [Piece { from: 0, to: 5000, bytes: 2 }, Piece { from: 2, to: 10, bytes: 2 }];
        queue.scatter_pieces(&slot, &memory, &pieces).unwrap();
        slot.bytes_mut()[..4].fill(0);
        queue.gather_pieces(&memory, &mut slot, &pieces).unwrap();
        assert_eq!(slot.bytes()[..4], [1, 2, 3, 4]);
        let mut back = [0; 2];
        memory.read_back(10, &mut back).unwrap();
        assert_eq!(back, [3, 4]);
        for wrong in [Piece { from: 4095, to: 0, bytes: 2 }, Piece { from: 0, to: 8191, bytes: 2 }] {
            assert!(queue.scatter_pieces(&slot, &memory, &[wrong]).is_err());
            assert!(queue.gather_pieces(&memory, &mut slot, &[wrong]).is_err());
        }
    }
}
