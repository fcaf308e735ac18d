//! Measures the time that `watch` adds to a call. A C program calls a stand-in for libcufile and reads a file,
//! alternately with and without `watch`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../tests/standins/mod.rs"]
mod standins;

use std::path::Path;
use std::process::Command;

const CALLS: &str = "3000000";
const READS: &str = "200000";
const ROUNDS: usize = 7;

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Nanoseconds per call, which the program prints first.
fn ns(command: &mut Command) -> u64 {
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("no time: {text}"))
}

/// Prints the medians of the differences and of the ratios of all pairs.
fn compare(what: &str, pairs: &[(u64, u64)]) {
    let (bare, watched) = (median(pairs.iter().map(|p| p.0).collect()), median(pairs.iter().map(|p| p.1).collect()));
    let mut differences: Vec<i64> =
        pairs.iter().map(|(bare, watched)| watched.cast_signed() - bare.cast_signed()).collect();
    differences.sort_unstable();
    let mut ratios: Vec<f64> = pairs.iter().map(|(bare, watched)| *watched as f64 / (*bare).max(1) as f64).collect();
    ratios.sort_by(f64::total_cmp);
    println!(
        "{what}: {bare} ns, with watch {watched} ns; median difference {} ns ({} to {}), ratio {:.3}, {} pairs",
        differences[differences.len() / 2],
        differences[0],
        differences[differences.len() - 1],
        ratios[ratios.len() / 2],
        pairs.len()
    );
}

fn main() {
    let Some(built) = standins::build() else { return };
    let folder = tempfile::Builder::new().prefix("watch-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("linked");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/watch/program.c");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-DLINKED", "-o"]).arg(&program).arg(source).arg("-L").arg(&built.folder);
    assert!(cc.args(["-lcufile", "-lpthread", "-ldl"]).status().unwrap().success());
    std::fs::write(folder.path().join("data"), vec![7; 1 << 20]).unwrap();
    let prepared = |mut command: Command| {
        command.current_dir(folder.path()).env("LD_LIBRARY_PATH", &built.folder);
        command
    };
    for (what, words) in [
        ("a cuFileRead of a stand-in that answers at once", ["-", "time", CALLS]),
        ("a pread of 64 KiB from the page cache", ["data", "timeplain", READS]),
    ] {
        let mut pairs = Vec::new();
        for round in 0..ROUNDS {
            let bare = || ns(prepared(Command::new(&program)).args(words));
            let watched = || {
                let mut command = prepared(Command::new(env!("CARGO_BIN_EXE_gds-top")));
                ns(command.args(["watch", "-q", "--"]).arg(&program).args(words))
            };
            // The order alternates, so that a trend does not favour one of them.
            pairs.push(if round % 2 == 0 {
                let first = bare();
                (first, watched())
            } else {
                let first = watched();
                (bare(), first)
            });
        }
        compare(what, &pairs);
    }
}
