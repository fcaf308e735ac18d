//! The parts of a file that were read at least once.

use std::collections::BTreeMap;

/// Maximum number of separate parts of a file that are kept. A program can read any number of them in any order.
const MOST: usize = 16_384;

/// The parts of a file that were read.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// The end of each part by its start. Parts neither overlap nor touch.
    parts: BTreeMap<u64, u64>,
    /// Whether a part was not kept.
    is_cut: bool,
}

impl Ranges {
    /// Adds the part between two offsets.
    pub(super) fn add(&mut self, mut from: u64, mut to: u64) {
        if from >= to {
            return;
        }
        while let Some((start, end)) = self.parts.range(..=to).next_back().map(|(start, end)| (*start, *end)) {
            if end < from {
                break;
            }
            if start <= from && to <= end {
                return;
            }
            self.parts.remove(&start);
            (from, to) = (from.min(start), to.max(end));
        }
        if self.parts.len() < MOST {
            self.parts.insert(from, to);
        } else {
            self.is_cut = true;
        }
    }

    /// The number of bytes between two offsets that were read. `None` if it is not known.
    pub(super) fn bytes(&self, from: u64, to: u64) -> Option<u64> {
        if from >= to {
            return Some(0);
        }
        let first = self.parts.range(..=from).next_back().map_or(from, |(start, _)| *start);
        let parts = self.parts.range(first..to);
        let read: u64 = parts.map(|(start, end)| (*end).min(to).saturating_sub((*start).max(from))).sum();
        (!self.is_cut || read == to - from).then_some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn each_byte_counts_once(
            reads in prop::collection::vec((0_u64..200, 0_u64..40), 0..60),
            from in 0_u64..200,
            size in 0_u64..100,
        ) {
            let mut ranges = Ranges::default();
            let mut is_read = [false; 400];
            for (offset, bytes) in reads {
                ranges.add(offset, offset + bytes);
                (offset..offset + bytes).for_each(|at| is_read[at as usize] = true);
            }
            let expected = (from..from + size).filter(|at| is_read[*at as usize]).count() as u64;
            prop_assert_eq!(ranges.bytes(from, from + size), Some(expected));
            let mut neighbours = ranges.parts.iter().zip(ranges.parts.iter().skip(1));
            prop_assert!(neighbours.all(|((_, end), (start, _))| end < start));
        }
    }

    #[test]
    fn parts_beyond_the_limit_are_not_known_and_the_others_are() {
        let mut ranges = Ranges::default();
        (0..=MOST as u64).for_each(|part| ranges.add(part * 10, part * 10 + 4));
        assert_eq!((ranges.parts.len(), ranges.is_cut), (MOST, true));
        assert_eq!((ranges.bytes(0, 4), ranges.bytes(0, 10)), (Some(4), None));
        // A part that joins others needs no more room.
        ranges.add(4, 12);
        assert_eq!((ranges.bytes(0, 14), ranges.parts.len()), (Some(14), MOST - 1));
    }
}
