//! The addresses of the functions that were replaced.

use crate::layout::{FUNCTION_COUNT, LIBRARIES};
use core::sync::atomic::{AtomicUsize, Ordering};

/// The original functions of each copy of libcufile. 0 if the program has not looked up the function.
pub(crate) static REAL: [[AtomicUsize; FUNCTION_COUNT]; LIBRARIES] =
    [const { [const { AtomicUsize::new(0) }; FUNCTION_COUNT] }; LIBRARIES];

/// The original function for a recording function.
pub(crate) fn real<const L: usize, const F: usize>() -> usize {
    REAL[L][F].load(Ordering::Relaxed)
}
