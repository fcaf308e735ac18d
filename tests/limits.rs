//! Tests every resource limit at ten values with the main commands. Each command must end with a documented status
//! and a sentence, and never with a panic, an abort or a signal. `GDS_TOP_THOROUGH=1` tests all values, otherwise
//! some of each limit are tested.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "program/mod.rs"]
mod program;
#[path = "program/spread.rs"]
mod spread;

use program::{PROGRAM, VARIABLES};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A limit, the option of the shell's `ulimit`, and its values in the unit of that option.
struct Limit {
    name: &'static str,
    option: char,
    values: [u64; 10],
}

static LIMITS: [Limit; 10] = [
    // In KiB. The debug build alone maps 60 MiB.
    Limit {
        name: "AS",
        option: 'v',
        values: [50_000, 70_000, 90_000, 120_000, 150_000, 200_000, 300_000, 500_000, 1_000_000, 4_000_000],
    },
    // In KiB. Writable private memory counts.
    Limit {
        name: "DATA",
        option: 'd',
        values: [3_000, 5_000, 7_000, 9_000, 10_000, 12_000, 15_000, 20_000, 50_000, 1_000_000],
    },
    // In blocks of 512 bytes in sh.
    Limit { name: "FSIZE", option: 'f', values: [0, 1, 2, 8, 16, 64, 256, 2_000, 20_000, 200_000] },
    Limit { name: "NOFILE", option: 'n', values: [3, 4, 5, 6, 8, 9, 10, 12, 14, 40] },
    Limit { name: "STACK", option: 's', values: [16, 64, 100, 128, 200, 256, 512, 1_024, 4_096, 8_192] },
    Limit { name: "MEMLOCK", option: 'l', values: [0, 1, 4, 8, 16, 64, 256, 1_024, 8_192, 65_536] },
    // In seconds.
    Limit { name: "CPU", option: 't', values: [1, 1, 2, 2, 3, 3, 4, 5, 8, 10] },
    Limit { name: "CORE", option: 'c', values: [0, 1, 2, 4, 8, 16, 64, 256, 1_024, 8_192] },
    // All processes of the user. The limit is not enforced for root.
    Limit { name: "NPROC", option: 'p', values: [1, 2, 3, 4, 6, 8, 12, 20, 40, 80] },
    // Processes and threads of a control group, also for root.
    Limit { name: "PIDS", option: PIDS, values: [1, 2, 3, 4, 6, 8, 12, 20, 40, 80] },
];

/// Stands for a control group instead of an option of `ulimit`.
const PIDS: char = '-';

impl Limit {
    /// The values to test. By default these are some: a core file, locked memory and CPU time affect few commands.
    fn tested(&self, thorough: bool) -> Vec<u64> {
        let some: &[usize] = match self.name {
            _ if thorough => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
            "CORE" => &[4],
            "NPROC" if rustix::process::geteuid().is_root() => &[4],
            "CPU" => &[1, 4],
            "MEMLOCK" => &[1, 8],
            _ => &[1, 4, 8],
        };
        some.iter().map(|at| self.values[*at]).collect()
    }
}

/// A control group with a limit of processes. It is removed when its value is dropped.
struct Group(PathBuf);

