//! The system interface of the library: its libc, the clock, and a block of memory per thread.

use core::ffi::{c_char, c_int, c_long, c_void};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// `open`.
const O_RDWR: c_int = 2;
pub(crate) const O_CLOEXEC: c_int = 0o2_000_000;
const O_NONBLOCK: c_int = 0o4_000;
const O_NOFOLLOW: c_int = if cfg!(target_arch = "x86_64") { 0o400_000 } else { 0o100_000 };
const F_GETFL: c_int = 3;
const PROT_READ_WRITE: c_int = 3;
const MAP_SHARED: c_int = 1;
const MAP_PRIVATE_ANONYMOUS: c_int = 0x22;
/// In the child of a fork, the page contains zeros.
const MADV_WIPEONFORK: c_int = 18;
/// Allocates the pages of a mapping (linux/mman.h).
const MADV_POPULATE_WRITE: c_int = 23;
const CLOCK_REALTIME: c_int = 0;
const CLOCK_MONOTONIC: c_int = 1;
const RLIMIT_AS: c_int = 9;
const O_WRONLY: c_int = 1;
/// The number of the `fstat` call, and the position of the file type in `struct stat` in half words. Device and inode
/// are first on both architectures.
const SYS_FSTAT: c_long = if cfg!(target_arch = "x86_64") { 5 } else { 80 };
/// The number of the `statx` call.
const SYS_STATX: c_long = if cfg!(target_arch = "x86_64") { 332 } else { 291 };
pub(crate) const STAT_MODE: usize = if cfg!(target_arch = "x86_64") { 6 } else { 4 };
pub(crate) const S_IFMT: u32 = 0o170_000;
pub(crate) const S_IFREG: u32 = 0o100_000;
/// The number of the `newfstatat` call, and the position of the owner in `struct stat` in half words.
const SYS_NEWFSTATAT: c_long = if cfg!(target_arch = "x86_64") { 262 } else { 79 };
const STAT_OWNER: usize = if cfg!(target_arch = "x86_64") { 7 } else { 6 };
const AT_FDCWD: c_long = -100;
const SYS_GETDENTS64: c_long = if cfg!(target_arch = "x86_64") { 217 } else { 61 };
const SYS_TGKILL: c_long = if cfg!(target_arch = "x86_64") { 234 } else { 131 };
/// The error of the kernel for a thread that does not exist.
const ESRCH: c_int = 3;
const SYS_GETTID: c_long = if cfg!(target_arch = "x86_64") { 186 } else { 178 };
const SYS_PROCESS_VM_READV: c_long = if cfg!(target_arch = "x86_64") { 310 } else { 270 };

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: c_long,
}

// On 64-bit targets, `open` and the other functions support files of every size under these names.
#[link(name = "c")]
unsafe extern "C" {
    #[link_name = "abort"]
    fn c_abort() -> !;
    fn __errno_location() -> *mut c_int;
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn fallocate(fd: c_int, mode: c_int, offset: i64, length: i64) -> c_int;
    fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
    fn geteuid() -> u32;
    fn getenv(name: *const c_char) -> *const c_char;
    fn getpid() -> c_int;
    fn getppid() -> c_int;
    fn getrlimit(resource: c_int, limit: *mut u64) -> c_int;
    fn lseek(fd: c_int, offset: i64, whence: c_int) -> i64;
    fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
    pub(crate) fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn pwrite(fd: c_int, from: *const c_void, length: usize, offset: i64) -> isize;
    fn pread(fd: c_int, to: *mut c_void, length: usize, offset: i64) -> isize;
    fn readlink(path: *const c_char, out: *mut c_char, room: usize) -> isize;
    fn sysconf(name: c_int) -> c_long;
    fn syscall(number: c_long, ...) -> c_long;
}

/// Aborts the process.
#[cfg_attr(test, allow(dead_code))]
pub(crate) fn abort() -> ! {
    // SAFETY: abort has no conditions.
    unsafe { c_abort() }
}

/// Nanoseconds of CLOCK_MONOTONIC.
pub(crate) fn now_ns() -> u64 {
    time_of(CLOCK_MONOTONIC)
}

