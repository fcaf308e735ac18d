//! The interface that the dynamic linker calls (rtld-audit(7)). It finds libcufile and replaces its functions by
//! recording functions.

use crate::layout::{Function, LIBRARIES, Record, header, kind};
use crate::linker::{LinkMap, Symbol};
use crate::names::{function, is_cuda, plain_function};
use crate::rings::{self, Writer};
use crate::{calls, children, mappings, relocations, statistics, system, uring};
use core::ffi::{CStr, c_char, c_long, c_uint};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// `LA_FLG_BINDTO` and `LA_FLG_BINDFROM`.
const BIND_TO: c_uint = 1;
const BIND_FROM: c_uint = 2;
/// `LA_SYMB_NOPLTENTER` and `LA_SYMB_NOPLTEXIT`: the linker does not use its slow path for each call.
const NO_PLT_HOOKS: c_uint = 3;

/// The cookies of libc, libcuda and libaio. The cookie 0 is for other objects, and lower numbers are copies of
/// libcufile.
const LIBC: usize = LIBRARIES + 1;
const CUDA: usize = LIBRARIES + 2;
/// The cookie of the main program.
const PROGRAM: usize = LIBRARIES + 3;
const AIO: usize = LIBRARIES + 4;

/// The hash of the path of each libcufile that was loaded. 0 marks an entry that was never used.
static LOADED: [AtomicU64; LIBRARIES] = [const { AtomicU64::new(0) }; LIBRARIES];
/// Whether the copy is loaded now. dlmopen loads a second copy of the same file into another namespace. That copy
/// needs a separate number, because it has separate functions.
static IS_LOADED: [AtomicBool; LIBRARIES] = [const { AtomicBool::new(false) }; LIBRARIES];

/// The linker calls this first. If it returns 0, the linker ignores the library.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) extern "C" fn la_version(version: c_uint) -> c_uint {
    // Version 2 (glibc 2.35) changed only the arguments of the PLT hooks, which are not used here. So every version
    // is accepted.
    if version > 0 && rings::open() { version } else { 0 }
}

/// The linker calls this for each loaded object.
///
/// # Safety
/// Only the dynamic linker may call it, with a link map and a cookie.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn la_objopen(map: *const LinkMap, _: c_long, cookie: *mut usize) -> c_uint {
    // SAFETY: the linker passes a valid link map with a C string or null, and a cookie that can be written.
    let path = unsafe {
        *cookie = 0;
        match (*map).name {
            name if name.is_null() => &[][..],
            name => CStr::from_ptr(name).to_bytes(),
        }
    };
    // SAFETY: the linker has mapped the object but not relocated it yet.
    unsafe { relocations::show_to_linker(&*map) };
    if path.is_empty() {
        // SAFETY: as above. The main program has no name.
        unsafe {
            children::remember_program(&*map);
            *cookie = PROGRAM;
        }
        return BIND_TO | BIND_FROM;
    }
    if !is_libcufile(path) {
        let number = if is_named(path, b"libc.so.") {
            // SAFETY: the linker passes the link map of an object that is mapped.
            unsafe { children::remember_libc(&*map) };
            LIBC
        } else if is_named(path, b"libcuda.so") {
            CUDA
        } else if is_named(path, b"libaio.so") || is_named(path, b"libaio-") {
            // A wheel adds a hash to the name.
            AIO
        } else {
            return BIND_FROM;
        };
        // SAFETY: as above.
        unsafe { *cookie = number };
        return BIND_TO | BIND_FROM;
    }
    let Some(library) = number_of(path) else {
        rings::count(header::LIBRARIES_LEFT_OUT);
        return BIND_FROM;
    };
    // SAFETY: as above.
    unsafe {
        // The cookie 0 is for all other objects.
        *cookie = library + 1;
        statistics::remember(library, &*map);
    }
    if let Some(mut writer) = Writer::take() {
        let now = system::now_ns();
        let record = Record { start_ns: now, end_ns: now, ..Record::default() };
        writer.write_with_text(kind::LIBRARY, library as u8, record, path);
    }
    BIND_TO | BIND_FROM
}

/// The linker calls this before it unloads an object.
///
/// # Safety
/// Only the dynamic linker may call it, with a cookie of [`la_objopen`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn la_objclose(cookie: *const usize) -> c_uint {
    // SAFETY: the linker passes a valid pointer.
    let cookie = unsafe { *cookie };
    // The main program is closed when the process ends.
    if cookie == PROGRAM {
        mappings::end();
        uring::end();
    }
    let library = cookie.checked_sub(1);
    if let Some(is_loaded) = library.and_then(|library| IS_LOADED.get(library)) {
        is_loaded.store(false, Ordering::Relaxed);
    }
    if let Some(library) = library {
        statistics::forget(library);
    }
    0
}

