//! The functions that the program calls in place of libcufile's functions. Each calls the original function and
//! records the call.

use crate::capture::{self, Before};
use crate::layout::{FUNCTION_COUNT, Function, LIBRARIES, for_each_function, options};
use crate::linker::{LinkMap, Symbol};
use crate::{rings, system};
use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The original functions of each copy of libcufile. 0 if the program has not looked up the function.
static REAL: [[AtomicUsize; FUNCTION_COUNT]; LIBRARIES] =
    [const { [const { AtomicUsize::new(0) }; FUNCTION_COUNT] }; LIBRARIES];

/// The original function for a recording function.
pub(crate) fn real<const L: usize, const F: usize>() -> usize {
    REAL[L][F].load(Ordering::Relaxed)
}

/// Like [`redirect`], for a function of libc or libcuda. It can have several original functions: for several link
/// namespaces, or for per-thread streams.
pub(crate) fn redirect_plain(function: usize, real: usize) -> Option<usize> {
    for (library, functions) in REAL.iter().enumerate() {
        let slot = functions.get(function)?;
        // The linker also calls this for an address that was already replaced.
        if replacement(library, function) == Some(real) {
            return Some(real);
        }
        match slot.compare_exchange(0, real, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return replacement(library, function),
            Err(known) if known == real => return replacement(library, function),
            Err(_) => {}
        }
    }
    None
}

/// Replaces the original function by a recording function and returns the address of the latter. `None` if there is
/// no recording function.
pub(crate) fn redirect(library: usize, function: usize, real: usize) -> Option<usize> {
    let replacement = replacement(library, function)?;
    // A second lookup may pass the replacement, because the linker also calls this for an address that was already
    // replaced.
    if real != replacement {
        REAL.get(library)?.get(function)?.store(real, Ordering::Release);
    }
    Some(replacement)
}

macro_rules! replacements {
    ($($name:ident)*) => {
        /// The recording function for a function of a copy of libcufile.
        fn replacement(library: usize, function: usize) -> Option<usize> {
            $(const { assert!((Function::$name as usize) < FUNCTION_COUNT) };)*
            match function {
                $(function if function == Function::$name as usize => of::<{ Function::$name as usize }>(library),)*
                _ => None,
            }
        }
    };
}
for_each_function!(replacements);

fn of<const F: usize>(library: usize) -> Option<usize> {
    if F >= Function::LibcRead as usize {
        return plain::replacement::<F>(library);
    }
    // Together with the stream, these two functions have one argument more than there are argument registers on
    // x86-64.
    let more = F == Function::ReadAsync as usize || F == Function::WriteAsync as usize;
    Some(match (library, more) {
        (0, false) => six::<0, F> as *const () as usize,
        (1, false) => six::<1, F> as *const () as usize,
        (2, false) => six::<2, F> as *const () as usize,
        (3, false) => six::<3, F> as *const () as usize,
        (0, true) => seven::<0, F> as *const () as usize,
        (1, true) => seven::<1, F> as *const () as usize,
        (2, true) => seven::<2, F> as *const () as usize,
        (3, true) => seven::<3, F> as *const () as usize,
        _ => return None,
    })
}

// All arguments and results in cufile.h are integers, booleans, pointers, or a structure of eight bytes. Both ABIs
// (x86-64 System V and AAPCS64) pass them in the same registers as `usize`, so one function works for all of them.
// Unused registers are passed on without being read.

