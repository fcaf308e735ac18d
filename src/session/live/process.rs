//! The end of a lane process: its result, the end of its standard error, and the names of signals.

use crate::core::{RouteCounts, units};
use crate::text::{is_unsafe, sanitise};
use std::collections::VecDeque;
use std::io::Read;

/// Maximum number of bytes of standard error that are kept.
const STDERR_TAIL_BYTES: usize = 4096;

/// The end of a lane process.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LaneEnd {
    /// It finished with a result.
    Finished {
        /// The route of its reads, if it used cuFile.
        route: Option<RouteCounts>,
        /// Whether the result is an error.
        failed: bool,
    },
    /// It ended without a result. The value is a sentence with the end of its standard error.
    Died(String),
    /// It was cancelled.
    Cancelled,
}

/// A sentence with the reason why the process could not be started.
pub(super) fn not_started(error: &std::io::Error) -> String {
    let advice = match error.kind() {
        std::io::ErrorKind::WouldBlock => format!("; {}", units::MORE_THREADS),
        _ => String::new(),
    };
    format!("its process could not be started: {error}{advice}")
}

/// The end of a process's standard error.
pub(super) fn stderr_tail(mut stderr: impl Read) -> String {
    let mut kept = VecDeque::with_capacity(2 * STDERR_TAIL_BYTES);
    let mut buffer = [0; 1024];
    while let Ok(got @ 1..) = stderr.read(&mut buffer) {
        kept.extend(&buffer[..got]);
        let excess = kept.len().saturating_sub(STDERR_TAIL_BYTES);
        kept.drain(..excess);
    }
    let bytes: Vec<u8> = kept.into();
    plain(&String::from_utf8_lossy(&bytes))
}

/// The output of another program as text for users. If too much of it is not text, it is left out.
pub(super) fn plain(text: &str) -> String {
    // Progress bars contain carriage returns, which become line ends.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let is_odd = |c: &char| *c == char::REPLACEMENT_CHARACTER || is_unsafe(*c);
    if text.chars().filter(is_odd).count() * 4 > text.chars().count() {
        return "(bytes that are not text)".to_owned();
    }
    sanitise(&text).trim().to_owned()
}

/// The name of a signal with its usual cause.
pub(super) fn signal_words(signal: i32) -> String {
    let name = match signal {
        libc::SIGKILL => " (KILL: perhaps out of memory; see the kernel log)",
        libc::SIGSEGV => " (SEGV: a crash inside a native library)",
        libc::SIGABRT => " (ABRT: this program or a native library gave up; see the end of its standard error)",
        libc::SIGBUS => {
            " (BUS: a page of a mapped file was not available: the file was truncated during the run, or its disk failed; see the kernel log)"
        }
        libc::SIGTERM => " (TERM)",
        libc::SIGINT => " (INT)",
        libc::SIGHUP => " (HUP)",
        libc::SIGQUIT => " (QUIT)",
        libc::SIGPIPE => " (PIPE: the reader of its output had ended)",
        libc::SIGFPE => " (FPE: a fault in arithmetic)",
        libc::SIGILL => " (ILL: an instruction that this processor does not have)",
        _ => "",
    };
    format!("{signal}{name}")
}
