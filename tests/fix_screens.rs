//! Fixes on the screens of the real program, in a real pseudo-terminal and on throw-away roots: the checklist, a fix applied from its sheet, and the
//! terminal lent to sudo (a stand-in on PATH) while it asks for a password.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use std::fs;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Guards against a hang and nothing else: far more than anything here takes, however slow and busy the machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// The marks around a frame, which is shown as a whole.
const FRAME: [&str; 2] = ["\u{1b}[?2026h", "\u{1b}[?2026l"];

/// A terminal, and what a user sees of it: whole frames.
struct Screen {
    parser: vt100::Parser,
    shown: String,
    /// Bytes of the frame that is under way; what is outside of frames is shown as it comes.
    frame: Option<Vec<u8>>,
    /// The beginning of what may become a mark.
    rest: Vec<u8>,
}

impl Screen {
    fn take(&mut self, bytes: &[u8]) {
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let mut from = 0;
        while from < all.len() {
            let mark = FRAME[usize::from(self.frame.is_some())].as_bytes();
            let left = &all[from..];
            let at = left.windows(mark.len()).position(|part| part == mark);
            // What could be the first part of a mark waits for more.
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
        self.shown = self.parser.screen().contents();
    }
}

struct Terminal {
    screen: Arc<Mutex<Screen>>,
    writer: Box<dyn Write + Send>,
    master: Box<dyn MasterPty + Send>,
    child: Box<dyn Child + Send + Sync>,
    modes_before: String,
}

impl Terminal {
    fn start(arguments: &[&str], environment: &[(&str, &str)], (columns, rows): (u16, u16)) -> Self {
        let pair =
            native_pty_system().openpty(PtySize { cols: columns, rows, pixel_width: 0, pixel_height: 0 }).unwrap();
        let modes_before = format!("{:?}", pair.master.get_termios().unwrap());
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_gds-top"));
        command.args(arguments);
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        for (name, value) in environment {
            command.env(name, value);
        }
        // Else it would be started in HOME, which need not be there.
        command.cwd(env!("CARGO_TARGET_TMPDIR"));
        let child = pair.slave.spawn_command(command).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let cells = |n| NonZeroU16::new(n).unwrap();
        let parser = vt100::Parser::new(cells(rows), cells(columns), 0);
        let screen = Screen { parser, shown: String::new(), frame: None, rest: Vec::new() };
        let screen = Arc::new(Mutex::new(screen));
        let theirs = Arc::clone(&screen);
        std::thread::spawn(move || {
            // Held open, so that what the program left behind can be read after its end.
            let _slave = pair.slave;
            let mut buffer = [0; 8192];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                theirs.lock().unwrap().take(&buffer[..count]);
            }
        });
        let writer = pair.master.take_writer().unwrap();
        Self { screen, writer, master: pair.master, child, modes_before }
    }

    fn shown(&self) -> String {
        self.screen.lock().unwrap().shown.clone()
    }

    fn is_alternate(&self) -> bool {
        self.screen.lock().unwrap().parser.screen().alternate_screen()
    }

    fn wait(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(start.elapsed() < PATIENCE, "{what} never came:\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn until(&self, text: &str) {
        self.wait(text, |t| t.shown().contains(text));
    }

    /// Leaves a sheet by Esc and waits until it is gone: a key that came with it would be one with Alt.
    fn back_from(&mut self, sheet: &str) {
        self.keys("\u{1b}");
        self.wait("the checklist", |t| {
            let shown = t.shown();
            shown.contains("To GPUDirect Storage by") && !shown.contains(sheet)
        });
    }

    fn keys(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    fn quit(&mut self) {
        let start = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < PATIENCE, "it does not end:\n{}", self.shown());
            self.keys("q");
            std::thread::sleep(Duration::from_millis(100));
        }
        let whole = |t: &Self| {
            let screen = t.screen.lock().unwrap();
            let screen = screen.parser.screen();
            let (alternate, hidden) = (screen.alternate_screen(), screen.hide_cursor());
            !alternate && !hidden && format!("{:?}", t.master.get_termios().unwrap()) == t.modes_before
        };
        self.wait("the terminal as it was", whole);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&source, &target);
        } else if kind.is_symlink() {
            symlink(fs::read_link(&source).unwrap(), &target).unwrap();
        } else {
            fs::copy(&source, &target).unwrap();
        }
    }
}

