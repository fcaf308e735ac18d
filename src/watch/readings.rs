//! The recorded transfers that a reading of libcufile's counters must contain. A later transfer says nothing about an
//! earlier reading.

use super::files::Transfer;
use crate::core::RouteStatistics;
use std::collections::VecDeque;

/// Maximum number of transfers whose end is kept. A reading takes about 10 µs, and fewer transfers end in that time.
const MOST_RECENT: usize = 1024;

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

/// Adds or subtracts the reads and the writes.
fn each(a: [Sum; 2], b: [Sum; 2], change: fn(Sum, Sum) -> Sum) -> [Sum; 2] {
    [change(a[0], b[0]), change(a[1], b[1])]
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
        Self {
            least: each(self.least, other.least, Sum::plus),
            most: each(self.most, other.most, Sum::plus),
            certain: each(self.certain, other.certain, Sum::plus),
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

/// The counters of a copy of libcufile since they began at 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    pub(super) counted: RouteStatistics,
    /// The end of their last reading in nanoseconds.
    pub(super) until_ns: u64,
}

/// Reads and writes, and the time in nanoseconds at which all of them had ended.
#[derive(Clone, Copy, Debug)]
struct Ended {
    until_ns: u64,
    sums: [Sum; 2],
}

/// The transfers of a copy of libcufile in a process.
#[derive(Debug, Default)]
pub(super) struct Account {
    submitted: [Sum; 2],
    ended: [Sum; 2],
    /// The transfers in `ended` that may have ended after the begin of the next reading, the oldest first.
    recent: VecDeque<Ended>,
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

    /// Adds the end of a transfer that was seen at this time. `result` is the number of bytes or a negative error code.
    pub(super) fn end(&mut self, transfer: &Transfer, at_ns: u64, result: i64) {
        let direction = usize::from(transfer.write);
        match u64::try_from(result) {
            Ok(bytes) if bytes > 0 => {
                let mut sums = [Sum::default(); 2];
                sums[direction] = Sum { transfers: 1, bytes };
                self.ended = each(self.ended, sums, Sum::plus);
                self.keep(Ended { until_ns: at_ns, sums });
            }
            // Nothing was moved, so it is in no counter by route.
            _ => {
                let sum = &mut self.submitted[direction];
                *sum = sum.minus(Sum { transfers: 1, bytes: transfer.size });
            }
        }
    }

    /// Keeps transfers for the next reading. If there are too many, the two oldest become one with the later end, so that
    /// fewer transfers than possible count as certain, never more.
    fn keep(&mut self, new: Ended) {
        self.recent.push_back(new);
        if self.recent.len() > MOST_RECENT
            && let Some(oldest) = self.recent.pop_front()
            && let Some(next) = self.recent.front_mut()
        {
            next.until_ns = next.until_ns.max(oldest.until_ns);
            next.sums = each(next.sums, oldest.sums, Sum::plus);
        }
    }

    /// Adds a call that transfers and then returns.
    pub(super) fn call(&mut self, [start_ns, end_ns]: [u64; 2], transfer: &Transfer, result: i64) {
        self.submit(transfer, start_ns);
        self.end(transfer, end_ns, result);
    }

    /// Notes a reading of the counters that began at this time. All transfers that began before its end were added.
    pub(super) fn reading(&mut self, began_ns: u64) {
        self.recent.retain(|ended| ended.until_ns > began_ns);
        let least = self.recent.iter().fold(self.ended, |sum, ended| each(sum, ended.sums, Sum::minus));
        self.read = Bounds { least, most: self.submitted, certain: self.read.least };
    }

    /// The bounds of the counters at the end of the program.
    pub(super) const fn at_end(&self) -> Bounds {
        Bounds { least: self.ended, most: self.submitted, certain: self.ended }
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::How;
    use super::*;
    use proptest::prelude::*;

    /// The size that each transfer requests.
    const SIZE: u64 = 4;

    fn transfer(write: bool) -> Transfer {
        Transfer { write, how: How::Single, offset: 0, size: SIZE, address: 0, registered: None }
    }

    /// A call or an end, with its time.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        /// A call with its start, its end and its result.
        Call([u64; 2], bool, i64),
        Submission(bool),
        /// The end of a submitted transfer with its result.
        End(bool, i64),
        /// The begin of a reading, and the times at which it reads the transfers and the bytes.
        Reading(u64, [u64; 2]),
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_counters_of_each_reading_are_within_its_bounds(
            threads in prop::collection::vec(
                prop::collection::vec(
                    (0_u64..50, 0_u64..100, 0_u64..=100, -1_i64..=4, any::<bool>(), any::<bool>()),
                    0..250,
                ),
                1..8,
            ),
            readings in prop::collection::vec((0_u64..3000, 0_u64..2000, 0_u64..=100, 0_u64..=100), 1..8),
        ) {
            // Transfers happen at even times and readings at odd ones, so the order is never ambiguous.
            let mut events: Vec<(u64, Event)> = Vec::new();
            let mut counted: Vec<(u64, bool, u64)> = Vec::new();
            for transfers in &threads {
                let mut now = 0;
                for (pause, duration, share, result, write, is_submitted) in transfers.iter().copied() {
                    let start = now + 2 * pause;
                    now = start + 2 * duration;
                    if let Some(bytes) = u64::try_from(result).ok().filter(|bytes| *bytes > 0) {
                        counted.push((start + 2 * (duration * share / 100), write, bytes));
                    }
                    if is_submitted {
                        events.push((start, Event::Submission(write)));
                        // The program sees the end later.
                        events.push((now + 2 * pause, Event::End(write, result)));
                    } else {
                        events.push((start, Event::Call([start, now], write, result)));
                    }
                }
            }
            let mut now = 0;
            for (pause, duration, transfers, bytes) in readings {
                let began = now + 2 * pause + 1;
                let at = |share: u64| began + 2 * (duration * share / 100);
                events.push((began + 2 * duration, Event::Reading(began, [at(transfers), at(bytes)])));
                now = began + 2 * duration + 1;
            }
            events.sort_by_key(|(at, _)| *at);
            let mut account = Account::default();
            for (at, event) in events {
                match event {
                    Event::Call(times, write, result) => account.call(times, &transfer(write), result),
                    Event::Submission(write) => account.submit(&transfer(write), at),
                    Event::End(write, result) => account.end(&transfer(write), at, result),
                    Event::Reading(began, times) => {
                        account.reading(began);
                        let Bounds { least, most, certain } = account.read;
                        for write in [false, true] {
                            let [transfers, bytes] = times.map(|time| {
                                counted.iter().filter(move |(at, is_write, _)| *at < time && *is_write == write)
                            });
                            let seen = [transfers.count() as u64, bytes.map(|(.., bytes)| *bytes).sum()];
                            let of = |sums: [Sum; 2]| sums.map(|sum| [sum.transfers, sum.bytes])[usize::from(write)];
                            for (at, seen) in seen.into_iter().enumerate() {
                                let bounds = [of(certain), of(least), of(most)].map(|sum| sum[at]);
                                prop_assert!(bounds[0] <= bounds[1], "{bounds:?}");
                                prop_assert!((bounds[1]..=bounds[2]).contains(&seen), "{seen} {bounds:?}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn all_transfers_of_a_thread_within_a_reading_may_be_in_the_counters_or_not() {
        let mut account = Account::default();
        for times in [[10, 20], [60, 70], [71, 80], [81, 90]] {
            account.call(times, &transfer(false), SIZE.cast_signed());
        }
        account.reading(50);
        assert_eq!((account.read.least[0].transfers, account.read.most[0].transfers), (1, 4));
    }

    #[test]
    fn transfers_without_end_take_bounded_memory_and_keep_the_bounds_low() {
        let mut account = Account::default();
        let most = MOST_RECENT as u64;
        for number in 0..3 * most {
            account.call([number, number + 1], &transfer(false), SIZE.cast_signed());
        }
        assert_eq!(account.recent.len(), MOST_RECENT);
        // The oldest kept end is that of all transfers before it.
        account.reading(most);
        assert_eq!(account.read.least[0], Sum::default());
        account.reading(3 * most - 10);
        assert_eq!(account.read.least[0], Sum { transfers: 3 * most - 10, bytes: (3 * most - 10) * SIZE });
        account.reading(3 * most);
        assert_eq!((account.read.least, account.recent.len()), (account.read.most, 0));
    }
}
