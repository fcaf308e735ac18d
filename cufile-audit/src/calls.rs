//! The functions that the program calls in place of libcufile's functions. Each calls the original function and
//! records the call.

use crate::capture;
use crate::layout::{FUNCTION_COUNT, FUNCTIONS, Function, LIBRARIES, RECORDED_BYTES, for_each_function};
use crate::originals::{REAL, call, real};
use crate::{aio, children, filter, lists, mappings, names, plain, rings, statistics, system, uring};
use core::ffi::{CStr, c_char};
use core::sync::atomic::Ordering;

/// Like [`redirect`], for a function of libc or libcuda. It can have several original functions: for several link
/// namespaces, or for per-thread streams.
pub(crate) fn redirect_plain(function: usize, real: usize) -> Option<usize> {
    for (library, functions) in REAL.iter().enumerate() {
        let slot = functions.get(function)?;
        // The linker also calls this for an address that was already replaced.
        if replacement(library, function) == Some(real) {
            return Some(real);
        }
        match slot.compare_exchange(0, real, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return replacement(library, function),
            Err(known) if known == real => return replacement(library, function),
            Err(_) => {}
        }
    }
    None
}

/// Replaces the original function by a recording function and returns the address of the latter. `None` if there is
/// no recording function.
pub(crate) fn redirect(library: usize, function: usize, real: usize) -> Option<usize> {
    let replacement = replacement(library, function)?;
    // A second lookup may pass the replacement, because the linker also calls this for an address that was already
    // replaced.
    if real != replacement {
        REAL.get(library)?.get(function)?.store(real, Ordering::Release);
    }
    Some(replacement)
}

macro_rules! replacements {
    ($($name:ident)*) => {
        /// The recording function for a function of a copy of libcufile.
        fn replacement(library: usize, function: usize) -> Option<usize> {
            $(const { assert!((Function::$name as usize) < FUNCTION_COUNT) };)*
            match function {
                $(function if function == Function::$name as usize => of::<{ Function::$name as usize }>(library),)*
                _ => None,
            }
        }
    };
}
for_each_function!(replacements);

fn of<const F: usize>(library: usize) -> Option<usize> {
    if F >= Function::LibcRead as usize {
        return plain_replacement::<F>(library);
    }
    // Together with the stream, these two functions have one argument more than there are argument registers on
    // x86-64.
    let more = F == Function::ReadAsync as usize || F == Function::WriteAsync as usize;
    Some(match (library, more) {
        (0, false) => six::<0, F> as *const () as usize,
        (1, false) => six::<1, F> as *const () as usize,
        (2, false) => six::<2, F> as *const () as usize,
        (3, false) => six::<3, F> as *const () as usize,
        (0, true) => seven::<0, F> as *const () as usize,
        (1, true) => seven::<1, F> as *const () as usize,
        (2, true) => seven::<2, F> as *const () as usize,
        (3, true) => seven::<3, F> as *const () as usize,
        _ => return None,
    })
}

// All arguments and results in cufile.h are integers, booleans, pointers, or a structure of eight bytes. Both ABIs
// (x86-64 System V and AAPCS64) pass them in the same registers as `usize`, so one function works for all of them.
// Unused registers are passed on without being read.

/// Whether a function opens the driver, or opens it if it is not open.
const fn opens_driver(function: usize) -> bool {
    function == Function::DriverOpen as usize
        || function == Function::DriverGetProperties as usize
        || function == Function::HandleRegister as usize
        || function == Function::BufRegister as usize
        || function == Function::BatchSetUp as usize
        || function == Function::StreamRegister as usize
}

