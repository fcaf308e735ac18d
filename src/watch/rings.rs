//! Reads the shared file: new records, totals, and the rings of ended threads.

use super::group::{Group, Total};
use super::losses::Losses;
use super::possible::{self, Span};
use crate::core::{Caller, OpenCall};
use crate::device::SharedWords;
use crate::trust;
use cufile_audit::layout::{
    ENV_FILE, FUNCTION_COUNT, FUNCTIONS, Function, HEADER_BYTES, RECORD_WORDS, RECORDS, RING_BYTES, RING_HEADER_BYTES,
    RINGS, Record, SLOTS, header, kind, ring, state,
};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The counters of all rings.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) functions: Vec<Total>,
    /// Number of threads that made a call.
    pub(super) threads: u64,
    /// Number of calls whose record was lost.
    pub(super) lost: u64,
}

impl Totals {
    fn add(&mut self, Counters { functions, threads, lost }: &Counters) {
        self.functions.resize(FUNCTION_COUNT, Total::default());
        for (sum, more) in self.functions.iter_mut().zip(functions) {
            for (sum, more) in sum.iter_mut().zip(more) {
                *sum = sum.wrapping_add(*more);
            }
        }
        self.threads = self.threads.saturating_add(*threads);
        self.lost = self.lost.saturating_add(*lost);
    }
}

/// The counters of a ring.
struct Counters {
    functions: Vec<Total>,
    /// Number of its threads that called functions of cuFile, one after another.
    threads: u64,
    lost: u64,
}

/// The reader of the shared file.
#[derive(Debug)]
pub(super) struct Reader {
    /// The id of this process's pid namespace.
    namespace: u64,
    /// The counters of ended threads whose rings other threads have reused.
    ended: Totals,
    /// The unfinished calls of these threads.
    ended_open: Vec<Unfinished>,
    /// Whether the file contained values that the library cannot have written.
    overwritten: bool,
    /// The losses of the processes in the rings that were read since they were taken last.
    losses: HashMap<u32, Losses>,
    /// The number of records of each function that were read.
    read: [u64; FUNCTION_COUNT],
    /// The calls without a ring that were seen, by slot of their process.
    without_ring: [u64; SLOTS],
}

/// Maximum number of unfinished calls that are listed.
const MOST_OPEN: usize = 1024;

/// A call that has not returned.
#[derive(Clone, Debug)]
struct Unfinished {
    call: OpenCall,
    since_ns: u64,
    /// The inode of the pid namespace of its process.
    namespace: u64,
}

/// The call that the thread of a ring has not finished.
fn open_call(words: &SharedWords, index: usize) -> Option<Unfinished> {
    let first = first_word(index);
    let function = usize::try_from(words.load(first + ring::OPEN)).ok()?.checked_sub(1)?;
    let call = OpenCall {
        function: FUNCTIONS.get(function)?.name.to_owned(),
        process: words.load(first + ring::PID) as u32,
        thread: words.load(first + ring::TID) as u32,
        ..OpenCall::default()
    };
    let (since_ns, namespace) = (words.load(first + ring::OPEN_SINCE), words.load(first + ring::NAMESPACE));
    Some(Unfinished { call, since_ns, namespace })
}

fn first_word(index: usize) -> usize {
    (HEADER_BYTES + index * RING_BYTES) / 8
}

impl Reader {
    pub(super) fn new() -> Self {
        let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let digits: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
        // No ring has this number, so all rings are treated as belonging to another namespace.
        let namespace = digits.parse().unwrap_or(u64::MAX);
        Self {
            namespace,
            ended: Totals::default(),
            ended_open: Vec::new(),
            overwritten: false,
            losses: HashMap::new(),
            read: [0; FUNCTION_COUNT],
            without_ring: [0; SLOTS],
        }
    }

