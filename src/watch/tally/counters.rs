//! The counters of libcufile, with the recorded transfers that they must contain.

use super::{Counted, Tally};
use crate::core::RouteStatistics;
use crate::watch::readings::Reading;
use std::collections::HashSet;

/// The time after its first transfer in which a process has a reading of its counters, in nanoseconds.
const LATE_NS: u64 = 1_000_000_000;

impl Tally {
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
        let number = |processes: HashSet<u32>| processes.len() as u64;
        let lacking = self.transferring.iter().filter(|of| !self.statistics.contains_key(of));
        let now = RouteStatistics {
            processes: number(self.statistics.keys().map(|(process, _)| *process).collect()),
            missing_processes: number(lacking.map(|(process, _)| *process).collect()),
            ..RouteStatistics::default()
        };
        let all = self.statistics.values().fold(self.ended_statistics.plus(&now), |sum, counted| sum.plus(counted));
        (all.processes > 0).then_some(all)
    }
}
