//! The writer of the shared file: finds the file, acquires a ring for a thread, and writes records.

use crate::layout::{
    ENV_FILE, HEADER_BYTES, LIBRARY_WORDS, MAGIC, RECORD_WORDS, RECORDS, RING_BYTES, RING_HEADER_BYTES, RINGS, Record,
    STARTS, TEXT_BYTES, VERSION, header, kind, options, ring, slot_of, start, state,
};
use crate::{system, thread};
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// The mapped file. It is null if nothing is recorded.
static FILE: AtomicPtr<u64> = AtomicPtr::new(core::ptr::null_mut());
/// The number of rings in the mapping. It is less than [`RINGS`] if the address space of the process is limited.
static MAPPED_RINGS: AtomicUsize = AtomicUsize::new(0);
/// A page whose first word is the process id. The word is 0 in the child of a fork. It is null if the kernel does not
/// support such pages.
static PROCESS_PAGE: AtomicPtr<u64> = AtomicPtr::new(core::ptr::null_mut());
/// The process in which the program began. The child of a fork is another one.
static BEGAN_IN: AtomicU64 = AtomicU64::new(0);
/// The process that has written its [`kind::PROCESS`] record.
static INTRODUCED: AtomicU64 = AtomicU64::new(0);
/// The last process that recorded or lost a call, and the time in nanoseconds of its [`kind::PROCESS`] record. The
/// child of a fork inherits both, also from a process that has ended since.
static CALLER: AtomicU64 = AtomicU64::new(0);
static CALLER_SINCE: AtomicU64 = AtomicU64::new(0);
/// The end in nanoseconds of the last call that registered or released memory. The child of a fork inherits it, which
/// shows what its parent did before the fork.
static MEMORY_CALL_NS: AtomicU64 = AtomicU64::new(0);

/// The part of a limited address space that the mapping may take. A thread with a stack of 8 MiB needs more than a ring.
const SHARE: usize = 32;
/// The minimum number of rings.
const FEWEST_RINGS: usize = 8;

/// The maximum length of the path of the shared file in bytes.
const PATH_BYTES: usize = 1024;
/// The path of the shared file. It is copied before the program runs, because the program can change its environment.
struct SharedPath(core::cell::UnsafeCell<[u8; PATH_BYTES]>);
// SAFETY: it is written once, in `open`, before the program has a second thread. Later it is only read.
unsafe impl Sync for SharedPath {}
static PATH: SharedPath = SharedPath(core::cell::UnsafeCell::new([0; PATH_BYTES]));
/// The path of this library, from the header of the shared file.
static LIBRARY: SharedPath = SharedPath(core::cell::UnsafeCell::new([0; PATH_BYTES]));
const _: () = assert!(LIBRARY_WORDS * 8 <= PATH_BYTES);

/// The path of the shared file, as a C string.
pub(crate) fn path() -> *const c_char {
    PATH.0.get().cast()
}

impl SharedPath {
    fn bytes(&self) -> &[u8] {
        // SAFETY: it is written only in `open`.
        let room = unsafe { &*self.0.get() };
        let length = room.iter().take_while(|byte| **byte != 0).count();
        room.get(..length).unwrap_or(&[])
    }
}

/// The path of the shared file.
pub(crate) fn file_path() -> &'static [u8] {
    PATH.bytes()
}

/// The path of this library. Empty if it is unknown.
pub(crate) fn library_path() -> &'static [u8] {
    LIBRARY.bytes()
}

/// Whether a program that this process starts can load the library and open the shared file.
pub(crate) fn can_be_joined() -> bool {
    let length = library_path().len();
    // SAFETY: a zero byte ends both paths, because they are shorter than the buffers.
    unsafe {
        (length == 0 || length == PATH_BYTES || system::can_read(LIBRARY.0.get().cast()))
            && system::shared_bytes(path()).is_some()
    }
}

/// Reports that a program starts or has started, as one of the kinds of [`start`].
#[inline(never)]
#[cold]
pub(crate) fn report_start(kind: u64, process: u64, program: &[u8]) {
    let file = FILE.load(Ordering::Acquire);
    // SAFETY: `open` copied the path with its zero byte.
    let bytes = || unsafe { system::shared_bytes(path()) };
    // If the program truncated the file, an access would end the process.
    if !file.is_null() && bytes().is_none_or(|bytes| bytes >= HEADER_BYTES as i64) {
        report_start_in(file, kind, process, program);
    }
}

