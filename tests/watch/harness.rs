//! Builds the watched program and runs it with `gds-top watch --json`.

use crate::program::{PROGRAM, gds_top};
use crate::standins::{self, Standins};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A directory with the program, a file to read, and the stand-ins.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) built: Standins,
}

/// The file with the program.
const SOURCE: &str = "program.c";
/// The forms of the program: its name, whether it is linked with libcufile, and options. Without a PLT and with
/// immediate binding, calls use other slots of the program.
const FORMS: [(&str, bool, &[&str]); 4] =
    [("linked", true, &[]), ("loaded", false, &[]), ("noplt", true, &["-fno-plt"]), ("now", true, &["-Wl,-z,now"])];

/// The directory with the forms of the program. They are compiled once, because this takes longer than most tests.
fn programs(built: &Standins) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let mut hasher = std::hash::DefaultHasher::new();
        (include_str!("program.c"), FORMS, &built.folder).hash(&mut hasher);
        let above = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = above.join(format!("watch-programs-{:016x}", hasher.finish()));
        if !folder.is_dir() {
            let scratch = tempfile::Builder::new().prefix("watch-building-").tempdir_in(above).unwrap();
            std::fs::write(scratch.path().join(SOURCE), include_str!("program.c")).unwrap();
            for (name, linked, options) in FORMS {
                compile(scratch.path(), built, name, linked, options);
            }
            // This fails if another process was first. Its directory is then used.
            let _ = std::fs::rename(scratch.path(), &folder);
            assert!(folder.is_dir(), "{} could not be made", folder.display());
        }
        folder
    };
    FOLDER.get_or_init(make).clone()
}

fn compile(folder: &Path, built: &Standins, name: &str, linked: bool, options: &[&str]) {
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall"]).args(options).arg("-o").args([folder.join(name), folder.join(SOURCE)]);
    if linked {
        cc.arg("-DLINKED").arg("-L").arg(&built.folder).arg("-lcufile");
    }
    let out = cc.args(["-lpthread", "-ldl"]).output().unwrap();
    assert!(out.status.success(), "cc: {}", String::from_utf8_lossy(&out.stderr));
}

/// The output of `watch`.
pub(crate) struct Seen {
    pub(crate) output: Output,
    pub(crate) report: Value,
}

