//! Switches libcufile's statistics on, if they were asked for, and records them.

use crate::layout::{LIBRARIES, options};
use crate::linker::{self, LinkMap};
use crate::{capture, children, rings, system, thread};
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The functions that this library calls itself if statistics are requested. They are looked up when libcufile is
/// loaded. 0 if the version does not have them.
static SET_LEVEL: [AtomicUsize; LIBRARIES] = [const { AtomicUsize::new(0) }; LIBRARIES];
static START: [AtomicUsize; LIBRARIES] = [const { AtomicUsize::new(0) }; LIBRARIES];
static LEVEL3: [AtomicUsize; LIBRARIES] = [const { AtomicUsize::new(0) }; LIBRARIES];
static STOP: [AtomicUsize; LIBRARIES] = [const { AtomicUsize::new(0) }; LIBRARIES];
static GET_VERSION: [AtomicUsize; LIBRARIES] = [const { AtomicUsize::new(0) }; LIBRARIES];
/// The time of the last reading of the statistics. 0 if they are off.
static READ_AT_NS: [AtomicU64; LIBRARIES] = [const { AtomicU64::new(0) }; LIBRARIES];
/// The process that enabled the statistics. After a fork, the child has a copy of its counters, which must not be
/// counted twice.
static SWITCHED_ON_BY: [AtomicU64; LIBRARIES] = [const { AtomicU64::new(0) }; LIBRARIES];
/// The thread that reads the statistics, as the address of its state. 0 if there is none. The values of two readings at
/// the same time have no order.
static READER: [AtomicU64; LIBRARIES] = [const { AtomicU64::new(0) }; LIBRARIES];
/// Whether a thread wanted a reading while another thread read.
static IS_WANTED: [AtomicBool; LIBRARIES] = [const { AtomicBool::new(false) }; LIBRARIES];
/// The maximum number of readings that a thread makes at once, also if others want more.
const AT_ONCE: usize = 2;
/// The minimum time between two readings during transfers. A reading takes about 10 µs.
pub(crate) const BETWEEN_NS: u64 = 100_000_000;

/// Stores the addresses of libcufile's statistics functions if statistics are requested.
///
/// # Safety
/// `map` must be the link map of a loaded object.
pub(crate) unsafe fn remember(library: usize, map: &LinkMap) {
    if !rings::option(options::STATISTICS) {
        return;
    }
    for (name, slots) in [
        (c"cuFileSetStatsLevel", &SET_LEVEL),
        (c"cuFileStatsStart", &START),
        (c"cuFileGetStatsL3", &LEVEL3),
        (c"cuFileStatsStop", &STOP),
        (c"cuFileGetVersion", &GET_VERSION),
    ] {
        // SAFETY: the caller passes the link map of a loaded object.
        let address = unsafe { linker::symbol(map, name) }.unwrap_or(0);
        if let Some(slot) = slots.get(library) {
            slot.store(address, Ordering::Relaxed);
        }
    }
}

/// Stops the readings of a copy that is unloaded.
pub(crate) fn forget(library: usize) {
    if let Some(read_at) = READ_AT_NS.get(library) {
        read_at.store(0, Ordering::Relaxed);
    }
    if let Some(tried) = TRIED.get(library) {
        tried.store(false, Ordering::Relaxed);
    }
}

/// Whether the statistics of a copy were enabled, or this was tried.
static TRIED: [AtomicBool; LIBRARIES] = [const { AtomicBool::new(false) }; LIBRARIES];

/// Whether a call must enable the statistics: each explicit opening of the driver, and the first call that opens it
/// implicitly.
pub(crate) fn must_enable(library: usize, opens_explicitly: bool) -> bool {
    rings::option(options::STATISTICS)
        && TRIED.get(library).is_some_and(|tried| !tried.swap(true, Ordering::Relaxed) || opens_explicitly)
}