    /// The calls that have not returned. `ended` is the started program if it has ended.
    pub(super) fn open_calls(&self, words: &SharedWords, now_ns: u64, ended: Option<u32>) -> Vec<OpenCall> {
        let now = in_use(words).filter_map(|index| open_call(words, index));
        let all = self.ended_open.iter().cloned().chain(now).take(MOST_OPEN);
        all.map(|Unfinished { call, since_ns, namespace }| {
            let process = Some(call.process).filter(|_| ended.is_some() && namespace == self.namespace);
            let caller = match process {
                Some(_) if process == ended => Caller::Program,
                Some(process) if runs(process.into()) => Caller::Running,
                _ => Caller::Unknown,
            };
            OpenCall { age_ns: now_ns.saturating_sub(since_ns), caller, ..call }
        })
        .collect()
    }

    /// Removes all new records from the rings. They are sorted by [`Group::order`].
    pub(super) fn drain(&mut self, words: &SharedWords) -> Vec<Group> {
        let mut groups = Vec::new();
        for index in in_use(words) {
            self.drain_ring(words, index, &mut groups);
        }
        groups.sort_by_key(Group::order);
        groups
    }

    /// Like [`Reader::drain`], with the totals of the same time. A process that still runs can make calls between the
    /// reading of the records and of the totals, so calls of cuFile that only the totals have count as lost.
    pub(super) fn drain_last(&mut self, words: &SharedWords) -> (Vec<Group>, Totals) {
        let (mut groups, mut totals) = (Vec::new(), self.ended.clone());
        for index in in_use(words) {
            self.drain_ring(words, index, &mut groups);
            totals.add(&counters(words, index));
        }
        groups.sort_by_key(Group::order);
        let counted = totals.functions.iter().zip(self.read).zip(Function::ALL);
        let counted = counted.filter(|(_, function)| function.is_cufile());
        let without_record = counted.map(|(([count, ..], read), _)| count.saturating_sub(read));
        totals.lost = totals.lost.max(without_record.fold(0, u64::saturating_add));
        (groups, totals)
    }

    fn drain_ring(&mut self, words: &SharedWords, index: usize, groups: &mut Vec<Group>) {
        let before = groups.len();
        self.overwritten |= !drain_ring(words, index, self.namespace, groups);
        for group in groups.iter().skip(before) {
            if let Some(read) = self.read.get_mut(usize::from(group.record.kind())) {
                *read += 1;
            }
        }
        let load = |at: usize| words.load(first_word(index) + at);
        let lost = Losses {
            registration_ns: load(ring::LOST_REGISTRATION_NS),
            release_ns: load(ring::LOST_RELEASE_NS),
            transfer_ns: load(ring::LOST_TRANSFER_NS),
        };
        if lost != Losses::default() {
            let known = self.losses.entry(load(ring::PID) as u32).or_default();
            *known = known.and(lost);
        }
    }

    /// Takes the losses that the last reading found. A loss is stored before the program can use the result of the lost
    /// call, so the reading before a later call is processed finds it.
    pub(super) fn take_losses(&mut self) -> HashMap<u32, Losses> {
        std::mem::take(&mut self.losses)
    }

    /// The slots of processes of which a call found no free ring since this was called last.
    pub(super) fn take_without_ring(&mut self, words: &SharedWords) -> Vec<usize> {
        let slots = self.without_ring.iter_mut().enumerate();
        let has_more = |(slot, known): (usize, &mut u64)| {
            let now = words.load(header::WITHOUT_RING_OF + slot);
            (std::mem::replace(known, now) < now).then_some(slot)
        };
        slots.filter_map(has_more).collect()
    }

    /// Looks for records that the library cannot have written since `from_ns`.
    pub(super) fn check_records(&mut self, groups: &[Group], from_ns: u64) {
        let span = Span { from_ns, to_ns: now_ns() };
        self.overwritten |= !groups.iter().all(|group| span.allows(group));
    }

