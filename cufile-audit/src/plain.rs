//! The other half: large reads and mappings of files by libc, and copies by libcuda.

use crate::calls::{real, redirect_plain};
use crate::layout::{FUNCTIONS, Function, LIBRARIES, RECORDED_BYTES, Record, kind};
use crate::rings::Writer;
use crate::{audit, system};
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicU64, Ordering};

/// Files whose path was recorded: a hash of process, device and inode. If there are more, some paths are recorded again.
const FILES: usize = 1024;
static KNOWN: [AtomicU64; FILES] = [const { AtomicU64::new(0) }; FILES];
/// Pieces of one vectored read that are added up; the kernel takes no more.
const PIECES: usize = 1024;
/// Executable mappings are programs and libraries.
const PROT_EXEC: usize = 4;

pub(crate) fn replacement<const F: usize>(variant: usize) -> Option<usize> {
    const { assert!(LIBRARIES == 4) };
    Some(match variant {
        0 => six::<0, F> as *const () as usize,
        1 => six::<1, F> as *const () as usize,
        2 => six::<2, F> as *const () as usize,
        3 => six::<3, F> as *const () as usize,
        _ => return None,
    })
}

/// All these functions have six integers or pointers at most, see `calls.rs`.
unsafe extern "C" fn six<const V: usize, const F: usize>(
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
    };
    let start_ns = if may_be_large { system::now_ns() } else { 0 };
    // SAFETY: `redirect_plain` stored the real function of this name before it gave out this one. It takes at most six arguments in registers.
    let result = unsafe {
        let real: unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> usize =
            core::mem::transmute::<usize, _>(real::<V, F>());
        real(a, b, c, d, e, f)
    };
    if is(Function::CudaGetAddress) {
        if result as u32 == 0 {
            // SAFETY: the call succeeded, so its arguments are a name and a place for an address.
            unsafe { replace(a as *const c_char, b as *mut usize) };
        }
    } else if may_be_large {
        let times = [start_ns, system::now_ns()];
        if F >= Function::CudaHtoD as usize {
            record_copy::<F>([a, b, c, d], result, times);
        } else if is(Function::LibcMmap) || is(Function::LibcMmap64) {
            record_mapping::<F>(result, b, c, e, f, times);
        } else {
            record_read::<F>([a, b, c, d], result, times);
        }
    }
    result
}

/// Replaces an address that `cuGetProcAddress` gave out.
///
/// # Safety
/// `name` is a C string, `place` has an address.
unsafe fn replace(name: *const c_char, place: *mut usize) {
    if name.is_null() || place.is_null() {
        return;
    }
    // SAFETY: by the conditions of this function.
    unsafe {
        let number = audit::plain_function(CStr::from_ptr(name).to_bytes());
        if let Some(other) = number.filter(|_| *place != 0).and_then(|number| redirect_plain(number, *place)) {
            *place = other;
        }
    }
}

/// A copy is counted; a large one is also recorded.
fn record_copy<const F: usize>([a, b, c, d]: [usize; 4], result: usize, [start_ns, end_ns]: [u64; 2]) {
    let Some(mut writer) = Writer::take() else { return };
    let failed = result as u32 != 0;
    if c as u64 >= RECORDED_BYTES && writer.has_room(1) {
        writer.put(&Record {
            head: Record::head(F as u16, 0, 0),
            start_ns,
            end_ns,
            object: d as u64,
            size: c as u64,
            base: a as u64,
            base_offset: b as u64,
            result: result as u64,
            ..Record::default()
        });
        writer.publish();
    }
    writer.add_total(F, failed, if failed { 0 } else { c as u64 }, end_ns.saturating_sub(start_ns));
}

