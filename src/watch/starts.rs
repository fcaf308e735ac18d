//! Follows the programs that recorded processes start. A program that does not report that it loaded the recording library
//! is not recorded: it has other rights or mounts, another libc, or a sandbox that hides the library.

use crate::device::SharedWords;
use cufile_audit::layout::{STARTS, header, start};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// A program loads the library within this time after its start. At the end of the session, all programs have started.
const SOON: Duration = Duration::from_secs(1);
/// Maximum number of programs of each kind that are kept, and of those that are listed.
const MOST: usize = 4096;
const MOST_LISTED: usize = 32;

/// The programs whose calls are not recorded.
#[derive(Debug, Default)]
pub(super) struct Starts {
    /// The number of entries that were taken out.
    taken: u64,
    /// The programs that have not reported themselves, by process.
    waiting: BTreeMap<u64, (String, Instant)>,
    /// The last processes that loaded the library although no other process has reported their start.
    early: VecDeque<u64>,
    missed: BTreeSet<String>,
}

/// An entry of the shared file.
struct Entry {
    number: u64,
    kind: u64,
    process: u64,
    program: String,
}

impl Starts {
    /// Takes the entries out of the shared file.
    pub(super) fn look(&mut self, words: &SharedWords) {
        // An entry that is not complete when its slot is read cannot precede another one with a lower number.
        let complete = words.load(header::SEQUENCE);
        if complete == self.taken {
            return;
        }
        let all = (0..STARTS).map(|index| header::STARTS + index * start::WORDS);
        let mut entries: Vec<Entry> = all.filter_map(|first| take(words, first, complete)).collect();
        entries.sort_by_key(|entry| entry.number);
        self.taken = self.taken.wrapping_add(entries.len() as u64);
        for entry in entries {
            self.follow(entry);
        }
    }

    fn follow(&mut self, Entry { kind, process, program, .. }: Entry) {
        match kind {
            start::FAILED => _ = self.waiting.remove(&process),
            start::LOADED if self.waiting.remove(&process).is_none() => {
                // The shell of `system` is one of them, so there can be many.
                self.early.truncate(MOST - 1);
                self.early.push_front(process);
            }
            start::STARTED if self.is_early(process) => {}
            start::BEGINS | start::STARTED if self.waiting.len() < MOST => {
                let former = self.waiting.insert(process, (program, Instant::now()));
                former.into_iter().for_each(|(program, _)| self.miss(program));
            }
            start::BEGINS | start::STARTED | start::MISSED => self.miss(program),
            _ => {}
        }
    }

    /// Whether the process loaded the library before its parent reported its start.
    fn is_early(&mut self, process: u64) -> bool {
        let at = self.early.iter().position(|early| *early == process);
        at.is_some_and(|at| self.early.remove(at).is_some())
    }

    fn miss(&mut self, program: String) {
        if self.missed.len() < MOST {
            self.missed.insert(program);
        }
    }

    /// The programs that did not load the library.
    pub(super) fn unrecorded(&self, is_over: bool) -> impl Iterator<Item = &String> {
        let late = self.waiting.values().filter(move |(_, since)| is_over || since.elapsed() > SOON);
        self.missed.iter().chain(late.map(|(program, _)| program)).take(MOST_LISTED)
    }
}

/// Takes an entry out, if it is complete and its number is lower.
fn take(words: &SharedWords, first: usize, below: u64) -> Option<Entry> {
    let load = |at: usize| words.load(first + at);
    let kind = load(start::STATE);
    let number = load(start::NUMBER);
    if kind <= start::TAKEN || number >= below {
        return None;
    }
    let length = usize::try_from(load(start::LENGTH)).unwrap_or(usize::MAX);
    let bytes: Vec<u8> = (start::PATH..start::WORDS).flat_map(|at| load(at).to_le_bytes()).collect();
    let text = String::from_utf8_lossy(&bytes[..length.min(bytes.len())]);
    let program = if length > bytes.len() { format!("…{text}") } else { text.into_owned() };
    let process = load(start::PROCESS);
    words.store(first + start::STATE, start::FREE);
    Some(Entry { number, kind, process, program })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unrecorded(events: &[(u64, u64, &str)]) -> Vec<String> {
        let mut starts = Starts::default();
        for (kind, process, program) in events {
            starts.follow(Entry { number: 0, kind: *kind, process: *process, program: (*program).to_owned() });
        }
        starts.unrecorded(true).cloned().collect()
    }

    #[test]
    fn programs_that_do_not_report_themselves_are_not_recorded() {
        use start::{BEGINS, FAILED, LOADED, MISSED, STARTED};
        let none: [&str; 0] = [];
        assert_eq!(unrecorded(&[(BEGINS, 1, "a"), (LOADED, 1, "")]), none);
        assert_eq!(unrecorded(&[(BEGINS, 1, "a"), (FAILED, 1, ""), (BEGINS, 1, "b"), (LOADED, 1, "")]), none);
        assert_eq!(unrecorded(&[(BEGINS, 1, "a"), (LOADED, 2, "")]), ["a"]);
        // The parent of a started process may be slower than the process.
        assert_eq!(unrecorded(&[(LOADED, 1, ""), (STARTED, 1, "a")]), none);
        assert_eq!(unrecorded(&[(STARTED, 1, "a"), (LOADED, 1, "")]), none);
        // It may even become another program before.
        assert_eq!(unrecorded(&[(LOADED, 1, ""), (BEGINS, 1, "b"), (STARTED, 1, "a")]), ["b"]);
        // A process without an entry does not hide a later one with its id.
        assert_eq!(unrecorded(&[(LOADED, 1, ""), (BEGINS, 1, "a")]), ["a"]);
        assert_eq!(unrecorded(&[(BEGINS, 1, "a"), (BEGINS, 1, "b"), (LOADED, 1, "")]), ["a"]);
        assert_eq!(unrecorded(&[(MISSED, 0, "/bin/sh")]), ["/bin/sh"]);
        let mut shells: Vec<_> = (2..10_000).map(|shell| (LOADED, shell, "")).collect();
        shells.extend([(BEGINS, 1, "a"), (LOADED, 1, ""), (STARTED, 9_999, "b")]);
        assert_eq!(unrecorded(&shells), none);
    }
}
