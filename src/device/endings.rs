//! Handlers for failures that no code can return as an error: no memory, no stack, no CPU time. They print a sentence
//! and end the process with an exit status. A write beyond the file size limit becomes an ordinary error.
//!
//! Rust and the C library abort the process if an allocation fails or a stack is full. The handlers only restore the
//! terminal, write a constant text and replace the process by one that removes its temporary folders.

use rustix::process::{Resource, getrlimit};
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

/// The exit status of a process that cannot continue. Runs that are not possible have the same status.
pub const STATUS: u8 = 3;
/// The time before the CPU limit at which the process ends itself. At a hard limit, the kernel kills it without a
/// message.
const BEFORE_LIMIT_US: i64 = 200_000;

const ABORTED: &[u8] = b"gds-top: the process cannot continue: not enough memory or stack, or a library aborted; the previous lines show the reason. \
'ulimit -v' and 'ulimit -s' show the limits of the shell.\n";
const NO_THREAD: &[u8] =
    b"gds-top: the process cannot continue: a thread could not be started, because there is not enough memory; \
'ulimit -v' shows the limit of the shell.\n";
/// Parts of the messages with which the standard library panics if a new thread has no memory. No code can handle them as
/// errors, because the thread has already started (`library/std/src/sys/pal/unix/stack_overflow.rs`).
const THREAD_PANICS: [&str; 3] =
    ["failed to allocate an alternative stack", "failed to set up alternative stack", "failed to spawn thread"];
const NO_CPU: &[u8] =
    b"gds-top: the process cannot continue: its CPU time limit is reached; 'ulimit -t' shows the limit of the shell.\n";

/// The hidden command that removes the temporary folders of this process, which keeps its number and start time. Its
/// arguments are its exit status and those of this process, because some name folders.
pub const SWEEP: &str = "__sweep";
/// This program.
const PROGRAM: &std::ffi::CStr = c"/proc/self/exe";
/// The arguments of [`SWEEP`]. A handler cannot allocate memory.
static ARGUMENTS: OnceLock<Arguments> = OnceLock::new();

/// Arguments for `execv`: C strings, and pointers to them that end with a null pointer.
struct Arguments {
    pointers: Vec<*const libc::c_char>,
    _texts: Vec<CString>,
}

// SAFETY: the pointers lead to the strings of the same value, and nothing is changed after its creation.
unsafe impl Send for Arguments {}
// SAFETY: as above.
unsafe impl Sync for Arguments {}

impl Arguments {
    fn of_this_process() -> Self {
        let own = std::env::args_os().skip(1).map(OsStringExt::into_vec);
        let first = [b"gds-top".to_vec(), SWEEP.as_bytes().to_vec(), STATUS.to_string().into_bytes()];
        let all = first.into_iter().chain(own);
        let texts: Vec<CString> = all.filter_map(|text| CString::new(text).ok()).collect();
        let pointers = texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
        Self { pointers, _texts: texts }
    }
}

/// The screens of this process. A handler uses them.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Whether they have taken over the terminal. The function only reads an atomic value.
    pub is_open: fn() -> bool,
    /// The sequences that end them.
    pub leave: &'static str,
}

/// The screens, and the modes of the terminal on standard input before they opened. A handler cannot allocate memory.
static TERMINAL: OnceLock<(Screen, Option<libc::termios>)> = OnceLock::new();

/// The modes of the terminal on standard input. `None` if that is not a terminal.
fn terminal_modes() -> Option<libc::termios> {
    // SAFETY: the structure is plain data for which zero is a valid value, and the call only writes to it.
    unsafe {
        let mut modes: libc::termios = std::mem::zeroed();
        (libc::tcgetattr(libc::STDIN_FILENO, &raw mut modes) == 0).then_some(modes)
    }
}

/// The command line can need more stack than smaller limits allow. This is the usual size of a main thread.
const LEAST_STACK_BYTES: u64 = 8 << 20;

/// The standard library panics if a new thread has no memory for its signal stack. The program has up to a few dozen
/// threads.
const LEAST_DATA_BYTES: u64 = 24 << 20;