/// Nanoseconds of CLOCK_REALTIME, the clock of file systems.
pub(crate) fn real_ns() -> u64 {
    time_of(CLOCK_REALTIME)
}

fn time_of(clock: c_int) -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` is a timespec of 64-bit Linux that exists during the call.
    unsafe { clock_gettime(clock, &raw mut time) };
    (time.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(time.nanoseconds as u64)
}

pub(crate) fn process() -> u64 {
    // SAFETY: getpid has no conditions.
    u64::from(unsafe { getpid() }.cast_unsigned())
}

/// The parent of this process.
pub(crate) fn parent() -> u64 {
    // SAFETY: getppid has no conditions.
    u64::from(unsafe { getppid() }.cast_unsigned())
}

pub(crate) fn thread() -> u64 {
    // SAFETY: gettid has no conditions. glibc provides a function for it only since 2.30.
    (unsafe { syscall(SYS_GETTID) }).cast_unsigned()
}

/// Whether a thread of this process no longer exists. It is false if the kernel gives no answer.
pub(crate) fn has_ended(process: u64, thread: u64) -> bool {
    // SAFETY: signal 0 is not sent. The location of `errno` is that of this library's libc in this thread.
    unsafe {
        let (group, one) = (process.cast_signed(), thread.cast_signed());
        syscall(SYS_TGKILL, group, one, 0 as c_long) == -1 && *__errno_location() == ESRCH
    }
}

/// A piece of memory, `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
}

/// Copies pieces of the memory of this process to `out`, one after another. Returns the number of words. At memory that
/// cannot be read, the kernel stops, and a load would end the program.
pub(crate) fn copy_memory(pieces: &[Piece], out: &mut [u64]) -> usize {
    let to = Piece { address: out.as_mut_ptr().expose_provenance(), bytes: out.len() * 8 };
    // SAFETY: the kernel writes at most the bytes of `out`, and it verifies the addresses of the pieces.
    let copied = unsafe {
        let (from, count) = (pieces.as_ptr(), pieces.len());
        syscall(SYS_PROCESS_VM_READV, process().cast_signed(), &raw const to, 1 as c_long, from, count, 0 as c_long)
    };
    usize::try_from(copied).unwrap_or(0) / 8
}

/// The value of an environment variable as a C string. It is null if it is not set.
pub(crate) fn variable(name: &core::ffi::CStr) -> *const c_char {
    // SAFETY: `name` is a C string. The result is used before the program runs, so the environment does not change.
    unsafe { getenv(name.as_ptr()) }
}

/// Maps `bytes` of a file as shared memory. `None` if the file cannot be opened or mapped, or if it is shorter.
///
/// # Safety
/// `path` must be a C string.
pub(crate) unsafe fn map_shared(path: *const c_char, bytes: usize) -> Option<*mut u64> {
    // SAFETY: the caller passes a C string. The descriptor is used and closed only here.
    unsafe {
        let fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if fd < 0 {
            return None;
        }
        // After a session, another user could create a file with the name and truncate it later.
        let identity = own_identity(fd);
        let is_usable = identity.is_some() && lseek(fd, 0, 2) >= bytes as i64;
        for (to, from) in MAPPED.iter().zip(identity.unwrap_or_default()) {
            to.store(from, Ordering::Relaxed);
        }
        let map = if is_usable {
            mmap(core::ptr::null_mut(), bytes, PROT_READ_WRITE, MAP_SHARED, fd, 0)
        } else {
            core::ptr::null_mut()
        };
        close(fd);
        (!map.is_null() && map.addr() != usize::MAX).then_some(map.cast())
    }
}

/// Device and inode of the mapped file.
static MAPPED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Device and inode of an open file that belongs to the effective user or to root. `None` for files of others.
unsafe fn own_identity(fd: c_int) -> Option<[u64; 2]> {
    let mut room = [0_u64; 32];
    // SAFETY: the call writes at most 144 bytes, and geteuid has no conditions.
    let (answer, user) = unsafe { (syscall(SYS_FSTAT, fd, room.as_mut_ptr()), geteuid()) };
    let owner = room.get(STAT_OWNER / 2).map_or(0, |word| (word >> (32 * (STAT_OWNER % 2))) as u32);
    let is_own = answer == 0 && (owner == 0 || owner == user);
    // stat begins with st_dev and st_ino on both architectures.
    if is_own { Some([*room.first()?, *room.get(1)?]) } else { None }
}