fn machine(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("root");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines").join(name), &top);
    (folder, top)
}

/// PATH with a stand-in for sudo in front.
fn path_with_sudo(keep: &Path, script: &str) -> String {
    let tools = keep.join("tools");
    fs::create_dir(&tools).unwrap();
    let sudo = tools.join("sudo");
    fs::write(&sudo, script).unwrap();
    fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", tools.display(), std::env::var("PATH").unwrap())
}

#[test]
fn the_checklist_leads_to_a_fix_that_is_applied_streamed_and_taken_up_again() {
    let (keep, root) = machine("p2pdma-two-steps");
    // Whoever runs this, with or without a sudo that knows him.
    let path = path_with_sudo(keep.path(), "#!/bin/sh\n[ \"$1\" != -v ] || exit 0\nshift 2; exec \"$@\"\n");
    let environment = [("PATH", path.as_str())];
    let boot = root.join("files/proc/sys/kernel/random/boot_id");
    fs::create_dir_all(boot.parent().unwrap()).unwrap();
    fs::write(&boot, "first\n").unwrap();
    let mut terminal = Terminal::start(&["--root", root.to_str().unwrap()], &environment, (120, 36));
    terminal.until("i install");
    terminal.keys("i");
    terminal.until("To GPUDirect Storage by");
    terminal.until("To GPUDirect Storage by P2PDMA");
    terminal.until("▸ → Map the GPU's BAR1 statically");
    terminal.keys("\r");
    terminal.until("Fix Map the GPU's BAR1 statically");
    terminal.keys("a");
    terminal.until("not run, this is a folder: sudo update-initramfs");
    terminal.until("it takes effect after this: sudo reboot");
    assert!(root.join("files/etc/modprobe.d/nvidia-p2pdma.conf").exists());
    terminal.back_from("Fix Map the GPU's BAR1 statically");
    terminal.keys("g");
    terminal.until("next: sudo update-initramfs -u -k all, then sudo reboot");
    terminal.quit();

    // After the reboot the next start takes it up.
    fs::write(&boot, "second\n").unwrap();
    let mut terminal = Terminal::start(&["--root", root.to_str().unwrap()], &environment, (120, 36));
    terminal.until("i install");
    terminal.keys("i");
    terminal.until("To GPUDirect Storage by");
    terminal.keys("g");
    terminal.until("the machine was rebooted");
    terminal.quit();
}

#[test]
fn sudo_gets_the_terminal_for_its_password_and_the_screen_comes_back() {
    let (keep, root) = machine("h200-vm-no-udev");
    let stamp = keep.path().join("stamp");
    let stamp = stamp.display();
    let script = format!(
        "#!/bin/sh\n\
         if [ \"$1\" = -v ]; then\n\
         exec </dev/tty >/dev/tty\n\
         stty -echo; printf '[sudo] password for tester: '; read word; stty echo; echo\n\
         [ \"$word\" = secret ] || {{ echo Sorry; exit 1; }}\n\
         : > {stamp}; exit 0\n\
         fi\n\
         [ -e {stamp} ] || {{ echo 'sudo: a password is required' >&2; exit 1; }}\n\
         shift 2; unset GDS_TOP_TEST_NOT_ROOT; exec \"$@\"\n"
    );
    let path = path_with_sudo(keep.path(), &script);
    let environment = [("PATH", path.as_str()), ("GDS_TOP_TEST_NOT_ROOT", "1")];
    let mut terminal = Terminal::start(&["--root", root.to_str().unwrap()], &environment, (100, 30));
    terminal.until("f fix");
    terminal.keys("f");
    terminal.until("Fix Write the udev record");

    // A wrong password: nothing is applied, and the screen says so.
    terminal.keys("a");
    terminal.until("[sudo] password for tester:");
    assert!(!terminal.is_alternate(), "the terminal was lent");
    terminal.keys("wrong\n");
    terminal.until("sudo did not accept you");
    assert!(terminal.is_alternate());
    let record = root.join("files/run/udev/data/b254:0");
    assert!(!record.exists());

    // The right one, every letter of it for sudo, once it asks again: what it said before still stands there.
    terminal.keys("a");
    terminal.wait("sudo's second question", |t| t.shown().matches("[sudo] password for tester:").count() == 2);
    terminal.keys("secret\n");
    terminal.wait("the record", |_| record.exists());
    terminal.wait("the screen", Terminal::is_alternate);
    terminal.until("Fix Write the udev record");
    terminal.until("✔ ");
    assert_eq!(fs::read_to_string(&record).unwrap(), "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n");
    terminal.until("u undo");
    terminal.quit();
}

