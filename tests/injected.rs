//! Injects kills and full disks at every system call of a fix, a KV write, an export and a recording. It uses strace;
//! without strace the tests are skipped. `GDS_TOP_THOROUGH=1` tests every call, otherwise a few of each operation are
//! tested. `--nocapture` prints the figures.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "program/mod.rs"]
mod program;
#[path = "program/tree.rs"]
mod tree;

use program::{PROGRAM, VARIABLES};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tree::tree;

/// Calls that change a file system.
const CALLS: &str = "write,pwrite64,openat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,link,linkat,ftruncate,fallocate,fsync,fdatasync,\
fchmod,fchown,flock";

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn room() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(VARIABLES).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    command
}

/// The fault that is injected at a call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Injected {
    Kill,
    NoSpace,
}

/// Runs the program with a fault at the n-th call of one kind in any thread. Returns false if that call was not made.
fn injected(words: &[String], call: &str, injected: Injected, nth: u32) -> (bool, Output) {
    let log = room();
    let at = log.path().join("calls");
    let what = match injected {
        Injected::Kill => "signal=KILL",
        Injected::NoSpace => "error=ENOSPC",
    };
    let mut strace = command("strace");
    strace.args(["-f", "-qq", "-o"]).arg(&at).args(["-e", &format!("trace={call}")]);
    strace.args(["-e", &format!("inject={call}:{what}:when={nth}")]).arg(PROGRAM).args(words);
    let output = strace.env("TMPDIR", log.path()).output().unwrap();
    let calls = fs::read_to_string(&at).unwrap_or_default();
    (calls.contains("INJECTED") || calls.contains("killed by SIGKILL"), output)
}

fn can_inject() -> bool {
    let works = command("strace").args(["-qq", "-e", "trace=none", "-e", "inject=fsync:error=ENOSPC", "true"]).output();
    if works.is_ok_and(|output| output.status.success()) {
        return true;
    }
    eprintln!("skipped: faults are injected by strace, which is not installed or may not trace");
    false
}

/// An operation: its arguments in a new directory, and a check of that directory afterwards.
struct Operation<'a> {
    name: &'static str,
    start: &'a dyn Fn(&Path) -> Vec<String>,
    holds: &'a dyn Fn(&Path, &Output, Injected) -> Result<(), String>,
}