/// Reserves memory for a part of the mapped file, so that a write to it cannot end the program with SIGBUS. After a
/// session, another user could put a file or a link in its place, so its identity is compared.
///
/// # Safety
/// `path` must be a C string.
pub(crate) unsafe fn reserve(path: *const c_char, offset: usize, bytes: usize) -> bool {
    // SAFETY: the caller passes a C string. The descriptor is used and closed only here.
    unsafe {
        let fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if fd < 0 {
            return false;
        }
        let mapped = [MAPPED[0].load(Ordering::Relaxed), MAPPED[1].load(Ordering::Relaxed)];
        let done = own_identity(fd) == Some(mapped) && fallocate(fd, 0, offset as i64, bytes as i64) == 0;
        close(fd);
        done
    }
}

/// Reserves memory for a part of a shared mapping without opening its file, since Linux 5.14.
///
/// # Safety
/// The range must be inside a mapping that is never unmapped.
pub(crate) unsafe fn populate(map: *mut u64, offset: usize, bytes: usize) -> bool {
    // SAFETY: by the condition of this function. The kernel reports missing memory as an error, not as a signal.
    unsafe { madvise(map.byte_add(offset).cast(), bytes, MADV_POPULATE_WRITE) == 0 }
}

/// A private page that contains zeros in the child of a fork. `None` if the kernel does not support this (before
/// 4.14).
pub(crate) fn page_wiped_on_fork() -> Option<*mut u64> {
    // SAFETY: this is a new anonymous mapping that no other code uses.
    unsafe {
        let page = mmap(core::ptr::null_mut(), 4096, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0);
        if page.is_null() || page.addr() == usize::MAX || madvise(page, 4096, MADV_WIPEONFORK) != 0 {
            return None;
        }
        Some(page.cast())
    }
}

/// Copies the target of a link to `out`. Returns its length, or 0 if it cannot be read or does not fit.
///
/// # Safety
/// `path` must be a C string.
pub(crate) unsafe fn link_target(path: *const c_char, out: &mut [u8]) -> usize {
    // SAFETY: the caller passes a C string, and `out` has the given length.
    let length = unsafe { readlink(path, out.as_mut_ptr().cast(), out.len()) };
    // A target that fills the memory may be cut.
    usize::try_from(length).ok().filter(|length| *length < out.len()).unwrap_or(0)
}

/// The memory for the longest path that the kernel returns (PATH_MAX).
pub(crate) const LONGEST_PATH: usize = 4096;

/// The directory, followed by the number of a descriptor, as a C string. The directory has at most 18 bytes. No file has a
/// negative number.
fn descriptor_in(folder: &[u8], fd: i32) -> [u8; 32] {
    let mut name = [0; 32];
    let sign: &[u8] = if fd < 0 { b"-" } else { b"" };
    for (slot, byte) in name.iter_mut().zip(folder.iter().chain(sign)) {
        *slot = *byte;
    }
    let mut digits = [0_u8; 10];
    let mut rest = fd.unsigned_abs();
    let mut count = 0;
    while count < digits.len() {
        digits[count] = b'0' + (rest % 10) as u8;
        rest /= 10;
        count += 1;
        if rest == 0 {
            break;
        }
    }
    for (slot, digit) in name.iter_mut().skip(folder.len() + sign.len()).zip(digits.iter().take(count).rev()) {
        *slot = *digit;
    }
    name
}

/// A path of a descriptor of this process, as a C string.
pub(crate) fn descriptor_path(fd: i32) -> [u8; 32] {
    descriptor_in(b"/proc/self/fd/", fd)
}