/// The reason why the program cannot run under the limits of this process; `None` if it can.
#[must_use]
pub fn refusal() -> Option<String> {
    let data = getrlimit(Resource::Data).current.filter(|bytes| *bytes < LEAST_DATA_BYTES)?;
    Some(format!(
        "this process can use {} KiB of data memory (ulimit -d), and gds-top needs {} KiB",
        data >> 10,
        LEAST_DATA_BYTES >> 10
    ))
}

/// Runs the program on a thread with enough stack if the limit of the shell is smaller.
pub fn with_stack(run: fn() -> ExitCode) -> ExitCode {
    let is_small = getrlimit(Resource::Stack).current.is_some_and(|bytes| bytes < LEAST_STACK_BYTES);
    let thread = is_small.then(|| std::thread::Builder::new().stack_size(LEAST_STACK_BYTES as usize).spawn(run));
    match thread {
        Some(Ok(thread)) => thread.join().unwrap_or(ExitCode::from(STATUS)),
        // If no thread can be started, the smaller stack may still be enough.
        _ => run(),
    }
}

/// Installs the handlers. It is called before the screens open. Child processes of a session do not use the handlers,
/// because the session reports their signals.
pub fn report(screen: Screen) {
    let _ = ARGUMENTS.set(Arguments::of_this_process());
    let _ = TERMINAL.set((screen, terminal_modes()));
    on(libc::SIGABRT, aborted);
    on(libc::SIGXCPU, no_cpu);
    if let Some(seconds) = getrlimit(Resource::Cpu).maximum.and_then(|most| i64::try_from(most).ok()) {
        on(libc::SIGPROF, no_cpu);
        let us = seconds.saturating_mul(1_000_000).saturating_sub(BEFORE_LIMIT_US).max(1);
        let time = libc::timeval { tv_sec: us / 1_000_000, tv_usec: us % 1_000_000 };
        let timer = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: time };
        // SAFETY: the timer is a complete value, and the previous timer is not requested.
        unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut()) };
    }
}

/// Ends the process with a sentence if a new thread has no memory. Other panics are reported as usual.
pub fn report_threads() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        let text =
            payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or_default();
        if THREAD_PANICS.iter().any(|part| text.contains(part)) {
            end(NO_THREAD);
        }
        usual(info);
    }));
}

/// Makes writes beyond the file size limit fail with EFBIG, so that they do not end the process. This is a handler
/// because child processes would inherit `SIG_IGN`.
pub fn report_file_size() {
    on(libc::SIGXFSZ, nothing);
}

/// Ends the process with a status and removes its temporary folders. The process is replaced for this, so that no thread
/// still writes into them. The caller is not a signal handler.
pub fn sweep_and_exit(status: u8) -> ! {
    let mut sweep = Command::new("/proc/self/exe");
    sweep.arg0("gds-top").arg(SWEEP).arg(status.to_string()).args(std::env::args_os().skip(1));
    // Without procfs the folders stay until a later start.
    let _ = sweep.exec();
    std::process::exit(status.into())
}

fn on(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: the structure is plain data for which zero is a valid value. The handlers call only functions that
    // signal-safety(7) lists.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

extern "C" fn aborted(_: libc::c_int) {
    end(ABORTED);
}

extern "C" fn no_cpu(_: libc::c_int) {
    end(NO_CPU);
}

extern "C" fn nothing(_: libc::c_int) {}

/// Ends the screens if they are open. The text of the end would be lost in them, and the shell would get a terminal
/// without echo.
fn restore_terminal() {
    let Some((screen, modes)) = TERMINAL.get().filter(|(screen, _)| (screen.is_open)()) else { return };
    // SAFETY: signal-safety(7) lists both calls. The text is constant, and the modes are those that tcgetattr wrote.
    unsafe {
        if let Some(modes) = modes {
            libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, modes);
        }
        libc::write(libc::STDOUT_FILENO, screen.leave.as_ptr().cast(), screen.leave.len());
    }
}

fn end(text: &[u8]) -> ! {
    restore_terminal();
    // SAFETY: the calls are async-signal-safe, the text is constant, and the arguments exist and end with a null
    // pointer.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        if let Some(arguments) = ARGUMENTS.get() {
            libc::execv(PROGRAM.as_ptr(), arguments.pointers.as_ptr());
        }
        libc::_exit(libc::c_int::from(STATUS))
    }
}