fn try_everywhere(operation: &Operation<'_>) {
    if !can_inject() {
        return;
    }
    let thorough = std::env::var_os("GDS_TOP_THOROUGH").is_some();
    let (mut kills, mut full, mut broken) = (0, 0, Vec::new());
    for call in CALLS.split(',') {
        for kind in [Injected::Kill, Injected::NoSpace] {
            // A full disk does not affect locks.
            if kind == Injected::NoSpace && call == "flock" {
                continue;
            }
            let mut nth = 1;
            loop {
                let folder = room();
                let words = (operation.start)(folder.path());
                let (hit, output) = injected(&words, call, kind, nth);
                if !hit {
                    break;
                }
                match kind {
                    Injected::Kill => kills += 1,
                    Injected::NoSpace => full += 1,
                }
                let said = String::from_utf8_lossy(&output.stderr);
                if said.contains("panicked") {
                    broken.push(format!("{kind:?} at {call} {nth}: {said}"));
                } else if let Err(what) = (operation.holds)(folder.path(), &output, kind) {
                    broken.push(format!("{kind:?} at {call} {nth}: {what}; {said}"));
                }
                // A few calls of each kind are tested: the first ones, then fewer and fewer.
                nth = if thorough { nth + 1 } else { nth * 4 };
                if nth > if thorough { 400 } else { 16 } {
                    break;
                }
            }
        }
    }
    println!("{:<10} {kills} kills, {full} full disks, {} promises kept", operation.name, kills + full - broken.len());
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(kills >= 5 && full >= 5, "{kills} kills and {full} full disks test too little");
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn plain(words: &[String]) -> Output {
    command(PROGRAM).args(words).output().unwrap()
}

/// The files below a directory with their content, without the journal and incomplete files.
fn image(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(top: &Path, folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let kind = entry.file_type().unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            if kind.is_dir() && name != ".gds-top" {
                walk(top, &entry.path(), found);
            } else if kind.is_file() && !name.starts_with(".gds-top") {
                found.insert(entry.path().strip_prefix(top).unwrap().to_owned(), fs::read(entry.path()).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(top, top, &mut found);
    found
}

#[test]
fn a_fix_is_applied_or_undone_completely() {
    let ids = ["p2pdma-registry-keys", "--yes"];
    let of = |folder: &Path| [words(&["fix", "--root", tree(folder).to_str().unwrap()]), words(&ids)].concat();
    let (before, after) = {
        let folder = room();
        let words = of(folder.path());
        let before = image(folder.path());
        assert!(plain(&words).status.success());
        (before, image(folder.path()))
    };
    assert_ne!(before, after);
    try_everywhere(&Operation {
        name: "fix",
        start: &of,
        holds: &|folder, output, kind| {
            if kind == Injected::NoSpace && output.status.success() && image(folder) == before {
                return Err("it says that it worked, and nothing was changed".to_owned());
            }
            // Resumes the interrupted fix. The fix that it must undo was never applied.
            let top = folder.join("root");
            let next = plain(&words(&["fix", "--root", top.to_str().unwrap(), "--undo", "kernel-p2pdma"]));
            let now = image(folder);
            if now == before || now == after {
                return Ok(());
            }
            Err(format!("neither as before nor applied: {}", String::from_utf8_lossy(&next.stderr)))
        },
    });
}

#[test]
fn an_export_leaves_complete_files_only() {
    let recording = repository("assets/recordings/h200-io.gdsrec").display().to_string();
    let earlier = |folder: &Path| {
        let words =
            words(&["report", &recording, "--export", folder.join("out").to_str().unwrap(), "--format", "json,md,csv"]);
        assert!(plain(&words).status.success());
        words
    };
    let whole = {
        let folder = room();
        earlier(folder.path());
        image(folder.path())
    };
    try_everywhere(&Operation {
        name: "export",
        start: &earlier,
        holds: &|folder, _, _| {
            // Earlier files with the same content are replaced one by one.
            let now = image(folder);
            let torn: Vec<_> =
                now.iter().filter(|(path, bytes)| whole.get(*path) != Some(*bytes)).map(|(path, _)| path).collect();
            if torn.is_empty() && now.len() == whole.len() {
                Ok(())
            } else {
                Err(format!("{torn:?} of {} files", now.len()))
            }
        },
    });
}

#[test]
fn a_recording_is_the_earlier_one_or_the_new_one() {
    let model = room();
    assert!(
        plain(&words(&["make-model", "odd-sizes", model.path().to_str().unwrap(), "--yes", "--scale", "0.05"]))
            .status
            .success()
    );
    let earlier = fs::read(repository("assets/recordings/h200-io.gdsrec")).unwrap();
    let start = |folder: &Path| {
        let file = folder.join("r.gdsrec");
        fs::write(&file, &earlier).unwrap();
        let line = [
            "bench",
            model.path().to_str().unwrap(),
            "--target",
            "host",
            "--cache",
            "as-is",
            "--engine",
            "pread",
            "--no-telemetry",
            "--record",
        ];
        [words(&line), vec![file.display().to_string()]].concat()
    };
    try_everywhere(&Operation {
        name: "recording",
        start: &start,
        holds: &|folder, output, kind| {
            let file = folder.join("r.gdsrec");
            let is_earlier = fs::read(&file).is_ok_and(|bytes| bytes == earlier);
            let reads = plain(&words(&["report", file.to_str().unwrap(), "--json"]));
            // The status of a recording shows whether its run failed. 2 means that the file cannot be read.
            if !is_earlier && !matches!(reads.status.code(), Some(0 | 1 | 3)) {
                return Err(format!(
                    "neither the earlier one nor one that can be read: {}",
                    String::from_utf8_lossy(&reads.stderr)
                ));
            }
            let silent = kind == Injected::NoSpace && is_earlier && output.status.success() && output.stderr.is_empty();
            if silent { Err("nothing was recorded and nothing was said".to_owned()) } else { Ok(()) }
        },
    });
}

#[test]
fn a_kv_write_leaves_no_wrong_block_that_a_reader_takes() {
    let shape = r#"{"name":"tiny","title":"Tiny","source":"made up","layers":2,"kv_heads":2,"head_size":64,"dtype":"BF16","dtype_bytes":2,"mla":false}"#;
    let line = |folder: &Path, more: &[&str]| {
        let file = folder.join("tiny.json");
        fs::write(&file, shape).unwrap();
        let line =
            ["bench-kv", "lmcache", folder.to_str().unwrap(), "--shape", file.to_str().unwrap(), "--target", "host"];
        let set = [
            "--no-telemetry",
            "--tokens",
            "128",
            "--set",
            "chunk_size=64",
            "--set",
            "compute_us=0",
            "--variants",
            "disk",
            "--json",
        ];
        [words(&line), words(&set), words(more)].concat()
    };
    try_everywhere(&Operation {
        name: "KV write",
        start: &|folder| line(folder, &["--direction", "write", "--keep"]),
        holds: &|folder, output, _| {
            let failed = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() && String::from_utf8_lossy(&output.stdout).contains("\"verified\": false") {
                return Err("status 0 with wrong bytes".to_owned());
            }
            let read = plain(&line(folder, &["--direction", "read", "--as-found", "--keep"]));
            if String::from_utf8_lossy(&read.stdout).contains("\"verified\": false") {
                return Err(format!("a reader took wrong bytes: {}", failed(&read)));
            }
            match read.status.code() {
                Some(0..=3) => Ok(()),
                _ => Err(format!("{}: {}", read.status, failed(&read))),
            }
        },
    });
}