/// Sets level 3 before the driver is opened, because libcufile rejects it afterwards.
pub(crate) fn before_open(library: usize) {
    let Some(address) = SET_LEVEL.get(library).map(|slot| slot.load(Ordering::Relaxed)).filter(|a| *a != 0) else {
        return;
    };
    // SAFETY: this is the address of `cuFileSetStatsLevel(int)` in this copy.
    unsafe {
        let set: unsafe extern "C" fn(i32) -> u64 = core::mem::transmute::<usize, _>(address);
        set(3);
    }
}

/// The copies whose statistics this process enabled. If there is one, this thread must not be inside a call, in which
/// libcufile may hold a lock: a signal handler can end the process. Without one, the shared file is not touched, which
/// the program may have truncated.
fn counting() -> impl Iterator<Item = usize> {
    let may_call = (0..LIBRARIES).any(is_on) && !rings::is_in_call();
    (0..LIBRARIES).filter(move |library| may_call && is_on(*library))
}

/// Whether this process enabled the statistics of a copy. Without statistics, no system call is made.
fn is_on(library: usize) -> bool {
    READ_AT_NS.get(library).is_some_and(|read_at| read_at.load(Ordering::Relaxed) != 0)
        && SWITCHED_ON_BY.get(library).is_some_and(|by| by.load(Ordering::Relaxed) == process())
}

/// The id of this process. The child of `vfork` has the memory of its parent, so the kernel is asked, unless a filter may
/// not allow it.
fn process() -> u64 {
    if system::is_filtered() { rings::process() } else { system::process() }
}

/// Reads the statistics before the process ends.
pub(crate) fn at_end() {
    counting().for_each(read_last);
}

/// Reads the statistics of a copy for the last time, before its destructors. It also stops the counters: libcufile 1.15
/// sometimes ends a process with SIGSEGV at its exit if the driver is open. With running counters, this is more
/// frequent.
extern "C" fn read_at_exit(library: *mut c_void) {
    let library = library as usize;
    if !counting().any(|counted| counted == library) {
        return;
    }
    read_last(library);
    let address = STOP.get(library).map_or(0, |stop| stop.load(Ordering::Relaxed));
    if address != 0 {
        // SAFETY: this is the address of `cuFileStatsStop(void)` in this copy.
        unsafe {
            let stop: unsafe extern "C" fn() -> u64 = core::mem::transmute::<usize, _>(address);
            stop();
        }
    }
    if let Some(read_at) = READ_AT_NS.get(library) {
        read_at.store(0, Ordering::Relaxed);
    }
}

/// Starts the counters of libcufile.
pub(crate) fn after_open(library: usize) {
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
        let process = process();
        let before = SWITCHED_ON_BY.get(library).map(|by| by.swap(process, Ordering::Relaxed));
        // The child of a fork has the mark of a thread of its parent.
        if before != Some(process)
            && let Some(reader) = READER.get(library)
        {
            reader.store(0, Ordering::Relaxed);
        }
        // Functions are called in reverse order, so this one comes before the destructors of this copy. Another copy
        // may have been loaded earlier or later.
        if read_at.swap(system::now_ns(), Ordering::Relaxed) == 0 {
            children::at_exit(read_at_exit, library as *mut c_void);
        }
    }
}

/// Reads and records the level-3 statistics if they are on and the last reading is at least `between_ns` old. A thread does
/// not wait for another one that reads: that one then reads again.
pub(crate) fn read(library: usize, between_ns: u64) {
    let (Some(read_at), Some(reader), Some(is_wanted)) =
        (READ_AT_NS.get(library), READER.get(library), IS_WANTED.get(library))
    else {
        return;
    };
    let last = read_at.load(Ordering::Relaxed);
    if last == 0 || system::now_ns().saturating_sub(last) < between_ns || !is_on(library) {
        return;
    }
    is_wanted.store(true, Ordering::SeqCst);
    for _ in 0..AT_ONCE {
        if !is_wanted.load(Ordering::SeqCst)
            || reader.compare_exchange(0, this_thread(), Ordering::SeqCst, Ordering::SeqCst).is_err()
        {
            return;
        }
        is_wanted.store(false, Ordering::SeqCst);
        read_now(library);
        reader.store(0, Ordering::SeqCst);
    }
}

