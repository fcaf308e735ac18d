//! The level-3 statistics of libcufile: its transfers and their bytes by route.

use serde::{Deserialize, Serialize};

/// The level-3 statistics of libcufile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteStatistics {
    /// The number of processes whose statistics were read.
    pub processes: u64,
    /// The number of processes with transfers whose statistics could not be read.
    pub missing_processes: u64,
    /// The number of these processes in which the statistics of another copy of libcufile were read.
    #[serde(default)]
    pub partial_processes: u64,
    /// The reads that libcufile counted in these processes, without batches and streams.
    pub reads: u64,
    /// The writes that libcufile counted.
    pub writes: u64,
    /// The batch entries that libcufile processed.
    pub batch_entries: u64,
    /// The transfers with P2PDMA.
    pub p2pdma: u64,
    /// The transfers with nvidia-fs.
    pub nvfs: u64,
    /// The transfers with POSIX calls, in compat mode.
    pub posix: u64,
    /// The writes among the transfers that were counted by route.
    #[serde(default)]
    pub writes_by_route: u64,
    /// The bytes of the reads that were counted by route. Some versions do not include batch entries.
    #[serde(default)]
    pub read_bytes: u64,
    /// The bytes of the writes that were counted by route. 0 in earlier recordings.
    #[serde(default)]
    pub written_bytes: u64,
    /// The bytes of all reads, without batches and streams. The fields from here on are 0 in earlier recordings.
    #[serde(default)]
    pub all_read_bytes: u64,
    /// The bytes of all writes, without batches and streams.
    #[serde(default)]
    pub all_written_bytes: u64,
    /// The bytes that batches read.
    #[serde(default)]
    pub batch_read_bytes: u64,
    /// The batches that were submitted.
    #[serde(default)]
    pub batch_submissions: u64,
    /// The successful registrations of files.
    #[serde(default)]
    pub handle_registrations: u64,
    /// The successful registrations of buffers.
    #[serde(default)]
    pub buffer_registrations: u64,
}

impl RouteStatistics {
    /// The sum of the counters of different programs.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let (mut sum, mut other) = (*self, *other);
        for (counter, more) in sum.counters().into_iter().zip(other.counters()) {
            *counter = counter.saturating_add(*more);
        }
        sum
    }

    /// Whether these counters of a library began again at 0 after `earlier`. `reopened` is whether the driver was closed
    /// and a file registered after that: if the counters had gone on, they would have one more registration.
    #[must_use]
    pub fn began_again(&self, earlier: &Self, reopened: bool) -> bool {
        let (mut now, mut before) = (*self, *earlier);
        let is_less = now.counters().into_iter().zip(before.counters()).any(|(now, before)| *now < *before);
        is_less || (reopened && self.handle_registrations <= earlier.handle_registrations)
    }

    /// The larger value of each counter. Of two readings at the same time, each can have the older value of a counter.
    #[must_use]
    pub fn largest(&self, other: &Self) -> Self {
        let (mut largest, mut other) = (*self, *other);
        for (counter, more) in largest.counters().into_iter().zip(other.counters()) {
            *counter = (*counter).max(*more);
        }
        largest
    }

    const fn counters(&mut self) -> [&mut u64; 18] {
        [
            &mut self.processes,
            &mut self.missing_processes,
            &mut self.partial_processes,
            &mut self.reads,
            &mut self.writes,
            &mut self.batch_entries,
            &mut self.p2pdma,
            &mut self.nvfs,
            &mut self.posix,
            &mut self.writes_by_route,
            &mut self.read_bytes,
            &mut self.written_bytes,
            &mut self.all_read_bytes,
            &mut self.all_written_bytes,
            &mut self.batch_read_bytes,
            &mut self.batch_submissions,
            &mut self.handle_registrations,
            &mut self.buffer_registrations,
        ]
    }

    /// The transfers that libcufile counted.
    #[must_use]
    pub const fn transfers(&self) -> u64 {
        self.reads.saturating_add(self.writes).saturating_add(self.batch_entries)
    }

    /// The transfers that libcufile counted by route.
    #[must_use]
    pub const fn by_route(&self) -> u64 {
        self.nvfs.saturating_add(self.p2pdma).saturating_add(self.posix)
    }
}
