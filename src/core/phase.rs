//! The phases of a load. On one slot they never overlap, and together with `idle` they add up to the wall time of the
//! slot.

use serde::{Deserialize, Serialize};

/// The activity of a slot (the timeline of a worker).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Phase {
    /// Opening files and reading headers.
    Open,
    /// Mapping a file into the address space.
    Map,
    /// Allocating device or pinned memory.
    Allocate,
    /// `cuFileHandleRegister`.
    RegisterHandle,
    /// `cuFileBufRegister`, or pinning host memory.
    RegisterBuffer,
    /// Passing work to the kernel or a library.
    Submit,
    /// Bytes move from storage or the page cache. With cuFile, they move on to the target.
    Transfer,
    /// Bytes move from staging buffers to the target.
    Copy,
    /// Waiting for copies in flight.
    Sync,
    /// `cuFileBufDeregister` and `cuFileHandleDeregister`.
    Deregister,
    /// Freeing and unpinning memory, closing files.
    Release,
    /// Waiting without work.
    Idle,
}

/// All phases in the order in which charts draw them.
pub const PHASES: [Phase; 12] = [
    Phase::Open,
    Phase::Map,
    Phase::Allocate,
    Phase::RegisterHandle,
    Phase::RegisterBuffer,
    Phase::Submit,
    Phase::Transfer,
    Phase::Copy,
    Phase::Sync,
    Phase::Deregister,
    Phase::Release,
    Phase::Idle,
];

impl Phase {
    /// The name in reports: `register_buffer`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Map => "map",
            Self::Allocate => "allocate",
            Self::RegisterHandle => "register_handle",
            Self::RegisterBuffer => "register_buffer",
            Self::Submit => "submit",
            Self::Transfer => "transfer",
            Self::Copy => "copy",
            Self::Sync => "sync",
            Self::Deregister => "deregister",
            Self::Release => "release",
            Self::Idle => "idle",
        }
    }

    /// The phase with this number in stored spans.
    #[must_use]
    pub fn from_index(index: u8) -> Option<Self> {
        PHASES.get(usize::from(index)).copied()
    }

    /// Whether bytes move in this phase. The other phases are overhead.
    #[must_use]
    pub const fn moves_bytes(self) -> bool {
        matches!(self, Self::Transfer | Self::Copy)
    }
}

/// The time of each phase in nanoseconds. Phases with zero time are left out of JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseTimes([u64; PHASES.len()]);

impl PhaseTimes {
    /// Adds `ns` to a phase.
    pub fn add(&mut self, phase: Phase, ns: u64) {
        self.0[phase as usize] = self.0[phase as usize].saturating_add(ns);
    }

    /// The time of a phase in nanoseconds.
    #[must_use]
    pub fn get(&self, phase: Phase) -> u64 {
        self.0[phase as usize]
    }

    /// The time of all phases in nanoseconds.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.0.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// The overhead: the time of all phases in which no byte moves, without idle time, in nanoseconds.
    #[must_use]
    pub fn overhead_ns(&self) -> u64 {
        self.iter()
            .filter(|(p, _)| !p.moves_bytes() && *p != Phase::Idle)
            .fold(0, |sum, (_, ns)| sum.saturating_add(ns))
    }

    /// The phases with a time above zero, in the order of charts.
    pub fn iter(&self) -> impl Iterator<Item = (Phase, u64)> + '_ {
        PHASES.iter().copied().zip(self.0.iter().copied()).filter(|(_, ns)| *ns > 0)
    }
}

impl Serialize for PhaseTimes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(phase, ns)| (phase.name(), ns)))
    }
}

impl<'de> Deserialize<'de> for PhaseTimes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = std::collections::BTreeMap::<Phase, u64>::deserialize(deserializer)?;
        let mut times = Self::default();
        for (phase, ns) in map {
            times.add(phase, ns);
        }
        Ok(times)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_a_round_trip_and_absent_phases_are_left_out() {
        let mut times = PhaseTimes::default();
        times.add(Phase::RegisterBuffer, 7);
        times.add(Phase::Transfer, 30);
        times.add(Phase::Idle, 5);
        let text = serde_json::to_string(&times).unwrap();
        assert_eq!(text, r#"{"register_buffer":7,"transfer":30,"idle":5}"#);
        assert_eq!(serde_json::from_str::<PhaseTimes>(&text).unwrap(), times);
        assert_eq!(times.overhead_ns(), 7);
        assert_eq!(times.total_ns(), 42);
    }

    #[test]
    fn every_phase_has_its_index() {
        for (i, phase) in PHASES.iter().enumerate() {
            assert_eq!(*phase as usize, i);
            assert_eq!(Phase::from_index(i as u8), Some(*phase));
        }
        assert_eq!(Phase::from_index(12), None);
    }
}
