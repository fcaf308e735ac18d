//! Handlers for failures that no code can return as an error: no memory, no stack, no CPU time. They print a sentence
//! and end the process with an exit status. A write beyond the file size limit becomes an ordinary error.
//!
//! Rust and the C library abort the process if an allocation fails or a stack is full. The handlers only restore the
//! terminal, write a constant text and replace the process by one that removes its temporary directories. After a crash,
//! the kernel ends the process instead, so that it writes a core file.

use rustix::process::{Resource, getrlimit};
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

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

const CRASHED: &[u8] =
    b"gds-top: the process crashed, in gds-top or in a library that it loaded; please report it with the core file.\n";
/// The signals of a crash. A library can cause them, for example that of the NVIDIA driver.
const CRASHES: [libc::c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];
/// The actions for these signals before [`report`]. Those of the standard library report a full stack.
static EARLIER: OnceLock<[libc::sigaction; CRASHES.len()]> = OnceLock::new();

/// The hidden command that removes the temporary directories of this process, which keeps its number and start time. Its
/// arguments are its exit status and those of this process, because some name directories.
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
/// Whether a handler has restored the terminal. A second time, the cursor would return to the place of the text.
static IS_RESTORED: AtomicBool = AtomicBool::new(false);

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
    // A crash can come as soon as the first handler is installed, so all actions are read before.
    let _ = EARLIER.set(CRASHES.map(action_of));
    CRASHES.into_iter().for_each(|signal| install(signal, crashed as *const (), libc::SA_SIGINFO));
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

/// Ends the process with a status and removes its temporary directories. The process is replaced for this, so that no thread
/// still writes into them. The caller is not a signal handler.
pub fn sweep_and_exit(status: u8) -> ! {
    let mut sweep = Command::new("/proc/self/exe");
    sweep.arg0("gds-top").arg(SWEEP).arg(status.to_string()).args(std::env::args_os().skip(1));
    // Without procfs the directories stay until a later start.
    let _ = sweep.exec();
    std::process::exit(status.into())
}

fn on(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    install(signal, handler as *const (), libc::SA_RESTART);
}

/// Installs a handler whose arguments match the flags.
fn install(signal: libc::c_int, handler: *const (), flags: libc::c_int) {
    // SAFETY: the structure is plain data for which zero is a valid value. The handlers call only functions that
    // signal-safety(7) lists, and the earlier handler of a crash, which was made for the same signal.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = flags | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// The present action for a signal.
fn action_of(signal: libc::c_int) -> libc::sigaction {
    // SAFETY: the structure is plain data for which zero is a valid value, and the call only writes to it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action
    }
}

/// Restores the terminal and leaves the end to the kernel. The earlier handler does not return if a stack is full: it
/// aborts the process with a message.
extern "C" fn crashed(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    restore_terminal();
    // SAFETY: the kernel passes valid pointers, or the pointer is null. Positive codes are those of faults, and only
    // these have an address for the earlier handler. That handler has three arguments if its flags contain SA_SIGINFO.
    // The other calls are in signal-safety(7), and the text is constant. The interrupted code does not run again: after
    // the return, it fails again, or the signal that is raised here, and blocked until then, ends the process.
    unsafe {
        let is_fault = !info.is_null() && (*info).si_code > 0;
        let earlier = EARLIER.get().and_then(|all| all.get(CRASHES.iter().position(|crash| *crash == signal)?));
        let has_handler = |action: &&libc::sigaction| {
            let is_default = matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
            action.sa_flags & libc::SA_SIGINFO != 0 && !is_default
        };
        if let Some(action) = earlier.filter(|_| is_fault).filter(has_handler) {
            type Handler = unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            let handle = std::mem::transmute::<*const (), Handler>(action.sa_sigaction as *const ());
            handle(signal, info, context);
        }
        libc::write(2, CRASHED.as_ptr().cast(), CRASHED.len());
        let default: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &default, std::ptr::null_mut());
        if !is_fault {
            libc::raise(signal);
        }
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
    if IS_RESTORED.swap(true, Ordering::SeqCst) {
        return;
    }
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rustix::process::{Rlimit, setrlimit};
    use std::os::unix::process::ExitStatusExt as _;

    /// The test runs itself, and that process crashes.
    #[test]
    fn a_crash_restores_the_terminal_and_ends_the_process_by_its_signal() {
        const SIGNAL: &str = "GDS_TOP_TEST_CRASH";
        const NAME: &str = "device::endings::tests::a_crash_restores_the_terminal_and_ends_the_process_by_its_signal";
        if let Some(signal) = std::env::var(SIGNAL).ok().and_then(|text| text.parse::<libc::c_int>().ok()) {
            setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
            report(Screen { is_open: || true, leave: "(screens left)" });
            // SAFETY: the address belongs to no mapping, so that the write ends this process.
            unsafe {
                match signal {
                    libc::SIGSEGV => std::ptr::without_provenance_mut::<u8>(8).write_volatile(1),
                    _ => _ = libc::raise(signal),
                }
            }
            return;
        }
        for signal in CRASHES {
            let mut itself = Command::new(std::env::current_exe().unwrap());
            let itself = itself.args(["--exact", NAME, "--nocapture"]).env(SIGNAL, signal.to_string());
            let output = itself.output().unwrap();
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert_eq!(output.status.signal(), Some(signal), "{out}{err}");
            assert_eq!((out.matches("(screens left)").count(), err.matches("the process crashed").count()), (1, 1));
        }
    }
}
