//! A recorded call: its record and those that belong to it.

use super::named_file::{Descriptor, NamedFile};
use cufile_audit::layout::{Function, IDENTITY_WORD, RECORD_WORDS, Record, TEXT_BYTES, kind, ring};

/// A record, followed by the records that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) process: u32,
    pub(super) thread: u32,
    /// Whether this process sees the thread under the same numbers in procfs, because it is in the same pid
    /// namespace.
    pub(super) is_visible: bool,
    pub(super) record: Record,
    pub(super) parts: Vec<Record>,
}

impl Group {
    /// The time in nanoseconds by which calls are sorted: the end of calls that return a resource and of readings of
    /// counters, and the start of other calls. The reason is that another thread may release a handle while the call that
    /// gets the same handle is already running, and that counters can contain calls that began during the reading.
    pub(super) fn order(&self) -> u64 {
        const RETURN: [Function; 4] =
            [Function::HandleRegister, Function::BufRegister, Function::BatchSetUp, Function::BatchGetStatus];
        let returns = RETURN.iter().any(|function| *function as u16 == self.record.kind());
        let returns = returns || self.record.kind() == kind::STATISTICS;
        if returns { self.record.end_ns } else { self.record.start_ns }
    }

    /// The file that the record of a registration or of a file names, and the descriptor of the process, if its number
    /// means the same process here.
    pub(super) fn file(&self) -> (NamedFile, Option<Descriptor>) {
        let Record { object, extra, .. } = self.record;
        let [device, inode, _, seconds, nanoseconds, ..] = extra;
        let (number, identity) = match self.record.kind() {
            kind::FILE => (object, [device, inode, seconds, nanoseconds]),
            _ => (extra[0], std::array::from_fn(|word| extra[IDENTITY_WORD + word])),
        };
        let number = u32::try_from(number).ok().filter(|_| self.is_visible);
        let at = number.map(|number| Descriptor { process: self.process, number });
        (NamedFile::new(self.bytes(), identity), at)
    }

    /// A record that is followed by a text.
    pub(super) fn with_text(process: u32, thread: u32, mut record: Record, text: impl AsRef<[u8]>) -> Self {
        let text = text.as_ref();
        let mut parts = Vec::new();
        for bytes in text.chunks(TEXT_BYTES) {
            let mut words = [0; RECORD_WORDS];
            words[0] = Record::head(kind::TEXT, record.library(), 0);
            for (word, eight) in words.iter_mut().skip(1).zip(bytes.chunks(8)) {
                let mut complete = [0; 8];
                complete[..eight.len()].copy_from_slice(eight);
                *word = u64::from_le_bytes(complete);
            }
            parts.push(Record::from_words(words));
        }
        record.head = Record::head(record.kind(), record.library(), parts.len() as u32);
        record.extra[6] = text.len() as u64;
        Self { process, thread, is_visible: true, record, parts }
    }

    /// The text after the record, for example the name of a program.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// The bytes of the text after the record, for example of a path.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in self.parts.iter().filter(|part| part.kind() == kind::TEXT) {
            bytes.extend(part.words()[1..].iter().flat_map(|word| word.to_le_bytes()));
        }
        bytes.truncate(usize::try_from(self.record.extra[6]).unwrap_or(0).min(self.parts.len() * TEXT_BYTES));
        bytes
    }
}

/// The counters of one function: calls, errors, bytes and nanoseconds.
pub(super) type Total = [u64; ring::WORDS_OF_TOTAL];
