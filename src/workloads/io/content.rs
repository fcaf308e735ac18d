//! The content of the measured files. Each word is computed from a seed and its offset. So any block can be checked
//! without a copy, and no drive or file system can compress the content.

/// The word at an index, from the mixing function of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", 2014).
const fn word(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Fills a buffer with the content of the file at `offset`, which must be a multiple of 8.
pub(super) fn fill(bytes: &mut [u8], seed: u64, offset: u64) {
    for (i, eight) in bytes.chunks_mut(8).enumerate() {
        let word = word(seed, offset / 8 + i as u64).to_le_bytes();
        eight.copy_from_slice(&word[..eight.len()]);
    }
}

/// Whether a buffer contains the content of the file at `offset`.
pub(super) fn holds(bytes: &[u8], seed: u64, offset: u64) -> bool {
    let same = |(i, eight): (usize, &[u8])| eight == &word(seed, offset / 8 + i as u64).to_le_bytes()[..eight.len()];
    bytes.chunks(8).enumerate().all(same)
}

/// A generator of random 64-bit numbers, for random offsets.
#[derive(Clone, Debug)]
pub(super) struct Places {
    seed: u64,
    next: u64,
}

impl Places {
    pub(super) const fn new(seed: u64) -> Self {
        Self { seed, next: 0 }
    }

    /// A random number below `bound`, which must not be 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next += 1;
        // The high half of a product needs no division. Its bias is too small to affect a measurement.
        ((u128::from(word(self.seed, self.next)) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shifted_or_damaged_block_is_detected() {
        let mut block = vec![0; 8192];
        fill(&mut block, 7, 4096);
        assert!(holds(&block, 7, 4096));
        assert!(holds(&block[4096..], 7, 8192));
        assert!(!holds(&block, 7, 0) && !holds(&block, 8, 4096));
        block[5000] ^= 1;
        assert!(!holds(&block, 7, 4096));
    }

    #[test]
    fn places_lie_below_their_bound_and_reach_all_of_it() {
        let mut places = Places::new(1);
        let mut seen = [false; 16];
        for _ in 0..1000 {
            seen[places.below(16) as usize] = true;
        }
        assert!(seen.iter().all(|s| *s));
        assert_eq!(Places::new(3).below(1), 0);
    }
}