unsafe extern "C" fn six<const L: usize, const F: usize>(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> usize {
    let real = REAL[L][F].load(Ordering::Relaxed);
    if F == Function::DriverOpen as usize {
        before_open(L);
    }
    if F == Function::DriverClose as usize || F == Function::DriverCloseV2 as usize {
        statistics(L, 0);
    }
    let before = Before { start_ns: system::now_ns(), transferred: 0 };
    // SAFETY: `redirect` stored the original function of this name before it returned this function. It has at most
    // six arguments in registers.
    let result = unsafe {
        let real: unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> usize =
            core::mem::transmute::<usize, _>(real);
        real(a, b, c, d, e, f)
    };
    // SAFETY: the arguments belong to a call of this function that has returned.
    unsafe { capture::record::<F>(L, &[a, b, c, d, e, f, 0], result, &before, system::now_ns()) };
    if F == Function::DriverOpen as usize && result as u32 == 0 {
        after_open(L);
    }
    if F == Function::Read as usize || F == Function::Write as usize || F == Function::BatchGetStatus as usize {
        statistics(L, BETWEEN_NS);
    }
    // Many programs end without closing the driver, but they deregister files and buffers.
    if F == Function::HandleDeregister as usize || F == Function::BufDeregister as usize {
        statistics(L, 0);
    }
    result
}

unsafe extern "C" fn seven<const L: usize, const F: usize>(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
    g: usize,
) -> usize {
    let real = REAL[L][F].load(Ordering::Relaxed);
    // SAFETY: the sixth argument is the `ssize_t *` of the result. It must be valid until the transfer has ended.
    let transferred = unsafe { capture::read_word(f) };
    let before = Before { start_ns: system::now_ns(), transferred };
    // SAFETY: as in `six`, with seven arguments.
    let result = unsafe {
        let real: unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize) -> usize =
            core::mem::transmute::<usize, _>(real);
        real(a, b, c, d, e, f, g)
    };
    // SAFETY: the arguments belong to a call of this function that has returned.
    unsafe { capture::record::<F>(L, &[a, b, c, d, e, f, g], result, &before, system::now_ns()) };
    statistics(L, BETWEEN_NS);
    result
}

const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

/// The functions that this library calls itself if statistics are requested. They are looked up when libcufile is
/// loaded. 0 if the version does not have them.
static SET_LEVEL: [AtomicUsize; LIBRARIES] = [const { AtomicUsize::new(0) }; LIBRARIES];
static START: [AtomicUsize; LIBRARIES] = [const { AtomicUsize::new(0) }; LIBRARIES];
static LEVEL3: [AtomicUsize; LIBRARIES] = [const { AtomicUsize::new(0) }; LIBRARIES];
static GET_VERSION: [AtomicUsize; LIBRARIES] = [const { AtomicUsize::new(0) }; LIBRARIES];
/// The time of the last reading of the statistics. 0 if they are off.
static READ_AT_NS: [AtomicU64; LIBRARIES] = [const { AtomicU64::new(0) }; LIBRARIES];
/// The process that enabled the statistics. After a fork, the child has a copy of its counters, which must not be
/// counted twice.
static SWITCHED_ON_BY: [AtomicU64; LIBRARIES] = [const { AtomicU64::new(0) }; LIBRARIES];
/// The minimum time between two readings during transfers. A reading takes about 10 µs.
const BETWEEN_NS: u64 = 100_000_000;

/// Stores the addresses of libcufile's statistics functions if statistics are requested.
///
/// # Safety
/// `map` must be the link map of a loaded object.
pub(crate) unsafe fn remember_statistics(library: usize, map: &LinkMap) {
    if !rings::option(options::STATISTICS) {
        return;
    }
    for (name, slots) in [
        (c"cuFileSetStatsLevel", &SET_LEVEL),
        (c"cuFileStatsStart", &START),
        (c"cuFileGetStatsL3", &LEVEL3),
        (c"cuFileGetVersion", &GET_VERSION),
    ] {
        // SAFETY: the caller passes the link map of a loaded object.
        let address = unsafe { symbol(map, name) }.unwrap_or(0);
        if let Some(slot) = slots.get(library) {
            slot.store(address, Ordering::Relaxed);
        }
    }
}

/// The address of an exported function, from the hash table of the object.
///
/// # Safety
/// `map` must be the link map of a loaded object.
unsafe fn symbol(map: &LinkMap, name: &CStr) -> Option<usize> {
    let name = name.to_bytes();
    let (mut strings, mut symbols, mut table) = (0, 0, 0);
    let mut entry = map.dynamic;
    // SAFETY: a dynamic section ends with tag 0. Its tables are mapped with the object and have the layout of the ELF
    // specification.
    unsafe {
        while (*entry).tag != 0 {
            // The linker makes these addresses absolute. If the section is read-only, they stay relative.
            let value = (*entry).value;
            let address = if value < map.address { map.address + value } else { value };
            match (*entry).tag {
                DT_STRTAB => strings = address,
                DT_SYMTAB => symbols = address,
                DT_GNU_HASH => table = address,
                _ => {}
            }
            entry = entry.add(1);
        }
        if strings == 0 || symbols == 0 || table == 0 {
            return None;
        }
        let words = table as *const u32;
        let (buckets, first, bloom) = (*words, *words.add(1), *words.add(2));
        if buckets == 0 {
            return None;
        }
        let hash = name.iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        let bucket_words = words.add(4 + bloom as usize * 2);
        let chain = bucket_words.add(buckets as usize);
        let mut index = *bucket_words.add((hash % buckets) as usize);
        while index >= first && index != 0 {
            let found = *chain.add((index - first) as usize);
            let symbol = &*(symbols as *const Symbol).add(index as usize);
            if found | 1 == hash | 1
                && symbol.section != 0
                && CStr::from_ptr((strings + symbol.name as usize) as *const _).to_bytes() == name
            {
                return Some(map.address + symbol.value);
            }
            if found & 1 != 0 {
                break;
            }
            index += 1;
        }
    }
    None
}