/// Copies the path of a descriptor of this process to `out`. Returns its length, or 0 if it is unknown.
pub(crate) fn path_of_descriptor(fd: i32, out: &mut [u8]) -> usize {
    let name = descriptor_path(fd);
    // SAFETY: the name ends with a zero byte, because at most a sign and 10 digits follow the directory.
    unsafe { link_target(name.as_ptr().cast(), out) }
}

/// Copies the facts of the kernel about a descriptor of this process to `out`. Returns their length.
pub(crate) fn facts_of_descriptor(fd: i32, out: &mut [u8]) -> usize {
    let name = descriptor_in(b"/proc/self/fdinfo/", fd);
    // SAFETY: the name ends with a zero byte, as above. The descriptor is used only here, and `out` has the given length.
    unsafe {
        let file = open(name.as_ptr().cast(), O_CLOEXEC);
        let read = pread(file, out.as_mut_ptr().cast(), out.len(), 0);
        if file >= 0 {
            close(file);
        }
        usize::try_from(read).unwrap_or(0).min(out.len())
    }
}

/// A descriptor for the list of this process's descriptors. It is negative if it cannot be opened.
pub(crate) fn own_descriptors() -> c_int {
    // SAFETY: the argument is a C string literal.
    unsafe { open(c"/proc/self/fd".as_ptr(), O_CLOEXEC) }
}

/// Memory for entries of a directory, which begin with a number of 8 bytes.
#[repr(C, align(8))]
pub(crate) struct Entries(pub(crate) [u8; 2048]);

/// Reads the next entries of a directory. Returns the number of bytes, or 0 at the end.
pub(crate) fn read_entries(folder: c_int, out: &mut Entries) -> usize {
    // SAFETY: `out` has space for its length.
    let read = unsafe { syscall(SYS_GETDENTS64, c_long::from(folder), out.0.as_mut_ptr(), out.0.len()) };
    usize::try_from(read).unwrap_or(0).min(out.0.len())
}

