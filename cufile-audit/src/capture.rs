//! Fills the fields of the record for each call.

use crate::children;
use crate::layout::{
    Answer, CONFIGURATION, ERRNO_WORD, EVENTS_WORD, FUNCTIONS, Function, IDENTITY_WORD, LIBRARIES, P2PDMA, Record,
    kind, ring, settings,
};
use crate::rings::{self, Writer};
use crate::{stat, system};
use core::sync::atomic::{AtomicU64, Ordering};

/// The arguments of a call in registers. If the function has fewer arguments, the others are arbitrary.
pub(crate) type Arguments = [usize; 7];

/// Values that are read before the call.
pub(crate) struct Before {
    pub(crate) start_ns: u64,
    /// The memory word in which a stream call later reports its number of bytes.
    pub(crate) transferred: u64,
}

/// The maximum number of recorded entries of one batch call. libcufile accepts at most 256.
const ENTRIES: usize = 1024;
/// The sizes of `CUfileIOParams_t` and `CUfileIOEvents_t` in words, see `cufile-ffi/src/raw.rs`.
const PARAMS_WORDS: usize = 8;
const EVENT_WORDS: usize = 3;
/// `CU_FILE_HANDLE_TYPE_OPAQUE_FD`.
const HANDLE_IS_DESCRIPTOR: u32 = 1;

/// The word at an address. It is 0 for a null pointer.
///
/// # Safety
/// The address must be null or point to a readable word.
pub(crate) unsafe fn read_word(address: usize) -> u64 {
    if address == 0 {
        return 0;
    }
    // SAFETY: guaranteed by the caller. The word may be unaligned in a structure of the program, and another thread
    // may write it.
    unsafe { core::ptr::read_volatile(address as *const u64) }
}

