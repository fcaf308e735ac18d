//! Keeps this process alive if another process truncates a file that is mapped here. The kernel then sends SIGBUS for
//! each access. The handler replaces the page by an empty one, and the mapping is marked.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Maximum number of guarded mappings of a process.
const MOST: usize = 256;

/// A guarded range of addresses. `start` is 0 if the entry is free.
struct Range {
    start: AtomicUsize,
    end: AtomicUsize,
    is_cut: AtomicBool,
}

static RANGES: [Range; MOST] =
    [const { Range { start: AtomicUsize::new(0), end: AtomicUsize::new(0), is_cut: AtomicBool::new(false) } }; MOST];
/// Size of a page in bytes.
static PAGE: AtomicUsize = AtomicUsize::new(0);
/// The handler before this one. The standard library installs one that reports a full stack.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
/// Held while an entry is taken.
static TAKING: Mutex<()> = Mutex::new(());

/// A guarded mapping. It must be dropped before the mapping.
#[derive(Debug)]
pub(super) struct Guard(usize);

impl Guard {
    /// Guards the mapping of `bytes` at `start`.
    ///
    /// # Errors
    /// If the handler cannot be installed, or if too many mappings are guarded.
    pub(super) fn new(start: usize, bytes: usize) -> io::Result<Self> {
        let _taking = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
        install()?;
        let free = RANGES.iter().position(|range| range.start.load(Ordering::Acquire) == 0);
        let index = free.ok_or_else(|| io::Error::other("too many files are mapped"))?;
        let range = &RANGES[index];
        range.end.store(start + bytes, Ordering::Release);
        range.is_cut.store(false, Ordering::Release);
        range.start.store(start, Ordering::Release);
        Ok(Self(index))
    }

    /// Whether a page of the file was missing.
    pub(super) fn is_cut(&self) -> bool {
        RANGES[self.0].is_cut.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        RANGES[self.0].start.store(0, Ordering::Release);
    }
}

fn install() -> io::Result<()> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    PAGE.store(rustix::param::page_size(), Ordering::Release);
    // SAFETY: the structures are plain data for which zero is a valid value. The handler has the signature that
    // SA_SIGINFO requires, and calls only functions that signal-safety(7) lists, and mmap, which is a system call.
    let before = unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        before
    };
    let _ = BEFORE.set(before);
    // SAFETY: as above.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = missing_page as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        if libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

extern "C" fn missing_page(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid structure to a handler with SA_SIGINFO. `si_addr` is valid for this code.
    // The new page is inside a mapping of this process, all of whose accesses are atomic, so other threads see either
    // page. errno is restored for the interrupted code.
    unsafe {
        let errno = *libc::__errno_location();
        if (*info).si_code == libc::BUS_ADRERR && replace_page((*info).si_addr() as usize) {
            *libc::__errno_location() = errno;
            return;
        }
        // The access is repeated and ends in the handler before this one.
        if let Some(before) = BEFORE.get() {
            libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut());
        }
    }
}

/// Replaces the page of an address by an empty one. Returns false if the address is not guarded.
fn replace_page(address: usize) -> bool {
    let page = PAGE.load(Ordering::Acquire);
    let at = address & !(page - 1);
    for range in &RANGES {
        let start = range.start.load(Ordering::Acquire);
        if start == 0 || address < start || address >= range.end.load(Ordering::Acquire) {
            continue;
        }
        range.is_cut.store(true, Ordering::Release);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the page is inside a guarded mapping, which exists until its guard is dropped.
        let map = unsafe {
            let wanted = std::ptr::without_provenance_mut(at);
            libc::mmap(wanted, page, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        return map != libc::MAP_FAILED;
    }
    false
}
