//! Counts the reads that a program submits by Linux AIO, with `io_submit` of libaio.
//!
//! Another thread can see the end of a request and free it before the call returns, so requests are read before the
//! call. The kernel copies them, because a program may pass addresses that cannot be read.

use crate::layout::Function;
use crate::rings::Writer;
use crate::system::{Piece, copy_memory};

/// The maximum number of requests of one call that are counted.
const REQUESTS: usize = 65_536;
/// The maximum number of pieces of a vectored read that are summed. The kernel accepts no more.
const PIECES: usize = 1024;
/// The number of requests or pieces that are copied at once. They are on the stack of the program.
const AT_ONCE: usize = 32;
/// A request can have any size. The kernel accepts no larger one on x86-64 and ARM64.
const LARGEST: u64 = 1 << 47;

/// The position of the words of `struct iocb` (linux/aio_abi.h) with the code, the address and the number of bytes or
/// pieces.
const CODE: usize = 16;
/// The codes of reads: into one piece of memory, and into several.
const PREAD: u64 = 0;
const PREADV: u64 = 7;

/// The reads among requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    count: u64,
    bytes: u64,
}

/// The reads among the requests in a list of addresses, from number `first`. `count` is the number of all requests, the
/// second argument of `io_submit`. Requests after one that cannot be read are left out, as the kernel does not accept
/// them.
#[inline(never)]
pub(crate) fn reads(requests: usize, first: usize, count: usize) -> Reads {
    // The count is a `long`.
    let end = usize::try_from(count.cast_signed()).unwrap_or(0).min(REQUESTS);
    let (mut at, mut reads) = (first, Reads::default());
    while at < end {
        let wanted = AT_ONCE.min(end - at);
        let (mut addresses, mut words) = ([0_u64; AT_ONCE], [[0_u64; 3]; AT_ONCE]);
        let list = Piece { address: requests.wrapping_add(at * 8), bytes: wanted * 8 };
        let listed = copy_memory(&[list], &mut addresses);
        let pieces = addresses.map(|address| Piece { address: (address as usize).wrapping_add(CODE), bytes: 3 * 8 });
        let copied = copy_memory(pieces.get(..listed).unwrap_or(&[]), words.as_flattened_mut()) / 3;
        for bytes in words.iter().take(copied).filter_map(|words| bytes_of_read(*words)) {
            reads.count += 1;
            reads.bytes = reads.bytes.wrapping_add(bytes);
        }
        if copied < wanted {
            break;
        }
        at += wanted;
    }
    reads
}

/// Counts each submitted read as a call, and a failed call as another one. The first read has the time of the call.
/// `all` are the reads among all requests, from before the call.
pub(crate) fn record([requests, count]: [usize; 2], all: Reads, result: usize, [start_ns, end_ns]: [u64; 2]) {
    let Some(writer) = Writer::take() else { return };
    let mut took_ns = end_ns.saturating_sub(start_ns);
    // The result is an `int`.
    let Ok(submitted) = usize::try_from(result as i32) else {
        writer.add_total(Function::AioSubmit as usize, true, 0, took_ns);
        return;
    };
    // The program has kept the requests that were not submitted.
    let rest = reads(requests, submitted, count);
    let mut bytes = all.bytes.saturating_sub(rest.bytes);
    for _ in rest.count..all.count {
        let (bytes, took_ns) = (core::mem::take(&mut bytes), core::mem::take(&mut took_ns));
        writer.add_total(Function::AioSubmit as usize, false, bytes, took_ns);
    }
}

/// The size of a read with these words of `struct iocb`. `None` if the request is not a read.
fn bytes_of_read([code, memory, count]: [u64; 3]) -> Option<u64> {
    let bytes = match code & 0xffff {
        PREAD => count,
        PREADV => bytes_of_pieces(memory as usize, PIECES.min(count as usize)),
        _ => return None,
    };
    Some(bytes.min(LARGEST))
}

/// The sum of the lengths in a list of addresses and lengths.
fn bytes_of_pieces(list: usize, count: usize) -> u64 {
    let (mut at, mut bytes) = (0, 0_u64);
    while at < count {
        let wanted = AT_ONCE.min(count - at);
        let mut words = [[0_u64; 2]; AT_ONCE];
        let part = Piece { address: list.wrapping_add(at * 16), bytes: wanted * 16 };
        let copied = copy_memory(&[part], words.as_flattened_mut()) / 2;
        bytes = words.iter().take(copied).fold(bytes, |sum, [_, length]| sum.wrapping_add(*length));
        if copied < wanted {
            break;
        }
        at += wanted;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn request(code: u64, memory: u64, count: u64) -> [u64; 8] {
        [7, 0, code | 9 << 32, memory, count, 0, 0, 0]
    }

    #[test]
    fn only_reads_have_a_size() {
        let pieces = [[1_u64, 10]; 2 * AT_ONCE];
        let size = |code: u64, memory: u64, count: u64| {
            let request = request(code, memory, count);
            let list = [request.as_ptr() as usize];
            let reads = reads(list.as_ptr() as usize, 0, 1);
            (reads.count, reads.bytes)
        };
        assert_eq!(size(PREAD, 1, 4096), (1, 4096));
        assert_eq!(size(PREADV, pieces.as_ptr() as u64, 2), (1, 20));
        assert_eq!(size(PREADV, pieces.as_ptr() as u64, 2 * AT_ONCE as u64), (1, 20 * AT_ONCE as u64));
        assert_eq!(size(PREADV, 8, 2), (1, 0), "pieces that cannot be read");
        assert_eq!(size(1, 1, 4096), (0, 0));
        assert_eq!(size(PREAD, 1, u64::MAX), (1, LARGEST));
    }

    #[test]
    fn requests_are_read_up_to_one_that_cannot_be_read() {
        let request = request(PREAD, 1, 100);
        let mut list = [request.as_ptr() as usize; 3 * AT_ONCE];
        let count = |list: &[usize], first: usize, count: usize| reads(list.as_ptr() as usize, first, count).count;
        assert_eq!(count(&list, 0, list.len()), list.len() as u64);
        assert_eq!(count(&list, 5, list.len()), list.len() as u64 - 5);
        assert_eq!(
            [count(&list, 5, 5), count(&list, 0, usize::MAX)],
            [0, 0],
            "nothing is left, and -1 is not a number"
        );
        list[AT_ONCE + 2] = 8;
        assert_eq!(count(&list, 0, list.len()), AT_ONCE as u64 + 2);
        assert_eq!(reads(8, 0, 4), Reads::default());
    }
}