unsafe extern "C" fn six<const L: usize, const F: usize>(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> usize {
    let real = REAL[L][F].load(Ordering::Relaxed);
    if rings::is_paused() {
        // SAFETY: `redirect` stored the original function of this name before it returned this function.
        return unsafe { call(real, [a, b, c, d, e, f]) };
    }
    if opens_driver(F) {
        capture::record_settings(L, F == Function::DriverOpen as usize);
    }
    let must_enable = opens_driver(F) && statistics::must_enable(L, F == Function::DriverOpen as usize);
    if must_enable {
        statistics::before_open(L);
    }
    if F == Function::DriverClose as usize || F == Function::DriverCloseV2 as usize {
        statistics::read_last(L);
    }
    let before = capture::begin::<F>(0);
    // SAFETY: as above.
    let result = unsafe { call(real, [a, b, c, d, e, f]) };
    // SAFETY: the arguments belong to a call of this function that has returned.
    unsafe { capture::record::<F>(L, &[a, b, c, d, e, f, 0], result, &before, system::now_ns()) };
    if must_enable && result as u32 == 0 {
        statistics::after_open(L);
    }
    if F == Function::Read as usize || F == Function::Write as usize || F == Function::BatchGetStatus as usize {
        statistics::read(L, statistics::BETWEEN_NS);
    }
    // Many programs end without closing the driver, but they deregister files and buffers.
    if F == Function::HandleDeregister as usize || F == Function::BufDeregister as usize {
        statistics::read(L, 0);
    }
    result
}

unsafe extern "C" fn seven<const L: usize, const F: usize>(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
    g: usize,
) -> usize {
    let real = REAL[L][F].load(Ordering::Relaxed);
    let is_paused = rings::is_paused();
    // SAFETY: the sixth argument is the `ssize_t *` of the result. It must be valid until the transfer has ended.
    let transferred = if is_paused { 0 } else { unsafe { capture::read_word(f) } };
    let before = (!is_paused).then(|| capture::begin::<F>(transferred));
    // SAFETY: as in `six`, with seven arguments.
    let result = unsafe {
        let real: unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize) -> usize =
            core::mem::transmute::<usize, _>(real);
        real(a, b, c, d, e, f, g)
    };
    let Some(before) = before else { return result };
    // SAFETY: the arguments belong to a call of this function that has returned.
    unsafe { capture::record::<F>(L, &[a, b, c, d, e, f, g], result, &before, system::now_ns()) };
    statistics::read(L, statistics::BETWEEN_NS);
    result
}

/// Executable mappings are programs and libraries.
const PROT_EXEC: usize = 4;

fn plain_replacement<const F: usize>(variant: usize) -> Option<usize> {
    const { assert!(LIBRARIES == 4) };
    if Function::ALL[F].has_list() {
        return Some(match variant {
            0 => lists::replacement::<0, F> as *const () as usize,
            1 => lists::replacement::<1, F> as *const () as usize,
            2 => lists::replacement::<2, F> as *const () as usize,
            3 => lists::replacement::<3, F> as *const () as usize,
            _ => return None,
        });
    }
    if Function::ALL[F].starts_program() {
        return Some(match variant {
            0 => starter::<0, F> as *const () as usize,
            1 => starter::<1, F> as *const () as usize,
            2 => starter::<2, F> as *const () as usize,
            3 => starter::<3, F> as *const () as usize,
            _ => return None,
        });
    }
    if F == Function::CudaCopyBatch as usize {
        return Some(match variant {
            0 => batch::<0, F> as *const () as usize,
            1 => batch::<1, F> as *const () as usize,
            2 => batch::<2, F> as *const () as usize,
            3 => batch::<3, F> as *const () as usize,
            _ => return None,
        });
    }
    Some(match variant {
        0 => plain_six::<0, F> as *const () as usize,
        1 => plain_six::<1, F> as *const () as usize,
        2 => plain_six::<2, F> as *const () as usize,
        3 => plain_six::<3, F> as *const () as usize,
        _ => return None,
    })
}