/// Sets level 3 before the driver is opened, because libcufile rejects it afterwards.
fn before_open(library: usize) {
    let Some(address) = SET_LEVEL.get(library).map(|slot| slot.load(Ordering::Relaxed)).filter(|a| *a != 0) else {
        return;
    };
    // SAFETY: this is the address of `cuFileSetStatsLevel(int)` in this copy.
    unsafe {
        let set: unsafe extern "C" fn(i32) -> u64 = core::mem::transmute::<usize, _>(address);
        set(3);
    }
}

/// Starts the counters of libcufile.
fn after_open(library: usize) {
    let (Some(start), Some(read_at)) = (START.get(library), READ_AT_NS.get(library)) else { return };
    let address = start.load(Ordering::Relaxed);
    if address == 0 {
        return;
    }
    // SAFETY: this is the address of `cuFileStatsStart(void)` in this copy.
    let answer = unsafe {
        let start: unsafe extern "C" fn() -> u64 = core::mem::transmute::<usize, _>(address);
        start()
    };
    if answer as u32 == 0 {
        if let Some(by) = SWITCHED_ON_BY.get(library) {
            by.store(system::process(), Ordering::Relaxed);
        }
        read_at.store(system::now_ns(), Ordering::Relaxed);
    }
}

/// Reads and records the level-3 statistics if they are on and the last reading is at least `between_ns` old.
fn statistics(library: usize, between_ns: u64) {
    let (Some(read_at), Some(level3)) = (READ_AT_NS.get(library), LEVEL3.get(library)) else { return };
    let last = read_at.load(Ordering::Relaxed);
    let address = level3.load(Ordering::Relaxed);
    if last == 0 || address == 0 {
        return;
    }
    let time = system::now_ns();
    let due = time.saturating_sub(last) >= between_ns;
    // Only one thread reads the statistics, and the others do not wait for it.
    if !due || read_at.compare_exchange(last, time, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return;
    }
    if SWITCHED_ON_BY.get(library).is_some_and(|by| by.load(Ordering::Relaxed) == system::process()) {
        read_statistics(library, address, time);
    }
}

/// A separate function, so that its buffer is not on the stack of every call.
#[inline(never)]
#[cold]
fn read_statistics(library: usize, address: usize, time: u64) {
    // This is more than level 3 of 1.20 needs (5112 bytes).
    let mut room = [0_u64; 2048];
    // SAFETY: this is the address of `cuFileGetStatsL3(CUfileStatsLevel3_t *)` in this copy.
    let answer = unsafe {
        let read: unsafe extern "C" fn(*mut u64) -> u64 = core::mem::transmute::<usize, _>(address);
        read(room.as_mut_ptr())
    };
    if answer as u32 == 0 {
        capture::record_statistics(library, version(library), &room, time);
    }
}

/// The version of a copy of libcufile, for example 1200. It is 0 if the copy does not report one.
fn version(library: usize) -> i32 {
    let Some(address) = GET_VERSION.get(library).map(|slot| slot.load(Ordering::Relaxed)).filter(|a| *a != 0) else {
        return 0;
    };
    let mut version = 0;
    // SAFETY: this is the address of `cuFileGetVersion(int *)` in this copy.
    let answer = unsafe {
        let get: unsafe extern "C" fn(*mut i32) -> u64 = core::mem::transmute::<usize, _>(address);
        get(&raw mut version)
    };
    if answer as u32 == 0 { version } else { 0 }
}