/// The linker calls this when it or `dlsym` binds a symbol. The program uses the address that this returns.
///
/// # Safety
/// Only the dynamic linker may call it, with a symbol, two cookies of [`la_objopen`], flags and a C string.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn la_symbind64(
    symbol: *const Symbol,
    _: c_uint,
    from: *const usize,
    to: *const usize,
    flags: *mut c_uint,
    name: *const c_char,
) -> usize {
    // SAFETY: the linker passes valid pointers.
    let (address, from, to, name) = unsafe {
        *flags |= NO_PLT_HOOKS;
        ((*symbol).value, *from, *to, CStr::from_ptr(name).to_bytes())
    };
    if to == LIBC || to == CUDA || to == AIO {
        // Calls between libcufile and these libraries are not calls of the program.
        let is_program = from == 0 || from == PROGRAM;
        let number = plain_function(name).filter(|number| is_program && to == library_of(*number));
        return number.and_then(|number| calls::redirect_plain(number, address)).unwrap_or(address);
    }
    // A call of libcufile to itself is not a call of the program.
    let Some(library) = to.checked_sub(1).filter(|library| *library < LIBRARIES && from != to) else {
        return address;
    };
    match function(name) {
        Some(function) => calls::redirect(library, function, address).unwrap_or(address),
        None => address,
    }
}

/// The cookie of the library with a function that is not a function of libcufile.
const fn library_of(function: usize) -> usize {
    if is_cuda(function) {
        CUDA
    } else if function == Function::AioSubmit as usize {
        AIO
    } else {
        LIBC
    }
}

/// Whether the file name of a path starts with this text.
fn is_named(path: &[u8], start: &[u8]) -> bool {
    let name = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    path.get(name..).is_some_and(|name| name.starts_with(start))
}

/// Whether the file name is that of libcufile: `libcufile.so.0`, possibly with the hash that wheels add.
/// `libcufile_rdma.so.1` is another library.
fn is_libcufile(path: &[u8]) -> bool {
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let Some(rest) = path.get(start..).and_then(|name| name.strip_prefix(b"libcufile")) else { return false };
    matches!(rest.first(), Some(b'.' | b'-')) && rest.windows(3).any(|part| part == b".so")
}

/// A number for this copy of libcufile. It is the same if the file was unloaded and is loaded again. `None` if there
/// are too many copies.
fn number_of(path: &[u8]) -> Option<usize> {
    // An FNV-1a hash. One bit is always set, because 0 marks a free entry.
    let hash = path
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
        | 1;
    // First the number that this file had before, then one that was never used, then that of another unloaded file.
    let free = || (0..LIBRARIES).filter(|number| !IS_LOADED[*number].load(Ordering::Relaxed));
    let is = |number: &usize, wanted: u64| LOADED[*number].load(Ordering::Relaxed) == wanted;
    let number = free().find(|n| is(n, hash)).or_else(|| free().find(|n| is(n, 0))).or_else(|| free().next())?;
    // The linker holds its lock while it calls this, so no other thread takes the number.
    IS_LOADED[number].store(true, Ordering::Relaxed);
    LOADED[number].store(hash, Ordering::Relaxed);
    Some(number)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn libcufile_is_known_by_its_file_name() {
        for yes in ["/usr/lib/libcufile.so.0", "libcufile.so", "/a/libcufile.so.1.20.0", "/w/libcufile-1a2b3c.so.0"] {
            assert!(is_libcufile(yes.as_bytes()), "{yes}");
        }
        for no in ["", "/a/libcufile_rdma.so.1", "/libcufile.so.0/libc.so.6", "libcufile_audit.so", "mylibcufile.so.0"]
        {
            assert!(!is_libcufile(no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn a_file_that_is_loaded_again_keeps_its_number_and_two_copies_have_two() {
        let (first, second) = (0, 1);
        assert_eq!(number_of(b"/a/libcufile.so.0"), Some(first));
        assert_eq!(number_of(b"/a/libcufile.so.0"), Some(second));
        // SAFETY: the cookie is a live number.
        let close = |number: usize| unsafe { la_objclose(&(number + 1)) };
        close(first);
        assert_eq!(number_of(b"/b/libcufile.so.0"), Some(2));
        assert_eq!(number_of(b"/a/libcufile.so.0"), Some(first));
        assert_eq!(number_of(b"/c/libcufile.so.0"), Some(3));
        assert_eq!(number_of(b"/d/libcufile.so.0"), None);
        close(second);
        assert_eq!(number_of(b"/d/libcufile.so.0"), Some(second));
        // libc is not a copy of libcufile.
        // SAFETY: the cookie is a constant.
        let closed = unsafe { la_objclose(&LIBC) };
        assert_eq!(closed, 0);
        assert_eq!(number_of(b"/e/libcufile.so.0"), None);
    }
}
