//! What the screens cost, measured from outside in a pseudo-terminal, beside btop, htop and bottom where they are installed: `cargo bench --bench screen`.
//!
//! CPU time is the scheduler's (`/proc/PID/task/*/schedstat`), wake-ups are voluntary context switches of all threads, bytes are what arrives at the
//! terminal. Lanes are processes of their own and not counted. Figures are those of this machine and its load.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::panic)]

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_gds-top");
const COLUMNS: u16 = 120;
const ROWS: u16 = 40;
/// How long a rate is measured.
const WINDOW: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(60);

/// What arrived at the terminal: the screen, how many bytes, when the last of them, and how many frames ended.
struct Seen {
    screen: vt100::Parser,
    bytes: u64,
    last: Instant,
    frames: u64,
}

struct Tool {
    child: Box<dyn Child + Send + Sync>,
    writer: Box<dyn Write + Send>,
    seen: Arc<Mutex<Seen>>,
    began: Instant,
    _master: Box<dyn MasterPty + Send>,
}

impl Tool {
    fn start(program: &str, arguments: &[&str], home: &Path) -> Self {
        let size = PtySize { cols: COLUMNS, rows: ROWS, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        for (name, value) in [("TERM", "xterm-256color"), ("LANG", "C.UTF-8")] {
            command.env(name, value);
        }
        for name in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"] {
            command.env(name, home);
        }
        let (rows, columns) = (NonZeroU16::new(ROWS).unwrap(), NonZeroU16::new(COLUMNS).unwrap());
        let screen = vt100::Parser::new(rows, columns, 0);
        let seen = Arc::new(Mutex::new(Seen { screen, bytes: 0, last: Instant::now(), frames: 0 }));
        let theirs = Arc::clone(&seen);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let began = Instant::now();
        let child = pair.slave.spawn_command(command).unwrap();
        std::thread::spawn(move || {
            let _slave = pair.slave;
            let mut buffer = vec![0; 1 << 16];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                let mut seen = theirs.lock().unwrap();
                seen.screen.process(&buffer[..count]);
                seen.bytes += count as u64;
                seen.last = Instant::now();
                seen.frames += buffer[..count].windows(8).filter(|w| *w == b"\x1b[?2026l").count() as u64;
            }
        });
        let writer = pair.master.take_writer().unwrap();
        Self { child, writer, seen, began, _master: pair.master }
    }

    fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    fn keys(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    /// Waits for a text; the time since the start.
    fn until(&self, text: &str) -> Duration {
        loop {
            if self.seen.lock().unwrap().screen.screen().contents().contains(text) {
                return self.began.elapsed();
            }
            if self.began.elapsed() > PATIENCE {
                panic!("'{text}' never came:\n{}", self.seen.lock().unwrap().screen.screen().contents());
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap(), signal).unwrap();
    }

    /// Time to the end of the process.
    fn end(&mut self) -> Duration {
        let start = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if start.elapsed() > PATIENCE {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        start.elapsed()
    }
}

/// Running time in nanoseconds and voluntary switches of all threads.
fn counters(pid: u32) -> (u64, u64) {
    let mut total = (0, 0);
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let ran = read("schedstat").split_whitespace().next().and_then(|n| n.parse::<u64>().ok());
        let status = read("status");
        let switches = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        total.0 += ran.unwrap_or(0);
        total.1 += switches.and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(0);
    }
    total
}

/// Resident memory in MiB.
fn resident_mib(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kib = line.trim().split(' ').next().and_then(|n| n.parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib / 1024.0)
}

/// CPU in percent of one core, wake-ups, bytes and frames a second, over the window.
fn rates(tool: &Tool) -> String {
    let look = || {
        let seen = tool.seen.lock().unwrap();
        (counters(tool.pid()), seen.bytes, seen.frames)
    };
    let (start, before) = (Instant::now(), look());
    std::thread::sleep(WINDOW);
    let (after, seconds) = (look(), start.elapsed().as_secs_f64());
    // A thread that ended took its counts along.
    let rate = |a: u64, b: u64| b.saturating_sub(a) as f64 / seconds;
    format!(
        "{:.2} | {:.1} | {:.0} | {:.1} | {:.1}",
        rate(before.0.0, after.0.0) / 1e7,
        rate(before.0.1, after.0.1),
        rate(before.1, after.1),
        rate(before.2, after.2),
        resident_mib(tool.pid())
    )
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn recording(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/recordings").join(name).display().to_string()
}

/// Time to the frame with the text: median and worst of nine starts.
fn first_frame(program: &str, arguments: &[&str], text: &str, home: &Path) -> String {
    let times: Vec<f64> = (0..9)
        .map(|_| {
            let mut tool = Tool::start(program, arguments, home);
            let took = tool.until(text).as_secs_f64() * 1e3;
            tool.signal(Signal::TERM);
            tool.end();
            took
        })
        .collect();
    let worst = times.iter().copied().fold(0.0, f64::max);
    format!("{:.0} (at most {worst:.0})", median(times))
}

/// Time from a key to the end of the frame that it caused, 99th percentile of 300, in milliseconds.
fn key_to_paint(tool: &mut Tool, keys: [&str; 2]) -> f64 {
    let mut times: Vec<f64> = (0..300)
        .map(|i| {
            // Not while the frame of the key before is still held back.
            std::thread::sleep(Duration::from_millis(25 + i % 7));
            let before = tool.seen.lock().unwrap().frames;
            let start = Instant::now();
            tool.keys(keys[i as usize % 2]);
            while tool.seen.lock().unwrap().frames == before && start.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_micros(100));
            }
            tool.seen.lock().unwrap().last.duration_since(start).as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() * 99 / 100]
}

fn exits(home: &Path) {
    println!("\n| end by | time to the end, worst of five |\n|---|---:|");
    let replay = recording("h200-qwen3-0.6b.gdsrec");
    let ways: [(&str, Option<Signal>); 6] = [
        ("q", None),
        ("TERM", Some(Signal::TERM)),
        ("HUP", Some(Signal::HUP)),
        ("INT", Some(Signal::INT)),
        ("QUIT", Some(Signal::QUIT)),
        ("Ctrl-C", None),
    ];
    for (name, signal) in ways {
        let mut worst = Duration::ZERO;
        for _ in 0..5 {
            let mut tool = Tool::start(PROGRAM, &["replay", &replay, "--speed", "0"], home);
            tool.until("at its end");
            match signal {
                Some(signal) => tool.signal(signal),
                None => tool.keys(if name == "q" { "q" } else { "\u{3}" }),
            }
            worst = worst.max(tool.end());
        }
        println!("| {name} | {:.0} ms |", worst.as_secs_f64() * 1e3);
    }
}

fn model(home: &Path) -> PathBuf {
    let path = home.join("model");
    let made = std::process::Command::new(PROGRAM)
        .args(["synth", "qwen3-0.6b", path.to_str().unwrap(), "--scale", "0.05", "--quiet"])
        .stdout(std::process::Stdio::null())
        .status();
    assert!(made.unwrap().success(), "the model could not be made");
    path
}

fn main() {
    // `cargo test --benches` runs this for a moment only to see that it starts.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = folder.path();
    let (small, large) = (recording("h200-qwen3-0.6b.gdsrec"), recording("h200-qwen2.5-7b.gdsrec"));
    let model = model(home).display().to_string();
    println!(
        "| program, {COLUMNS}x{ROWS} | first frame, ms | CPU, % of a core | wake-ups/s | bytes/s | frames/s | RSS, MiB |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|");

    let frame = first_frame(PROGRAM, &[&model, "--gpu", "host", "--engine", "pread"], "2 Race", home);
    let mut tool = Tool::start(PROGRAM, &[&model, "--gpu", "host", "--engine", "pread"], home);
    tool.until("1 Environment");
    tool.keys("2");
    tool.until("verified");
    std::thread::sleep(Duration::from_secs(8));
    tool.keys("1");
    std::thread::sleep(Duration::from_secs(1));
    println!("| gds-top, at rest after checks and race | {frame} | {} |", rates(&tool));
    let key = key_to_paint(&mut tool, ["2", "1"]);
    tool.keys("4");
    std::thread::sleep(Duration::from_secs(2));
    println!("| gds-top, System at one reading a second | – | {} |", rates(&tool));
    tool.signal(Signal::TERM);
    tool.end();

    let mut tool = Tool::start(PROGRAM, &["replay", &small, "--speed", "0"], home);
    tool.until("at its end");
    std::thread::sleep(Duration::from_secs(1));
    println!(
        "| gds-top, replay at its end | {} | {} |",
        first_frame(PROGRAM, &["replay", &small], "2 Race", home),
        rates(&tool)
    );
    tool.signal(Signal::TERM);
    tool.end();

    let mut tool = Tool::start(PROGRAM, &["replay", &large], home);
    tool.until("2 Race");
    println!("| gds-top, race replayed in real time | – | {} |", rates(&tool));
    tool.signal(Signal::TERM);
    tool.end();

    let live = [&*model, "--gpu", "host", "--engine", "mmap,pread", "--repeat", "1000"];
    let mut tool = Tool::start(PROGRAM, &live, home);
    tool.until("1 Environment");
    tool.keys("2");
    tool.until("/1000");
    println!("| gds-top, live race on host memory | – | {} |", rates(&tool));
    let racing = key_to_paint(&mut tool, ["j", "k"]);
    tool.signal(Signal::TERM);
    let ended = tool.end();

    for (name, arguments, text) in [("btop", &[][..], "cpu"), ("htop", &[][..], "PID"), ("btm", &[][..], "CPU")] {
        if !std::env::var_os("PATH").is_some_and(|p| std::env::split_paths(&p).any(|dir| dir.join(name).is_file())) {
            println!("| {name} | not installed | – | – | – | – | – |");
            continue;
        }
        let frame = first_frame(name, arguments, text, home);
        let mut tool = Tool::start(name, arguments, home);
        tool.until(text);
        std::thread::sleep(Duration::from_secs(3));
        println!("| {name} | {frame} | {} |", rates(&tool));
        tool.signal(Signal::TERM);
        tool.end();
    }
    println!(
        "\nKey to painted frame, 99th percentile of 300: {key:.1} ms at rest, {racing:.1} ms in a race; TERM in a race ended it within {:.0} ms.",
        ended.as_secs_f64() * 1e3
    );
    exits(home);
}
