//! Keeps the recording in programs that a process starts with another environment, for example with an empty one.
//!
//! The dynamic linker loads this library only if the environment has `LD_AUDIT`. If a program passes an environment
//! without it, the two variables of this library are added.

use crate::layout::{ENV_FILE, Function, IN_OTHER_SESSION, Record, kind, start};
use crate::linker::{self, LinkMap};
use crate::mappings;
use crate::originals::call;
use crate::rings::{self, Writer};
use crate::system;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

const AUDIT: &[u8] = b"LD_AUDIT=";
/// The maximum number of variables, and the maximum length of one of the two variables. A larger environment is not
/// changed.
const VARIABLES: usize = 1024;
const TEXT: usize = 4096;

/// The addresses of `environ`, `execve` and `execvpe` in the program. 0 if they are unknown.
static ENVIRON: AtomicUsize = AtomicUsize::new(0);
static EXECVE: AtomicUsize = AtomicUsize::new(0);
static EXECVPE: AtomicUsize = AtomicUsize::new(0);
/// The address of `__errno_location` of the program. This library has another libc and therefore another `errno`.
static ERRNO: AtomicUsize = AtomicUsize::new(0);
/// The address of `__cxa_atexit` of the program.
static AT_EXIT: AtomicUsize = AtomicUsize::new(0);

type Variables = *const *const c_char;

/// Remembers the `environ` of the main program. It has one if its code uses the variable.
///
/// # Safety
/// `map` must be the link map of a mapped object.
pub(crate) unsafe fn remember_program(map: &LinkMap) {
    // SAFETY: by the condition of this function.
    unsafe { remember_environ(map) };
}