fn report_start_in(file: *mut u64, kind: u64, process: u64, program: &[u8]) {
    let is_taken = |first: &usize| {
        let mark = word(file, first + start::STATE);
        mark.compare_exchange(start::FREE, start::TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let Some(first) = (0..STARTS).map(|entry| header::STARTS + entry * start::WORDS).find(is_taken) else {
        word(file, header::STARTS_LOST).fetch_add(1, Ordering::Relaxed);
        return;
    };
    let put = |at: usize, value: u64| word(file, first + at).store(value, Ordering::Relaxed);
    let path = program.get(program.len().saturating_sub(start::PATH_BYTES)..).unwrap_or(&[]);
    for (index, part) in path.chunks(8).enumerate() {
        let mut eight = [0; 8];
        for (to, from) in eight.iter_mut().zip(part) {
            *to = *from;
        }
        put(start::PATH + index, u64::from_le_bytes(eight));
    }
    put(start::LENGTH, program.len() as u64);
    put(start::PROCESS, process & 0xffff_ffff | system::pid_namespace() << 32);
    put(start::NUMBER, word(file, header::SEQUENCE).fetch_add(1, Ordering::AcqRel));
    word(file, first + start::STATE).store(kind, Ordering::Release);
}

/// Whether this process, or its parent before a fork, is the session that reads the calls in this file.
///
/// # Safety
/// `file` must be a C string.
pub(crate) unsafe fn is_session(file: *const c_char) -> bool {
    // SAFETY: by the condition of this function.
    let words: [u64; header::SESSION + 1] = unsafe { system::first_words(file) };
    words[header::MAGIC] == MAGIC
        && words[header::VERSION] == VERSION
        && [system::process(), system::parent()].contains(&words[header::SESSION])
}

/// Whether LD_AUDIT of this process names the library with this path.
fn is_loaded(library: &[u8]) -> bool {
    let value = system::variable(c"LD_AUDIT");
    if value.is_null() {
        return false;
    }
    // SAFETY: getenv returns a C string.
    let libraries = unsafe { CStr::from_ptr(value) }.to_bytes();
    let (mut expected, mut is_same) = (library.iter(), true);
    for byte in libraries.iter().chain(b":") {
        if *byte != b':' {
            is_same = is_same && expected.next() == Some(byte);
        } else if is_same && expected.next().is_none() {
            return true;
        } else {
            (expected, is_same) = (library.iter(), true);
        }
    }
    false
}

/// A word of the shared file.
fn word(file: *mut u64, index: usize) -> &'static AtomicU64 {
    // SAFETY: `file` is a mapping that is never unmapped. The index of every caller is inside it, and both processes
    // access it as atomic words.
    unsafe { AtomicU64::from_ptr(file.add(index)) }
}

/// Finds and maps the file that the environment variable names. It is called once, before the program runs.
pub(crate) fn open() -> bool {
    const NAME: &CStr = {
        const BYTES: [u8; ENV_FILE.len() + 1] = {
            let mut bytes = [0; ENV_FILE.len() + 1];
            let mut at = 0;
            while at < ENV_FILE.len() {
                bytes[at] = ENV_FILE.as_bytes()[at];
                at += 1;
            }
            bytes
        };
        match CStr::from_bytes_with_nul(&BYTES) {
            Ok(name) => name,
            Err(_) => c"",
        }
    };
    let value = system::variable(NAME);
    if value.is_null() {
        return false;
    }
    // SAFETY: getenv returns a C string. PATH is written only here, before there is a second thread.
    let copied = unsafe {
        let text = CStr::from_ptr(value).to_bytes();
        let room = &mut *PATH.0.get();
        match room.get_mut(..text.len()) {
            Some(room) if text.len() < PATH_BYTES => {
                room.copy_from_slice(text);
                true
            }
            _ => false,
        }
    };
    if !copied {
        return false;
    }
    let is_known = |file: *mut u64| {
        word(file, header::MAGIC).load(Ordering::Relaxed) == MAGIC
            && word(file, header::VERSION).load(Ordering::Relaxed) == VERSION
    };
    // SAFETY: PATH ends with a zero byte, because the text is shorter than the buffer.
    let map = |bytes| unsafe { system::map_shared(path(), bytes) }.filter(|file| is_known(*file));
    let room = system::address_space_left().map_or(usize::MAX, |left| left / SHARE);
    let rings = (room.saturating_sub(HEADER_BYTES) / RING_BYTES).min(RINGS);
    let file = if rings < FEWEST_RINGS { None } else { map(HEADER_BYTES + rings * RING_BYTES) };
    let Some(file) = file else {
        if let Some(file) = map(HEADER_BYTES) {
            word(file, header::WITHOUT_SPACE).fetch_add(1, Ordering::Relaxed);
            report_start_in(file, start::LOADED, system::process(), &[]);
        }
        return false;
    };
    MAPPED_RINGS.store(rings, Ordering::Relaxed);
    // SAFETY: LIBRARY is written only here, before there is a second thread.
    let room = unsafe { &mut *LIBRARY.0.get() };
    for (index, bytes) in room.chunks_mut(8).take(LIBRARY_WORDS).enumerate() {
        let path = word(file, header::LIBRARY + index).load(Ordering::Relaxed).to_le_bytes();
        for (to, from) in bytes.iter_mut().zip(path) {
            *to = from;
        }
    }
    // A path in the shared file counts only if the linker loaded a library from it into this process. Other processes can
    // have changed the file, also those of other users that mapped it before they changed their user.
    if !is_loaded(LIBRARY.bytes()) {
        // SAFETY: as above.
        unsafe { (*LIBRARY.0.get())[0] = 0 };
    }
    if let Some(page) = system::page_wiped_on_fork() {
        PROCESS_PAGE.store(page, Ordering::Relaxed);
    }
    BEGAN_IN.store(system::process(), Ordering::Relaxed);
    FILE.store(file, Ordering::Release);
    word(file, header::PROGRAMS).fetch_add(1, Ordering::Relaxed);
    report_start_in(file, start::LOADED, system::process(), &[]);
    true
}

/// Whether this is the process in which the program began, and not the child of a fork.
pub(crate) fn is_first_process() -> bool {
    BEGAN_IN.load(Ordering::Relaxed) == system::process()
}

/// Increments a word of the header.
pub(crate) fn count(index: usize) {
    let file = FILE.load(Ordering::Acquire);
    if !file.is_null() {
        word(file, index).fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether an option is set.
pub(crate) fn option(bit: u64) -> bool {
    let file = FILE.load(Ordering::Acquire);
    !file.is_null() && word(file, header::OPTIONS).load(Ordering::Relaxed) & bit != 0
}

/// Whether calls are passed on without being recorded.
pub(crate) fn is_paused() -> bool {
    option(options::PAUSED)
}

/// The id of this process. Only the first call makes a system call.
pub(crate) fn process() -> u64 {
    let page = PROCESS_PAGE.load(Ordering::Relaxed);
    if page.is_null() {
        return system::process();
    }
    // SAFETY: this is a private page that is never unmapped. Its first word is accessed atomically.
    let known = unsafe { AtomicU64::from_ptr(page) };
    match known.load(Ordering::Relaxed) {
        0 => {
            let process = system::process();
            known.store(process, Ordering::Relaxed);
            process
        }
        process => process,
    }
}

/// A ring that this thread writes. While it exists, the thread is marked as busy.
pub(crate) struct Writer {
    file: *mut u64,
    /// The index of the ring's first word in the file.
    first: usize,
    /// The number of records written so far, including unpublished records of this writer.
    written: u64,
}

impl Drop for Writer {
    fn drop(&mut self) {
        thread::state().busy.set(0);
    }
}

impl Writer {
    /// The ring of this thread. `None` if there is no free ring, or if this thread is already writing. The header
    /// counts missing rings.
    pub(crate) fn take() -> Option<Self> {
        let file = FILE.load(Ordering::Acquire);
        let writer = Self::take_uncounted();
        if writer.is_none() && !file.is_null() {
            // Its registrations and releases are not known, so its children must not have handles of an earlier one.
            CALLER.store(process(), Ordering::Relaxed);
            word(file, header::WITHOUT_RING_OF + slot_of(process())).fetch_add(1, Ordering::Relaxed);
            word(file, header::WITHOUT_RING).fetch_add(1, Ordering::Relaxed);
        }
        writer
    }

    /// Like [`Writer::take`], without counting missing rings.
    pub(crate) fn take_uncounted() -> Option<Self> {
        let file = FILE.load(Ordering::Acquire);
        if file.is_null() {
            return None;
        }
        let process = process();
        let thread = thread::state();
        if thread.busy.get() != 0 && thread.process.get() == process {
            return None;
        }
        thread.busy.set(1);
        let mut is_new = false;
        if thread.process.get() != process {
            thread.process.set(process);
            let claimed = claim(file, process);
            thread.ring.set(claimed.unwrap_or(0));
            is_new = claimed.is_some();
        }
        let first = thread.ring.get();
        if first == 0 {
            thread.busy.set(0);
            return None;
        }
        let written = word(file, first + ring::WRITTEN).load(Ordering::Relaxed);
        let mut writer = Self { file, first, written };
        if is_new && INTRODUCED.swap(process, Ordering::Relaxed) != process {
            writer.introduce();
        }
        Some(writer)
    }

    /// Records the program of this process.
    #[inline(never)]
    #[cold]
    fn introduce(&mut self) {
        let now = system::now_ns();
        let mut room = [0; system::LONGEST_PATH];
        // SAFETY: the argument is a C string literal.
        let length = unsafe { system::link_target(c"/proc/self/exe".as_ptr(), &mut room) };
        let object = CALLER.swap(self.process(), Ordering::Relaxed);
        let base = CALLER_SINCE.swap(now, Ordering::Relaxed);
        let offset = MEMORY_CALL_NS.load(Ordering::Relaxed);
        let record = Record { start_ns: now, end_ns: now, object, base, offset, ..Record::default() };
        self.write_with_text(kind::PROCESS, 0, record, room.get(..length).unwrap_or(&[]));
    }

    /// Marks the start of a call. In a signal handler, another call can replace this mark.
    pub(crate) fn begin(&self, function: usize, start_ns: u64) {
        word(self.file, self.first + ring::OPEN_SINCE).store(start_ns, Ordering::Relaxed);
        word(self.file, self.first + ring::OPEN).store(function as u64 + 1, Ordering::Release);
    }

    /// Removes the mark of [`Writer::begin`].
    pub(crate) fn end(&self) {
        word(self.file, self.first + ring::OPEN).store(0, Ordering::Relaxed);
    }

    /// The process id of the writer.
    pub(crate) fn process(&self) -> u64 {
        word(self.file, self.first + ring::PID).load(Ordering::Relaxed)
    }

    /// Adds a call to the totals of its function. They are complete even if records are lost.
    pub(crate) fn add_total(&self, function: usize, failed: bool, bytes: u64, ns: u64) {
        let at = self.first + ring::TOTALS + function * ring::WORDS_OF_TOTAL;
        for (index, value) in [1, u64::from(failed), bytes, ns].into_iter().enumerate() {
            // Only this thread writes the word, so an atomic read-modify-write is not needed.
            let total = word(self.file, at + index);
            total.store(total.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
        }
    }

    /// Whether there is space for `records` more records. If not, one lost call is counted.
    pub(crate) fn has_room(&self, records: usize) -> bool {
        let read = word(self.file, self.first + ring::READ).load(Ordering::Acquire);
        let fits = self.written.wrapping_sub(read).saturating_add(records as u64) <= RECORDS as u64;
        if !fits {
            let lost = word(self.file, self.first + ring::LOST);
            lost.store(lost.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
        fits
    }

    /// The number of lost calls.
    pub(crate) fn lost(&self) -> u64 {
        word(self.file, self.first + ring::LOST).load(Ordering::Relaxed)
    }

    /// Stores the time of a lost call, before the program can use its result.
    pub(crate) fn mark_loss(&self, at: usize, end_ns: u64) {
        word(self.file, self.first + at).store(end_ns, Ordering::Relaxed);
    }

    /// Writes a record after the last one without publishing it. The caller has checked the space with
    /// [`Writer::has_room`].
    pub(crate) fn put(&mut self, record: &Record) {
        let slot = (self.written as usize) & (RECORDS - 1);
        let at = self.first + RING_HEADER_BYTES / 8 + slot * RECORD_WORDS;
        for (index, value) in record.words().into_iter().enumerate() {
            word(self.file, at + index).store(value, Ordering::Relaxed);
        }
        self.written = self.written.wrapping_add(1);
    }

    /// Publishes all written records to the reader.
    pub(crate) fn publish(&self) {
        word(self.file, self.first + ring::WRITTEN).store(self.written, Ordering::Release);
    }

    /// Writes a record and its text. The last word of the record is the length of the text. Returns whether there was
    /// room.
    pub(crate) fn write_with_text(&mut self, kind: u16, library: u8, mut record: Record, text: &[u8]) -> bool {
        let parts = text.len().div_ceil(TEXT_BYTES);
        if !self.has_room(1 + parts) {
            return false;
        }
        record.head = Record::head(kind, library, parts as u32);
        record.extra[6] = text.len() as u64;
        self.put(&record);
        for part in text.chunks(TEXT_BYTES) {
            let mut words = [0; RECORD_WORDS];
            words[0] = Record::head(kind::TEXT, library, 0);
            for (word, bytes) in words.iter_mut().skip(1).zip(part.chunks(8)) {
                let mut eight = [0; 8];
                for (to, from) in eight.iter_mut().zip(bytes) {
                    *to = *from;
                }
                *word = u64::from_le_bytes(eight);
            }
            self.put(&Record::from_words(words));
        }
        self.publish();
        true
    }
}

/// Notes the end of a call that registered or released memory.
pub(crate) fn note_memory_call(end_ns: u64) {
    MEMORY_CALL_NS.fetch_max(end_ns, Ordering::Relaxed);
}

/// Whether this thread is inside a call of cuFile.
pub(crate) fn is_in_call() -> bool {
    Writer::take_uncounted()
        .is_none_or(|writer| word(writer.file, writer.first + ring::OPEN).load(Ordering::Relaxed) != 0)
}

/// Acquires a ring for this thread: a free one, or that of an ended thread. Returns the index of its first word.
#[inline(never)]
#[cold]
fn claim(file: *mut u64, process: u64) -> Option<usize> {
    let (thread, namespace) = (system::thread(), system::pid_namespace());
    let rings = MAPPED_RINGS.load(Ordering::Relaxed);
    for index in 0..rings {
        let mark = word(file, header::STATES + index);
        if mark.compare_exchange(state::FREE, state::TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
            continue;
        }
        let bytes = HEADER_BYTES + index * RING_BYTES;
        // SAFETY: `open` copied the path with its zero byte. The ring is inside the mapping. After a change of the user or
        // the mounts, the file can no longer be opened.
        if !unsafe { system::reserve(path(), bytes, RING_BYTES) || system::populate(file, bytes, RING_BYTES) } {
            mark.store(state::FREE, Ordering::Release);
            break;
        }
        let first = bytes / 8;
        for (at, value) in
            [(ring::PID, process), (ring::TID, thread), (ring::READ_TID, thread), (ring::NAMESPACE, namespace)]
        {
            word(file, first + at).store(value, Ordering::Relaxed);
        }
        mark.store(state::IN_USE, Ordering::Release);
        return Some(first);
    }
    (0..rings).find_map(|index| inherit(file, index, [process, thread, namespace]))
}

/// Takes the ring of an ended thread of the same process if it has room. The reader frees such rings too, but it may not
/// run for a while. Returns the index of the ring's first word.
fn inherit(file: *mut u64, index: usize, [process, thread, namespace]: [u64; 3]) -> Option<usize> {
    let first = (HEADER_BYTES + index * RING_BYTES) / 8;
    let load = |at: usize| word(file, first + at).load(Ordering::Relaxed);
    let mark = word(file, header::STATES + index);
    if mark.load(Ordering::Acquire) != state::IN_USE || load(ring::PID) != process || load(ring::NAMESPACE) != namespace
    {
        return None;
    }
    let former = load(ring::TID);
    if !system::has_ended(process, former)
        || mark.compare_exchange(state::IN_USE, state::TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err()
    {
        return None;
    }
    let mut writer = Writer { file, first, written: load(ring::WRITTEN) };
    let read = word(file, first + ring::READ).load(Ordering::Acquire);
    let has_room = writer.written.wrapping_sub(read) <= RECORDS as u64 / 2;
    // The ring may have been freed or taken in between. A call that never returned is shown with its thread.
    let is_his = load(ring::PID) == process && load(ring::TID) == former && load(ring::OPEN) == 0;
    if has_room && is_his {
        let called = load(ring::OPEN_SINCE) != 0;
        word(file, first + ring::EARLIER).store(load(ring::EARLIER).wrapping_add(u64::from(called)), Ordering::Relaxed);
        word(file, first + ring::OPEN_SINCE).store(0, Ordering::Relaxed);
        word(file, first + ring::TID).store(thread, Ordering::Relaxed);
        let now = system::now_ns();
        let head = Record::head(kind::THREAD, 0, 0);
        writer.put(&Record { head, start_ns: now, end_ns: now, object: thread, ..Record::default() });
        writer.publish();
    }
    mark.store(state::IN_USE, Ordering::Release);
    // The writer only lends the ring here: its thread is still busy.
    core::mem::forget(writer);
    (has_room && is_his).then_some(first)
}