/// The inode of the pid namespace of this process. It is 0 if it is unknown.
pub(crate) fn pid_namespace() -> u64 {
    let mut room = [0; 64];
    // SAFETY: the argument is a C string literal.
    let length = unsafe { link_target(c"/proc/self/ns/pid".as_ptr(), &mut room) };
    // The link has the form `pid:[4026531836]`.
    let digits = room.iter().take(length).filter(|byte| byte.is_ascii_digit());
    digits.fold(0, |number: u64, digit| number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
}

/// The flags of an open descriptor, for example O_DIRECT.
pub(crate) fn flags_of_descriptor(fd: i32) -> u64 {
    // SAFETY: F_GETFL has no third argument.
    let flags = unsafe { fcntl(fd, F_GETFL) };
    if flags < 0 { u64::MAX } else { u64::from(flags.cast_unsigned()) }
}

/// Calls fstat. glibc provides a function for it only since 2.33.
pub(crate) fn fstat(fd: i32, room: &mut [u64; 32]) -> bool {
    // SAFETY: the call writes at most 144 bytes.
    unsafe { syscall(SYS_FSTAT, c_long::from(fd), room.as_mut_ptr()) == 0 }
}

/// Calls statx for a descriptor.
pub(crate) fn statx(fd: i32, flags: u32, wanted: u32, room: &mut [u64; 32]) -> bool {
    let (flags, wanted) = (c_long::from(flags), c_long::from(wanted));
    // SAFETY: the path is an empty C string, and the call writes at most 256 bytes.
    unsafe { syscall(SYS_STATX, c_long::from(fd), c"".as_ptr(), flags, wanted, room.as_mut_ptr()) == 0 }
}

/// Whether a file exists. A name without a directory is assumed to exist in a directory of PATH.
///
/// # Safety
/// `path` must be a C string.
pub(crate) unsafe fn exists(path: *const c_char) -> bool {
    let mut room = [0_u64; 32];
    // SAFETY: the path is a C string. The call writes at most 144 bytes.
    unsafe {
        !has_slash(core::ffi::CStr::from_ptr(path).to_bytes())
            || syscall(SYS_NEWFSTATAT, AT_FDCWD, path, room.as_mut_ptr(), 0 as c_long) == 0
    }
}

/// Whether a path contains a slash. `contains` of slices is not used, because it needs the unwinder, which this library
/// does not have.
#[allow(clippy::manual_contains)]
fn has_slash(path: &[u8]) -> bool {
    path.iter().any(|byte| *byte == b'/')
}

/// Whether this process can open a file for reading.
///
/// # Safety
/// `path` must be a C string.
pub(crate) unsafe fn can_read(path: *const c_char) -> bool {
    // SAFETY: the path is a C string. The descriptor is closed only here.
    unsafe {
        let fd = open(path, O_CLOEXEC | O_NONBLOCK);
        fd >= 0 && close(fd) == 0
    }
}

/// The size of the shared file, if a program with the rights of this process can open it.
///
/// # Safety
/// `path` must be a C string.
pub(crate) unsafe fn shared_bytes(path: *const c_char) -> Option<i64> {
    // SAFETY: the path is a C string. The descriptor is used and closed only here.
    unsafe {
        let fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if fd < 0 {
            return None;
        }
        let bytes = own_identity(fd).map(|_| lseek(fd, 0, 2));
        close(fd);
        bytes
    }
}

/// The most program headers of a program that are read.
const MOST_PARTS: usize = 256;
/// The type of the program header with the name of the dynamic linker.
const PT_INTERP: u32 = 3;

/// Whether a file is a statically linked program, into which no linker loads libcufile. It is false if the file cannot be
/// read, and for a name that is searched for in PATH.
///
/// # Safety
/// `path` must be a C string.
pub(crate) unsafe fn is_static(path: *const c_char) -> bool {
    // SAFETY: the path is a C string. The descriptor is used and closed only here.
    unsafe {
        let name = core::ffi::CStr::from_ptr(path).to_bytes();
        // The dynamic linker itself can be started, too.
        if !has_slash(name) || name.windows(3).any(|part| part == b".so") {
            return false;
        }
        let fd = open(path, O_CLOEXEC | O_NONBLOCK);
        if fd < 0 {
            return false;
        }
        // `Elf64_Ehdr` begins with the magic number and the class. The program headers have the offset in word 4, their
        // size is in the last half word of word 6, and their number in the first one of word 7.
        let mut header = [0_u64; 8];
        let is_elf = read_words(fd, &mut header, 8, 0) == 8 && header[0] & 0xff_ffff_ffff == 0x02_464c_457f;
        let (offset, bytes, count) = (header[4] as usize, (header[6] >> 48) as usize, (header[7] & 0xffff) as usize);
        let is_other = |part: usize| {
            let mut first = [0];
            read_words(fd, &mut first, 1, offset.wrapping_add(part * bytes)) == 1 && first[0] as u32 != PT_INTERP
        };
        let is_static = is_elf && (1..=MOST_PARTS).contains(&count) && (0..count).all(is_other);
        close(fd);
        is_static
    }
}

/// The bytes that are left of a limited address space. `None` if it is not limited.
pub(crate) fn address_space_left() -> Option<usize> {
    let mut limit = [u64::MAX; 2];
    // SAFETY: the call writes a `struct rlimit`, which has two words.
    let is_known = unsafe { getrlimit(RLIMIT_AS, limit.as_mut_ptr()) } == 0;
    let limit = usize::try_from(limit[0]).ok().filter(|limit| is_known && *limit != usize::MAX)?;
    let mut room = [0_u8; 32];
    // SAFETY: the path is a C string literal. The descriptor is used and closed only here.
    let read = unsafe {
        let fd = open(c"/proc/self/statm".as_ptr(), O_CLOEXEC);
        let read = pread(fd, room.as_mut_ptr().cast(), room.len(), 0);
        if fd >= 0 {
            close(fd);
        }
        usize::try_from(read).unwrap_or(0)
    };
    // The first number is the size in pages. If it is unknown, nothing may be left.
    let digits = room.iter().take(read).take_while(|byte| byte.is_ascii_digit());
    let pages = digits.fold(0_usize, |sum, digit| sum.wrapping_mul(10).wrapping_add(usize::from(digit - b'0')));
    Some(if pages == 0 { 0 } else { limit.saturating_sub(pages.saturating_mul(page_bytes())) })
}

/// The current position of a descriptor.
pub(crate) fn position(fd: i32) -> u64 {
    // SAFETY: lseek has no conditions. SEEK_CUR with 0 changes nothing.
    u64::try_from(unsafe { lseek(fd, 0, 1) }).unwrap_or(0)
}

/// A descriptor for the memory of this process. It is negative if it cannot be opened.
pub(crate) fn own_memory() -> c_int {
    // SAFETY: the argument is a C string literal.
    unsafe { open(c"/proc/self/mem".as_ptr(), O_WRONLY | O_CLOEXEC) }
}

/// Writes a word to the memory of this process, even if its page is read-only. If the kernel rejects this, nothing
/// changes.
///
/// # Safety
/// The word at the address must be one that may be changed.
pub(crate) unsafe fn write_at(memory: c_int, address: usize, word: u64) {
    // SAFETY: the bytes belong to a word that exists during the call. The kernel rejects a negative descriptor.
    unsafe { pwrite(memory, (&raw const word).cast(), 8, address as i64) };
}

/// Reads up to `wanted` words at an offset of a file. Returns their number.
pub(crate) fn read_words(fd: c_int, out: &mut [u64], wanted: usize, offset: usize) -> usize {
    let bytes = wanted.min(out.len()) * 8;
    // SAFETY: `out` has space for the bytes.
    let read = unsafe { pread(fd, out.as_mut_ptr().cast(), bytes, offset as i64) };
    usize::try_from(read).unwrap_or(0) / 8
}

/// The first words of a file of the effective user or of root. They are 0 if it cannot be read.
///
/// # Safety
/// `path` must be a C string.
pub(crate) unsafe fn first_words<const N: usize>(path: *const c_char) -> [u64; N] {
    let mut words = [0; N];
    // SAFETY: the caller passes a C string. The descriptor is used and closed only here.
    unsafe {
        let fd = open(path, O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if fd >= 0 {
            if own_identity(fd).is_some() {
                read_words(fd, &mut words, N, 0);
            }
            close(fd);
        }
    }
    words
}

/// The size of a page in bytes.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: sysconf has no conditions. The number is `_SC_PAGESIZE`.
    usize::try_from(unsafe { sysconf(30) }).unwrap_or(4096).max(4096)
}

/// Closes a descriptor.
pub(crate) fn close_descriptor(fd: c_int) {
    // SAFETY: the caller opened it and does not use it any more.
    unsafe { close(fd) };
}

/// Whether the program has set a filter of its system calls (seccomp).
static IS_FILTERED: AtomicBool = AtomicBool::new(false);

/// Whether the program has set a filter of its system calls, so that another call can end it.
pub(crate) fn is_filtered() -> bool {
    IS_FILTERED.load(Ordering::Relaxed)
}

/// Notes that the program sets such a filter.
pub(crate) fn set_filtered() {
    IS_FILTERED.store(true, Ordering::Relaxed);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    extern crate std;

    use super::*;
    use std::ffi::CString;

    #[test]
    fn a_program_without_the_name_of_a_linker_is_static() {
        let folder = std::env::temp_dir().join(std::format!("cufile-audit-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let is_static = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, bytes).unwrap();
            let path = CString::new(path.to_str().unwrap()).unwrap();
            // SAFETY: this is a C string.
            unsafe { super::is_static(path.as_ptr()) }
        };
        // The offset, the size and the number of the program headers, and the type of the second one.
        let mut program = [0_u8; 64 + 2 * 56];
        program[..5].copy_from_slice(b"\x7fELF\x02");
        (program[32], program[54], program[56], program[64], program[120]) = (64, 56, 2, 1, 1);
        let answers =
            [is_static("program", &program), is_static("ld.so", &program), is_static("script", b"#!/bin/sh\n")];
        program[120] = PT_INTERP as u8;
        let with_linker = is_static("program", &program);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((answers, with_linker), ([true, false, false], false));
        // SAFETY: this is a C string.
        assert!(!unsafe { super::is_static(c"program".as_ptr()) });
    }
}