#[test]
fn the_checklist_fits_small_terminals() {
    for size in [(60, 20), (80, 24), (200, 60)] {
        let (_keep, root) = machine("proprietary-nvfs");
        let mut terminal = Terminal::start(&["--root", root.to_str().unwrap()], &[], size);
        terminal.until("1 Env");
        let start = Instant::now();
        while !terminal.shown().contains("To GPUDirect Storage by") {
            assert!(start.elapsed() < PATIENCE, "{}", terminal.shown());
            terminal.keys("i");
            std::thread::sleep(Duration::from_millis(100));
        }
        terminal.until("→ Install the open kernel modules");
        terminal.keys("G");
        terminal.until("The proof: reads counted");
        terminal.quit();
    }
}

/// Text without blanks and without the frame of a sheet, so that where a line is broken does not matter.
fn letters(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !"│╭╮╰╯─┌┐└┘▸█▐".contains(*c)).collect()
}

#[test]
fn the_checklist_on_the_screen_says_what_its_text_says_and_every_diff_can_be_reached() {
    for name in [
        "p2pdma-two-steps",
        "secure-boot",
        "proprietary-nvfs",
        "zst-symvers",
        "md-raid0-no-level",
        "broken-cufile-json",
    ] {
        let (_keep, root) = machine(name);
        let run = |more: &[&str]| {
            let output = std::process::Command::new(env!("CARGO_BIN_EXE_gds-top"))
                .args(["fix", "--root", root.to_str().unwrap(), "nvidia-gds", "--dry-run"])
                .args(more)
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let (text, told) = (run(&[]), run(&["--json"]));
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        let mut terminal = Terminal::start(&["--root", root.to_str().unwrap()], &[], (140, 400));
        terminal.until("i install");
        terminal.keys("i");
        terminal.until("The proof: reads counted");
        let shown = letters(&terminal.shown());
        let body = text.lines().skip(1).filter(|line| !line.trim().is_empty());
        for line in body {
            let (indent, said) = (line.len() - line.trim_start().len(), line.trim());
            // The lines of a diff are compared on the sheet of the fix.
            let is_of_diff = indent >= 9 && !["$ ", "verify: ", "but "].iter().any(|begin| said.starts_with(begin));
            assert!(
                is_of_diff || shown.contains(&letters(said)),
                "{name}: '{said}' is not on the screen:\n{}",
                terminal.shown()
            );
        }
        let mut row = 0;
        for step in told["guide"]["steps"].as_array().unwrap() {
            row += 1;
            for plan in step["plans"].as_array().unwrap() {
                let title = plan["title"].as_str().unwrap();
                terminal.keys("g");
                terminal.keys(&"j".repeat(row));
                terminal.keys("\r");
                let heading = format!("Fix {}", title.split_whitespace().take(4).collect::<Vec<_>>().join(" "));
                terminal.until(&heading);
                let mut wanted: Vec<String> =
                    ["why", "verify", "undo"].iter().map(|key| plan[key].as_str().unwrap().to_owned()).collect();
                for change in plan["changes"].as_array().unwrap() {
                    if let Some(argv) = change["argv"].as_array() {
                        wanted.extend(argv.iter().map(|word| word.as_str().unwrap().to_owned()));
                    } else {
                        let (old, new) = (change["before"].as_str().unwrap_or(""), change["after"].as_str().unwrap());
                        wanted.extend(new.lines().filter(|l| !old.lines().any(|o| o == *l)).map(str::to_owned));
                        wanted.extend(old.lines().filter(|l| !new.lines().any(|n| n == *l)).map(str::to_owned));
                    }
                }
                for part in wanted {
                    // The title may be drawn before the rest of the sheet is.
                    terminal.wait(&format!("{name}, {title}: '{part}'"), |terminal| {
                        letters(&terminal.shown()).contains(&letters(&part))
                    });
                }
                terminal.back_from(&heading);
                row += 1;
            }
        }
        terminal.quit();
    }
}