    /// Looks for values in the headers that the library cannot have written since `from_ns`.
    pub(super) fn check(&mut self, words: &SharedWords, from_ns: u64) {
        let rings: Vec<_> = in_use(words).map(|index| (index, counters(words, index))).collect();
        // The time is taken after the values were read.
        let span = Span { from_ns, to_ns: now_ns() };
        let is_possible = possible::is_header(words, span)
            && rings.iter().all(|(index, counters)| {
                let Counters { functions, threads, lost } = counters;
                let is_ring = possible::is_ring(words, first_word(*index));
                is_ring && span.allows_totals(functions, *lost) && span.allows_totals(&[], *threads)
            });
        self.overwritten |= !is_possible;
    }

    /// Whether the file contained values that the library cannot have written. A file that was truncated is empty,
    /// which has another message.
    pub(super) fn is_overwritten(&self, words: &SharedWords) -> bool {
        self.overwritten && !words.is_cut()
    }

    /// The counters of all threads, including those that ended.
    pub(super) fn totals(&self, words: &SharedWords) -> Totals {
        let mut totals = self.ended.clone();
        for index in in_use(words) {
            totals.add(&counters(words, index));
        }
        totals
    }

    /// The number of processes that are running, without `root`: those with a ring, and those whose environment names
    /// the shared file, which may make their first call later. Those of other pid namespaces are not known, and the
    /// environment of processes of other users is not read, because they could delay the answer for ever.
    pub(super) fn running(&self, words: &SharedWords, file: &Path, root: u32) -> u64 {
        let own = in_use(words).map(first_word).filter(|first| words.load(first + ring::NAMESPACE) == self.namespace);
        let variable = [ENV_FILE.as_bytes(), b"=", file.as_os_str().as_bytes()].concat();
        let names = |process: &PathBuf| {
            let environment = trust::process::environment(process, &mut trust::Allowance::unlimited());
            environment.is_ok_and(|seen| seen.bytes.split(|byte| *byte == 0).any(|one| one == variable))
        };
        let with_file = trust::process::own_folders(Path::new("/proc")).filter(names);
        let with_file = with_file.filter_map(|process| process.file_name()?.to_str()?.parse::<u64>().ok());
        let processes: HashSet<u64> = own.map(|first| words.load(first + ring::PID)).chain(with_file).collect();
        processes.iter().filter(|pid| **pid != u64::from(root)).filter(|pid| runs(**pid)).count() as u64
    }

    /// Whether many rings are in use, so that new threads may soon find none.
    pub(super) fn is_scarce(words: &SharedWords) -> bool {
        in_use(words).count() > RINGS / 4
    }

    /// Frees the rings of ended threads and adds their remaining records to `groups`.
    pub(super) fn free_ended(&mut self, words: &SharedWords, groups: &mut Vec<Group>) {
        for index in in_use(words) {
            let first = first_word(index);
            // A thread in another namespace has different numbers here, so its ring is kept.
            if words.load(first + ring::NAMESPACE) != self.namespace {
                continue;
            }
            let is_running = || {
                let (process, thread) = (words.load(first + ring::PID), words.load(first + ring::TID));
                Path::new(&format!("/proc/{process}/task/{thread}")).exists()
            };
            let state = header::STATES + index;
            if is_running() || !words.replace(state, state::IN_USE, state::TAKEN) {
                continue;
            }
            // Another thread may have taken the ring in between.
            if is_running() {
                words.store(state, state::IN_USE);
                continue;
            }
            self.drain_ring(words, index, groups);
            self.ended.add(&counters(words, index));
            let room = MOST_OPEN.saturating_sub(self.ended_open.len());
            self.ended_open.extend(open_call(words, index).into_iter().take(room));
            let last = ring::TOTALS + FUNCTION_COUNT * ring::WORDS_OF_TOTAL;
            for word in (ring::PID..=ring::READ_TID).chain(ring::TOTALS..last) {
                words.store(first + word, 0);
            }
            words.store(state, state::FREE);
        }
    }
}

