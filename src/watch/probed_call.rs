//! A call that kernel probes recorded, from the hit at its entry and the hit at its return.

use super::group::Group;
use super::hit_memory::Memory;
use super::named_file::Descriptor;
use super::probed_process::KnownFlags;
use cufile_audit::layout::{EVENTS_WORD, Function, IDENTITY_WORD, Record, kind};
use std::ops::RangeInclusive;

/// Sizes of `CUfileIOParams_t` and `CUfileIOEvents_t` in words, and the maximum number of batch entries, see
/// cufile.h.
const PARAMS_WORDS: usize = 8;
const EVENT_WORDS: usize = 3;
const ENTRIES: u64 = 1024;
/// The values of `CUfileFileHandleType`.
const HANDLE_TYPES: RangeInclusive<u32> = 1..=3;
/// `CU_FILE_HANDLE_TYPE_OPAQUE_FD`.
const HANDLE_IS_DESCRIPTOR: u32 = 1;

/// A call that has not returned yet.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) process: u32,
    pub(super) function: Function,
    pub(super) library: u8,
    pub(super) at_ns: u64,
    pub(super) arguments: [u64; 6],
    /// The descriptor and kind of a registered file.
    description: [u32; 2],
    /// The words in memory to which the arguments of a stream, vector or batch transfer point.
    words: Vec<u64>,
    /// The time in nanoseconds after which these words were read, if they were not in the recorded stack.
    pub(super) read_ns: Option<u64>,
    /// The stack pointer at the entry.
    pub(super) stack_pointer: u64,
    /// The calls of the thread since the entry that have returned. If this call returns too, libcufile made them.
    pub(super) inner: Vec<Group>,
    /// Whether one of them had the same stack pointer. If this call ended with a jump to it, this call returns at once.
    pub(super) has_jumped: bool,
}

impl Begun {
    /// Whether the thread has left this call without a return, for example by longjmp, when it begins a later one. The
    /// stack grows down.
    pub(super) fn is_left_at(&self, later: &Self) -> bool {
        let is_here = self.stack_pointer == later.stack_pointer;
        self.process != later.process
            || self.stack_pointer < later.stack_pointer
            || (is_here && (self.function == later.function || self.has_jumped))
    }
}

/// The bytes of the batch entries that ended. No entry has more than the address space of a program.
pub(super) fn ended_bytes(group: &Group) -> u64 {
    let ended = group.parts.iter().filter(|part| part.kind() == kind::BATCH_EVENT).map(|part| part.result);
    ended.filter(|bytes| *bytes <= 1 << 48).fold(0, u64::saturating_add)
}

pub(super) fn begin(function: Function, library: u8, at_ns: u64, arguments: [u64; 6], memory: &Memory<'_>) -> Begun {
    let [_, b, c, d, e, f] = arguments;
    let mut begun = Begun {
        process: memory.process,
        function,
        library,
        at_ns,
        arguments,
        description: [0; 2],
        words: Vec::new(),
        read_ns: None,
        stack_pointer: memory.stack_pointer,
        inner: Vec::new(),
        has_jumped: false,
    };
    match function {
        Function::HandleRegister => begun.description = memory.description(b),
        Function::ReadAsync | Function::WriteAsync => {
            begun.words = vec![memory.word(c), memory.word(d), memory.word(e), memory.word(f)];
        }
        Function::Readv | Function::Writev => begun.words = memory.words(b, c.min(ENTRIES) * 2),
        Function::BatchSubmit => begun.words = memory.words(c, (b & 0xffff_ffff).min(ENTRIES) * PARAMS_WORDS as u64),
        _ => {}
    }
    begun
}

