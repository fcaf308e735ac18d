//! Records large reads and mappings of files by libc, and copies by libcuda.

use crate::layout::{FILE_BYTES, Function, RECORDED_BYTES, Record, kind};
use crate::rings::Writer;
use crate::{capture, mappings, stat, system};
use core::sync::atomic::{AtomicU64, Ordering};

/// The files whose path was recorded, as a hash of process, device and inode. If there are more, some paths are
/// recorded again.
const FILES: usize = 1024;
static KNOWN: [AtomicU64; FILES] = [const { AtomicU64::new(0) }; FILES];
/// The maximum number of pieces of a vectored read that are summed. The kernel accepts no more.
const PIECES: usize = 1024;

/// A mapping with this bit can be written (sys/mman.h).
const PROT_WRITE: usize = 2;
/// The maximum number of copies of a batch that are summed.
const COPIES: usize = 65_536;

/// The size of `CUDA_MEMCPY3D_BATCH_OP` in bytes.
const OPERATION_BYTES: usize = 112;

/// Counts a copy, and records it if it is large.
///
/// # Safety
/// The arguments must belong to a call of function `F`.
pub(crate) unsafe fn record_copy<const F: usize>(
    [a, b, c, d]: [usize; 4],
    result: usize,
    [start_ns, end_ns]: [u64; 2],
) {
    let Some(mut writer) = Writer::take() else { return };
    let failed = result as u32 != 0;
    let is = |function: Function| F == function as usize;
    let is_2d = is(Function::CudaCopy2d) || is(Function::CudaCopy2dUnaligned) || is(Function::CudaCopy2dAsync);
    let is_3d = is(Function::CudaCopy3d) || is(Function::CudaCopy3dAsync);
    // SAFETY: a successful copy has read the description, or the sizes, at these addresses.
    let word = |at: usize, index: usize| unsafe { capture::read_word(at.wrapping_add(index * 8)) };
    let is_operation = is(Function::CudaCopy3dBatch) || is(Function::CudaCopy3dWithAttributes);
    // `CUDA_MEMCPY3D_BATCH_OP`: two operands of five words, then width, height and depth. For arrays these are elements.
    let operation = |at: usize| word(at, 10).wrapping_mul(word(at, 11)).wrapping_mul(word(at, 12));
    // Width, height and depth are the last words of the other descriptions in cuda.h.
    let bytes = match failed {
        true if is_2d || is_3d || is_operation || is(Function::CudaCopyBatch) => 0,
        _ if is(Function::CudaCopy3dWithAttributes) => operation(a),
        _ if is(Function::CudaCopy3dBatch) => {
            (0..a.min(COPIES)).fold(0_u64, |sum, copy| sum.wrapping_add(operation(b + copy * OPERATION_BYTES)))
        }
        _ if is(Function::CudaHtoA) || is(Function::CudaHtoAAsync) => d as u64,
        _ if is(Function::CudaPrefetch) => b as u64,
        _ if is_2d => word(a, 14).wrapping_mul(word(a, 15)),
        _ if is_3d => word(a, 22).wrapping_mul(word(a, 23)).wrapping_mul(word(a, 24)),
        _ if is(Function::CudaCopyBatch) => (0..d.min(COPIES)).fold(0_u64, |sum, copy| sum.wrapping_add(word(c, copy))),
        _ => c as u64,
    };
    if bytes >= RECORDED_BYTES && writer.has_room(1) {
        writer.put(&Record {
            head: Record::head(F as u16, 0, 0),
            start_ns,
            end_ns,
            object: d as u64,
            size: bytes,
            base: a as u64,
            base_offset: b as u64,
            result: result as u64,
            ..Record::default()
        });
        writer.publish();
    }
    writer.add_total(F, failed, if failed { 0 } else { bytes }, end_ns.saturating_sub(start_ns));
}