/// The half word at an address. It is 0 for a null pointer.
///
/// # Safety
/// The same as for [`read_word`].
unsafe fn read_half(address: usize) -> u32 {
    if address == 0 {
        return 0;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { core::ptr::read_volatile(address as *const u32) }
}

/// Whether a result is an error.
const fn failed(function: usize, result: usize) -> bool {
    match FUNCTIONS[function].answer {
        Answer::Status => result as u32 != 0,
        Answer::Bytes => (result as isize) < 0,
        Answer::Plain => false,
    }
}

/// The word of a ring with the time of the last lost call of this kind. `None` if its loss changes nothing that is known
/// about other calls. Most status calls end nothing, so [`record_events`] marks the others.
const fn loss_word(function: Function) -> Option<usize> {
    match function {
        Function::HandleRegister | Function::BufRegister => Some(ring::LOST_REGISTRATION_NS),
        Function::HandleDeregister | Function::BufDeregister | Function::DriverClose | Function::DriverCloseV2 => {
            Some(ring::LOST_RELEASE_NS)
        }
        Function::ReadAsync | Function::WriteAsync | Function::BatchSubmit | Function::BatchDestroy => {
            Some(ring::LOST_TRANSFER_NS)
        }
        _ => None,
    }
}

/// Marks a call that begins, so that it is known if it never returns.
pub(crate) fn begin<const F: usize>(transferred: u64) -> Before {
    // The first call of a process records the process before it begins.
    let writer = Writer::take_uncounted();
    let start_ns = system::now_ns();
    if let Some(writer) = writer {
        writer.begin(F, start_ns);
    }
    Before { start_ns, transferred }
}

/// Records a call that has returned.
///
/// # Safety
/// `arguments` and `result` must belong to a call of function `F` and point to the types that cufile.h declares.
pub(crate) unsafe fn record<const F: usize>(
    library: usize,
    arguments: &Arguments,
    result: usize,
    before: &Before,
    end_ns: u64,
) {
    let Some(mut writer) = Writer::take() else { return };
    if F == Function::BufRegister as usize || F == Function::BufDeregister as usize {
        rings::note_memory_call(end_ns);
    }
    writer.end();
    let lost_before = writer.lost();
    let [a, b, c, d, e, f, g] = *arguments;
    let failed = failed(F, result);
    let mut record = Record {
        head: Record::head(F as u16, library as u8, 0),
        start_ns: before.start_ns,
        end_ns,
        object: a as u64,
        result: result as u64,
        ..Record::default()
    };
    let is = |function: Function| F == function as usize;
    // cuFile returns -1 for an error of the operating system, and the code is in `errno`.
    if FUNCTIONS[F].answer as u8 == Answer::Bytes as u8 && result == usize::MAX {
        record.extra[ERRNO_WORD] = children::errno() as u64;
    }
    let mut bytes = 0;
    if is(Function::Read) || is(Function::Write) {
        (record.base, record.size) = (b as u64, c as u64);
        (record.offset, record.base_offset) = (d as u64, e as u64);
        bytes = if failed { 0 } else { result as u64 };
    } else if is(Function::Readv) || is(Function::Writev) {
        // SAFETY: the call succeeded, so `b` points to `c` pieces of an address and a length.
        unsafe {
            let pieces = if b == 0 || failed { 0 } else { c.min(ENTRIES) };
            record.base = if pieces > 0 { read_word(b) } else { 0 };
            for piece in 0..pieces {
                record.size = record.size.wrapping_add(read_word(b + piece * 16 + 8));
            }
        }
        (record.offset, record.extra[0], record.extra[1]) = (d as u64, c as u64, e as u64);
        bytes = if failed { 0 } else { result as u64 };
    } else if is(Function::ReadAsync) || is(Function::WriteAsync) {
        record.base = b as u64;
        // SAFETY: the four pointers must be valid until the transfer has ended, so they are valid right after the
        // call.
        unsafe {
            (record.size, record.offset, record.base_offset) = (read_word(c), read_word(d), read_word(e));
            // The reader finds the end of the transfer at this address.
            (record.extra[0], record.extra[1], record.extra[2]) = (f as u64, before.transferred, read_word(f));
        }
        record.extra[3] = g as u64;
    } else if is(Function::BufRegister) || is(Function::BufDeregister) {
        (record.object, record.base) = (0, a as u64);
        if is(Function::BufRegister) {
            (record.size, record.extra[0]) = (b as u64, c as u64);
        }
    } else if is(Function::BatchSetUp) {
        // SAFETY: `a` points to the handle if the call succeeds.
        record.object = if failed { 0 } else { unsafe { read_word(a) } };
        record.size = b as u64;
    } else if is(Function::DriverGetProperties) {
        record.object = 0;
        if !failed {
            // SAFETY: the call filled `a` with a `CUfileDrvProps_t`: versions of nvidia-fs, status and control bits,
            // features.
            unsafe {
                record.extra[0] = read_word(a);
                record.extra[1] = read_word(a + 24);
                record.extra[2] = u64::from(read_half(a + 32));
            }
        }
    } else if is(Function::GetVersion) {
        // SAFETY: `a` points to an int if the call succeeds.
        (record.object, record.extra[0]) = (0, if failed { 0 } else { u64::from(unsafe { read_half(a) }) });
    } else {
        (record.extra[0], record.extra[1], record.extra[2]) = (b as u64, c as u64, d as u64);
    }
    if is(Function::BatchGetStatus) && !failed {
        // SAFETY: `c` points to the number of events, and `d` to the events.
        bytes = unsafe { record_events(&mut writer, &mut record, c, d) };
    } else if is(Function::BatchSubmit) {
        record.extra = [b as u64, d as u64, 0, 0, 0, 0, 0];
        // A submission can fail because the number of entries is wrong. Then the entries must not be read.
        let entries = if failed { 0 } else { b as u32 as usize };
        // SAFETY: the call succeeded, so `c` points to `b` entries.
        unsafe { record_entries(&mut writer, &mut record, entries, c) };
    } else if is(Function::HandleRegister) {
        // SAFETY: `a` points to the handle if the call succeeds, and `b` to the description of the file.
        unsafe { record_file(&mut writer, &mut record, a, b, failed) };
    } else if writer.has_room(1) {
        writer.put(&record);
        writer.publish();
    }
    if let Some(word) = loss_word(Function::ALL[F]).filter(|_| !failed && writer.lost() != lost_before) {
        writer.mark_loss(word, end_ns);
    }
    writer.add_total(F, failed, bytes, end_ns.saturating_sub(before.start_ns));
}

/// Records a registration with the path and the flags of its descriptor.
#[inline(never)]
unsafe fn record_file(writer: &mut Writer, record: &mut Record, handle: usize, description: usize, failed: bool) {
    // SAFETY: the caller passes the arguments of a registration.
    let (object, kind, fd) = unsafe {
        let object = if failed { 0 } else { read_word(handle) };
        let fd = if description == 0 { 0 } else { read_half(description + 8).cast_signed() };
        (object, read_half(description), fd)
    };
    record.object = object;
    let mut room = [0; system::LONGEST_PATH];
    let mut length = 0;
    record.extra = [0, u64::MAX, 0, 0, 0, 0, 0];
    if kind == HANDLE_IS_DESCRIPTOR {
        record.extra[0] = u64::from(fd.cast_unsigned());
        record.extra[1] = system::flags_of_descriptor(fd);
        length = system::path_of_descriptor(fd, &mut room);
        let file = if system::is_filtered() { None } else { stat::regular_file(fd) };
        let identity = file.iter().flat_map(|file| file.id.iter().chain(&file.birth));
        for (slot, word) in record.extra.iter_mut().skip(IDENTITY_WORD).zip(identity) {
            *slot = *word;
        }
    }
    let text = room.get(..length).unwrap_or(&[]);
    writer.write_with_text(record.kind(), record.library(), *record, text);
}

/// Records a submission and its entries.
#[inline(never)]
unsafe fn record_entries(writer: &mut Writer, record: &mut Record, count: usize, params: usize) {
    let recorded = if params == 0 { 0 } else { count.min(ENTRIES) };
    if !writer.has_room(1 + recorded) {
        return;
    }
    record.head = Record::head(record.kind(), record.library(), recorded as u32);
    writer.put(record);
    for index in 0..recorded {
        let at = params + index * PARAMS_WORDS * 8;
        // SAFETY: the caller passes an array of at least `recorded` entries.
        let words: [u64; PARAMS_WORDS] = core::array::from_fn(|word| unsafe { read_word(at + word * 8) });
        let [_, base, offset, base_offset, size, handle, opcode, cookie] = words;
        writer.put(&Record {
            head: Record::head(kind::BATCH_ENTRY, record.library(), 0),
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            object: record.object,
            offset,
            size,
            base,
            base_offset,
            result: record.result,
            extra: [cookie, opcode & 0xffff_ffff, handle, 0, 0, 0, 0],
        });
    }
    writer.publish();
}

/// Records a status call and its events. Returns the number of transferred bytes.
#[inline(never)]
unsafe fn record_events(writer: &mut Writer, record: &mut Record, count: usize, events: usize) -> u64 {
    // SAFETY: the caller passes a pointer to the number of events.
    let count = unsafe { read_half(count) } as usize;
    let recorded = if events == 0 { 0 } else { count.min(ENTRIES) };
    let event = |index: usize| -> [u64; EVENT_WORDS] {
        // SAFETY: the caller passes an array of at least `recorded` events.
        core::array::from_fn(|word| unsafe { read_word(events + (index * EVENT_WORDS + word) * 8) })
    };
    let mut bytes = 0_u64;
    for index in 0..recorded {
        let transferred = event(index)[2];
        if transferred.cast_signed() > 0 {
            bytes = bytes.wrapping_add(transferred);
        }
    }
    if !writer.has_room(1 + recorded) {
        if recorded > 0 {
            writer.mark_loss(ring::LOST_TRANSFER_NS, record.end_ns);
        }
        return bytes;
    }
    record.head = Record::head(record.kind(), record.library(), recorded as u32);
    record.extra[EVENTS_WORD] = count as u64;
    writer.put(record);
    for index in 0..recorded {
        let [cookie, status, transferred] = event(index);
        writer.put(&Record {
            head: Record::head(kind::BATCH_EVENT, record.library(), 0),
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            object: record.object,
            result: transferred,
            extra: [cookie, status & 0xffff_ffff, 0, 0, 0, 0, 0],
            ..Record::default()
        });
    }
    writer.publish();
    bytes
}

/// The process that recorded its settings, for each copy of libcufile.
static RECORDED: [AtomicU64; LIBRARIES] = [const { AtomicU64::new(0) }; LIBRARIES];

/// Records the settings before a call that opens the driver: each explicit opening, and the first call that may open it
/// implicitly.
pub(crate) fn record_settings(library: usize, opens_explicitly: bool) {
    let Some(recorded) = RECORDED.get(library) else { return };
    let process = rings::process();
    if recorded.swap(process, Ordering::Relaxed) == process && !opens_explicitly {
        return;
    }
    let named = children::variable(CONFIGURATION).filter(|path| !path.is_empty());
    let is_named = if named.is_some() { settings::NAMED } else { 0 };
    let has_p2pdma = if children::variable(P2PDMA).is_some() { settings::P2PDMA } else { 0 };
    if let Some(mut writer) = Writer::take() {
        let now = system::now_ns();
        let record = Record { start_ns: now, end_ns: now, object: is_named | has_p2pdma, ..Record::default() };
        let mut room = [0; PATH_BYTES];
        let path = absolute(named.unwrap_or(&[]), &mut room);
        // Without room, the next call that may open the driver records them.
        if !writer.write_with_text(kind::SETTINGS, library as u8, record, path) {
            recorded.store(0, Ordering::Relaxed);
        }
    }
}

/// The maximum length of the directory and the path of a configuration in bytes.
const PATH_BYTES: usize = 2048;

/// The path with the directory of the process, if it is relative and both fit into `room`. The directory may change later.
fn absolute<'p>(path: &'p [u8], room: &'p mut [u8; PATH_BYTES]) -> &'p [u8] {
    if matches!(path.first(), None | Some(b'/')) {
        return path;
    }
    // SAFETY: the argument is a C string literal.
    let folder = unsafe { system::link_target(c"/proc/self/cwd".as_ptr(), room) };
    let end = folder + 1 + path.len();
    if folder == 0 || end > room.len() {
        return path;
    }
    for (slot, byte) in room.iter_mut().skip(folder).zip(core::iter::once(&b'/').chain(path)) {
        *slot = *byte;
    }
    room.get(..end).unwrap_or(path)
}

/// The first release whose level 1 has vectored transfers. They move all later fields.
const VECTORED_SINCE: i32 = 1190;
/// The position of the number of GPUs in level 3 in words, before and from that release.
const GPU_COUNT_WORD: [usize; 2] = [1024 / 8, 1136 / 8];
/// The size of `CUfilePerGpuStats_t` in words, and the number of GPUs in level 3.
const GPU_WORDS: usize = 31;
const GPUS: usize = 16;

/// Records the level-3 counters: the calls that libcufile counted in this process, and the routes of each GPU. The times
/// are those before and after the reading.
pub(crate) fn record_statistics(library: usize, version: i32, words: &[u64; 2048], [start_ns, end_ns]: [u64; 2]) {
    let Some(mut writer) = Writer::take() else { return };
    let at = GPU_COUNT_WORD[usize::from(version >= VECTORED_SINCE)];
    let gpus = (words[at] as u32 as usize).min(GPUS);
    if !writer.has_room(1 + gpus) {
        return;
    }
    writer.put(&Record {
        head: Record::head(kind::STATISTICS, library as u8, gpus as u32),
        start_ns,
        end_ns,
        object: u64::from(version.max(0).cast_unsigned()),
        // Successful reads and writes, batch entries (counted separately in compat mode), bytes read and written.
        extra: [words[0], words[2], words[36].max(words[38]), words[12], words[13], words[1], words[3]],
        // Submitted batches and the bytes that they read, registrations of files and of buffers.
        offset: words[22],
        base_offset: words[52],
        size: words[4],
        base: words[8],
        ..Record::default()
    });
    for gpu in 0..gpus {
        let counter = |word: usize| words.get(at + 1 + gpu * GPU_WORDS + word).copied().unwrap_or(0);
        writer.put(&Record {
            head: Record::head(kind::STATISTICS, library as u8, 0),
            start_ns,
            end_ns,
            object: gpu as u64,
            // Bytes read and written, and unaligned reads.
            size: counter(2),
            offset: counter(15),
            base: counter(10),
            // Reads with p2pdma, nvidia-fs and POSIX, and all reads. Then writes on the three routes.
            extra: [counter(7), counter(8), counter(9), counter(6), counter(20), counter(21), counter(22)],
            ..Record::default()
        });
    }
    writer.publish();
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn a_negative_descriptor_has_no_path() {
        let mut room = [0; system::LONGEST_PATH];
        assert!(system::path_of_descriptor(1, &mut room) > 0, "standard output is open");
        for fd in [-1, i32::MIN] {
            assert_eq!(system::path_of_descriptor(fd, &mut room), 0, "{fd}");
            assert_eq!(system::facts_of_descriptor(fd, &mut room), 0, "{fd}");
        }
        assert_eq!(system::descriptor_path(-12)[..18], *b"/proc/self/fd/-12\0");
    }

    #[test]
    fn a_relative_path_is_in_the_folder_of_the_process() {
        let folder = std::env::current_dir().unwrap_or_default();
        let mut room = [0; PATH_BYTES];
        let expected = folder.join("a/b.json");
        assert_eq!(absolute(b"a/b.json", &mut room), expected.to_string_lossy().as_bytes());
        for same in [b"/etc/x".as_slice(), b"", &[b'x'; PATH_BYTES]] {
            assert_eq!(absolute(same, &mut room), same);
        }
    }
}