/// The call in the format of the recording library, see `cufile-audit/src/capture.rs`.
pub(super) fn end(
    begun: &Begun,
    process: u32,
    thread: u32,
    (at_ns, result): (u64, u64),
    memory: &Memory<'_>,
    flags: &mut KnownFlags,
) -> Group {
    let [a, b, c, d, e, f] = begun.arguments;
    let function = begun.function;
    let mut record = Record {
        head: Record::head(function as u16, begun.library, 0),
        start_ns: begun.at_ns,
        end_ns: at_ns,
        object: a,
        result,
        ..Record::default()
    };
    let worked = result as u32 == 0;
    let word = |at: usize| begun.words.get(at).copied().unwrap_or(0);
    let mut parts = Vec::new();
    match function {
        Function::Read | Function::Write => {
            (record.base, record.size, record.offset, record.base_offset) = (b, c, d, e);
        }
        Function::Readv | Function::Writev => {
            (record.base, record.offset) = (word(0), d);
            record.size = begun.words.iter().skip(1).step_by(2).fold(0, |sum, length| sum.wrapping_add(*length));
            (record.extra[0], record.extra[1]) = (c, e);
        }
        Function::ReadAsync | Function::WriteAsync => {
            record.base = b;
            (record.size, record.offset, record.base_offset) = (word(0), word(1), word(2));
            (record.extra[0], record.extra[1], record.extra[2]) = (f, word(3), memory.word(f));
        }
        Function::BufRegister => (record.object, record.base, record.size, record.extra[0]) = (0, a, b, c),
        Function::BufDeregister => (record.object, record.base) = (0, a),
        Function::BatchSetUp => (record.object, record.size) = (if worked { memory.word(a) } else { 0 }, b),
        Function::BatchSubmit => {
            (record.extra[0], record.extra[1]) = (b, d);
            for entry in begun.words.chunks_exact(PARAMS_WORDS) {
                parts.push(Record {
                    head: Record::head(kind::BATCH_ENTRY, begun.library, 0),
                    start_ns: begun.at_ns,
                    end_ns: at_ns,
                    object: a,
                    offset: entry[2],
                    size: entry[4],
                    base: entry[1],
                    base_offset: entry[3],
                    result,
                    extra: [entry[7], entry[6] & 0xffff_ffff, entry[5], 0, 0, 0, 0],
                });
            }
        }
        Function::BatchGetStatus if worked => {
            let count = u64::from(memory.half(c)).min(ENTRIES);
            record.extra[EVENTS_WORD] = count;
            for event in memory.words(d, count * EVENT_WORDS as u64).chunks_exact(EVENT_WORDS) {
                parts.push(Record {
                    head: Record::head(kind::BATCH_EVENT, begun.library, 0),
                    start_ns: begun.at_ns,
                    end_ns: at_ns,
                    object: a,
                    result: event[2],
                    extra: [event[0], event[1] & 0xffff_ffff, 0, 0, 0, 0, 0],
                    ..Record::default()
                });
            }
        }
        Function::DriverGetProperties if worked => {
            record.object = 0;
            (record.extra[0], record.extra[1]) = (memory.word(a), memory.word(a.wrapping_add(24)));
            record.extra[2] = u64::from(memory.half(a.wrapping_add(32)));
        }
        Function::GetVersion if worked => (record.object, record.extra[0]) = (0, u64::from(memory.half(a))),
        Function::HandleRegister => return registered(begun, process, thread, record, memory, flags),
        _ => (record.extra[0], record.extra[1], record.extra[2]) = (b, c, d),
    }
    record.head = Record::head(function as u16, begun.library, parts.len() as u32);
    Group { process, thread, is_visible: true, record, parts }
}

/// The record of a registration, with the path and the identity of the file if its descriptor is still open.
fn registered(
    begun: &Begun,
    process: u32,
    thread: u32,
    mut record: Record,
    memory: &Memory<'_>,
    flags: &mut KnownFlags,
) -> Group {
    let worked = record.result as u32 == 0;
    record.object = if worked { memory.word(begun.arguments[0]) } else { 0 };
    record.extra[1] = u64::MAX;
    let [form, fd] = match begun.description {
        known if HANDLE_TYPES.contains(&known[0]) => known,
        // The memory could not be read at the entry.
        _ => memory.description(begun.arguments[1]),
    };
    let mut path = Vec::new();
    if form == HANDLE_IS_DESCRIPTOR {
        record.extra[0] = u64::from(fd);
        let descriptor = Descriptor { process, number: fd };
        let file = descriptor.file();
        let identity = file.as_ref().map(|(_, identity)| *identity);
        record.extra[1] = flags.of(descriptor, identity).map_or(u64::MAX, u64::from);
        if let Some((known, identity)) = file {
            path = known;
            record.extra[IDENTITY_WORD..][..identity.len()].copy_from_slice(&identity);
        }
    }
    Group::with_text(process, thread, record, path)
}
