//! The counters of libcufile, with the recorded transfers that they must contain.

use super::{Counted, MOST_REGISTERED, Tally};
use crate::core::RouteStatistics;
use crate::watch::readings::{Counters, Reading};
use std::collections::HashSet;

/// The time after its first transfer in which a process has a reading of its counters, in nanoseconds.
const LATE_NS: u64 = 1_000_000_000;

impl Tally {
    /// Notes that counters begin again at 0.
    pub(super) fn begin_counters(&mut self, of: Counted, at_ns: u64) {
        if self.began_again.len() < MOST_REGISTERED {
            let known = self.began_again.entry(of).or_default();
            *known = at_ns.max(*known);
        }
    }

    /// Processes a reading of counters between two times in nanoseconds. Threads can read at the same time, and the
    /// values of such readings have no order.
    pub(super) fn read_counters(&mut self, of: Counted, counted: RouteStatistics, [start_ns, until_ns]: [u64; 2]) {
        if self.began_again.get(&of).is_some_and(|began_ns| start_ns < *began_ns) {
            return;
        }
        let was_reopened = self.closed.get(&of) == Some(&true);
        if was_reopened {
            self.closed.remove(&of);
        }
        self.accounts.entry(of).or_default().reading(start_ns);
        self.read_ns = Some(until_ns);
        let mut now = Counters { counted, until_ns };
        if let Some(earlier) = self.statistics.get(&of).copied() {
            if start_ns >= earlier.until_ns && counted.began_again(&earlier.counted, was_reopened) {
                self.ended_statistics = self.ended_statistics.plus(&earlier.counted);
                self.begin_counters(of, start_ns);
            } else {
                let until_ns = until_ns.max(earlier.until_ns);
                now = Counters { counted: counted.largest(&earlier.counted), until_ns };
            }
        }
        self.statistics.insert(of, now);
    }

    /// The counters of all processes, if one of them was read since this was called last.
    pub(in crate::watch) fn take_reading(&mut self) -> Option<Reading> {
        let at_ns = self.read_ns.take()?;
        let statistics = self.all_statistics()?;
        let accounts = self.statistics.keys().filter_map(|of| self.accounts.get(of));
        let bounds = accounts.fold(self.ended_bounds, |sum, account| sum.plus(&account.read));
        let is_late = |of: &Counted| {
            self.accounts.get(of).is_some_and(|account| account.first_ns.saturating_add(LATE_NS) < at_ns)
        };
        let lacks_process = self.ended_statistics.missing_processes > 0
            || self.transferring.iter().any(|of| !self.statistics.contains_key(of) && is_late(of));
        Some(Reading { statistics, bounds, lacks_process })
    }

    /// The last counters of all processes. `None` if there are none.
    pub(super) fn all_statistics(&self) -> Option<RouteStatistics> {
        let lacking = self.transferring.iter().filter(|of| !self.statistics.contains_key(of));
        let missing: HashSet<u32> = lacking.map(|(process, _)| *process).collect();
        let read: HashSet<u32> = self.statistics.keys().map(|(process, _)| *process).collect();
        let now = RouteStatistics {
            processes: read.len() as u64,
            missing_processes: missing.len() as u64,
            partial_processes: missing.intersection(&read).count() as u64,
            ..RouteStatistics::default()
        };
        let all = self.statistics.values().fold(self.ended_statistics.plus(&now), |sum, last| sum.plus(&last.counted));
        (all.processes > 0).then_some(all)
    }
}
