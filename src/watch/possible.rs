//! Detects values in the shared file that the recording library cannot have written. A watched program can overwrite
//! the file; the report then shows this instead of numbers.

use super::group::{Group, Total};
use crate::device::SharedWords;
use cufile_audit::layout::{
    Answer, ERRNO_WORD, FUNCTION_COUNT, FUNCTIONS, Function, LIBRARIES, MAGIC, RINGS, VERSION, header, kind, ring,
    state,
};

/// The maximum process or thread id plus 1 (PID_MAX_LIMIT of 64-bit Linux).
pub(super) const IDS: u64 = 1 << 22;
/// Codes of cuFile, CUDA and the operating system are smaller.
const CODES: u64 = 10_000;
/// A time may be later than this process believes, because it was interrupted between two readings.
const SLACK_NS: u64 = 1_000_000_000;
/// No call moves or maps so many bytes, because user addresses have 47 or 48 bits.
const CALL_BYTES: u64 = 1 << 48;
/// The bytes of a total can include this many calls more than its count, because they are read one after another.
const UNCOUNTED: u64 = 1024;

/// The time of the recording so far, in nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

impl Span {
    const fn has(self, at_ns: u64) -> bool {
        at_ns >= self.from_ns && at_ns <= self.to_ns.saturating_add(SLACK_NS)
    }

    /// The maximum number of calls of a thread, or of nanoseconds in calls. A call takes more than a nanosecond.
    const fn most(self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns).saturating_add(SLACK_NS)
    }

    /// Whether the library can have written this record during that time.
    pub(super) fn allows(self, group: &Group) -> bool {
        let record = &group.record;
        let Some(function) = Function::ALL.get(usize::from(record.kind())) else {
            let follows = [kind::TEXT, kind::BATCH_ENTRY, kind::BATCH_EVENT].contains(&record.kind());
            return !follows && (kind::TEXT..=kind::LAST).contains(&record.kind());
        };
        // A process in another namespace can have another clock.
        let in_time = !group.is_visible || (self.has(record.start_ns) && self.has(record.end_ns));
        let result = record.result.cast_signed();
        let answered = match FUNCTIONS[*function as usize].answer {
            Answer::Status => u64::from((record.result as u32).cast_signed().unsigned_abs()) < CODES,
            Answer::Bytes if result == -1 => record.extra[ERRNO_WORD] < CODES,
            Answer::Bytes => result > -CODES.cast_signed(),
            Answer::Plain => true,
        };
        in_time
            && answered
            && record.start_ns <= record.end_ns
            && record.end_ns - record.start_ns <= self.most()
            && usize::from(record.library()) < LIBRARIES
    }

    /// Whether the library can have counted this in a ring during that time.
    pub(super) fn allows_totals(self, totals: &[Total], lost: u64) -> bool {
        let is_possible = |[count, errors, bytes, total_ns]: &Total| {
            let numbers = [count, errors, total_ns];
            numbers.iter().all(|number| **number <= self.most())
                && *bytes <= count.saturating_add(UNCOUNTED).saturating_mul(CALL_BYTES)
        };
        lost <= self.most() && totals.iter().all(is_possible)
    }
}

/// Whether the library can have written the words of a ring's header, apart from times and totals.
pub(super) fn is_ring(words: &SharedWords, first: usize) -> bool {
    [ring::PID, ring::TID, ring::READ_TID].iter().all(|word| words.load(first + word) < IDS)
        && words.load(first + ring::OPEN) <= FUNCTION_COUNT as u64
}

/// Whether the header of the file is that of a recording of `most` nanoseconds.
pub(super) fn is_header(words: &SharedWords, span: Span) -> bool {
    // Several threads count in these words.
    let most = span.most().saturating_mul(RINGS as u64);
    let counts = [
        header::WITHOUT_RING,
        header::PROGRAMS,
        header::LIBRARIES_LEFT_OUT,
        header::STARTS_LOST,
        header::WITHOUT_SPACE,
        header::SEQUENCE,
    ];
    words.load(header::MAGIC) == MAGIC
        && words.load(header::VERSION) == VERSION
        && counts.iter().all(|word| words.load(*word) <= most)
        && (0..RINGS).all(|ring| words.load(header::STATES + ring) <= state::IN_USE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cufile_audit::layout::Record;

    fn group(record: Record) -> Group {
        Group { process: 1, thread: 1, is_visible: true, record, parts: Vec::new() }
    }

    #[test]
    fn records_that_the_library_cannot_have_written_are_found() {
        let span = Span { from_ns: 1_000, to_ns: 2_000 };
        let read = Record {
            head: Record::head(Function::Read as u16, 0, 0),
            start_ns: 1_100,
            end_ns: 1_200,
            result: 4096,
            ..Record::default()
        };
        let failed = |errno| Record { result: u64::MAX, extra: [0, 0, 0, 0, 0, 0, errno], ..read };
        let library = |end_ns| Record { head: Record::head(kind::LIBRARY, 0, 0), end_ns, ..Record::default() };
        for record in
            [read, failed(5), failed(5011), Record { result: (-5027_i64).cast_unsigned(), ..read }, library(9)]
        {
            assert!(span.allows(&group(record)), "{record:?}");
        }
        for record in [
            Record { head: Record::head(999, 0, 0), ..read },
            Record { head: Record::head(kind::TEXT, 0, 0), ..read },
            Record { head: Record::head(Function::Read as u16, 9, 0), ..read },
            Record { start_ns: 999, ..read },
            Record { end_ns: u64::MAX, ..read },
            Record { end_ns: 1_000, ..read },
            Record { result: 1 << 63, ..read },
            failed(123_456),
            Record { head: Record::head(Function::BufRegister as u16, 0, 0), result: 77_777, ..read },
        ] {
            assert!(!span.allows(&group(record)), "{record:?}");
        }
        // The clock of another namespace can differ, but not the duration.
        let elsewhere = |record| Group { is_visible: false, ..group(record) };
        assert!(span.allows(&elsewhere(Record { start_ns: 5, end_ns: 9, ..read })));
        assert!(!span.allows(&elsewhere(Record { start_ns: 5, end_ns: 1 << 62, ..read })));
    }

    #[test]
    fn totals_above_what_the_time_allows_are_found() {
        let span = Span { from_ns: 0, to_ns: 1_000_000 };
        assert!(span.allows_totals(&[[100, 3, 100 << 30, 900_000]], 7));
        for (total, lost) in [
            ([1, 0, 0, 0], 1 << 63),
            ([1 << 63, 0, 0, 0], 0),
            ([9, 1 << 40, 0, 0], 0),
            ([9, 0, 0, u64::MAX], 0),
            ([9, 0, 1 << 62, 0], 0),
        ] {
            assert!(!span.allows_totals(&[total], lost), "{total:?} {lost}");
        }
    }
}