/// Calls without cuFile: large reads and mappings of files with libc, and copies with libcuda.
mod plain {
    use super::{real, redirect_plain};
    use crate::layout::{FUNCTIONS, Function, LIBRARIES, RECORDED_BYTES, Record, kind};
    use crate::rings::Writer;
    use crate::{names, system};
    use core::ffi::{CStr, c_char};
    use core::sync::atomic::{AtomicU64, Ordering};

    /// The files whose path was recorded, as a hash of process, device and inode. If there are more, some paths are
    /// recorded again.
    const FILES: usize = 1024;
    static KNOWN: [AtomicU64; FILES] = [const { AtomicU64::new(0) }; FILES];
    /// The maximum number of pieces of a vectored read that are summed. The kernel accepts no more.
    const PIECES: usize = 1024;
    /// Executable mappings are programs and libraries.
    const PROT_EXEC: usize = 4;

    pub(crate) fn replacement<const F: usize>(variant: usize) -> Option<usize> {
        const { assert!(LIBRARIES == 4) };
        Some(match variant {
            0 => six::<0, F> as *const () as usize,
            1 => six::<1, F> as *const () as usize,
            2 => six::<2, F> as *const () as usize,
            3 => six::<3, F> as *const () as usize,
            _ => return None,
        })
    }

    /// All these functions have at most six integers or pointers, see `calls.rs`.
    unsafe extern "C" fn six<const V: usize, const F: usize>(
        a: usize,
        b: usize,
        c: usize,
        d: usize,
        e: usize,
        f: usize,
    ) -> usize {
        let is = |function: Function| F == function as usize;
        let may_be_large = if is(Function::LibcRead)
            || is(Function::LibcReadChecked)
            || is(Function::LibcPread)
            || is(Function::LibcPread64)
            || is(Function::LibcPreadChecked)
            || is(Function::LibcPread64Checked)
        {
            c as u64 >= RECORDED_BYTES
        } else if is(Function::LibcMmap) || is(Function::LibcMmap64) {
            b as u64 >= RECORDED_BYTES && (e as i32) >= 0 && c & PROT_EXEC == 0
        } else {
            !is(Function::CudaGetAddress)
        };
        let start_ns = if may_be_large { system::now_ns() } else { 0 };
        // SAFETY: `redirect_plain` stored the original function of this name before it returned this function. It has
        // at most six arguments in registers.
        let result = unsafe {
            let real: unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> usize =
                core::mem::transmute::<usize, _>(real::<V, F>());
            real(a, b, c, d, e, f)
        };
        if is(Function::CudaGetAddress) {
            if result as u32 == 0 {
                // SAFETY: the call succeeded, so its arguments are a name and the location of an address.
                unsafe { replace(a as *const c_char, b as *mut usize) };
            }
        } else if may_be_large {
            let times = [start_ns, system::now_ns()];
            if F >= Function::CudaHtoD as usize {
                record_copy::<F>([a, b, c, d], result, times);
            } else if is(Function::LibcMmap) || is(Function::LibcMmap64) {
                record_mapping::<F>(result, b, c, e, f, times);
            } else {
                record_read::<F>([a, b, c, d], result, times);
            }
        }
        result
    }

    /// Replaces an address that `cuGetProcAddress` returned.
    ///
    /// # Safety
    /// `name` must be a C string, and `place` must hold an address.
    unsafe fn replace(name: *const c_char, place: *mut usize) {
        if name.is_null() || place.is_null() {
            return;
        }
        // SAFETY: the conditions of this function.
        unsafe {
            let number = names::plain_function(CStr::from_ptr(name).to_bytes());
            if let Some(other) = number.filter(|_| *place != 0).and_then(|number| redirect_plain(number, *place)) {
                *place = other;
            }
        }
    }

    /// Counts a copy, and records it if it is large.
    fn record_copy<const F: usize>([a, b, c, d]: [usize; 4], result: usize, [start_ns, end_ns]: [u64; 2]) {
        let Some(mut writer) = Writer::take() else { return };
        let failed = result as u32 != 0;
        if c as u64 >= RECORDED_BYTES && writer.has_room(1) {
            writer.put(&Record {
                head: Record::head(F as u16, 0, 0),
                start_ns,
                end_ns,
                object: d as u64,
                size: c as u64,
                base: a as u64,
                base_offset: b as u64,
                result: result as u64,
                ..Record::default()
            });
            writer.publish();
        }
        writer.add_total(F, failed, if failed { 0 } else { c as u64 }, end_ns.saturating_sub(start_ns));
    }

