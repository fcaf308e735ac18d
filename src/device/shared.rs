//! A file that several processes map and access as atomic words.

use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// A shared mapping of a file. All access is atomic, because another process can write at any time.
#[derive(Debug)]
pub struct SharedWords {
    map: MmapRaw,
    words: usize,
}

impl SharedWords {
    /// Maps the first `bytes` of a file that is open for reading and writing. The file must not be truncated while it
    /// is mapped.
    ///
    /// # Errors
    /// If the file is shorter than `bytes`, or if it cannot be mapped.
    pub fn map(file: &File, bytes: usize) -> io::Result<Self> {
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter than the mapping"));
        }
        Ok(Self { map: MmapOptions::new().len(bytes).map_raw(file)?, words: bytes / size_of::<u64>() })
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
        two.store(1 << 40, 1);
        assert_eq!(two.load(1 << 40), 0);
        assert!(SharedWords::map(&file, 8193).is_err());
    }
}
