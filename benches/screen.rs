//! Measures the resource use of the screens from outside, in a pseudo-terminal. It is compared with btop, htop and
//! bottom if these are installed. Run it with `cargo bench --bench screen`; `-- live,keys` selects parts of it (rest,
//! live, replays, others, keys). `GDS_TOP_BENCH_PROGRAM` names another build to measure.
//!
//! CPU time is read from the scheduler (`/proc/PID/task/*/schedstat`). If a thread ended during the measurement, the
//! CPU time of the process in ticks is used instead (`/proc/PID/stat`). Wake-ups are voluntary context switches. They
//! are read fifty times a second, so that threads that end are counted. Bytes are counted at the terminal. Memory is
//! read from `/proc/PID/status`: resident memory, its anonymous part (RssAnon), its part mapped from files (RssFile,
//! mostly program code), and its peak (VmHWM). Run processes are separate and not counted. Figures are medians over
//! the runs; they depend on this machine and its load.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::panic)]

use gds_top::analysis::median;
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const COLUMNS: u16 = 120;
const ROWS: u16 = 36;
/// Time over which a rate is measured.
const WINDOW: Duration = Duration::from_secs(10);
/// Time between two readings of the threads.
const LOOK: Duration = Duration::from_millis(20);
/// Number of runs. The median is printed.
const RUNS: usize = 3;
/// The largest recordings.
const LARGE: [&str; 4] = ["h200-full-qwen3-0.6b", "h200-full-qwen2.5-7b", "h200-auto-qwen2.5-7b", "h200-qwen2.5-7b"];
const PATIENCE: Duration = Duration::from_secs(60);

/// The output to the terminal: the screen, the number of bytes, the time of the last byte, and the number of frames.
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

    /// Waits for a text and returns the time since the start.
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

    /// Waits for the end of the process and returns the time until then.
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

/// CPU time in nanoseconds and voluntary context switches of each thread.
fn threads(pid: u32) -> BTreeMap<OsString, (u64, u64)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let read = tasks.filter_map(|task| {
        let text = |name: &str| fs::read_to_string(task.path().join(name)).ok();
        let ran = text("schedstat")?.split_whitespace().next()?.parse().ok()?;
        let status = text("status")?;
        let switches = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        Some((task.file_name(), (ran, switches.trim().parse().ok()?)))
    });
    read.collect()
}

/// CPU time of a process in nanoseconds, including threads that have ended. A tick is a hundredth of a second
/// (proc_pid_stat(5)).
fn ticks_ns(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    after.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10_000_000
}

/// Resident, anonymous, file-backed and peak memory in MiB.
fn memory_mib(pid: u32) -> [f64; 4] {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    ["VmRSS:", "RssAnon:", "RssFile:", "VmHWM:"].map(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let kib = line.split_whitespace().next().and_then(|n| n.parse::<f64>().ok());
        kib.map_or(f64::NAN, |kib| kib / 1024.0)
    })
}

/// Resident memory in MiB of the program's file and of shared libraries.
fn mapped_mib(pid: u32) -> (f64, f64) {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let own = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default().display().to_string();
    let (mut mapping, mut sums) = ("", (0.0, 0.0));
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first().is_some_and(|word| word.contains('-')) {
            mapping = words.get(5).copied().unwrap_or_default();
        } else if let ["Rss:", kib, ..] = words.as_slice() {
            let mib = kib.parse::<f64>().unwrap_or(0.0) / 1024.0;
            if mapping == own {
                sums.0 += mib;
            } else if mapping.contains(".so") {
                sums.1 += mib;
            }
        }
    }
    sums
}

/// CPU in percent of one core; wake-ups, bytes and frames per second; and the four memory figures at the end.
type Rates = [f64; 8];

