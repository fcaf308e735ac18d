//! Creates a report from a shared file with any content. Tests of hostile input use it, because the watched program
//! can write to that file.

use super::rings::Reader;
use super::routes::{MachineRoutes, decide};
use super::tally::Tally;
use crate::core::WatchReport;
use crate::device::SharedWords;
use cufile_audit::layout::{FILE_BYTES, HEADER_BYTES, RECORDS, RING_HEADER_BYTES, header, ring, state};

/// Reads these bytes as one ring with a header and records. The header contains the number of records, which may be
/// wrong.
///
/// # Errors
/// Fails if the operating system has no memory for the file.
pub fn read_ring(bytes: &[u8]) -> std::io::Result<WatchReport> {
    let file = tempfile::tempfile()?;
    file.set_len(FILE_BYTES as u64)?;
    let words = SharedWords::map(&file, FILE_BYTES)?;
    words.store(header::STATES, state::IN_USE);
    let first = HEADER_BYTES / 8;
    for (at, word) in bytes.chunks(8).enumerate() {
        let mut eight = [0; 8];
        eight[..word.len()].copy_from_slice(word);
        words.store(first + at, u64::from_le_bytes(eight));
    }
    if bytes.len() < RING_HEADER_BYTES {
        words.store(first + ring::WRITTEN, RECORDS as u64);
    }
    let mut reader = Reader::new();
    let mut groups = reader.drain(&words);
    // A session shows no number of such a file. Here the numbers are counted nevertheless, so that the arithmetic is
    // tested with any value.
    reader.check(&words, 0);
    reader.check_records(&groups, 0);
    let mut tally = Tally::default();
    for group in &groups {
        tally.take(group);
    }
    let ended = tally.streams.look();
    tally.end_streams(&ended);
    let totals = reader.totals(&words);
    let mut report = WatchReport { lost_events: totals.lost, ..tally.report(&totals) };
    decide(&mut report, tally.requested_bytes(), MachineRoutes::look(None, None));
    groups.clear();
    reader.free_ended(&words, &mut groups);
    Ok(report)
}
