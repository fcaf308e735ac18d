//! Scatter and gather: many small copies between two allocations of one device, handed to the device together.

use super::error::DeviceError;
use super::memory::DeviceMemory;
use super::staging::CopyQueue;
use crate::core::units;
use cudarc::driver::result;

/// One copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Offset in the memory that is read.
    pub from: u64,
    /// Offset in the memory that is written.
    pub to: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl CopyQueue {
    /// Makes all the copies, from one allocation into another, and waits for them.
    ///
    /// # Errors
    /// If a range is outside its allocation, one is on a GPU and the other on the host, or CUDA returns an error.
    pub fn copy_pieces(&self, from: &DeviceMemory, to: &DeviceMemory, pieces: &[Piece]) -> Result<(), DeviceError> {
        let total = pieces.iter().fold(0_u64, |sum, piece| sum.saturating_add(piece.bytes));
        let doing = |what: &str| format!("{what} {} copies of {} together", pieces.len(), units::bytes(total));
        if from.is_host() != to.is_host() || from.is_host() != self.0.is_none() {
            return Err(DeviceError::system(doing("starting"), "source, target and queue are not of one device"));
        }
        if from.base == to.base {
            return Err(DeviceError::system(
                doing("starting"),
                "source and target are one allocation, and might overlap",
            ));
        }
        // All ranges are checked before the first copy is queued, because no copy may run after an error is returned.
        let checked = pieces
            .iter()
            .map(|piece| {
                let length = usize::try_from(piece.bytes)
                    .map_err(|_| DeviceError::system(doing("starting"), "a length is beyond the address space"))?;
                Ok((from.check(piece.from, length)?, to.check(piece.to, length)?, length))
            })
            .collect::<Result<Vec<_>, DeviceError>>()?;
        for (source, target, length) in checked {
            if let Some(stream) = &self.0 {
                // SAFETY: both ranges were checked to lie inside live allocations, which the borrows keep until the wait below.
                let started = unsafe { result::memcpy_dtod_async(target, source, length, stream.raw()) };
                if let Err(error) = started {
                    // Copies that were queued before must end before the caller may free memory.
                    let _ = self.drain();
                    return Err(DeviceError::cuda(doing("starting"), error));
                }
            } else {
                // SAFETY: checked ranges of two different allocations, so they do not overlap; no reference to their bytes is ever given out.
                unsafe { std::ptr::copy_nonoverlapping(source as *const u8, target as *mut u8, length) };
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
}
