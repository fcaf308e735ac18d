//! How long a recorded cuFile call takes longer than a bare one: a C program calls a stand-in libcufile, which answers at once, with and without `watch`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../tests/standins/mod.rs"]
mod standins;

use std::path::Path;
use std::process::Command;

const CALLS: &str = "3000000";
const ROUNDS: usize = 7;

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Nanoseconds per call, as the program prints them first.
fn ns(command: &mut Command) -> u64 {
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("no time: {text}"))
}

fn main() {
    let Some(built) = standins::build() else { return };
    let folder = tempfile::Builder::new().prefix("watch-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("linked");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/watch/program.c");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-DLINKED", "-o"]).arg(&program).arg(source).arg("-L").arg(&built.folder);
    assert!(cc.args(["-lcufile", "-lpthread", "-ldl"]).status().unwrap().success());
    let prepared = |mut command: Command| {
        command.current_dir(folder.path()).env("LD_LIBRARY_PATH", &built.folder);
        command
    };
    let (mut bare, mut watched) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(ns(prepared(Command::new(&program)).args(["-", "time", CALLS])));
        let mut command = prepared(Command::new(env!("CARGO_BIN_EXE_gds-top")));
        watched.push(ns(command.args(["watch", "-q", "--"]).arg(&program).args(["-", "time", CALLS])));
    }
    let (bare, watched) = (median(bare), median(watched));
    println!(
        "a call of a stand-in: {bare} ns; below watch: {watched} ns; difference {} ns",
        watched.saturating_sub(bare)
    );
}