/// A read of a regular file, if it was large.
fn record_read<const F: usize>([a, b, c, d]: [usize; 4], result: usize, [start_ns, end_ns]: [u64; 2]) {
    let is = |function: Function| F == function as usize;
    let vectored = is(Function::LibcReadv)
        || is(Function::LibcPreadv)
        || is(Function::LibcPreadv64)
        || is(Function::LibcPreadv2)
        || is(Function::LibcPreadv64V2);
    let asked = if vectored {
        // SAFETY: the call has returned, so `b` are `c` pieces of an address and a length, or it failed and they are not read.
        let pieces = if (result as isize) < 0 || b == 0 { 0 } else { c.min(PIECES) };
        (0..pieces).fold(0_u64, |sum, piece| {
            // SAFETY: as above.
            sum.wrapping_add(unsafe { crate::capture::read_word(b + piece * 16 + 8) })
        })
    } else {
        c as u64
    };
    let failed = (result as isize) < 0;
    if !failed && (result as u64) < RECORDED_BYTES {
        return;
    }
    let moves_position = is(Function::LibcRead) || is(Function::LibcReadChecked) || is(Function::LibcReadv);
    let Some(file) = system::regular_file(a as i32) else { return };
    let Some(mut writer) = Writer::take() else { return };
    let offset = if moves_position {
        system::position(a as i32).saturating_sub(if failed { 0 } else { result as u64 })
    } else {
        d as u64
    };
    introduce(&mut writer, a as i32, file, start_ns);
    if writer.has_room(1) {
        writer.put(&Record {
            head: Record::head(F as u16, 0, 0),
            start_ns,
            end_ns,
            object: a as u64,
            offset,
            size: asked,
            base: b as u64,
            result: result as u64,
            extra: [file[0], file[1], 0, 0, 0, 0, 0],
            ..Record::default()
        });
        writer.publish();
    }
    let bytes = if failed { 0 } else { result as u64 };
    writer.add_total(F, failed, bytes, end_ns.saturating_sub(start_ns));
}

/// A mapping of a regular file.
fn record_mapping<const F: usize>(
    result: usize,
    length: usize,
    protection: usize,
    fd: usize,
    offset: usize,
    [start_ns, end_ns]: [u64; 2],
) {
    if result == usize::MAX {
        return;
    }
    let Some(file) = system::regular_file(fd as i32) else { return };
    let Some(mut writer) = Writer::take() else { return };
    introduce(&mut writer, fd as i32, file, start_ns);
    if writer.has_room(1) {
        writer.put(&Record {
            head: Record::head(F as u16, 0, 0),
            start_ns,
            end_ns,
            object: fd as u64,
            offset: offset as u64,
            size: length as u64,
            base: result as u64,
            result: result as u64,
            extra: [file[0], file[1], protection as u64, 0, 0, 0, 0],
            ..Record::default()
        });
        writer.publish();
    }
    writer.add_total(F, false, length as u64, end_ns.saturating_sub(start_ns));
}

/// Records the path of a file, once for each process. The record has the time of the call, so that it comes before it in the order of time.
fn introduce(writer: &mut Writer, fd: i32, [device, inode]: [u64; 2], start_ns: u64) {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    // 0 is a free place.
    let hash = mix(mix(mix(0, writer.process()), device), inode) | 1;
    if KNOWN.get(hash as usize >> 1 & (FILES - 1)).is_some_and(|slot| slot.swap(hash, Ordering::Relaxed) == hash) {
        return;
    }
    record_file(writer, fd, [device, inode], start_ns);
}

#[inline(never)]
#[cold]
fn record_file(writer: &mut Writer, fd: i32, [device, inode]: [u64; 2], start_ns: u64) {
    let mut room = [0; 1024];
    let length = system::path_of_descriptor(fd, &mut room);
    let record = Record {
        start_ns,
        end_ns: start_ns,
        object: u64::from(fd.cast_unsigned()),
        extra: [device, inode, system::flags_of_descriptor(fd), 0, 0, 0, 0],
        ..Record::default()
    };
    writer.write_with_text(kind::FILE, 0, record, room.get(..length).unwrap_or(&[]));
}

const _: () = assert!(Function::CudaGetAddress as usize + 1 == FUNCTIONS.len());