fn rates(tool: &Tool) -> Rates {
    let pid = tool.pid();
    let output = || {
        let seen = tool.seen.lock().unwrap();
        (seen.bytes, seen.frames)
    };
    let (start, ticks, before) = (Instant::now(), ticks_ns(pid), output());
    let first = threads(pid);
    let mut last = first.clone();
    let mut all_stayed = true;
    while start.elapsed() < WINDOW {
        std::thread::sleep(LOOK);
        let now = threads(pid);
        all_stayed &= first.keys().all(|thread| now.contains_key(thread)) && now.len() == first.len();
        last.extend(now);
    }
    let (seconds, after) = (start.elapsed().as_secs_f64(), output());
    let gained = |pick: fn(&(u64, u64)) -> u64| {
        last.iter().map(|(thread, now)| pick(now) - first.get(thread).map_or(0, pick)).sum::<u64>()
    };
    let ran_ns = if all_stayed { gained(|t| t.0) } else { ticks_ns(pid) - ticks };
    let [rss, anon, file, peak] = memory_mib(pid);
    let (bytes, frames) = (after.0 - before.0, after.1 - before.1);
    [
        ran_ns as f64 / seconds / 1e7,
        gained(|t| t.1) as f64 / seconds,
        bytes as f64 / seconds / 1e3,
        frames as f64 / seconds,
        rss,
        anon,
        file,
        peak,
    ]
}

/// Prints a table row with the medians of the runs.
fn row(name: &str, frame: &str, runs: &[Rates]) {
    let of = |at: usize| median(&runs.iter().map(|run| run[at]).collect::<Vec<_>>()).unwrap();
    println!(
        "| {name} | {frame} | {:.2} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
        of(0),
        of(1),
        of(2),
        of(3),
        of(4),
        of(5),
        of(6),
        of(7)
    );
}

/// Several runs of one kind, each in a separate process. `settle` brings the program to the measured state.
fn measured(program: &str, arguments: &[&str], home: &Path, settle: impl Fn(&mut Tool)) -> Vec<Rates> {
    let run = |_| {
        let mut tool = Tool::start(program, arguments, home);
        settle(&mut tool);
        let rates = rates(&tool);
        tool.signal(Signal::TERM);
        tool.end();
        rates
    };
    (0..RUNS).map(run).collect()
}

fn recording(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/recordings").join(name).display().to_string()
}

/// The time until a frame contains the text: median and maximum of nine starts.
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
    format!("{:.0} (at most {worst:.0})", median(&times).unwrap())
}