/// A function of libc, libaio or libcuda with at most six integers or pointers.
unsafe extern "C" fn plain_six<const V: usize, const F: usize>(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> usize {
    let is = |function: Function| F == function as usize;
    let may_be_large = if is(Function::LibcRead)
        || is(Function::LibcReadChecked)
        || is(Function::LibcPread)
        || is(Function::LibcPread64)
        || is(Function::LibcPreadChecked)
        || is(Function::LibcPread64Checked)
    {
        c as u64 >= RECORDED_BYTES
    } else if is(Function::LibcMmap) || is(Function::LibcMmap64) {
        b as u64 >= RECORDED_BYTES && (e as i32) >= 0 && c & PROT_EXEC == 0
    } else {
        !is(Function::CudaGetAddress)
            && !is(Function::LibcMunmap)
            && !is(Function::LibcExit)
            && !is(Function::LibcPrctl)
    };
    if is(Function::LibcMunmap) {
        mappings::unmap(a, b);
    } else if is(Function::LibcExit) {
        statistics::at_end();
        mappings::end();
        uring::end();
    } else if is(Function::LibcPrctl) {
        filter::before_prctl(a);
    }
    // Other calls do not touch the shared file: if the program truncated it, they must not end the program.
    // The record of a copy needs no system call.
    let may_record = || F >= Function::CudaHtoD as usize || !system::is_filtered();
    let is_recorded = may_be_large && !rings::is_paused() && may_record();
    let submission = if is(Function::AioSubmit) && is_recorded { aio::reads(c, 0, b) } else { aio::Reads::default() };
    let start_ns = if is_recorded { system::now_ns() } else { 0 };
    // SAFETY: `redirect_plain` stored the original function of this name before it returned this function.
    let result = unsafe { call(real::<V, F>(), [a, b, c, d, e, f]) };
    if is(Function::CudaGetAddress) {
        if result as u32 == 0 {
            // SAFETY: the call succeeded, so its arguments are a name and the location of an address.
            unsafe { replace(a as *const c_char, b as *mut usize) };
        }
    } else if is_recorded {
        let times = [start_ns, system::now_ns()];
        if F >= Function::CudaHtoD as usize {
            // SAFETY: the arguments belong to a copy that has returned.
            unsafe { plain::record_copy::<F>([a, b, c, d], result, times) };
        } else if is(Function::AioSubmit) {
            aio::record([c, b], submission, result, times);
        } else if is(Function::LibcMmap) || is(Function::LibcMmap64) {
            plain::record_mapping::<F>(result, b, c, e, f, times);
        } else {
            plain::record_read::<F>([a, b, c, d], result, times);
        }
    }
    result
}

/// A function that starts a program.
unsafe extern "C" fn starter<const V: usize, const F: usize>(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> usize {
    // SAFETY: `redirect_plain` stored the original function of this name before it returned this function.
    unsafe { children::start::<F>(real::<V, F>(), [a, b, c, d, e, f]) }
}

/// `cuMemcpyBatchAsync`. It has nine arguments, and eight since CUDA 13. The ninth is then a word of the caller's stack
/// that is passed on without being used.
#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn batch<const V: usize, const F: usize>(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
    g: usize,
    h: usize,
    i: usize,
) -> usize {
    let is_paused = rings::is_paused();
    let start_ns = if is_paused { 0 } else { system::now_ns() };
    // SAFETY: as in `plain_six`, with nine arguments.
    let result = unsafe {
        let real: unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize, usize) -> usize =
            core::mem::transmute::<usize, _>(real::<V, F>());
        real(a, b, c, d, e, f, g, h, i)
    };
    if !is_paused {
        // SAFETY: the arguments belong to a copy that has returned.
        unsafe { plain::record_copy::<F>([a, b, c, d], result, [start_ns, system::now_ns()]) };
    }
    result
}

/// Replaces an address that `cuGetProcAddress` returned.
///
/// # Safety
/// `name` must be a C string, and `place` must hold an address.
unsafe fn replace(name: *const c_char, place: *mut usize) {
    if name.is_null() || place.is_null() {
        return;
    }
    // SAFETY: the conditions of this function.
    unsafe {
        let number = names::plain_function(CStr::from_ptr(name).to_bytes());
        if let Some(other) = number.filter(|_| *place != 0).and_then(|number| redirect_plain(number, *place)) {
            *place = other;
        }
    }
}

const _: () = assert!(Function::CudaGetAddress as usize + 1 == FUNCTIONS.len());
