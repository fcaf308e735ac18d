//! A file that several processes map and access as atomic words.

use super::truncated::Guard;
use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// A shared mapping of a file. All access is atomic, because another process can write at any time.
#[derive(Debug)]
pub struct SharedWords {
    /// Dropped before the mapping.
    guard: Guard,
    map: MmapRaw,
    words: usize,
}

impl SharedWords {
    /// Maps the first `bytes` of a file that is open for reading and writing. If another process truncates it, the
    /// missing words are 0, see [`SharedWords::is_cut`].
    ///
    /// # Errors
    /// If the file is shorter than `bytes`, or if it cannot be mapped.
    pub fn map(file: &File, bytes: usize) -> io::Result<Self> {
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter than the mapping"));
        }
        let map = MmapOptions::new().len(bytes).map_raw(file)?;
        let guard = Guard::new(map.as_ptr().addr(), bytes)?;
        Ok(Self { guard, map, words: bytes / size_of::<u64>() })
    }

    /// Whether a word was accessed that the file no longer has, because another process truncated it or its file
    /// system is full.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.guard.is_cut()
    }

    fn word(&self, index: usize) -> Option<&AtomicU64> {
        // SAFETY: the index is inside the mapping, which is page-aligned and exists as long as the reference. All
        // access is atomic.
        (index < self.words).then(|| unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().cast::<u64>().add(index)) })
    }

    /// The value of a word. It is 0 outside of the mapping. Later reads see everything that the writer wrote before
    /// this word.
    #[must_use]
    pub fn load(&self, index: usize) -> u64 {
        self.word(index).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Sets a word. It does nothing outside of the mapping. Earlier reads are complete before the word is set.
    pub fn store(&self, index: usize, value: u64) {
        if let Some(word) = self.word(index) {
            word.store(value, Ordering::Release);
        }
    }

    /// Sets a word if it has the value `from`. Returns whether it had.
    #[must_use]
    pub fn replace(&self, index: usize, from: u64, to: u64) -> bool {
        let word = self.word(index);
        word.is_some_and(|word| word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_a_file_share_its_words() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let (one, two) = (SharedWords::map(&file, 8192).unwrap(), SharedWords::map(&file, 4096).unwrap());
        one.store(3, 17);
        assert_eq!((two.load(3), two.load(4)), (17, 0));
        assert_eq!((two.replace(3, 16, 1), two.replace(3, 17, 18), one.load(3)), (false, true, 18));
        two.store(1 << 40, 1);
        assert_eq!(two.load(1 << 40), 0);
        assert!(SharedWords::map(&file, 8193).is_err());
    }

    #[test]
    fn a_file_that_another_process_truncates_ends_nothing() {
        let (file, other) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        file.set_len(1 << 20).unwrap();
        other.set_len(1 << 20).unwrap();
        let (words, others) = (SharedWords::map(&file, 1 << 20).unwrap(), SharedWords::map(&other, 1 << 20).unwrap());
        words.store(100_000, 17);
        others.store(100_000, 18);
        file.set_len(0).unwrap();
        assert!(!words.is_cut());
        assert_eq!((words.load(0), words.load(100_000), words.load((1 << 17) - 1)), (0, 0, 0));
        words.store(100_000, 19);
        assert_eq!((words.load(100_000), others.load(100_000)), (19, 18));
        assert!(words.is_cut() && !others.is_cut());
        drop(words);
        assert!(!SharedWords::map(&other, 8192).unwrap().is_cut());
    }
}
