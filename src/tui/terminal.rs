//! Takes over the terminal, and restores it on every exit: quit, error, panic, signal and suspension.

use crossterm::event::EnableBracketedPaste;
use crossterm::terminal::{self, EnterAlternateScreen};
use crossterm::{cursor, execute};
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

/// The sequences that end the screens: a synchronized update (DEC private mode 2026) that was interrupted, colours, mouse,
/// bracketed paste, the alternate screen and the hidden cursor.
pub const LEAVE: &str = "\x1b[?2026l\x1b[0m\x1b[?1006l\x1b[?1000l\x1b[?2004l\x1b[?1049l\x1b[?25h";

/// Whether the terminal is taken over, for the panic hook and signal handlers.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Panic messages of other threads. They are printed after the screens have ended.
static AFTER_SCREEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Whether the screens have taken over the terminal. It only reads an atomic value, so a signal handler may call it.
#[must_use]
pub fn has_terminal() -> bool {
    TAKEN.load(Ordering::SeqCst)
}

/// The terminal that was taken over. It is restored when this value is dropped.
#[derive(Debug)]
pub(crate) struct Loan {
    mouse: bool,
}

impl Loan {
    /// Takes over the terminal: raw mode, alternate screen, bracketed paste and, with `mouse`, clicks and the wheel.
    /// With `ask_background` the background colour is queried, and the terminal's report arrives as input.
    ///
    /// # Errors
    /// Returns a sentence if standard input or output is not a terminal, or the error of the operating system.
    pub(crate) fn take(mouse: bool, ask_background: bool) -> io::Result<Self> {
        for (name, is_terminal) in
            [("standard output", io::stdout().is_terminal()), ("standard input", io::stdin().is_terminal())]
        {
            if !is_terminal {
                return Err(io::Error::other(format!(
                    "{name} is not a terminal, so the screens cannot be shown; use --headless for a report without one"
                )));
            }
        }
        if std::env::var("TERM").is_ok_and(|term| term == "dumb") {
            return Err(io::Error::other(
                "TERM is dumb, so the screens cannot be shown on this terminal; use --headless for a report",
            ));
        }
        hook_panics();
        let loan = Self { mouse };
        enter(mouse)?;
        if ask_background {
            write!(io::stdout(), "{}", super::background::QUESTION)?;
            io::stdout().flush()?;
        }
        Ok(loan)
    }

    /// Restores the terminal temporarily, for a suspension or a password prompt.
    pub(crate) fn pause(&self) {
        leave();
    }

    /// Takes over the terminal again.
    pub(crate) fn resume(&self) -> io::Result<()> {
        // Another program may have ended the raw mode (`stty sane`, or a stop from outside). crossterm does not know
        // this, so its state is reset first.
        let _ = terminal::disable_raw_mode();
        enter(self.mouse)
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        leave();
        let words = AFTER_SCREEN.lock().map(|mut words| std::mem::take(&mut *words)).unwrap_or_default();
        for word in words {
            let _ = writeln!(io::stderr(), "{word}");
        }
    }
}

fn enter(mouse: bool) -> io::Result<()> {
    terminal::enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, cursor::Hide)?;
    if mouse { execute!(io::stdout(), EnableMouse) } else { Ok(()) }
}

/// Restores the terminal. It never fails: the terminal may be closed (HUP), and the modes are restored even if the
/// sequences cannot be written.
fn leave() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let mut out = io::stdout();
        let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
        let _ = terminal::disable_raw_mode();
    }
}

/// Enables clicks and the wheel (DEC private modes 1000 and 1006). Mouse movements are not enabled, so they wake no
/// thread.
struct EnableMouse;

impl crossterm::Command for EnableMouse {
    fn write_ansi(&self, f: &mut impl std::fmt::Write) -> std::fmt::Result {
        f.write_str("\x1b[?1000h\x1b[?1006h")
    }
}

/// Installs a panic hook. If the thread that owns the terminal panics, the terminal is restored first. The message of
/// another thread is printed after the screens have ended, because it would overwrite the screen.
fn hook_panics() {
    static HOOKED: AtomicBool = AtomicBool::new(false);
    let owner: ThreadId = std::thread::current().id();
    if HOOKED.swap(true, Ordering::SeqCst) {
        return;
    }
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if TAKEN.load(Ordering::SeqCst) && std::thread::current().id() != owner {
            if let Ok(mut words) = AFTER_SCREEN.lock() {
                let thread = std::thread::current();
                words.push(format!("thread {} failed: {info}", thread.name().unwrap_or("without a name")));
            }
            return;
        }
        leave();
        before(info);
    }));
}

/// Collects a frame and writes it at once, between the marks of a synchronized update. So the terminal never shows
/// half a frame.
#[derive(Debug)]
pub(crate) struct FrameWriter<W: Write> {
    out: W,
    frame: Vec<u8>,
}

impl<W: Write> FrameWriter<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, frame: Vec::with_capacity(32 << 10) }
    }
}

impl<W: Write> Write for FrameWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.frame.is_empty() {
            self.frame.extend_from_slice(b"\x1b[?2026h");
        }
        self.frame.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        self.frame.extend_from_slice(b"\x1b[?2026l");
        let result = self.out.write_all(&self.frame).and_then(|()| self.out.flush());
        self.frame.clear();
        result
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_written_at_once_and_an_empty_one_is_not_written() {
        let mut writer = FrameWriter::new(Vec::new());
        writer.flush().unwrap();
        assert!(writer.out.is_empty());
        writer.write_all(b"ab").unwrap();
        writer.write_all(b"c").unwrap();
        assert!(writer.out.is_empty());
        writer.flush().unwrap();
        assert_eq!(writer.out, b"\x1b[?2026habc\x1b[?2026l");
    }
}
