//! The stored bytes. They are computed from a seed, the file (a number of its key) and an offset, so any range of any
//! file can be computed again.

/// One step of SplitMix64: the output for this state.
pub(super) const fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Fills `out` with the payload of `file` from `offset`. The bytes look random, so that no file system or drive
/// compresses them.
pub(super) fn fill(seed: u64, file: u64, offset: u64, out: &mut [u8]) {
    let key = mix(seed ^ mix(file));
    let mut word = offset / 8;
    let mut skip = (offset % 8) as usize;
    let mut rest = out;
    while !rest.is_empty() {
        let bytes = mix(key.wrapping_add(word)).to_le_bytes();
        let take = (8 - skip).min(rest.len());
        let (now, later) = rest.split_at_mut(take);
        now.copy_from_slice(&bytes[skip..skip + take]);
        rest = later;
        (word, skip) = (word + 1, 0);
    }
}

/// Offset of the first byte of `found` that differs from the content; `None` if all bytes are equal.
pub(super) fn differs(seed: u64, file: u64, offset: u64, found: &[u8], scratch: &mut Vec<u8>) -> Option<u64> {
    scratch.resize(found.len(), 0);
    fill(seed, file, offset, scratch);
    if scratch == found {
        return None;
    }
    found.iter().zip(scratch.iter()).position(|(a, b)| a != b).map(|at| offset + at as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_range_equals_that_part_of_the_file(seed: u64, file in 0..9_u64, from in 0..200_usize, length in 0..200_usize) {
            let mut complete = [0; 400];
            fill(seed, file, 0, &mut complete);
            let mut part = vec![0; length];
            fill(seed, file, from as u64, &mut part);
            prop_assert_eq!(&part[..], &complete[from..from + length]);
        }
    }

    #[test]
    fn files_and_seeds_differ_and_a_wrong_byte_is_found() {
        let of = |seed, file| {
            let mut out = [0; 64];
            fill(seed, file, 0, &mut out);
            out
        };
        assert!(of(1, 0) != of(1, 1) && of(1, 0) != of(2, 0));
        let mut found = of(5, 3);
        let mut scratch = Vec::new();
        assert_eq!(differs(5, 3, 0, &found, &mut scratch), None);
        found[17] ^= 1;
        assert_eq!(differs(5, 3, 0, &found, &mut scratch), Some(17));
    }
}