impl Group {
    /// The group of a value. `None` if this user cannot create control groups.
    fn new(value: u64) -> Option<Self> {
        let name = format!("gds-top-limits-{}-{value}", std::process::id());
        let groups = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].map(|above| Self(Path::new(above).join(&name)));
        groups.into_iter().find(|group| std::fs::create_dir(&group.0).is_ok() && group.0.join("pids.max").exists())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The commands, which run in a directory with a model. `tokens` is the length of the KV cache.
fn commands(folder: &Path, model: &Path, tokens: &str) -> Vec<(&'static str, Vec<String>)> {
    let at = |name: &str| folder.join(name).display().to_string();
    let model = model.display().to_string();
    let machine = repository("tests/machines/h200-vm-no-udev").display().to_string();
    let recording = repository("assets/recordings/h200-io.gdsrec").display().to_string();
    let of = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    vec![
        ("check", of(&["check", "--no-probe", &at("")])),
        ("check --root", of(&["check", "--root", &machine])),
        ("bench", of(&["bench", &model, "--target", "host", "--cache", "as-is", "--engine", "mmap,pread,odirect"])),
        (
            "bench --record",
            of(&[
                "bench",
                &model,
                "--target",
                "host",
                "--cache",
                "as-is",
                "--engine",
                "pread",
                "--record",
                &at("r.gdsrec"),
            ]),
        ),
        ("make-model", of(&["make-model", "odd-sizes", &at("made"), "--yes", "--scale", "0.3"])),
        (
            "bench-io",
            of(&[
                "bench-io",
                &at(""),
                "--file-size",
                "4M",
                "--seconds",
                "0.01",
                "--size",
                "64K",
                "--threads",
                "1",
                "--target",
                "host",
                "--yes",
            ]),
        ),
        (
            "bench-kv",
            of(&["bench-kv", "ucm", &at(""), "--target", "host", "--tokens", tokens, "--repeat", "1", "--yes"]),
        ),
        ("learn --export", of(&["learn", "--export", &at("l.html")])),
        ("fix --list", of(&["fix", "--list"])),
        ("replay", of(&["replay", "--headless", &recording])),
        ("report --export", of(&["report", &recording, "--export", &at("e")])),
        ("capture", of(&["capture", &at("c.tar.zst"), &model])),
        ("inspect", of(&["inspect", &model])),
        ("config lint", of(&["config", "lint"])),
        ("explain", of(&["explain", "5027"])),
        ("top", of(&["top", "--once"])),
        ("watch", of(&["watch", "--", "true"])),
        ("selftest", of(&["selftest", "--target", "host"])),
    ]
}

fn limited(limit: &Limit, value: u64, words: &[String], temporary: &Path, group: Option<&Group>) -> Output {
    let script = match group.filter(|_| limit.option == PIDS) {
        Some(Group(folder)) => {
            std::fs::write(folder.join("pids.max"), value.to_string()).unwrap();
            format!("echo $$ > {}/cgroup.procs && exec \"$@\"", folder.display())
        }
        // The hard and the soft limit are set, so the program cannot raise it.
        None => format!("ulimit -{} {value} && exec \"$@\"", limit.option),
    };
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", PROGRAM]).args(words).env_clear().envs(VARIABLES);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("TMPDIR", temporary).env("TERM", "dumb");
    command.env("RUST_BACKTRACE", "0").stdin(Stdio::null()).output().unwrap()
}

/// The problem with the end of a run; `None` if it is correct.
fn wrong(output: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let Some(status) = output.status.code() else { return Some(format!("{}: {said}", output.status)) };
    if said.contains("panicked") || ![0, 1, 2, 3].contains(&status) {
        return Some(format!("status {status}: {said}"));
    }
    let silent = status != 0 && said.trim().is_empty() && output.stdout.is_empty();
    silent.then(|| format!("status {status} without a word"))
}

/// The temporary directories and files of ended commands. Results have other names.
fn left_in(folders: &[&Path]) -> Vec<PathBuf> {
    let is_temporary =
        |name: &str| name.starts_with(".gds-top") || (name.starts_with("gds-top-") && !name.starts_with("gds-top-kv-"));
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap().flatten());
    entries.filter(|entry| is_temporary(&entry.file_name().to_string_lossy())).map(|entry| entry.path()).collect()
}

/// A value of a limit with which all commands run.
struct Case<'a> {
    limit: &'a Limit,
    value: u64,
}

/// The ends of the commands of a case.
#[derive(Default)]
struct Ends {
    limit: &'static str,
    /// The value is too small to start the program.
    is_small: bool,
    fine: usize,
    /// They ended with a sentence and a status other than 0.
    refused: usize,
    problems: Vec<String>,
}

const NONE: Limit = Limit { name: "none", option: 'n', values: [1024; 10] };

