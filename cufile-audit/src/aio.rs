//! Counts the reads that a program submits by Linux AIO, with `io_submit` of libaio.

use crate::capture::read_word;
use crate::layout::Function;
use crate::rings::Writer;

/// The maximum number of requests of one call that are counted.
const REQUESTS: usize = 65_536;
/// The maximum number of pieces of a vectored read that are summed. The kernel accepts no more.
const PIECES: usize = 1024;
/// A request that another thread changed can have any size. The kernel accepts no larger one on x86-64 and ARM64.
const LARGEST: u64 = 1 << 47;

/// The codes of reads in `struct iocb` (linux/aio_abi.h): into one piece of memory, and into several.
const PREAD: u64 = 0;
const PREADV: u64 = 7;

/// Counts each submitted read as a call, and a failed call as another one. The first read has the time of the call.
///
/// # Safety
/// `requests` and `result` must be the third argument and the result of a call of `io_submit` that has returned.
pub(crate) unsafe fn record(requests: usize, result: usize, [start_ns, end_ns]: [u64; 2]) {
    let Some(writer) = Writer::take() else { return };
    let mut took_ns = end_ns.saturating_sub(start_ns);
    // The result is an `int`.
    let Ok(submitted) = usize::try_from(result as i32) else {
        writer.add_total(Function::AioSubmit as usize, true, 0, took_ns);
        return;
    };
    for request in 0..submitted.min(REQUESTS) {
        // SAFETY: the kernel has read the address of this request and the request. A program keeps it at least until it
        // has seen its end.
        let bytes = unsafe { bytes_of_read(read_word(requests.wrapping_add(request * 8)) as usize) };
        if let Some(bytes) = bytes {
            writer.add_total(Function::AioSubmit as usize, false, bytes, core::mem::take(&mut took_ns));
        }
    }
}

/// The size of a read. `None` if the request is not a read.
///
/// # Safety
/// It must be the address of a `struct iocb`.
unsafe fn bytes_of_read(request: usize) -> Option<u64> {
    // SAFETY: the condition of this function, and the kernel has read the pieces of a vectored read.
    unsafe {
        let [code, memory, count] = [16, 24, 32].map(|at| read_word(request.wrapping_add(at)));
        let bytes = match code & 0xffff {
            PREAD => count,
            PREADV => {
                let length = |piece: usize| read_word((memory as usize).wrapping_add(piece * 16 + 8));
                (0..PIECES.min(count as usize)).fold(0_u64, |sum, piece| sum.wrapping_add(length(piece)))
            }
            _ => return None,
        };
        Some(bytes.min(LARGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reads_have_a_size() {
        let pieces = [1_u64, 10, 2, 20];
        let size = |code: u64, memory: u64, count: u64| {
            let request = [7, 0, code | 9 << 32, memory, count, 0, 0, 0_u64];
            // SAFETY: the request and the pieces exist.
            unsafe { bytes_of_read(request.as_ptr() as usize) }
        };
        assert_eq!(size(PREAD, 1, 4096), Some(4096));
        assert_eq!(size(PREADV, pieces.as_ptr() as u64, 2), Some(30));
        assert_eq!(size(1, 1, 4096), None);
        assert_eq!(size(PREAD, 1, u64::MAX), Some(LARGEST));
    }
}
