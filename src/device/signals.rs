//! The action of SIGPIPE with which this process was started. The runtime of Rust ignores the signal, and gives programs
//! that it starts the default action. A program that a user starts through gds-top gets the original action.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

static IGNORES_PIPE: AtomicBool = AtomicBool::new(false);

/// The C library calls this before `main`, and so before the runtime changes the action.
#[used]
// SAFETY: this section contains pointers to functions that can be called without arguments.
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = read_original;

extern "C" fn read_original() {
    // SAFETY: the call only reads the action. All bits of the structure may be zero.
    let is_ignored = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    };
    IGNORES_PIPE.store(is_ignored, Ordering::Relaxed);
}

/// Lets the program that the command starts ignore SIGPIPE if this process was started like that.
pub fn keep_ignored(command: &mut Command) {
    if IGNORES_PIPE.load(Ordering::Relaxed) {
        // SAFETY: `signal` is safe between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
                Ok(())
            });
        }
    }
}
