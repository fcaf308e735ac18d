//! The recorded transfers that a reading of libcufile's counters must contain. A later transfer says nothing about an
//! earlier reading.

use super::files::Transfer;
use crate::core::RouteStatistics;
use std::collections::HashMap;

/// Maximum number of threads whose last call is kept.
const MOST_THREADS: usize = 65_536;

/// Transfers and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) transfers: u64,
    pub(super) bytes: u64,
}

impl Sum {
    const fn plus(self, more: Self) -> Self {
        Self { transfers: self.transfers.saturating_add(more.transfers), bytes: self.bytes.saturating_add(more.bytes) }
    }

    const fn minus(self, less: Self) -> Self {
        Self { transfers: self.transfers.saturating_sub(less.transfers), bytes: self.bytes.saturating_sub(less.bytes) }
    }
}

/// The reads and the writes that counters must contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Those that had ended before the reading.
    pub(super) least: [Sum; 2],
    /// Those that had begun before its end, with the bytes that they requested.
    pub(super) most: [Sum; 2],
    /// Those that had ended before the reading before this one.
    pub(super) certain: [Sum; 2],
}

impl Bounds {
    pub(super) fn plus(&self, other: &Self) -> Self {
        let sum = |a: [Sum; 2], b: [Sum; 2]| [a[0].plus(b[0]), a[1].plus(b[1])];
        Self {
            least: sum(self.least, other.least),
            most: sum(self.most, other.most),
            certain: sum(self.certain, other.certain),
        }
    }
}

/// The counters of all processes, each with the transfers until its own reading.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    pub(super) statistics: RouteStatistics,
    pub(super) bounds: Bounds,
    /// Whether a process made transfers and has no counters, although there was time for a reading.
    pub(super) lacks_process: bool,
}

/// The transfers of a copy of libcufile in a process.
#[derive(Debug, Default)]
pub(super) struct Account {
    submitted: [Sum; 2],
    ended: [Sum; 2],
    /// The last call of each thread: its end in nanoseconds, whether it wrote, and its bytes. Earlier calls of the thread
    /// ended before it began.
    last: HashMap<u32, (u64, bool, u64)>,
    /// The start of the first transfer in nanoseconds. 0 if there is none.
    pub(super) first_ns: u64,
    /// The bounds of the last reading.
    pub(super) read: Bounds,
}

impl Account {
    /// Adds a transfer that was submitted at this time.
    pub(super) fn submit(&mut self, transfer: &Transfer, at_ns: u64) {
        if self.first_ns == 0 {
            self.first_ns = at_ns;
        }
        let sum = &mut self.submitted[usize::from(transfer.write)];
        *sum = sum.plus(Sum { transfers: 1, bytes: transfer.size });
    }

    /// Adds the end of a transfer. `result` is the number of bytes or a negative error code.
    pub(super) fn end(&mut self, transfer: &Transfer, result: i64) {
        let way = usize::from(transfer.write);
        match u64::try_from(result) {
            Ok(bytes) if bytes > 0 => self.ended[way] = self.ended[way].plus(Sum { transfers: 1, bytes }),
            // Nothing was moved, so it is in no counter by route.
            _ => self.submitted[way] = self.submitted[way].minus(Sum { transfers: 1, bytes: transfer.size }),
        }
    }

    /// Adds a call of a thread that transfers and then returns.
    pub(super) fn call(&mut self, thread: u32, times: [u64; 2], transfer: &Transfer, result: i64) {
        self.submit(transfer, times[0]);
        self.end(transfer, result);
        if self.last.len() < MOST_THREADS || self.last.contains_key(&thread) {
            self.last.insert(thread, (times[1], transfer.write, u64::try_from(result).unwrap_or(0)));
        }
    }

    /// Notes a reading of the counters that began at this time. All transfers that began before its end were added.
    pub(super) fn reading(&mut self, began_ns: u64) {
        self.last.retain(|_, (end_ns, ..)| *end_ns > began_ns);
        let mut least = self.ended;
        for (_, write, bytes) in self.last.values().filter(|(.., bytes)| *bytes > 0) {
            let sum = &mut least[usize::from(*write)];
            *sum = sum.minus(Sum { transfers: 1, bytes: *bytes });
        }
        self.read = Bounds { least, most: self.submitted, certain: self.read.least };
    }

    /// The bounds of the counters at the end of the program.
    pub(super) const fn at_end(&self) -> Bounds {
        Bounds { least: self.ended, most: self.submitted, certain: self.ended }
    }
}