    /// Records a large read of a regular file.
    fn record_read<const F: usize>([a, b, c, d]: [usize; 4], result: usize, [start_ns, end_ns]: [u64; 2]) {
        let is = |function: Function| F == function as usize;
        let vectored = is(Function::LibcReadv)
            || is(Function::LibcPreadv)
            || is(Function::LibcPreadv64)
            || is(Function::LibcPreadv2)
            || is(Function::LibcPreadv64V2);
        let asked = if vectored {
            // SAFETY: the call has returned. If it succeeded, `b` points to `c` pieces of an address and a length.
            // Otherwise they are not read.
            let pieces = if (result as isize) < 0 || b == 0 { 0 } else { c.min(PIECES) };
            (0..pieces).fold(0_u64, |sum, piece| {
                // SAFETY: as above.
                sum.wrapping_add(unsafe { crate::capture::read_word(b + piece * 16 + 8) })
            })
        } else {
            c as u64
        };
        let failed = (result as isize) < 0;
        if !failed && (result as u64) < RECORDED_BYTES {
            return;
        }
        let moves_position = is(Function::LibcRead) || is(Function::LibcReadChecked) || is(Function::LibcReadv);
        let Some(file) = system::regular_file(a as i32) else { return };
        let Some(mut writer) = Writer::take() else { return };
        let offset = if moves_position {
            system::position(a as i32).saturating_sub(if failed { 0 } else { result as u64 })
        } else {
            d as u64
        };
        introduce(&mut writer, a as i32, file, start_ns);
        if writer.has_room(1) {
            writer.put(&Record {
                head: Record::head(F as u16, 0, 0),
                start_ns,
                end_ns,
                object: a as u64,
                offset,
                size: asked,
                base: b as u64,
                result: result as u64,
                extra: [file[0], file[1], 0, 0, 0, 0, 0],
                ..Record::default()
            });
            writer.publish();
        }
        let bytes = if failed { 0 } else { result as u64 };
        writer.add_total(F, failed, bytes, end_ns.saturating_sub(start_ns));
    }

    /// Records a mapping of a regular file.
    fn record_mapping<const F: usize>(
        result: usize,
        length: usize,
        protection: usize,
        fd: usize,
        offset: usize,
        [start_ns, end_ns]: [u64; 2],
    ) {
        if result == usize::MAX {
            return;
        }
        let Some(file) = system::regular_file(fd as i32) else { return };
        let Some(mut writer) = Writer::take() else { return };
        introduce(&mut writer, fd as i32, file, start_ns);
        if writer.has_room(1) {
            writer.put(&Record {
                head: Record::head(F as u16, 0, 0),
                start_ns,
                end_ns,
                object: fd as u64,
                offset: offset as u64,
                size: length as u64,
                base: result as u64,
                result: result as u64,
                extra: [file[0], file[1], protection as u64, 0, 0, 0, 0],
                ..Record::default()
            });
            writer.publish();
        }
        writer.add_total(F, false, length as u64, end_ns.saturating_sub(start_ns));
    }

    /// Records the path of a file once per process. The record has the start time of the call, so that it precedes
    /// the call when records are sorted by time.
    fn introduce(writer: &mut Writer, fd: i32, [device, inode]: [u64; 2], start_ns: u64) {
        let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        // The value 0 marks a free entry.
        let hash = mix(mix(mix(0, writer.process()), device), inode) | 1;
        if KNOWN.get(hash as usize >> 1 & (FILES - 1)).is_some_and(|slot| slot.swap(hash, Ordering::Relaxed) == hash) {
            return;
        }
        record_file(writer, fd, [device, inode], start_ns);
    }

    #[inline(never)]
    #[cold]
    fn record_file(writer: &mut Writer, fd: i32, [device, inode]: [u64; 2], start_ns: u64) {
        let mut room = [0; 1024];
        let length = system::path_of_descriptor(fd, &mut room);
        let record = Record {
            start_ns,
            end_ns: start_ns,
            object: u64::from(fd.cast_unsigned()),
            extra: [device, inode, system::flags_of_descriptor(fd), 0, 0, 0, 0],
            ..Record::default()
        };
        writer.write_with_text(kind::FILE, 0, record, room.get(..length).unwrap_or(&[]));
    }

    const _: () = assert!(Function::CudaGetAddress as usize + 1 == FUNCTIONS.len());
}
