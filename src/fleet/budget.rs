//! The limits for all reports of a fleet together. Each report has limits too, but any number of files can exist.

use crate::core::units;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The maximum number of reports of a fleet. Each becomes a node, which takes much more memory than a short report.
pub(super) const MOST_REPORTS: usize = 100_000;
/// The maximum number of bytes that are read. The reports of 100 000 nodes have about 4 GiB.
const MOST_READ: u64 = 16 << 30;
/// The maximum memory of the compared fields of all reports in bytes. Those of 100 000 nodes take about 1 GiB.
const MOST_KEPT: u64 = 2 << 30;

/// The bytes that were read and kept of all sources. Several threads share it.
#[derive(Debug)]
pub(super) struct Budget {
    reports: AtomicUsize,
    read: AtomicU64,
    kept: AtomicU64,
    most_read: u64,
    most_kept: u64,
}

impl Budget {
    /// The budget of a fleet.
    pub(super) const fn of_a_fleet() -> Self {
        Self::new(MOST_READ, MOST_KEPT)
    }

    pub(super) const fn new(most_read: u64, most_kept: u64) -> Self {
        let (reports, read, kept) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Self { reports, read, kept, most_read, most_kept }
    }

    /// Counts a document. It returns false above the limit.
    pub(super) fn count_report(&self) -> bool {
        self.reports.fetch_add(1, Ordering::Relaxed) < MOST_REPORTS
    }

    /// Whether there were more documents than the limit.
    pub(super) fn has_too_many(&self) -> bool {
        self.reports.load(Ordering::Relaxed) > MOST_REPORTS
    }

    /// Counts the memory of a report.
    ///
    /// # Errors
    /// Above the limit, with the reason as text for the user.
    pub(super) fn keep(&self, bytes: u64) -> Result<(), String> {
        self.kept.fetch_add(bytes, Ordering::Relaxed);
        self.room()
    }

    fn room(&self) -> Result<(), String> {
        let is_above = |count: &AtomicU64, most: u64| count.load(Ordering::Relaxed) > most;
        if is_above(&self.read, self.most_read) || is_above(&self.kept, self.most_kept) {
            return Err(format!(
                "all reports together need more than {} of text or {} of memory, so the rest is left out; divide the fleet",
                units::bytes(self.most_read),
                units::bytes(self.most_kept)
            ));
        }
        Ok(())
    }

    /// A reader that counts its bytes and fails above a limit.
    pub(super) fn reader<R: Read>(&self, text: R) -> Counted<'_, R> {
        Counted { budget: self, text }
    }
}

/// See [`Budget::reader`].
pub(super) struct Counted<'a, R> {
    budget: &'a Budget,
    text: R,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.budget.room().map_err(io::Error::other)?;
        let count = self.text.read(out)?;
        self.budget.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn texts_above_the_limit_of_all_are_not_read() {
        let budget = Budget::new(1000, 1000);
        let mut text = Vec::new();
        budget.reader(&[b'x'; 900][..]).read_to_end(&mut text).unwrap();
        assert_eq!(text.len(), 900);
        let why = budget.reader(io::repeat(b'x')).read_to_end(&mut text).unwrap_err();
        assert!(why.to_string().contains("divide the fleet") && text.len() < 1 << 20, "{why}: {}", text.len());
        assert!(budget.reader(&b"x"[..]).read_to_end(&mut text).is_err());
    }
}