/// The time from a key to the end of the frame that it caused, in milliseconds: the 99th percentile of 300 keys.
fn key_to_paint(tool: &mut Tool, keys: [&str; 2]) -> f64 {
    let mut times: Vec<f64> = (0..300)
        .map(|i| {
            // The pause makes sure that the frame of the previous key is not still being delayed.
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

fn exits(program: &str, home: &Path) {
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
            let mut tool = Tool::start(program, &["replay", &replay, "--speed", "0"], home);
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

/// Writes a model with the given share of Qwen3-0.6B's 1.4 GiB.
fn model(program: &str, home: &Path, scale: &str) -> PathBuf {
    let path = home.join(scale);
    let made = std::process::Command::new(program)
        .args(["synth", "qwen3-0.6b", path.to_str().unwrap(), "--scale", scale, "--quiet"])
        .stdout(std::process::Stdio::null())
        .status();
    assert!(made.unwrap().success(), "the model could not be made");
    path
}

fn main() {
    // `cargo test --benches` runs this program only to test that it starts.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = folder.path();
    let named = std::env::var("GDS_TOP_BENCH_PROGRAM").ok();
    let program = named.as_deref().unwrap_or(env!("CARGO_BIN_EXE_gds-top"));
    let parts = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |part: &str| parts.as_ref().is_none_or(|parts| parts.split(',').any(|p| p == part));
    let model = model(program, home, "0.05").display().to_string();
    println!(
        "| program, {COLUMNS}x{ROWS} | first frame, ms | CPU, % of a core | wake-ups/s | kB/s | frames/s | RSS, MiB | anon | file | peak |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");

    let once = [&*model, "--gpu", "host", "--engine", "pread"];
    let at_rest = |tool: &mut Tool| {
        tool.until("1 Environment");
        tool.keys("2");
        tool.until("verified");
        std::thread::sleep(Duration::from_secs(8));
        tool.keys("1");
        std::thread::sleep(Duration::from_secs(1));
    };
    if wanted("rest") {
        let frame = first_frame(program, &once, "2 Race", home);
        row("gds-top, at rest after checks and race", &frame, &measured(program, &once, home, at_rest));
    }
    let system = |tool: &mut Tool| {
        at_rest(tool);
        tool.keys("4");
        std::thread::sleep(Duration::from_secs(2));
    };
    if wanted("rest") {
        row("gds-top, System at one reading a second", "–", &measured(program, &once, home, system));
    }
    let live = [&*model, "--gpu", "host", "--engine", "mmap,pread", "--repeat", "1000"];
    let racing = |tool: &mut Tool| {
        tool.until("1 Environment");
        tool.keys("2");
        tool.until("/1000");
    };
    if wanted("live") {
        row("gds-top, live race of 2000 loads of 72 MiB", "–", &measured(program, &live, home, racing));
        let large = self::model(program, home, "1").display().to_string();
        let longer = [&*large, "--gpu", "host", "--engine", "mmap,pread", "--cache", "hot", "--repeat", "40"];
        let begun = |tool: &mut Tool| {
            tool.until("1 Environment");
            tool.keys("2");
            tool.until("/40");
        };
        row("gds-top, live race of 80 loads of 1.4 GiB", "–", &measured(program, &longer, home, begun));
    }
    for name in LARGE.into_iter().filter(|_| wanted("replays")) {
        let path = recording(&format!("{name}.gdsrec"));
        let frame = first_frame(program, &["replay", &path], "2 Race", home);
        let begun = |tool: &mut Tool| {
            tool.until("2 Race");
        };
        row(&format!("gds-top, {name} in real time"), &frame, &measured(program, &["replay", &path], home, begun));
        let over = |tool: &mut Tool| {
            tool.until("at its end");
            std::thread::sleep(Duration::from_secs(1));
        };
        let rates = measured(program, &["replay", &path, "--speed", "0"], home, over);
        row(&format!("gds-top, {name} at its end"), "–", &rates);
    }
    for (name, text) in [("btop", "cpu"), ("htop", "PID"), ("btm", "CPU")].into_iter().filter(|_| wanted("others")) {
        if !std::env::var_os("PATH").is_some_and(|p| std::env::split_paths(&p).any(|dir| dir.join(name).is_file())) {
            println!("| {name} | not installed | – | – | – | – | – | – | – | – |");
            continue;
        }
        let frame = first_frame(name, &[], text, home);
        let settled = |tool: &mut Tool| {
            tool.until(text);
            std::thread::sleep(Duration::from_secs(3));
        };
        row(name, &frame, &measured(name, &[], home, settled));
    }

    if !wanted("keys") {
        return;
    }
    let mut tool = Tool::start(program, &once, home);
    at_rest(&mut tool);
    let (own, libraries) = mapped_mib(tool.pid());
    println!(
        "\nAt rest, {own:.1} MiB of the memory belong to the program's own file and {libraries:.1} MiB to shared libraries."
    );
    let rest = key_to_paint(&mut tool, ["2", "1"]);
    tool.signal(Signal::TERM);
    tool.end();
    let mut tool = Tool::start(program, &live, home);
    racing(&mut tool);
    let busy = key_to_paint(&mut tool, ["j", "k"]);
    tool.signal(Signal::TERM);
    let ended = tool.end().as_secs_f64() * 1e3;
    println!(
        "Key to painted frame, 99th percentile of 300: {rest:.1} ms at rest, {busy:.1} ms in a race; TERM in a race ended it within {ended:.0} ms."
    );
    let mut cat = Tool::start("cat", &[], home);
    std::thread::sleep(Duration::from_millis(200));
    let [rss, anon, file, _] = memory_mib(cat.pid());
    println!("The C library alone (cat): {rss:.1} MiB, {anon:.1} of them its own, {file:.1} of files.");
    cat.signal(Signal::KILL);
    cat.end();
    exits(program, home);
}
