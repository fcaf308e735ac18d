//! Mutations: truncate, flip, splice, repeat, delete, and extreme numbers. The same seed always gives the same
//! sequence.

/// Texts that parsers treat specially.
const WORDS: [&str; 24] = [
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "-1",
    "0",
    "18446744073709551615",
    "9223372036854775808",
    "1e400",
    "-0.0",
    "\\u0000",
    "\u{202e}",
    "\u{1b}[8m",
    "\n",
    ",",
    ":",
    "{",
    "[",
    "}",
    "]",
    "../../..",
    "/proc/self/mem",
    "\u{fffd}",
];
/// Little-endian numbers at the limits of their types.
const NUMBERS: [u64; 10] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 32, 1 << 63, u64::MAX];

/// A random number generator for mutations.
pub(crate) struct Mutator(u64);

impl Mutator {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x ^ (x >> 32)
    }

    fn below(&mut self, most: usize) -> usize {
        (self.roll() % most.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// A range of the bytes. Most ranges are short.
    fn part(&mut self, bytes: &[u8]) -> std::ops::Range<usize> {
        let start = self.below(bytes.len() + 1);
        let longest = if self.below(4) == 0 { bytes.len() } else { 64 };
        let end = (start + self.below(longest + 1)).min(bytes.len());
        start..end
    }

    /// One of the examples after one to eight mutations.
    pub(crate) fn mutated(&mut self, examples: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.pick(examples).clone();
        for _ in 0..=self.below(8) {
            self.change(&mut bytes, examples);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, examples: &[Vec<u8>]) {
        let part = self.part(bytes);
        match self.below(9) {
            0 => bytes.truncate(part.start),
            1 if !bytes.is_empty() => {
                let at = self.below(bytes.len());
                bytes[at] ^= 1 << self.below(8);
            }
            2 if !bytes.is_empty() => {
                let at = self.below(bytes.len());
                bytes[at] = self.roll() as u8;
            }
            3 => {
                let other = self.pick(examples).clone();
                let theirs = self.part(&other);
                bytes.splice(part, other[theirs].iter().copied());
            }
            4 => {
                let times = 1 << self.below(7);
                let again = bytes[part.clone()].repeat(times);
                bytes.splice(part.end..part.end, again);
            }
            5 => drop(bytes.drain(part)),
            6 => {
                let word = self.pick(&WORDS).as_bytes().to_vec();
                bytes.splice(part, word);
            }
            7 => self.extreme(bytes),
            _ => {
                let number = self.pick(&NUMBERS).to_le_bytes();
                let width = 1 << self.below(4);
                let at = self.below(bytes.len() + 1);
                let end = (at + width).min(bytes.len());
                bytes[at..end].copy_from_slice(&number[..end - at]);
            }
        }
    }

    /// Replaces a decimal number by an extreme one.
    fn extreme(&mut self, bytes: &mut Vec<u8>) {
        let digits = |byte: &u8| byte.is_ascii_digit();
        let from = self.below(bytes.len() + 1);
        let Some(start) = bytes[from..].iter().position(digits).map(|at| from + at) else { return };
        let end = bytes[start..].iter().position(|byte| !digits(byte)).map_or(bytes.len(), |at| start + at);
        let number = self.pick(&NUMBERS).to_string();
        bytes.splice(start..end, number.into_bytes());
    }

    /// Pieces for a captured machine. Each piece is an example whose first two bytes are its number; the rest is
    /// mutated.
    pub(crate) fn pieces(&mut self, examples: &[Vec<u8>]) -> Vec<u8> {
        let mut all = Vec::new();
        for _ in 0..=self.below(12) {
            let example = self.pick(examples).clone();
            let contents: Vec<Vec<u8>> = vec![example[4..].to_vec(), self.pick(examples)[4..].to_vec()];
            let mut content = contents[0].clone();
            for _ in 0..=self.below(6) {
                self.change(&mut content, &contents);
            }
            content.truncate(usize::from(u16::MAX));
            all.extend_from_slice(&example[..2]);
            all.extend_from_slice(&(content.len() as u16).to_le_bytes());
            all.extend_from_slice(&content);
        }
        all
    }
}
