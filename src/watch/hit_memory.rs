//! Reads memory to which the arguments of a probed call point.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The memory of the thread that caused a hit.
pub(super) struct Memory<'a> {
    pub(super) process: u32,
    pub(super) stack_pointer: u64,
    pub(super) stack: &'a [u8],
    /// Whether bytes were read from the current memory, which can differ from the memory at the time of the hit.
    pub(super) used_current: Cell<bool>,
}

impl Memory<'_> {
    /// Reads bytes at an address: from the stack at the time of the hit, or else from the current memory.
    fn read(&self, address: u64, out: &mut [u8]) -> bool {
        let inside = address.checked_sub(self.stack_pointer).and_then(|at| usize::try_from(at).ok());
        if let Some(bytes) = inside.and_then(|at| self.stack.get(at..at.checked_add(out.len())?)) {
            out.copy_from_slice(bytes);
            return true;
        }
        self.used_current.set(true);
        address != 0
            && File::open(format!("/proc/{}/mem", self.process))
                .and_then(|memory| memory.read_exact_at(out, address))
                .is_ok()
    }

    pub(super) fn word(&self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        if self.read(address, &mut bytes) { u64::from_ne_bytes(bytes) } else { 0 }
    }

    pub(super) fn half(&self, address: u64) -> u32 {
        let mut bytes = [0; 4];
        if self.read(address, &mut bytes) { u32::from_ne_bytes(bytes) } else { 0 }
    }

    /// The type and the descriptor in a `CUfileDescr_t`, or zeros if it cannot be read.
    pub(super) fn description(&self, address: u64) -> [u32; 2] {
        let mut bytes = [0; 12];
        if !self.read(address, &mut bytes) {
            return [0; 2];
        }
        let [a, b, c, d, .., e, f, g, h] = bytes;
        [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
    }

    pub(super) fn words(&self, address: u64, count: u64) -> Vec<u64> {
        let mut bytes = vec![0; count as usize * 8];
        if !self.read(address, &mut bytes) {
            return Vec::new();
        }
        bytes.chunks_exact(8).map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))).collect()
    }
}
