//! Measures the time that `watch` adds to a call and to a run, alternately with and without it. A C program calls a
//! stand-in for libcufile and reads a file. If `GDS_TOP_TEST_WHEELS` is set, it also reads with the newest libcufile
//! there, on host memory. In addition, a program with the recording library pauses the recording and continues it, so
//! that recorded and other calls of one process are compared.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../tests/standins/mod.rs"]
mod standins;

use gds_top::core::median::{median, median_u64};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const ROUNDS: usize = 7;

/// The number of times that one process measures calls with and without the recording.
const TURNS: usize = 20;

/// Nanoseconds per call without and with the recording, alternating in one process.
fn alternating(command: &mut Command, path: &str, action: &[&str]) -> Vec<(u64, u64)> {
    command.arg(path);
    // The order of each pair is the reverse of the previous one, so that a trend favours none.
    for turn in 0..TURNS {
        for paused in if turn % 2 == 0 { ["1", "0"] } else { ["0", "1"] } {
            command.args(["pause", paused]).args(action);
        }
    }
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let times: Vec<u64> = text.lines().map_while(|line| line.parse().ok()).collect();
    assert!(times.len() == 2 * TURNS, "no times: {text}{}", String::from_utf8_lossy(&output.stderr));
    let pairs = times.chunks_exact(2).enumerate();
    pairs.map(|(turn, pair)| if turn % 2 == 0 { (pair[0], pair[1]) } else { (pair[1], pair[0]) }).collect()
}

/// Nanoseconds per call, which the program prints first, and of the complete run.
fn ns(command: &mut Command) -> (u64, u64) {
    let began = Instant::now();
    let output = command.output().expect("the program starts");
    let run = u64::try_from(began.elapsed().as_nanos()).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    (text.lines().next().and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("no time: {text}")), run)
}

/// Prints the medians of both times, and the medians of the differences and the ratios of all pairs. They are medians
/// of different values, so they need not agree.
fn compare(what: &str, pairs: &[(u64, u64)]) {
    let bare = median_u64(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>()).unwrap();
    let watched = median_u64(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>()).unwrap();
    let mut differences: Vec<f64> = pairs.iter().map(|(bare, watched)| *watched as f64 - *bare as f64).collect();
    differences.sort_by(f64::total_cmp);
    let ratios: Vec<f64> = pairs.iter().map(|(bare, watched)| *watched as f64 / (*bare).max(1) as f64).collect();
    println!(
        "{what}: {bare} ns, with watch {watched} ns; median difference {:.0} ns ({:.0} to {:.0}), median ratio {:.3}, {} pairs",
        median(&differences).unwrap(),
        differences[0],
        differences[differences.len() - 1],
        median(&ratios).unwrap(),
        pairs.len()
    );
}

/// The newest libcufile of the wheels.
fn real() -> Option<PathBuf> {
    let root = std::env::var_os("GDS_TOP_TEST_WHEELS").filter(|root| !root.is_empty())?;
    let version = |path: &Path| -> Vec<u32> {
        path.file_name().unwrap().to_string_lossy().split('.').map(|part| part.parse().unwrap_or(0)).collect()
    };
    let folders = std::fs::read_dir(root).unwrap().flatten().map(|entry| entry.path());
    let newest =
        folders.filter(|path| path.join("nvidia/cu13/lib/libcufile.so.0").is_file()).max_by_key(|p| version(p));
    newest.map(|path| std::path::absolute(path.join("nvidia/cu13/lib/libcufile.so.0")).unwrap())
}

fn main() {
    let Some(built) = standins::build() else { return };
    let folder = tempfile::Builder::new().prefix("watch-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/watch/program.c");
    let compiled = |name: &str, options: &[&str]| {
        let program = folder.path().join(name);
        let mut cc = Command::new("cc");
        cc.arg("-O1").arg("-o").arg(&program).arg(&source).args(options).arg("-L").arg(&built.folder);
        assert!(cc.args(["-lpthread", "-ldl"]).status().unwrap().success());
        program
    };
    let linked = compiled("linked", &["-DLINKED", &format!("-L{}", built.folder.display()), "-lcufile"]);
    let loaded = compiled("loaded", &[]);
    std::fs::write(folder.path().join("data"), vec![7; 1 << 20]).unwrap();
    let machine = folder.path().join("machine");
    standins::machine(&machine, folder.path());
    let library = real();
    let mut rows = vec![
        ("a cuFileRead of a stand-in that answers at once", &linked, ["-", "time", "3000000", "0"]),
        ("a pread of 64 KiB from the page cache", &linked, ["data", "timeplain", "200000", "0"]),
    ];
    if library.is_some() {
        rows.push(("a cuFileRead of 4 KiB of the real libcufile", &loaded, ["data", "timecufile", "50000", "4096"]));
        rows.push(("a cuFileRead of 1 MiB of the real libcufile", &loaded, ["data", "timecufile", "2000", "1048576"]));
    } else {
        println!("GDS_TOP_TEST_WHEELS is not set, so the real libcufile is not measured (run .ci/wheels)");
    }
    for (what, program, words) in rows {
        // The preload is only for the program, not for gds-top.
        let preload = format!("LD_PRELOAD={}", built.redirect.display());
        let prepare = |mut command: Command| {
            command.current_dir(folder.path()).env("LD_LIBRARY_PATH", &built.folder);
            if let Some(library) = library.as_ref().filter(|_| *program == loaded) {
                command.env("GDS_TOP_TEST_REDIRECT", &machine).env("LIBRARY", library);
                command.args(["env", &preload]);
            } else {
                command.arg("env");
            }
            command.arg(program);
            command
        };
        let watch = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_gds-top"));
            command.args(["watch", "-q", "--"]);
            command
        };
        let (mut calls, mut runs) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let bare = || ns(prepare(Command::new("env")).args(words));
            let watched = || ns(prepare(watch()).args(words));
            // The order alternates, so that a trend does not favour one of them.
            let (bare, watched) = if round % 2 == 0 {
                let first = bare();
                (first, watched())
            } else {
                let first = watched();
                (bare(), first)
            };
            calls.push((bare.0, watched.0));
            runs.push((bare.1, watched.1));
        }
        compare(what, &calls);
        compare("    the complete run", &runs);
        let [path, action @ ..] = words;
        compare("    paused and recorded, in one process", &alternating(&mut prepare(watch()), path, &action));
    }
}