impl Case<'_> {
    fn run(&self, model: &Path, tokens: &str) -> Ends {
        let Self { limit, value } = *self;
        let mut ends = Ends { limit: limit.name, ..Ends::default() };
        let group = if limit.option == PIDS { Group::new(value) } else { None };
        let probe = limited(limit, value, &["--version".to_owned()], model, group.as_ref());
        let said = String::from_utf8_lossy(&probe.stderr);
        if !probe.status.success() && (said.is_empty() || said.contains("shared librar") || said.contains("sh:")) {
            // The kernel, the loader or the shell cannot start the program.
            ends.is_small = true;
            return ends;
        }
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let temporary = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for (name, words) in commands(folder.path(), model, tokens) {
            let output = limited(limit, value, &words, temporary.path(), group.as_ref());
            let left = left_in(&[temporary.path(), folder.path()]);
            // The kernel kills a process at a hard limit of CPU time.
            if !left.is_empty() && output.status.code().is_some() {
                ends.problems.push(format!("{} {value}, {name}: {left:?} is left", limit.name));
                left.iter().for_each(|path| drop(std::fs::remove_dir_all(path)));
            }
            match wrong(&output) {
                Some(what) => ends.problems.push(format!("{} {value}, {name}: {what}", limit.name)),
                None if output.status.success() => ends.fine += 1,
                None => ends.refused += 1,
            }
        }
        // The scratch directories of ended processes are removed by the next command that makes one.
        let next = limited(&NONE, 1024, &["watch", "--", "true"].map(str::to_owned), temporary.path(), None);
        if let Some(what) = wrong(&next) {
            ends.problems.push(format!("{} {value}, the command after it: {what}", limit.name));
        }
        let left: Vec<_> = std::fs::read_dir(temporary.path()).unwrap().flatten().map(|e| e.file_name()).collect();
        if !left.is_empty() {
            ends.problems.push(format!("{} {value}: {left:?} is left", limit.name));
        }
        ends
    }
}

#[test]
fn a_limit_ends_no_command_without_a_sentence_and_a_status() {
    let thorough = std::env::var_os("GDS_TOP_THOROUGH").is_some();
    let tokens = if thorough { "300" } else { "128" };
    let model = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let words: Vec<String> =
        ["make-model", "odd-sizes", &model.path().display().to_string(), "--yes", "--scale", "0.1"]
            .map(str::to_owned)
            .into();
    assert!(limited(&NONE, 1024, &words, model.path(), None).status.success());
    let has_groups = Group::new(0).is_some();
    let limits = LIMITS.iter().filter(|limit| limit.option != PIDS || has_groups);
    let cases = limits.flat_map(|limit| limit.tested(thorough).into_iter().map(move |value| Case { limit, value }));
    // Processes of other cases would count for NPROC.
    let (alone, together): (Vec<_>, Vec<_>) = cases.partition(|case| case.limit.name == "NPROC");
    let run = |case: &Case<'_>| case.run(model.path(), tokens);
    let mut all = spread::spread(&together, run);
    all.extend(alone.iter().map(run));
    for limit in &LIMITS {
        let of_limit: Vec<&Ends> = all.iter().filter(|ends| ends.limit == limit.name).collect();
        if of_limit.is_empty() {
            println!("{:<8} skipped: this user cannot create control groups", limit.name);
            continue;
        }
        let fine: usize = of_limit.iter().map(|ends| ends.fine).sum();
        let small = of_limit.iter().filter(|ends| ends.is_small).count();
        assert!(fine > 0, "no command ended well with {}, so the values test too little", limit.name);
        println!("{:<8} {fine:>4} ended well, {small} values were too small to start", limit.name);
    }
    let refused: usize = all.iter().map(|ends| ends.refused).sum();
    let problems: Vec<&str> = all.iter().flat_map(|ends| &ends.problems).map(String::as_str).collect();
    println!("{refused} ended with a sentence and a status other than 0, {} broke a promise", problems.len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The largest resident memory of a command in KiB, read until its end.
fn peak_kib(words: &[&str], temporary: &Path) -> u64 {
    let mut command = Command::new(PROGRAM);
    command.args(words).env_clear().envs(VARIABLES).env("TMPDIR", temporary);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        most = most.max(kib.unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(most > 0, "{words:?} ended before its memory was read");
    most
}

/// The tables of the compressor's level would need 84 MiB.
#[test]
fn a_recording_needs_little_memory_when_it_is_compressed_at_the_end() {
    let (folder, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let model = folder.path().join("model").display().to_string();
    let made = Command::new(PROGRAM).args(["make-model", "odd-sizes", &model, "--yes", "--scale", "0.05"]).output();
    assert!(made.unwrap().status.success());
    let bench =
        ["bench", &model, "--target", "host", "--cache", "as-is", "--engine", "pread", "--repeat", "1", "--yes"];
    let file = folder.path().join("r.gdsrec").display().to_string();
    let plain = peak_kib(&bench, temporary.path());
    let recorded = peak_kib(&[&bench[..], &["--record", &file]].concat(), temporary.path());
    println!("bench: {plain} KiB, with --record: {recorded} KiB");
    assert!(Path::new(&file).exists());
    assert!(recorded < plain + 40 * 1024, "{plain} KiB, with --record {recorded} KiB");
}
