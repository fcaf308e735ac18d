//! The interface that the dynamic linker calls (rtld-audit(7)): it finds libcufile and puts the recording functions in place of its functions.

use crate::layout::{LIBRARIES, Record, header, kind};
use crate::linker::{LinkMap, Symbol};
use crate::names::{function, is_cuda, plain_function};
use crate::rings::{self, Writer};
use crate::{calls, relocations, system};
use core::ffi::{CStr, c_char, c_long, c_uint};
use core::sync::atomic::{AtomicU64, Ordering};

/// `LA_FLG_BINDTO` and `LA_FLG_BINDFROM`.
const BIND_TO: c_uint = 1;
const BIND_FROM: c_uint = 2;
/// `LA_SYMB_NOPLTENTER` and `LA_SYMB_NOPLTEXIT`: the linker does not go through its slow path at every call.
const NO_PLT_HOOKS: c_uint = 3;

/// Cookies of libc and libcuda; 0 is that of other objects, the numbers below these are copies of libcufile.
const LIBC: usize = LIBRARIES + 1;
const CUDA: usize = LIBRARIES + 2;

/// Hash of the path of each loaded libcufile; 0 is free.
static LOADED: [AtomicU64; LIBRARIES] = [const { AtomicU64::new(0) }; LIBRARIES];

/// Called first. 0 makes the linker forget the library.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) extern "C" fn la_version(version: c_uint) -> c_uint {
    // Version 2 (glibc 2.35) changed only what is handed to the PLT hooks, which are not used here; so any version will do.
    if version > 0 && rings::open() { version } else { 0 }
}

/// Called for each object that is loaded.
///
/// # Safety
/// The dynamic linker calls it, with a link map and a cookie.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn la_objopen(map: *const LinkMap, _: c_long, cookie: *mut usize) -> c_uint {
    // SAFETY: the linker gives a valid link map with a C string or null, and a cookie to write.
    let path = unsafe {
        *cookie = 0;
        match (*map).name {
            name if name.is_null() => &[][..],
            name => CStr::from_ptr(name).to_bytes(),
        }
    };
    // SAFETY: the linker has mapped the object and has not relocated it yet.
    unsafe { relocations::show_to_linker(&*map) };
    if !is_libcufile(path) {
        let number = if is_named(path, b"libc.so.") {
            LIBC
        } else if is_named(path, b"libcuda.so") {
            CUDA
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
        // 0 is the cookie of all other objects.
        *cookie = library + 1;
        calls::remember_statistics(library, &*map);
    }
    if let Some(mut writer) = Writer::take() {
        let now = system::now_ns();
        let record = Record { start_ns: now, end_ns: now, ..Record::default() };
        writer.write_with_text(kind::LIBRARY, library as u8, record, path);
    }
    BIND_TO | BIND_FROM
}

/// Called when a symbol is bound, by the linker or by `dlsym`. The result is the address that the program uses.
///
/// # Safety
/// The dynamic linker calls it, with a symbol, two cookies of [`la_objopen`], flags and a C string.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn la_symbind64(
    symbol: *const Symbol,
    _: c_uint,
    from: *const usize,
    to: *const usize,
    flags: *mut c_uint,
    name: *const c_char,
) -> usize {
    // SAFETY: the linker gives valid pointers.
    let (address, from, to, name) = unsafe {
        *flags |= NO_PLT_HOOKS;
        ((*symbol).value, *from, *to, CStr::from_ptr(name).to_bytes())
    };
    if to == LIBC || to == CUDA {
        // Calls between libcufile and libcuda are not calls of the program.
        let is_program = from == 0;
        let number = plain_function(name).filter(|number| is_program && (to == CUDA) == is_cuda(*number));
        return number.and_then(|number| calls::redirect_plain(number, address)).unwrap_or(address);
    }
    // A call of libcufile to itself is not the program's.
    let Some(library) = to.checked_sub(1).filter(|library| *library < LIBRARIES && from != to) else {
        return address;
    };
    match function(name) {
        Some(function) => calls::redirect(library, function, address).unwrap_or(address),
        None => address,
    }
}

/// Whether a path ends in a file whose name begins like this.
fn is_named(path: &[u8], start: &[u8]) -> bool {
    let name = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    path.get(name..).is_some_and(|name| name.starts_with(start))
}

/// Whether a file name is that of libcufile: `libcufile.so.0`, and with the hash that wheels put in. Not `libcufile_rdma.so.1`.
fn is_libcufile(path: &[u8]) -> bool {
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let Some(rest) = path.get(start..).and_then(|name| name.strip_prefix(b"libcufile")) else { return false };
    matches!(rest.first(), Some(b'.' | b'-')) && rest.windows(3).any(|part| part == b".so")
}

/// The number of this copy of libcufile, the same if it is loaded again; None if there are too many.
fn number_of(path: &[u8]) -> Option<usize> {
    // FNV-1a; 0 means free, so one bit is always set.
    let hash = path
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
        | 1;
    LOADED.iter().position(|slot| {
        slot.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed)
            .map_or_else(|known| known == hash, |_| true)
    })
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
    fn a_library_that_is_loaded_again_keeps_its_number() {
        let first = number_of(b"/a/libcufile.so.0");
        assert_eq!(first, number_of(b"/a/libcufile.so.0"));
        assert_ne!(first, number_of(b"/b/libcufile.so.0"));
    }
}
