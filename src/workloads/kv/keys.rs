//! Keys of chunks. A key is the SHA-256 of a chunk's tokens and of the previous key. So it identifies all tokens from
//! the first one.

use super::content::mix;
use sha2::{Digest, Sha256};

/// The key of a chunk.
pub type Key = [u8; 32];

/// Computes keys, one chunk after another.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    before: Option<Key>,
}

impl Chain {
    /// The key of the next chunk.
    pub fn next(&mut self, tokens: &[u32]) -> Key {
        let mut hash = Sha256::new();
        if let Some(before) = &self.before {
            hash.update(before);
        }
        for token in tokens {
            hash.update(token.to_le_bytes());
        }
        let key: Key = hash.finalize().into();
        self.before = Some(key);
        key
    }
}

/// The token at `position` of a sequence that is computed from a seed. It is below 128 000, like in a typical
/// vocabulary.
#[must_use]
pub const fn token(seed: u64, sequence: u64, position: u64) -> u32 {
    (mix(mix(seed ^ mix(sequence)).wrapping_add(position)) % 128_000) as u32
}

/// The bytes as lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_key_is_the_hash_of_the_key_before_and_the_tokens() {
        let mut chain = Chain::default();
        let first = chain.next(&[1, 2]);
        // The expected value is the SHA-256 of 01 00 00 00 02 00 00 00.
        assert_eq!(hex(&first), hex(&Sha256::digest([1, 0, 0, 0, 2, 0, 0, 0])));
        let second = chain.next(&[3]);
        let mut text = first.to_vec();
        text.extend([3, 0, 0, 0]);
        assert_eq!(hex(&second), hex(&Sha256::digest(text)));
    }

    proptest! {
        #[test]
        fn a_changed_token_changes_its_chunk_and_all_behind_it_and_none_before(
            chunks in 1..6_usize, changed in 0..6_usize, seed: u64,
        ) {
            let changed = changed % chunks;
            let keys = |other: bool| -> Vec<Key> {
                let mut chain = Chain::default();
                (0..chunks).map(|chunk| {
                    let mut tokens: Vec<u32> = (0..8).map(|i| token(seed, 0, (chunk * 8 + i) as u64)).collect();
                    if other && chunk == changed {
                        tokens[3] ^= 1;
                    }
                    chain.next(&tokens)
                }).collect()
            };
            for (chunk, (a, b)) in keys(false).iter().zip(&keys(true)).enumerate() {
                prop_assert_eq!(a == b, chunk < changed);
            }
        }
    }
}