impl Place {
    /// `None`, with a message, if there is no C compiler or no audit interface of glibc.
    pub(crate) fn new() -> Option<Self> {
        if !cfg!(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64"))) {
            standins::skipped("watch needs glibc on x86-64 or ARM64");
            return None;
        }
        let built = standins::build()?;
        let folder = tempfile::Builder::new().prefix("watch-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let programs = programs(&built);
        for name in FORMS.map(|(name, ..)| name).into_iter().chain([SOURCE]) {
            // A copy could still be open for writing in a process that another test starts, and could not be executed.
            let (program, own) = (programs.join(name), folder.path().join(name));
            // Not all file systems have hard links, and the kernel can refuse those to files of another user.
            std::fs::hard_link(&program, &own).or_else(|_| std::fs::copy(&program, &own).map(drop)).unwrap();
        }
        let place = Self { folder, built };
        std::fs::write(place.data(), vec![7; 1 << 20]).unwrap();
        Some(place)
    }

    /// Compiles the program under a name. Other tests use the files of [`FORMS`], so a test that changes its program
    /// compiles it.
    pub(crate) fn compile(&self, name: &str, linked: bool, options: &[&str]) {
        compile(self.folder.path(), &self.built, name, linked, options);
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command `gds-top watch OPTIONS -- COMMAND` in the directory.
    pub(crate) fn watch(&self, options: &[&str]) -> Command {
        let mut command = gds_top();
        command.arg("watch").args(options).arg("--");
        self.prepare(&mut command);
        command
    }

    /// Sets the directory and the variables of a command that uses the stand-ins.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command
            .current_dir(self.folder.path())
            .env("LD_LIBRARY_PATH", &self.built.folder)
            .env("LIBRARY", &self.built.cufile)
            .stdin(Stdio::null());
    }

    /// Runs one of the two programs with these arguments in `watch --json`.
    pub(crate) fn seen(&self, name: &str, options: &[&str], words: &[&str]) -> Seen {
        let all: Vec<&str> = std::iter::once("--json").chain(options.iter().copied()).collect();
        let mut command = self.watch(&all);
        command.arg(self.file(name)).arg(self.data()).args(words);
        Seen::of(command)
    }

    /// Kills a session while its program waits, and lets the program continue. Returns the recording without an end, and
    /// the file that the program writes last.
    pub(crate) fn killed_session(&self) -> (PathBuf, PathBuf) {
        let (recording, go, done) = (self.file("killed.gdsrec"), self.file("go"), self.file("done"));
        let mut command = self.watch(&["-q", "--record", recording.to_str().unwrap()]);
        command.arg(self.file("linked")).arg(self.data()).args(["read", "3", "until"]).arg(&go).arg("mark").arg(&done);
        let mut watch = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let partial = self.file("killed.gdsrec.partial");
        wait_until("no calls are recorded", || {
            has_recorded(&partial, |report| {
                let mut calls = report["watch"]["calls"].as_array().into_iter().flatten();
                calls.any(|call| call["function"] == "cuFileRead" && call["count"] == 3)
            })
        });
        watch.kill().unwrap();
        watch.wait().unwrap();
        std::fs::write(&go, "").unwrap();
        (partial, done)
    }
}

/// Whether this holds for the report of an unfinished recording. A report is recorded about once a second.
pub(crate) fn has_recorded(partial: &Path, holds: impl Fn(&Value) -> bool) -> bool {
    let output = gds_top().args(["report", "--json"]).arg(partial).output().unwrap();
    serde_json::from_slice(&output.stdout).is_ok_and(|report: Value| holds(&report))
}

/// Waits until a condition holds, for at most two minutes. `failure` is the message if it does not.
pub(crate) fn wait_until(failure: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(120), "{failure}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process whose shell has written its number into this file. It is killed at the end of the test, so it runs longer than
/// the session on a machine of any speed.
pub(crate) struct Child(pub(crate) PathBuf);

impl Drop for Child {
    fn drop(&mut self) {
        let number = std::fs::read_to_string(&self.0).ok().and_then(|number| number.trim().parse().ok());
        if let Some(child) = number.and_then(Pid::from_raw) {
            let _ = kill_process(child, Signal::KILL);
        }
    }
}

impl Seen {
    /// Runs a command with processes that end soon after it. It is repeated if the session ended before them, as on a busy
    /// machine.
    pub(crate) fn of_ended(command: impl Fn() -> Command) -> Self {
        for _ in 0..20 {
            let seen = Self::of(command());
            if seen.report["program"]["still_running"] == 0 {
                return seen;
            }
        }
        panic!("its processes run longer than each of 20 sessions");
    }

    pub(crate) fn of(mut command: Command) -> Self {
        let output = command.output().unwrap();
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("{error}: {}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
        });
        Self { output, report }
    }

    pub(crate) fn status(&self) -> Option<i32> {
        self.output.status.code()
    }

    /// The number of calls and errors of each function.
    pub(crate) fn calls(&self) -> BTreeMap<String, (u64, u64)> {
        let calls = self.report["watch"]["calls"].as_array().unwrap().iter();
        let number = |call: &Value, name: &str| call[name].as_u64().unwrap();
        calls
            .map(|call| {
                (call["function"].as_str().unwrap().to_owned(), (number(call, "count"), number(call, "errors")))
            })
            .collect()
    }

    pub(crate) fn count(&self, function: &str) -> u64 {
        self.calls().get(function).map_or(0, |(count, _)| *count)
    }

    /// Compares the counts of `watch --statistics` with those of libcufile.
    pub(crate) fn assert_counts_of_libcufile(&self, about: &str) {
        let counted = &self.report["program"]["statistics"];
        let succeeded = |function: &str| {
            let (count, errors) = self.calls().get(function).copied().unwrap_or_default();
            count - errors
        };
        let bytes = |function: &str| {
            let calls = self.report["watch"]["calls"].as_array().unwrap().iter();
            calls.filter(|call| call["function"] == function).map(|call| call["bytes"].as_u64().unwrap()).sum::<u64>()
        };
        let files = self.report["program"]["transfers"].as_array().unwrap().iter();
        let entries = files.map(|file| &file["reads"]["batched"]).map(|count| count.as_u64().unwrap()).sum();
        let ours = [
            ("reads", succeeded("cuFileRead")),
            ("all_read_bytes", bytes("cuFileRead")),
            ("writes", succeeded("cuFileWrite")),
            ("all_written_bytes", bytes("cuFileWrite")),
            ("batch_submissions", succeeded("cuFileBatchIOSubmit")),
            ("batch_entries", entries),
            ("batch_read_bytes", bytes("cuFileBatchIOGetStatus")),
            ("handle_registrations", succeeded("cuFileHandleRegister")),
            ("buffer_registrations", succeeded("cuFileBufRegister")),
        ];
        let theirs = ours.map(|(name, _)| (name, counted[name].as_u64().unwrap()));
        assert_eq!(ours, theirs, "{about}: ours and those of libcufile");
        assert_eq!(self.report["watch"]["lost_events"], 0, "{about}");
    }

    /// The transfers of the file.
    pub(crate) fn file(&self, path: &Path) -> &Value {
        let path = path.canonicalize().unwrap();
        let files = self.report["program"]["transfers"].as_array().unwrap();
        files.iter().find(|file| file["path"] == *path.to_string_lossy()).unwrap_or_else(|| panic!("{files:?}"))
    }

    pub(crate) fn advice(&self) -> Vec<&str> {
        self.report["watch"]["advice"].as_array().unwrap().iter().map(|a| a["id"].as_str().unwrap()).collect()
    }
}

/// The path of the tested program, for messages.
pub(crate) const UNDER_TEST: &str = PROGRAM;
