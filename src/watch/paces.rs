//! The durations of calls by function and size, in parts of the program's time. Two recordings are compared with them.

use super::classes::{class_of, largest};
use crate::core::CallPace;
use std::collections::BTreeMap;

/// The length of a part in nanoseconds at the start of a program. If a program has more than [`MOST_PARTS`], the
/// length is doubled.
const FIRST_PART_NS: u64 = 1_000_000;
/// Maximum number of parts. A program that runs for a while has at least half of them.
const MOST_PARTS: usize = 32;

/// Count and nanoseconds of the calls of each part, and their bytes.
#[derive(Debug, Default)]
struct Pace {
    bytes: u64,
    parts: Vec<(u64, u64)>,
}

/// The durations of all functions.
#[derive(Debug)]
pub(super) struct Paces {
    /// Start of the first part in nanoseconds.
    pub(super) origin_ns: u64,
    part_ns: u64,
    by_kind: BTreeMap<(&'static str, u64), Pace>,
}

impl Default for Paces {
    fn default() -> Self {
        Self { origin_ns: 0, part_ns: FIRST_PART_NS, by_kind: BTreeMap::new() }
    }
}

impl Paces {
    /// Adds a call. `size` is `None` for functions without a size.
    pub(super) fn add(&mut self, function: &'static str, size: Option<u64>, start_ns: u64, end_ns: u64) {
        let at_ns = end_ns.saturating_sub(self.origin_ns);
        while at_ns / self.part_ns >= MOST_PARTS as u64 {
            self.part_ns *= 2;
            for pace in self.by_kind.values_mut() {
                // The program can write any duration into the shared file.
                let sum = |two: &[(u64, u64)]| {
                    two.iter().fold((0, 0_u64), |sum, part| (sum.0 + part.0, sum.1.saturating_add(part.1)))
                };
                pace.parts = pace.parts.chunks(2).map(sum).collect();
            }
        }
        let pace = self.by_kind.entry((function, size.map_or(0, |size| largest(class_of(size))))).or_default();
        let at = (at_ns / self.part_ns) as usize;
        if pace.parts.len() <= at {
            pace.parts.resize(at + 1, (0, 0));
        }
        let part = &mut pace.parts[at];
        *part = (part.0 + 1, part.1.saturating_add(end_ns.saturating_sub(start_ns)));
        pace.bytes = pace.bytes.saturating_add(size.unwrap_or(0));
    }

    pub(super) fn report(&self) -> Vec<CallPace> {
        let all = self.by_kind.iter().map(|((function, up_to_bytes), pace)| CallPace {
            function: (*function).to_owned(),
            up_to_bytes: *up_to_bytes,
            bytes: pace.bytes,
            parts: pace.parts.iter().filter(|(count, _)| *count > 0).copied().collect(),
        });
        all.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_a_long_time_are_divided_into_a_limited_number_of_parts() {
        let mut paces = Paces { origin_ns: 500, ..Paces::default() };
        for call in 0..10_000_u64 {
            let end_ns = 500 + call * 1_000_000;
            paces.add("cuFileRead", Some(4096), end_ns.saturating_sub(100), end_ns);
        }
        paces.add("cuFileDriverOpen", None, 0, 700);
        let report = paces.report();
        let [open, reads] = report.as_slice() else { unreachable!("two kinds of calls") };
        assert_eq!((open.up_to_bytes, open.parts.as_slice()), (0, [(1, 700)].as_slice()));
        assert_eq!((reads.up_to_bytes, reads.bytes), (4096, 4096 * 10_000));
        assert!((MOST_PARTS / 2..=MOST_PARTS).contains(&reads.parts.len()), "{}", reads.parts.len());
        assert_eq!(reads.parts.iter().map(|part| part.0).sum::<u64>(), 10_000);
        assert_eq!(reads.parts.iter().map(|part| part.1).sum::<u64>(), 1_000_000);
    }
}