/// Whether a process of this pid namespace is running.
fn runs(process: u64) -> bool {
    let process = i32::try_from(process).ok().and_then(|pid| procfs::process::Process::new(pid).ok());
    process.and_then(|process| process.stat().ok()).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

fn in_use(words: &SharedWords) -> impl Iterator<Item = usize> {
    (0..RINGS).filter(|index| words.load(header::STATES + index) == state::IN_USE)
}

fn counters(words: &SharedWords, index: usize) -> Counters {
    let first = first_word(index);
    let total = |function: usize| -> Total {
        std::array::from_fn(|word| words.load(first + ring::TOTALS + function * ring::WORDS_OF_TOTAL + word))
    };
    let calls_cufile = words.load(first + ring::OPEN_SINCE) != 0;
    // A lost call is in this number before it is in the totals, so the totals are read later.
    let lost = words.load(first + ring::LOST);
    Counters {
        functions: (0..FUNCTION_COUNT).map(total).collect(),
        threads: words.load(first + ring::EARLIER).saturating_add(u64::from(calls_cufile)),
        lost,
    }
}

/// Removes the new records from a ring. Returns whether their numbers are possible.
fn drain_ring(words: &SharedWords, index: usize, namespace: u64, groups: &mut Vec<Group>) -> bool {
    let first = first_word(index);
    let written = words.load(first + ring::WRITTEN);
    let mut read = words.load(first + ring::READ);
    // The watched program can overwrite this memory, so the number may be invalid.
    let mut is_possible = written.wrapping_sub(read) <= RECORDS as u64;
    if !is_possible {
        read = written.wrapping_sub(RECORDS as u64);
    }
    let (process, mut thread) = (words.load(first + ring::PID) as u32, words.load(first + ring::READ_TID));
    let is_visible = words.load(first + ring::NAMESPACE) == namespace;
    let record_at = |read: u64| {
        let slot = (read as usize) & (RECORDS - 1);
        let at = first + RING_HEADER_BYTES / 8 + slot * RECORD_WORDS;
        Record::from_words(std::array::from_fn(|word| words.load(at + word)))
    };
    while read != written {
        let record = record_at(read);
        // Records that belong together are published at the same time.
        let left = written.wrapping_sub(read) - 1;
        is_possible &= u64::from(record.following()) <= left;
        let following = u64::from(record.following()).min(left);
        let parts = (1..=following).map(|part| record_at(read.wrapping_add(part))).collect();
        read = read.wrapping_add(1 + following);
        if record.kind() == kind::THREAD {
            thread = record.object;
            is_possible &= thread < possible::IDS;
        } else {
            groups.push(Group { process, thread: thread as u32, is_visible, record, parts });
        }
    }
    words.store(first + ring::READ_TID, thread);
    words.store(first + ring::READ, read);
    is_possible
}

/// Current time in nanoseconds on the clock of the recording library.
pub(super) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use cufile_audit::layout::{FILE_BYTES, MAGIC, VERSION};

    fn file() -> SharedWords {
        let file = tempfile::tempfile().unwrap();
        file.set_len(FILE_BYTES as u64).unwrap();
        SharedWords::map(&file, FILE_BYTES).unwrap()
    }

    /// Writes records like the library does.
    fn put(words: &SharedWords, index: usize, records: &[Record]) {
        let first = first_word(index);
        let mut written = words.load(first + ring::WRITTEN);
        for record in records {
            let at = first + RING_HEADER_BYTES / 8 + (written as usize % RECORDS) * RECORD_WORDS;
            for (word, value) in record.words().into_iter().enumerate() {
                words.store(at + word, value);
            }
            written += 1;
        }
        words.store(first + ring::WRITTEN, written);
    }

    fn at(start_ns: u64, kind: u16, following: u32) -> Record {
        Record { head: Record::head(kind, 0, following), start_ns, ..Record::default() }
    }

    #[test]
    fn records_of_all_threads_come_in_order_of_time_and_once() {
        let words = file();
        for index in [0, 7] {
            words.store(header::STATES + index, state::IN_USE);
            words.store(first_word(index) + ring::PID, 10 + index as u64);
        }
        put(&words, 7, &[at(5, 1, 1), at(0, kind::TEXT, 0), at(9, 2, 0)]);
        put(&words, 0, &[at(7, 3, 0)]);
        let mut reader = Reader::new();
        let groups = reader.drain(&words);
        let seen: Vec<_> = groups.iter().map(|g| (g.process, g.record.kind(), g.parts.len())).collect();
        assert_eq!(seen, [(17, 1, 1), (10, 3, 0), (17, 2, 0)]);
        assert!(reader.drain(&words).is_empty());
        // These records wrap around the end of the ring.
        let many: Vec<Record> = (0..RECORDS as u64).map(|n| at(n, 4, 0)).collect();
        put(&words, 7, &many);
        assert_eq!((reader.drain(&words).len(), reader.is_overwritten(&words)), (RECORDS, false));
        // More records than fit.
        put(&words, 7, &many);
        put(&words, 7, &many);
        assert_eq!((reader.drain(&words).len(), reader.is_overwritten(&words)), (RECORDS, true));
    }

    #[test]
    fn the_process_of_an_open_call_is_the_program_or_runs_or_is_unknown() {
        let (words, reader) = (file(), Reader::new());
        let (program, own) = (u32::MAX - 1, std::process::id());
        // The last process has another pid namespace, so its number means nothing here.
        let all = [(program, 0), (own, 0), (u32::MAX, 0), (own, 1)];
        for (index, (process, other)) in all.into_iter().enumerate() {
            words.store(header::STATES + index, state::IN_USE);
            words.store(first_word(index) + ring::PID, process.into());
            words.store(first_word(index) + ring::NAMESPACE, reader.namespace ^ other);
            words.store(first_word(index) + ring::OPEN, Function::Read as u64 + 1);
        }
        let callers = |ended| reader.open_calls(&words, 1, ended).iter().map(|open| open.caller).collect::<Vec<_>>();
        let unknown = Caller::Unknown;
        assert_eq!(callers(Some(program)), [Caller::Program, Caller::Running, unknown, unknown]);
        assert_eq!(callers(None), [unknown; 4]);
    }

    #[test]
    fn calls_that_only_the_totals_have_at_the_end_are_lost() {
        let words = file();
        words.store(header::STATES, state::IN_USE);
        let read = Function::Read as u16;
        let total = first_word(0) + ring::TOTALS + usize::from(read) * ring::WORDS_OF_TOTAL;
        let end = |calls: u64, lost: u64| {
            words.store(total, calls);
            words.store(first_word(0) + ring::LOST, lost);
            let mut reader = Reader::new();
            put(&words, 0, &[at(1, read, 0), at(2, read, 0)]);
            let first = reader.drain(&words).len();
            put(&words, 0, &[at(3, read, 0)]);
            let (last, totals) = reader.drain_last(&words);
            assert_eq!((first, last.len(), totals.functions[usize::from(read)][0]), (2, 1, calls));
            totals.lost
        };
        assert_eq!([end(3, 0), end(5, 0), end(5, 2), end(5, 1), end(3, 4)], [0, 2, 2, 2, 4]);
    }

    #[test]
    fn a_slot_is_taken_when_a_call_of_its_processes_found_no_ring() {
        let (words, mut reader) = (file(), Reader::new());
        let mut lose = |slots: &[usize]| {
            for slot in slots {
                let word = header::WITHOUT_RING_OF + slot;
                words.store(word, words.load(word) + 1);
            }
            reader.take_without_ring(&words)
        };
        assert_eq!(lose(&[]), Vec::<usize>::new());
        assert_eq!(lose(&[0, SLOTS - 1]), [0, SLOTS - 1]);
        assert_eq!((lose(&[]), lose(&[7, 7])), (Vec::new(), vec![7]));
    }

    #[test]
    fn the_records_of_a_ring_belong_to_the_thread_that_wrote_them() {
        let words = file();
        words.store(header::STATES, state::IN_USE);
        for word in [ring::TID, ring::READ_TID] {
            words.store(first_word(0) + word, 10);
        }
        let taken_by = |thread| Record { object: thread, ..at(2, kind::THREAD, 0) };
        let mut reader = Reader::new();
        let mut threads = || -> Vec<u32> { reader.drain(&words).iter().map(|group| group.thread).collect() };
        put(&words, 0, &[at(1, 1, 0), taken_by(11), at(3, 1, 0), taken_by(12), at(4, 1, 0)]);
        assert_eq!(threads(), [10, 11, 12]);
        put(&words, 0, &[at(5, 1, 0), taken_by(13)]);
        assert_eq!(threads(), [12]);
        put(&words, 0, &[at(6, 1, 0)]);
        assert_eq!(threads(), [13]);
        words.store(first_word(0) + ring::EARLIER, 3);
        assert_eq!(reader.totals(&words).threads, 3);
        words.store(first_word(0) + ring::OPEN_SINCE, 6);
        assert_eq!((reader.totals(&words).threads, reader.is_overwritten(&words)), (4, false));
        put(&words, 0, &[taken_by(1 << 40)]);
        reader.drain(&words);
        assert!(reader.is_overwritten(&words));
    }

    #[test]
    fn a_file_with_impossible_values_is_overwritten_and_a_new_one_is_not() {
        let words = file();
        words.store(header::MAGIC, MAGIC);
        words.store(header::VERSION, VERSION);
        words.store(header::STATES, state::IN_USE);
        let check = |words: &SharedWords| {
            let mut reader = Reader::new();
            reader.check(words, 0);
            reader.is_overwritten(words)
        };
        assert!(!check(&words));
        for (word, value) in [
            (header::MAGIC, 0),
            (header::PROGRAMS, 1 << 63),
            (header::STATES + 5, 3),
            (first_word(0) + ring::LOST, 1 << 63),
            (first_word(0) + ring::PID, 1 << 40),
            (first_word(0) + ring::TOTALS, u64::MAX),
            (first_word(0) + ring::EARLIER, u64::MAX),
            (first_word(0) + ring::READ_TID, 1 << 40),
        ] {
            let before = words.load(word);
            words.store(word, value);
            assert!(check(&words), "{word}");
            words.store(word, before);
        }
        assert!(!check(&words));
    }

    #[test]
    fn the_ring_of_a_thread_that_ended_is_freed_and_its_totals_stay() {
        let words = file();
        words.store(header::STATES, state::IN_USE);
        // No process has this number.
        words.store(first_word(0) + ring::PID, u64::from(u32::MAX));
        words.store(first_word(0) + ring::TOTALS + 4, 3);
        words.store(first_word(0) + ring::OPEN_SINCE, 1);
        words.store(first_word(0) + ring::LOST, 2);
        put(&words, 0, &[at(1, 1, 0)]);
        let mut reader = Reader::new();
        let mut groups = Vec::new();
        // In another namespace, the number does not identify the thread.
        reader.free_ended(&words, &mut groups);
        assert_eq!(words.load(header::STATES), state::IN_USE);
        words.store(first_word(0) + ring::NAMESPACE, reader.namespace);
        reader.free_ended(&words, &mut groups);
        assert_eq!((groups.len(), words.load(header::STATES)), (1, state::FREE));
        let totals = reader.totals(&words);
        assert_eq!((totals.functions[1], totals.threads, totals.lost), ([3, 0, 0, 0], 1, 2));
    }
}
