//! The functions that were replaced.

use crate::layout::{FUNCTION_COUNT, LIBRARIES};
use core::sync::atomic::{AtomicUsize, Ordering};

/// The original functions of each copy of libcufile. 0 if the program has not looked up the function.
pub(crate) static REAL: [[AtomicUsize; FUNCTION_COUNT]; LIBRARIES] =
    [const { [const { AtomicUsize::new(0) }; FUNCTION_COUNT] }; LIBRARIES];

/// The original function for a recording function.
pub(crate) fn real<const L: usize, const F: usize>() -> usize {
    REAL[L][F].load(Ordering::Relaxed)
}

/// Calls the function at an address.
///
/// # Safety
/// It must have at most six arguments in registers, and the arguments must be valid for it.
pub(crate) unsafe fn call(function: usize, [a, b, c, d, e, f]: [usize; 6]) -> usize {
    // SAFETY: the conditions of this function.
    unsafe {
        let function: unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> usize =
            core::mem::transmute::<usize, _>(function);
        function(a, b, c, d, e, f)
    }
}