/// Remembers functions of the libc of the program, which is loaded before those of other namespaces.
///
/// # Safety
/// The same as for [`remember_program`].
pub(crate) unsafe fn remember_libc(map: &LinkMap) {
    // SAFETY: by the condition of this function.
    unsafe {
        remember_environ(map);
        for (name, place) in
            [(c"execve", &EXECVE), (c"execvpe", &EXECVPE), (c"__errno_location", &ERRNO), (c"__cxa_atexit", &AT_EXIT)]
        {
            let address = linker::symbol(map, name).unwrap_or(0);
            let _ = place.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// The `errno` of the program in this thread. 0 if it is unknown.
pub(crate) fn errno() -> i32 {
    match ERRNO.load(Ordering::Relaxed) {
        0 => 0,
        // SAFETY: this is the address of `int *__errno_location(void)`.
        address => unsafe {
            let location: extern "C" fn() -> *const i32 = core::mem::transmute::<usize, _>(address);
            *location()
        },
    }
}

/// Registers a function that the libc of the program calls with this argument when the program exits.
pub(crate) fn at_exit(function: extern "C" fn(*mut c_void), argument: *mut c_void) {
    let address = AT_EXIT.load(Ordering::Relaxed);
    if address != 0 {
        // SAFETY: this is the address of `int __cxa_atexit(void (*)(void *), void *, void *)`, which has no conditions.
        // Without a handle, the function stays registered if an object is unloaded. This library never is.
        unsafe {
            let register: unsafe extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, *mut c_void) -> i32 =
                core::mem::transmute::<usize, _>(address);
            register(function, argument, core::ptr::null_mut());
        }
    }
}

unsafe fn remember_environ(map: &LinkMap) {
    // SAFETY: the callers guarantee it.
    let address = unsafe { linker::symbol(map, c"environ").or_else(|| linker::symbol(map, c"__environ")) };
    let _ = ENVIRON.compare_exchange(0, address.unwrap_or(0), Ordering::Relaxed, Ordering::Relaxed);
}

/// Memory for a changed environment.
struct Room {
    variables: [*const c_char; VARIABLES],
    audit: [u8; TEXT],
    file: [u8; TEXT],
}

/// Calls the function `real` that starts a program, with the added variables if they are missing.
///
/// # Safety
/// `real` must be the original function `F`, and the arguments those of a call.
pub(crate) unsafe fn start<const F: usize>(real: usize, arguments: [usize; 6]) -> usize {
    let [a, b, c, d, e, f] = arguments;
    let is = |function: Function| F == function as usize;
    let uses_shell = is(Function::LibcSystem) || is(Function::LibcPopen);
    let uses_environ = uses_shell || is(Function::LibcExecv) || is(Function::LibcExecvp);
    let is_spawn = is(Function::LibcSpawn) || is(Function::LibcSpawnp);
    let at = is(Function::LibcExecveat);
    let given = match () {
        () if is_spawn => f,
        () if at => d,
        () => c,
    };
    let variables = if uses_environ { environ() } else { Some(given as Variables) };
    if uses_shell {
        // SAFETY: the path is a C string literal. The process of the shell is not known.
        unsafe {
            let shell = c"/bin/sh";
            let is_expected = is_expected(shell.as_ptr(), shell.to_bytes(), variables);
            if is_expected && !rings::can_be_joined() && system::exists(shell.as_ptr()) {
                rings::report_start(start::MISSED, 0, shell.to_bytes());
            }
            return call(real, arguments);
        }
    }
    let by_descriptor = is(Function::LibcFexecve) || (at && e & AT_EMPTY_PATH != 0);
    let descriptor = system::descriptor_path(a as i32);
    let path = match () {
        () if by_descriptor => descriptor.as_ptr().cast(),
        () if is_spawn || at => b as *const c_char,
        () => a as *const c_char,
    };
    let mut room = [0; system::LONGEST_PATH];
    let length = if by_descriptor { system::path_of_descriptor(a as i32, &mut room) } else { 0 };
    // SAFETY: the second argument of `posix_spawn` and `execveat` and the first one of the other functions is a path. A
    // process id has four bytes. The arguments are those of the program, so its environment ends with a null pointer.
    unsafe {
        let name = match room.get(..length) {
            Some(name) if length > 0 => name,
            _ if path.is_null() => &[],
            _ => CStr::from_ptr(path).to_bytes(),
        };
        // A path of `execveat` can begin in another directory.
        let is_expected = is_expected(path, name, variables) && (at || !system::is_static(path));
        let mut process = 0_i32;
        let mut arguments = arguments;
        if is_spawn && a == 0 {
            arguments[0] = (&raw mut process).expose_provenance();
        } else if !is_spawn {
            mappings::before_program();
            if is_expected {
                rings::report_start(start::BEGINS, system::process(), name);
            }
        }
        let result = match variables.filter(|variables| is_missing(*variables)) {
            Some(variables) => start_changed::<F>(real, arguments, variables),
            None => call(real, arguments),
        };
        if is_expected && !is_spawn {
            rings::report_start(start::FAILED, system::process(), &[]);
        } else if is_expected && result as u32 == 0 {
            let process = *(arguments[0] as *const u32);
            rings::report_start(start::STARTED, process.into(), name);
        }
        result
    }
}

/// The flag of `execveat` for a program that is given by a descriptor (linux/fcntl.h).
const AT_EMPTY_PATH: usize = 0x1000;

/// Whether this session records a program. If another one does, this is noted.
unsafe fn is_expected(path: *const c_char, name: &[u8], variables: Option<Variables>) -> bool {
    // SAFETY: by the condition of the callers, `path` is a C string or null.
    unsafe {
        if path.is_null() {
            return false;
        }
        let is_others = variables.is_some_and(|variables| is_of_other_session(variables)) && system::exists(path);
        if is_others && let Some(mut writer) = Writer::take_uncounted() {
            let now = system::now_ns();
            let record = Record { start_ns: now, end_ns: now, object: IN_OTHER_SESSION, ..Record::default() };
            writer.write_with_text(kind::NOT_RECORDED, 0, record, name);
        }
        !is_others
    }
}

/// The environment of this process.
fn environ() -> Option<Variables> {
    match ENVIRON.load(Ordering::Relaxed) {
        0 => None,
        // SAFETY: `environ` of the program is a pointer to its variables.
        place => Some(unsafe { *(place as *const Variables) }),
    }
}

/// The value of a variable of the program, which the program may have set after its start.
pub(crate) fn variable(name: &str) -> Option<&'static [u8]> {
    let variables = environ()?;
    // SAFETY: this is the environment of the program. libcufile reads it at the same time.
    let mut all = unsafe { each(variables) };
    all.find_map(|(_, text)| text.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// Like [`start`], for a function whose arguments are a list. Returns `real` if it must be called, and 0 if the program
/// could not be started.
///
/// # Safety
/// The same as for [`start`]. `argument` must return each argument up to a null pointer, and one more for `execle`.
pub(crate) unsafe fn start_list<const F: usize>(real: usize, argument: impl Fn(usize) -> usize) -> usize {
    // The first argument is the program.
    let Some(end) = (1..VARIABLES).find(|number| argument(*number) == 0) else { return real };
    let has_environment = F == Function::LibcExecle as usize;
    let variables = if has_environment { Some(argument(end + 1) as Variables) } else { environ() };
    let by_path = F == Function::LibcExeclp as usize;
    let function = if by_path { &EXECVPE } else { &EXECVE }.load(Ordering::Relaxed);
    let Some(variables) = variables.filter(|_| function != 0) else { return real };
    // Signal handlers with a small stack start programs with few arguments.
    // SAFETY: the arguments are those of the program.
    unsafe {
        match end {
            ..FEW => start_array::<F, FEW>(function, end, argument, variables),
            _ => start_array::<F, VARIABLES>(function, end, argument, variables),
        }
    }
    0
}

/// A small number of arguments.
const FEW: usize = 64;

/// Calls `execve` or `execvpe` with the arguments as an array of `N` words, of which the last stays null.
#[inline(never)]
unsafe fn start_array<const F: usize, const N: usize>(
    function: usize,
    end: usize,
    argument: impl Fn(usize) -> usize,
    variables: Variables,
) {
    let mut list = [0_usize; N];
    for (slot, number) in list.iter_mut().zip(1..end) {
        *slot = argument(number);
    }
    let arguments = [argument(0), list.as_ptr() as usize, variables as usize, 0, 0, 0];
    // SAFETY: the arguments are those of the program.
    unsafe {
        match F == Function::LibcExeclp as usize {
            true => start::<{ Function::LibcExecvpe as usize }>(function, arguments),
            false => start::<{ Function::LibcExecve as usize }>(function, arguments),
        };
    }
}

/// Starts the program with the added variables. A separate function, so that other starts do not need its stack.
#[inline(never)]
#[cold]
unsafe fn start_changed<const F: usize>(real: usize, arguments: [usize; 6], variables: Variables) -> usize {
    let mut room = Room { variables: [core::ptr::null(); VARIABLES], audit: [0; TEXT], file: [0; TEXT] };
    // SAFETY: the environment is that of the program. The changed one is used only during the call, after which the
    // new program has a copy of it.
    unsafe {
        let changed = match add(variables, &mut room) {
            true => room.variables.as_ptr() as usize,
            false => return call(real, arguments),
        };
        let [a, b, c, d, e, _] = arguments;
        let is = |function: Function| F == function as usize;
        if is(Function::LibcExecveat) {
            return call(real, [a, b, c, changed, e, 0]);
        }
        if is(Function::LibcSpawn) || is(Function::LibcSpawnp) {
            return call(real, [a, b, c, d, e, changed]);
        }
        let function = if is(Function::LibcExecv) {
            EXECVE.load(Ordering::Relaxed)
        } else if is(Function::LibcExecvp) {
            EXECVPE.load(Ordering::Relaxed)
        } else {
            real
        };
        if function == 0 {
            return call(real, arguments);
        }
        call(function, [a, b, changed, d, e, 0])
    }
}

/// The variables of an environment.
unsafe fn each<'a>(variables: Variables) -> impl Iterator<Item = (*const c_char, &'a [u8])> {
    let mut at = variables;
    core::iter::from_fn(move || {
        // SAFETY: an environment is an array of C strings that ends with a null pointer, or a null pointer.
        unsafe {
            let text = if at.is_null() { core::ptr::null() } else { *at };
            if text.is_null() {
                return None;
            }
            at = at.add(1);
            Some((text, CStr::from_ptr(text).to_bytes()))
        }
    })
}

/// The value of the variable with this start, for example `LD_AUDIT=`.
unsafe fn value<'a>(variables: Variables, start: &[u8]) -> Option<&'a [u8]> {
    // SAFETY: the callers guarantee it.
    unsafe { each(variables) }.find_map(|(_, text)| text.strip_prefix(start))
}

const FILE: [u8; ENV_FILE.len() + 1] = {
    let mut bytes = [b'='; ENV_FILE.len() + 1];
    let mut at = 0;
    while at < ENV_FILE.len() {
        bytes[at] = ENV_FILE.as_bytes()[at];
        at += 1;
    }
    bytes
};

/// Whether this process is another session that starts its own program with this environment.
unsafe fn is_of_other_session(variables: Variables) -> bool {
    // SAFETY: the callers guarantee it. The value is the end of a C string.
    unsafe {
        let file = value(variables, &FILE).filter(|file| *file != rings::file_path());
        file.is_some_and(|file| rings::is_session(file.as_ptr().cast()))
    }
}

/// Whether an environment lacks one of the variables, or names a shared file that no session reads.
unsafe fn is_missing(variables: Variables) -> bool {
    let library = rings::library_path();
    if library.is_empty() {
        return false;
    }
    // SAFETY: the callers guarantee it.
    unsafe {
        let (audit, file) = (value(variables, AUDIT), value(variables, &FILE));
        let mut libraries = audit.into_iter().flat_map(|libraries| libraries.split(|byte| *byte == b':'));
        let is_complete = file == Some(rings::file_path()) && libraries.any(|path| path == library);
        !is_complete && !is_of_other_session(variables)
    }
}

/// Writes the environment with the added variables. Returns false if it is too large.
unsafe fn add(variables: Variables, room: &mut Room) -> bool {
    let library = rings::library_path();
    // SAFETY: the callers guarantee it.
    let others = unsafe { value(variables, AUDIT) }.filter(|others| !others.is_empty());
    let has_library = others.is_some_and(|others| others.split(|byte| *byte == b':').any(|path| path == library));
    let audit = match others {
        Some(others) if has_library => write(&mut room.audit, &[AUDIT, others]),
        Some(others) => write(&mut room.audit, &[AUDIT, library, b":", others]),
        None => write(&mut room.audit, &[AUDIT, library]),
    };
    let mut count = 0;
    // SAFETY: as above.
    for (text, bytes) in unsafe { each(variables) } {
        if bytes.starts_with(AUDIT) || bytes.starts_with(&FILE) {
            continue;
        }
        let Some(slot) = room.variables.get_mut(count) else { return false };
        *slot = text;
        count += 1;
    }
    let fits = audit && write(&mut room.file, &[&FILE, rings::file_path()]) && count + 3 <= VARIABLES;
    if fits {
        let (audit, file) = (room.audit.as_ptr().cast(), room.file.as_ptr().cast());
        for (slot, text) in room.variables.iter_mut().skip(count).zip([audit, file, core::ptr::null()]) {
            *slot = text;
        }
    }
    fits
}

/// Writes the parts and a zero byte. Returns false if they do not fit.
fn write(room: &mut [u8; TEXT], parts: &[&[u8]]) -> bool {
    let mut bytes = parts.iter().copied().flatten();
    let last = room.len() - 1;
    for (slot, byte) in room.iter_mut().take(last).zip(&mut bytes) {
        *slot = *byte;
    }
    bytes.next().is_none()
}
