//! The real program in a real pseudo-terminal: whatever ends it, the terminal is whole again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_gds-top");
/// Guards against a hang and nothing else: far more than anything here takes, however slow and busy the machine.
const PATIENCE: Duration = Duration::from_secs(180);

struct Terminal {
    parser: Arc<Mutex<vt100::Parser>>,
    raw: Arc<Mutex<Vec<u8>>>,
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    modes_before: String,
    began: Instant,
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { cols: columns, rows, pixel_width: 0, pixel_height: 0 }
}

fn cells(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap()
}

impl Terminal {
    fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let pair = native_pty_system().openpty(size(120, 36)).unwrap();
        let modes_before = format!("{:?}", pair.master.get_termios().unwrap());
        let mut command = CommandBuilder::new(PROGRAM);
        command.args(arguments);
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        // What the developer's terminal and settings are must not decide a test.
        for name in ["NO_COLOR", "COLORTERM", "LC_ALL", "LC_CTYPE", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        // Else it would be started in HOME, which need not be there.
        command.cwd(env!("CARGO_TARGET_TMPDIR"));
        for (name, value) in environment {
            command.env(name, value);
        }
        let began = Instant::now();
        let child = pair.slave.spawn_command(command).unwrap();
        // The slave side is kept by the master's reader until the child is gone.
        let mut reader = pair.master.try_clone_reader().unwrap();
        let parser = Arc::new(Mutex::new(vt100::Parser::new(cells(36), cells(120), 0)));
        let raw = Arc::new(Mutex::new(Vec::new()));
        let (theirs, bytes) = (Arc::clone(&parser), Arc::clone(&raw));
        std::thread::spawn(move || {
            // Held open, so that what the program left behind can be read after its end.
            let _slave = pair.slave;
            let mut buffer = [0; 8192];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                // Before the screen: what is shown has come.
                bytes.lock().unwrap().extend_from_slice(&buffer[..count]);
                theirs.lock().unwrap().process(&buffer[..count]);
            }
        });
        let writer = pair.master.take_writer().unwrap();
        Self { parser, raw, master: pair.master, writer, child, modes_before, began }
    }

    fn replay() -> Self {
        Self::start(&["replay", &recording(), "--speed", "0"], &[])
    }

    fn shown(&self) -> String {
        self.parser.lock().unwrap().screen().contents()
    }

    fn until(&self, text: &str) {
        let start = Instant::now();
        while !self.shown().contains(text) {
            assert!(start.elapsed() < PATIENCE, "'{text}' never came:\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn until_gone(&self, text: &str) {
        let start = Instant::now();
        while self.shown().contains(text) {
            assert!(start.elapsed() < PATIENCE, "'{text}' stays:\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn keys(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.process_id().unwrap()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits until a text has come over the terminal, shown or not.
    fn until_sent(&self, text: &str) {
        let start = Instant::now();
        while !String::from_utf8_lossy(&self.raw.lock().unwrap()).contains(text) {
            assert!(start.elapsed() < PATIENCE, "{text:?} was never sent:\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end; the exit status. How long it took is told: the benchmark of the screen measures it where nothing else runs.
    fn end(&mut self) -> u32 {
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

    /// Nothing of ours is left on the terminal.
    fn is_whole(&self, after: &str) {
        let start = Instant::now();
        // The last bytes may still be on their way to the parser.
        loop {
            let (alternate, hidden, mouse, paste) = {
                let parser = self.parser.lock().unwrap();
                let screen = parser.screen();
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
}

fn recording() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/recordings/h200-qwen3-0.6b.gdsrec").display().to_string()
}

#[test]
fn the_first_frame_comes_soon_and_no_question_is_put_to_the_terminal() {
    let mut terminal = Terminal::start(&["replay", &recording()], &[]);
    terminal.until("2 Race");
    eprintln!("first frame after {:?}", terminal.began.elapsed());
    {
        let parser = terminal.parser.lock().unwrap();
        assert!(parser.screen().alternate_screen() && parser.screen().hide_cursor());
    }
    terminal.until_sent("\u{1b}[?2026l");
    let raw = String::from_utf8_lossy(&terminal.raw.lock().unwrap()).into_owned();
    for question in ["\u{1b}[6n", "\u{1b}[c", "\u{1b}[>c", "\u{1b}[?2026$p", "\u{1b}]11;?"] {
        assert!(!raw.contains(question), "{question:?}");
    }
    assert!(raw.contains("\u{1b}[?2026h"), "frames are synchronized");
    terminal.keys("q");
    terminal.end();
}

#[test]
fn q_and_ctrl_c_leave_the_terminal_whole() {
    for (key, status) in [("q", 0), ("\u{3}", 130)] {
        let mut terminal = Terminal::replay();
        terminal.until("replay, at its end");
        terminal.keys(key);
        assert_eq!(terminal.end(), status, "{key:?}");
        terminal.is_whole(&format!("{key:?}"));
    }
}

#[test]
fn term_and_hup_leave_the_terminal_whole_and_say_so_in_the_status() {
    for (signal, status) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131), (Signal::INT, 130)] {
        let mut terminal = Terminal::replay();
        terminal.until("replay, at its end");
        terminal.signal(signal);
        assert_eq!(terminal.end(), status, "{signal:?}");
        terminal.is_whole(&format!("{signal:?}"));
    }
}

/// A small model on a real file system.
fn model(folder: &Path) -> PathBuf {
    let path = folder.join("model");
    let status = std::process::Command::new(PROGRAM)
        .args(["synth", "qwen3-0.6b"])
        .arg(&path)
        .args(["--scale", "0.02", "--quiet"])
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    path
}

/// Lanes of the session that was given this folder as HOME, which no other session has.
fn lanes_of(home: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let variable = format!("HOME={home}");
    all.filter(|entry| {
        let is_in = |file: &str, word: &str| {
            std::fs::read(entry.path().join(file))
                .is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|part| part == word.as_bytes()))
        };
        is_in("cmdline", "__lane") && is_in("environ", &variable)
    })
    .count()
}

/// Waits until the session has a lane, or none.
fn until_lanes(home: &str, wanted: bool) {
    let start = Instant::now();
    while (lanes_of(home) > 0) != wanted {
        assert!(start.elapsed() < PATIENCE, "a lane is there: {}", !wanted);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_hangup_in_the_middle_of_a_race_ends_the_race_too() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let model = model(folder.path());
    let recording = folder.path().join("race.gdsrec");
    let arguments = [
        model.to_str().unwrap(),
        "--gpu",
        "host",
        "--engine",
        "mmap,pread",
        "--repeat",
        "1000",
        "--record",
        recording.to_str().unwrap(),
    ];
    let home = folder.path().display().to_string();
    let mut terminal = Terminal::start(&arguments, &[("HOME", &home), ("XDG_CACHE_HOME", &home)]);
    terminal.until("1 Environment");
    terminal.keys("2");
    // A load has finished and another is under way.
    terminal.until("/1000");
    until_lanes(&home, true);
    terminal.signal(Signal::HUP);
    assert_eq!(terminal.end(), 129);
    terminal.is_whole("HUP in a race");
    until_lanes(&home, false);
}

#[test]
fn a_race_that_was_left_with_q_is_recorded_whole() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let model = model(folder.path());
    let recording = folder.path().join("race.gdsrec");
    let (model, path) = (model.to_str().unwrap(), recording.to_str().unwrap());
    let home = folder.path().display().to_string();
    let arguments = [model, "--gpu", "host", "--engine", "pread", "--record", path];
    let mut terminal = Terminal::start(&arguments, &[("HOME", &home), ("XDG_CACHE_HOME", &home)]);
    terminal.until("1 Environment");
    terminal.keys("2");
    terminal.until("✔ verified");
    terminal.keys("q");
    assert_eq!(terminal.end(), 0);
    let events = gds_top::session::recording::read(&recording).unwrap();
    let events: Vec<_> = events.map(|event| event.unwrap().body).collect();
    let is = |wanted: fn(&gds_top::domain::EventBody) -> bool| events.iter().any(wanted);
    assert!(is(|body| matches!(body, gds_top::domain::EventBody::LaneFinished { .. })));
    assert!(is(|body| matches!(body, gds_top::domain::EventBody::SessionEnded { .. })));
}

#[test]
fn the_cost_of_looking_is_told_for_the_three_ways() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let model = model(folder.path());
    let home = folder.path().display().to_string();
    let output = std::process::Command::new(PROGRAM)
        .args(["overhead", model.to_str().unwrap(), "--gpu", "host", "--repeat", "2", "--json"])
        .envs([("HOME", &home), ("XDG_CACHE_HOME", &home)])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let ways = told[0]["ways"].as_array().unwrap();
    assert_eq!(ways.iter().map(|w| w["way"].as_str().unwrap()).collect::<Vec<_>>(), ["bare", "headless", "screens"]);
    assert!(ways.iter().all(|w| w["wall_ns"].as_array().unwrap().len() == 2 && w["ratio"].as_f64().unwrap() > 0.0));
}

#[test]
fn a_panic_restores_the_terminal_and_is_told_below() {
    if !cfg!(debug_assertions) {
        return;
    }
    let mut terminal = Terminal::start(&["replay", &recording(), "--speed", "0"], &[("GDS_TOP_TEST_PANIC", "1")]);
    terminal.until("replay, at its end");
    terminal.keys("P");
    assert_eq!(terminal.end(), 101);
    terminal.is_whole("a panic");
    terminal.until("asked for by a test");
}

#[test]
fn a_storm_of_resizes_ends_in_a_screen_of_the_last_size() {
    let mut terminal = Terminal::replay();
    terminal.until("replay, at its end");
    let mut seed = 12_345_u32;
    for _ in 0..60 {
        seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        let (columns, rows) = ((seed >> 16) as u16 % 200 + 1, (seed >> 8) as u16 % 60 + 1);
        terminal.master.resize(size(columns, rows)).unwrap();
    }
    terminal.parser.lock().unwrap().screen_mut().set_size(cells(24), cells(80));
    terminal.master.resize(size(80, 24)).unwrap();
    let start = Instant::now();
    let fits = |shown: &str| shown.contains("2 Race") && shown.lines().last().is_some_and(|l| l.contains("q quit"));
    while !fits(&terminal.shown()) {
        assert!(start.elapsed() < PATIENCE, "{}", terminal.shown());
        std::thread::sleep(Duration::from_millis(20));
    }
    terminal.keys("q");
    assert_eq!(terminal.end(), 0);
    terminal.is_whole("resizes");
}

#[test]
fn without_a_terminal_it_says_what_to_use_instead() {
    for arguments in [vec![], vec!["replay".to_owned(), recording()]] {
        let output =
            std::process::Command::new(PROGRAM).args(&arguments).stdin(std::process::Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("terminal") && said.contains("--headless"), "{said}");
        assert!(output.stdout.is_empty());
    }
}

/// Waits until the process is stopped (or runs again).
fn stopped(terminal: &Terminal, wanted: bool) {
    let start = Instant::now();
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", terminal.child.process_id().unwrap())).unwrap();
        let state = stat.rsplit(')').next().unwrap().trim().chars().next().unwrap();
        if (state == 'T') == wanted {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "stopped: {wanted}, and the state is {state}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn ctrl_z_lends_the_terminal_to_the_shell_and_fg_brings_the_screen_back_in_the_size_of_then() {
    for from_outside in [false, true] {
        let mut terminal = Terminal::replay();
        terminal.until("replay, at its end");
        if from_outside {
            terminal.signal(Signal::TSTP);
        } else {
            terminal.keys("\u{1a}");
        }
        stopped(&terminal, true);
        terminal.is_whole("a stop");
        terminal.parser.lock().unwrap().screen_mut().set_size(cells(24), cells(80));
        terminal.master.resize(size(80, 24)).unwrap();
        terminal.signal(Signal::CONT);
        stopped(&terminal, false);
        let start = Instant::now();
        let fits = |shown: &str| shown.contains("2 Race") && shown.lines().last().is_some_and(|l| l.contains("q quit"));
        while !fits(&terminal.shown()) {
            assert!(start.elapsed() < PATIENCE, "{}", terminal.shown());
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(terminal.parser.lock().unwrap().screen().alternate_screen());
        // It still takes keys.
        terminal.keys("?");
        terminal.until("Keys and words");
        terminal.keys("?q");
        assert_eq!(terminal.end(), 0);
        terminal.is_whole("a stop, a return and q");
    }
}

#[test]
fn at_rest_nothing_is_written_and_nobody_wakes() {
    let mut terminal = Terminal::replay();
    terminal.until("replay, at its end");
    let pid = terminal.child.process_id().unwrap();
    let switches = || -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let text = tasks.map(|task| std::fs::read_to_string(task.path().join("status")).unwrap_or_default());
        text.filter_map(|t| {
            t.lines()
                .find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"))
                .and_then(|n| n.trim().parse::<u64>().ok())
        })
        .sum()
    };
    // When it comes to rest is the machine's business; that it does, and is then left alone for seconds, is ours.
    let start = Instant::now();
    loop {
        let (bytes, woken) = (terminal.raw.lock().unwrap().len(), switches());
        std::thread::sleep(Duration::from_secs(3));
        let (bytes, woken) = (terminal.raw.lock().unwrap().len() - bytes, switches() - woken);
        if bytes == 0 && woken <= 6 {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "in three seconds {bytes} bytes were written and {woken} threads woke");
    }
    terminal.keys("q");
    terminal.end();
}

#[test]
fn a_terminal_that_goes_away_ends_it() {
    let Terminal { mut child, master, writer, parser, .. } = Terminal::replay();
    let start = Instant::now();
    while !parser.lock().unwrap().screen().contents().contains("replay, at its end") {
        assert!(start.elapsed() < PATIENCE, "it never came to its end");
        std::thread::sleep(Duration::from_millis(5));
    }
    // The reader's copy of the master stays open; a hang-up is what the kernel would send.
    kill_process(Pid::from_raw(i32::try_from(child.process_id().unwrap()).unwrap()).unwrap(), Signal::HUP).unwrap();
    drop((master, writer));
    let status = child.wait().unwrap();
    assert_eq!(status.exit_code(), 129);
}

#[test]
fn the_answer_is_copied_through_the_terminal() {
    let mut terminal = Terminal::replay();
    terminal.until("replay, at its end");
    terminal.keys("y");
    terminal.until("copied: ");
    terminal.until_sent("\u{1b}]52;c;");
    terminal.keys("q");
    terminal.end();
}

#[test]
fn a_race_can_be_stopped_from_any_screen_and_says_so() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let model = model(folder.path());
    let arguments = [model.to_str().unwrap(), "--gpu", "host", "--engine", "pread", "--repeat", "1000"];
    let home = folder.path().display().to_string();
    let mut terminal = Terminal::start(&arguments, &[("HOME", &home), ("XDG_CACHE_HOME", &home)]);
    terminal.until("1 Environment");
    terminal.keys("2");
    terminal.until("/1000");
    terminal.keys("6c");
    terminal.until("stopping the race");
    // Nothing is under way any more, so q does not ask.
    until_lanes(&home, false);
    terminal.keys("2");
    terminal.until("R race");
    terminal.keys("q");
    assert_eq!(terminal.end(), 0);
    terminal.is_whole("a stopped race");
}

#[test]
fn the_lesson_writes_nothing_until_it_is_asked_to_measure_and_then_measures_a_small_model() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let cache = folder.path().to_str().unwrap();
    let arguments = ["learn", "--gpu", "host", "--engine", "pread", "--no-verify"];
    let mut terminal = Terminal::start(&arguments, &[("HOME", cache), ("XDG_CACHE_HOME", cache)]);
    terminal.until("The ways of a byte");
    terminal.until("m measure");
    assert!(!folder.path().join("gds-top/models").exists(), "a model was made for somebody who only reads");
    terminal.keys("m");
    terminal.until("Measured here with");
    assert!(folder.path().join("gds-top/models").exists());
    terminal.keys("q");
    assert_eq!(terminal.end(), 0);
    terminal.is_whole("a lesson");
}

#[test]
fn settings_change_keys_mouse_and_colours() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(
        &path,
        "theme = \"mono\"\nmouse = false\nmarkers = \"block\"\n[keys]\nquit = \"f10\"\nscreen_report = \"Z\"\n",
    )
    .unwrap();
    let settings = path.display().to_string();
    let mut terminal = Terminal::start(&["replay", &recording(), "--speed", "0", "--config", &settings], &[]);
    terminal.until("replay, at its end");
    terminal.until("F10 quit");
    let raw = String::from_utf8_lossy(&terminal.raw.lock().unwrap()).into_owned();
    assert!(!raw.contains("?1000h"), "the mouse was asked for");
    for colour in ["38;2;", "38;5;", "48;2;", "48;5;"] {
        assert!(!raw.contains(colour), "{colour:?} in mono");
    }
    assert!(terminal.shown().contains('▖') || terminal.shown().contains('▀'), "{}", terminal.shown());
    terminal.keys("Z");
    terminal.until("Report");
    // q is no key any more.
    terminal.keys("q?");
    terminal.until("Keys and words");
    terminal.keys("\u{1b}[21~");
    assert_eq!(terminal.end(), 0);
    terminal.is_whole("F10");
}

#[test]
fn no_color_and_poor_terminals_are_honoured() {
    let replay = ["replay", &recording(), "--speed", "0"];
    let ended = "replay, at its end";
    for (variables, coloured, ascii) in [
        (vec![("NO_COLOR", "1")], false, false),
        (vec![("TERM", "dumb")], false, true),
        (vec![("LANG", "C"), ("LC_ALL", "C")], true, true),
        (vec![("COLORTERM", "truecolor")], true, false),
    ] {
        let mut terminal = Terminal::start(&replay, &variables);
        terminal.until(ended);
        let raw = String::from_utf8_lossy(&terminal.raw.lock().unwrap()).into_owned();
        assert_eq!(raw.contains("38;2;") || raw.contains("38;5;"), coloured, "{variables:?}");
        assert_eq!(raw.contains("38;2;"), variables[0].0 == "COLORTERM", "{variables:?}");
        assert_eq!(terminal.shown().is_ascii(), ascii, "{variables:?}: {}", terminal.shown());
        terminal.keys("q");
        assert_eq!(terminal.end(), 0);
    }
}

#[test]
fn a_kv_cache_is_shown_on_screens_and_its_folder_is_gone_at_the_end() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = folder.path().to_str().unwrap();
    let arguments = [
        "kv",
        "lmcache",
        dir,
        "--gpu",
        "host",
        "--shape",
        "qwen3-0.6b",
        "--tokens",
        "256",
        "--variants",
        "disk",
        "--no-telemetry",
    ];
    let mut terminal = Terminal::start(&arguments, &[("GDS_TOP_LIBCUFILE", "/nonexistent/libcufile.so.0")]);
    // The layers of the read are there by themselves once it has ended, and so are the other plans.
    terminal.until("of the loading hides behind computing");
    terminal.until("P plans");
    terminal.keys("P");
    terminal.until("io grid");
    terminal.keys("\x1b");
    // A key that comes with it would be one with Alt.
    terminal.until_gone("io grid");
    terminal.keys("q");
    assert_eq!(terminal.end(), 0);
    terminal.is_whole("kv");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
