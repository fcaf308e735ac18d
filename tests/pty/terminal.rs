//! A terminal that runs the program, and the complete frames that a user sees.

use crate::program::{PROGRAM, VARIABLES, foreign_variables};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Time limit of the tests. It only prevents that a test hangs, so it is much longer than anything takes on a slow
/// machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
/// The marks around a frame, which is shown at once.
const FRAME: [&str; 2] = ["\u{1b}[?2026h", "\u{1b}[?2026l"];

pub(crate) fn recording() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/recordings/h200-qwen3-0.6b.gdsrec").display().to_string()
}

pub(crate) struct Screen {
    pub(crate) parser: vt100::Parser,
    /// All received bytes.
    pub(crate) raw: Vec<u8>,
    /// The bytes of the current frame. Bytes outside frames are shown as they arrive.
    frame: Option<Vec<u8>>,
    /// The possible beginning of a mark.
    rest: Vec<u8>,
}

impl Screen {
    fn take(&mut self, bytes: &[u8]) {
        self.raw.extend_from_slice(bytes);
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let mut from = 0;
        while from < all.len() {
            let mark = FRAME[usize::from(self.frame.is_some())].as_bytes();
            let left = &all[from..];
            let at = left.windows(mark.len()).position(|part| part == mark);
            // If the bytes may be the first part of a mark, more bytes are needed.
            let half = (1..mark.len()).rev().find(|length| left.ends_with(&mark[..*length])).unwrap_or(0);
            let end = at.map_or(left.len() - half, |at| at + mark.len());
            match &mut self.frame {
                Some(frame) => frame.extend_from_slice(&left[..end]),
                None => self.parser.process(&left[..end]),
            }
            if at.is_some() {
                self.frame = match self.frame.take() {
                    Some(frame) => {
                        self.parser.process(&frame);
                        None
                    }
                    None => Some(Vec::new()),
                };
            }
            from += end;
            if at.is_none() {
                break;
            }
        }
        self.rest = all.split_off(from);
    }
}

pub(crate) struct Terminal {
    _home: tempfile::TempDir,
    screen: Arc<Mutex<Screen>>,
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    pub(crate) child: Box<dyn Child + Send + Sync>,
    modes_before: String,
    pub(crate) began: Instant,
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { cols: columns, rows, pixel_width: 0, pixel_height: 0 }
}

fn cells(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap()
}

impl Terminal {
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::sized(arguments, environment, (120, 36))
    }

    pub(crate) fn sized(arguments: &[&str], environment: &[(&str, &str)], size: (u16, u16)) -> Self {
        Self::of(PROGRAM, arguments, environment, size)
    }

    /// A terminal that runs another program than gds-top.
    pub(crate) fn of(
        program: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
        (columns, rows): (u16, u16),
    ) -> Self {
        let pair = native_pty_system().openpty(size(columns, rows)).unwrap();
        let modes_before = format!("{:?}", pair.master.get_termios().unwrap());
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        for name in foreign_variables() {
            command.env_remove(name);
        }
        for (name, value) in VARIABLES {
            command.env(name, value);
        }
        // The screens create the directory for models in HOME.
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        command.env("HOME", home.path());
        // Otherwise the program would be started in HOME, which may not exist.
        command.cwd(env!("CARGO_TARGET_TMPDIR"));
        for (name, value) in environment {
            command.env(name, value);
        }
        let began = Instant::now();
        let child = pair.slave.spawn_command(command).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let parser = vt100::Parser::new(cells(rows), cells(columns), 0);
        let screen = Screen { parser, raw: Vec::new(), frame: None, rest: Vec::new() };
        let screen = Arc::new(Mutex::new(screen));
        let theirs = Arc::clone(&screen);
        std::thread::spawn(move || {
            // The terminal is kept open, so that its output can be read after the end of the program.
            let _slave = pair.slave;
            let mut buffer = [0; 8192];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                theirs.lock().unwrap().take(&buffer[..count]);
            }
        });
        let writer = pair.master.take_writer().unwrap();
        Self { _home: home, screen, master: pair.master, writer, child, modes_before, began }
    }

    /// A recording that is immediately at its end.
    pub(crate) fn replay() -> Self {
        let terminal = Self::start(&["replay", &recording(), "--speed", "0"], &[]);
        terminal.until("replay, at its end");
        terminal
    }

    pub(crate) fn screen(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap()
    }

    pub(crate) fn shown(&self) -> String {
        self.screen().parser.screen().contents()
    }

    /// Everything that was sent to the terminal, whether or not it is visible.
    pub(crate) fn sent(&self) -> String {
        String::from_utf8_lossy(&self.screen().raw).into_owned()
    }

    pub(crate) fn is_alternate(&self) -> bool {
        self.screen().parser.screen().alternate_screen()
    }

    pub(crate) fn wait(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(start.elapsed() < PATIENCE, "{what} never came:\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn until(&self, text: &str) {
        self.wait(text, |t| t.shown().contains(text));
    }

    pub(crate) fn until_gone(&self, text: &str) {
        self.wait(&format!("a screen without '{text}'"), |t| !t.shown().contains(text));
    }

    /// Waits until a text was sent to the terminal, whether or not it is visible.
    pub(crate) fn until_sent(&self, text: &str) {
        self.wait(text, |t| t.sent().contains(text));
    }

    pub(crate) fn keys(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.process_id().unwrap()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Sends the new size to the program. The visible screen keeps its size.
    pub(crate) fn tell_size(&self, columns: u16, rows: u16) {
        self.master.resize(size(columns, rows)).unwrap();
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        self.screen().parser.screen_mut().set_size(cells(rows), cells(columns));
        self.tell_size(columns, rows);
    }

    /// Waits until the first and the last line are complete.
    pub(crate) fn until_it_fits(&self) {
        self.wait("a screen of this size", |t| {
            let shown = t.shown();
            shown.contains("2 Race") && shown.lines().last().is_some_and(|line| line.contains("q quit"))
        });
    }

    /// Waits for the end and returns the exit status and the time, which the benchmark of the screens uses.
    pub(crate) fn end(&mut self) -> u32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                eprintln!("ended within {:?}", start.elapsed());
                return status.exit_code();
            }
            assert!(start.elapsed() < PATIENCE, "it does not end:\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Closes the terminal, like a closed window.
    pub(crate) fn close(self) -> Box<dyn Child + Send + Sync> {
        self.child
    }

    /// Checks that the program has left nothing on the terminal.
    pub(crate) fn is_whole(&self, after: &str) {
        let start = Instant::now();
        // The last bytes may not have reached the parser yet.
        loop {
            let (alternate, hidden, mouse, paste) = {
                let guard = self.screen();
                let screen = guard.parser.screen();
                let mouse = screen.mouse_protocol_mode() != vt100::MouseProtocolMode::None;
                (screen.alternate_screen(), screen.hide_cursor(), mouse, screen.bracketed_paste())
            };
            let modes = format!("{:?}", self.master.get_termios().unwrap());
            if !alternate && !hidden && !mouse && !paste && modes == self.modes_before {
                return;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "after {after}: alternate screen {alternate}, cursor hidden {hidden}, mouse {mouse}, paste {paste}, modes {modes}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the program with a key. The status must be the given one, and nothing must be left.
    pub(crate) fn leave(&mut self, key: &str, status: u32, after: &str) {
        self.keys(key);
        assert_eq!(self.end(), status, "{after}");
        self.is_whole(after);
    }
}