/// Records a large read of a regular file.
pub(crate) fn record_read<const F: usize>([a, b, c, d]: [usize; 4], result: usize, [start_ns, end_ns]: [u64; 2]) {
    let is = |function: Function| F == function as usize;
    let vectored = is(Function::LibcReadv)
        || is(Function::LibcPreadv)
        || is(Function::LibcPreadv64)
        || is(Function::LibcPreadv2)
        || is(Function::LibcPreadv64V2);
    let asked = if vectored {
        // SAFETY: the call has returned. If it succeeded, `b` points to `c` pieces of an address and a length.
        // Otherwise they are not read.
        let pieces = if (result as isize) < 0 || b == 0 { 0 } else { c.min(PIECES) };
        (0..pieces).fold(0_u64, |sum, piece| {
            // SAFETY: as above.
            sum.wrapping_add(unsafe { capture::read_word(b + piece * 16 + 8) })
        })
    } else {
        c as u64
    };
    let failed = (result as isize) < 0;
    if !failed && (result as u64) < RECORDED_BYTES {
        return;
    }
    let moves_position = is(Function::LibcRead) || is(Function::LibcReadChecked) || is(Function::LibcReadv);
    let Some(file) = stat::regular_file(a as i32) else { return };
    let Some(mut writer) = Writer::take() else { return };
    let offset = if moves_position {
        system::position(a as i32).saturating_sub(if failed { 0 } else { result as u64 })
    } else {
        d as u64
    };
    if introduce(&mut writer, a as i32, file, start_ns) && writer.has_room(1) {
        writer.put(&Record {
            head: Record::head(F as u16, 0, 0),
            start_ns,
            end_ns,
            object: a as u64,
            offset,
            size: asked,
            base: b as u64,
            result: result as u64,
            extra: [file.id[0], file.id[1], 0, 0, 0, 0, 0],
            ..Record::default()
        });
        writer.publish();
    }
    let bytes = if failed { 0 } else { result as u64 };
    writer.add_total(F, failed, bytes, end_ns.saturating_sub(start_ns));
}

/// Records a mapping of a regular file.
pub(crate) fn record_mapping<const F: usize>(
    result: usize,
    length: usize,
    protection: usize,
    fd: usize,
    offset: usize,
    [start_ns, end_ns]: [u64; 2],
) {
    // The file of another session has exactly this size.
    let is_shared_file = length == FILE_BYTES && protection & PROT_WRITE != 0;
    if result == usize::MAX || is_shared_file {
        return;
    }
    let Some(file) = stat::regular_file(fd as i32) else { return };
    let Some(mut writer) = Writer::take() else { return };
    let is_named = introduce(&mut writer, fd as i32, file, start_ns);
    if is_named {
        mappings::remember(result, length, offset as u64, file.id);
    }
    if is_named && writer.has_room(1) {
        writer.put(&Record {
            head: Record::head(F as u16, 0, 0),
            start_ns,
            end_ns,
            object: fd as u64,
            offset: offset as u64,
            size: length as u64,
            base: result as u64,
            result: result as u64,
            extra: [file.id[0], file.id[1], protection as u64, 0, 0, 0, 0],
            ..Record::default()
        });
        writer.publish();
    }
    writer.add_total(F, false, length as u64, end_ns.saturating_sub(start_ns));
}

/// Records the path of a file once per process. The record has the start time of
/// the call, so that it precedes the call when records are sorted by time. Returns whether the path is recorded:
/// otherwise the call must not be recorded, because an earlier file can have had the same inode.
fn introduce(writer: &mut Writer, fd: i32, file: stat::File, start_ns: u64) -> bool {
    let [device, inode] = file.id;
    let identity = mix(mix(mix(0, writer.process()), device), inode);
    let mut hash = mix(mix(identity, file.since[0]), file.since[1]);
    if file.is_recent() {
        hash = mix(hash, hash_of_path(fd));
    }
    // The value 0 marks a free entry.
    let hash = hash | 1;
    // The slot is that of the inode, so that a file takes the place of an earlier one.
    let Some(slot) = KNOWN.get(identity as usize >> 1 & (FILES - 1)) else { return false };
    if slot.swap(hash, Ordering::Relaxed) == hash {
        return true;
    }
    let is_recorded = record_file(writer, fd, file, start_ns);
    if !is_recorded {
        slot.store(0, Ordering::Relaxed);
    }
    is_recorded
}

const fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

#[inline(never)]
#[cold]
fn hash_of_path(fd: i32) -> u64 {
    let mut room = [0; system::LONGEST_PATH];
    let length = system::path_of_descriptor(fd, &mut room);
    room.iter().take(length).fold(0, |hash, byte| mix(hash, u64::from(*byte)))
}

#[inline(never)]
#[cold]
fn record_file(writer: &mut Writer, fd: i32, file: stat::File, start_ns: u64) -> bool {
    let ([device, inode], [seconds, nanoseconds]) = (file.id, file.birth);
    let mut room = [0; system::LONGEST_PATH];
    let length = system::path_of_descriptor(fd, &mut room);
    let record = Record {
        start_ns,
        end_ns: start_ns,
        object: u64::from(fd.cast_unsigned()),
        extra: [device, inode, system::flags_of_descriptor(fd), seconds, nanoseconds, 0, 0],
        ..Record::default()
    };
    writer.write_with_text(kind::FILE, 0, record, room.get(..length).unwrap_or(&[]))
}