/// Reads the statistics before the driver is closed or the process ends. It does so while another thread reads, too: the
/// values of that thread can be older.
pub(crate) fn read_last(library: usize) {
    let Some(reader) = READER.get(library).filter(|_| is_on(library)) else { return };
    // A signal handler can interrupt a reading of its thread, during which libcufile may hold a lock.
    if reader.load(Ordering::SeqCst) == this_thread() {
        return;
    }
    let is_reader = reader.compare_exchange(0, this_thread(), Ordering::SeqCst, Ordering::SeqCst).is_ok();
    read_now(library);
    if is_reader {
        reader.store(0, Ordering::SeqCst);
    }
}

fn this_thread() -> u64 {
    core::ptr::from_ref(thread::state()).addr() as u64
}

/// A separate function, so that its buffer is not on the stack of every call.
#[inline(never)]
#[cold]
fn read_now(library: usize) {
    let (Some(read_at), Some(level3)) = (READ_AT_NS.get(library), LEVEL3.get(library)) else { return };
    let address = level3.load(Ordering::Relaxed);
    let time = system::now_ns();
    // It stays 0 if the copy is unloaded at this moment.
    let is_on = read_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |at| (at != 0).then_some(time)).is_ok();
    if address == 0 || !is_on {
        return;
    }
    // This is more than level 3 of 1.20 needs (5112 bytes).
    let mut room = [0_u64; 2048];
    // SAFETY: this is the address of `cuFileGetStatsL3(CUfileStatsLevel3_t *)` in this copy.
    let answer = unsafe {
        let read: unsafe extern "C" fn(*mut u64) -> u64 = core::mem::transmute::<usize, _>(address);
        read(room.as_mut_ptr())
    };
    if answer as u32 == 0 {
        let times = [time, system::now_ns()];
        capture::record_statistics(library, version(library), &room, times);
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

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    /// A copy that no other test uses.
    const LIBRARY: usize = LIBRARIES - 1;
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    static IS_HELD: AtomicBool = AtomicBool::new(false);

    /// A reading that lasts while it is held.
    extern "C" fn held(_: *mut u64) -> u64 {
        BEGUN.fetch_add(1, Ordering::SeqCst);
        while IS_HELD.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        0
    }

    fn wait_for(begun: usize) {
        while BEGUN.load(Ordering::SeqCst) < begun {
            std::thread::yield_now();
        }
    }

    #[test]
    fn one_thread_reads_at_a_time_and_the_last_reading_is_not_left_out() {
        LEVEL3[LIBRARY].store(held as *const () as usize, Ordering::Relaxed);
        READ_AT_NS[LIBRARY].store(1, Ordering::Relaxed);
        SWITCHED_ON_BY[LIBRARY].store(process(), Ordering::Relaxed);
        IS_HELD.store(true, Ordering::SeqCst);
        let during = std::thread::scope(|scope| {
            scope.spawn(|| read(LIBRARY, 0));
            wait_for(1);
            // Nothing waits for the other thread.
            read(LIBRARY, 0);
            read(LIBRARY, 0);
            let during = BEGUN.load(Ordering::SeqCst);
            IS_HELD.store(false, Ordering::SeqCst);
            during
        });
        // The first thread reads once more, for both.
        assert_eq!((during, BEGUN.load(Ordering::SeqCst)), (1, 2));
        IS_HELD.store(true, Ordering::SeqCst);
        std::thread::scope(|scope| {
            scope.spawn(|| read(LIBRARY, 0));
            wait_for(3);
            scope.spawn(|| read_last(LIBRARY));
            wait_for(4);
            IS_HELD.store(false, Ordering::SeqCst);
        });
        assert_eq!((BEGUN.load(Ordering::SeqCst), READER[LIBRARY].load(Ordering::SeqCst)), (4, 0));
        forget(LIBRARY);
        read_last(LIBRARY);
        read(LIBRARY, 0);
        assert_eq!(BEGUN.load(Ordering::SeqCst), 4);
    }
}
