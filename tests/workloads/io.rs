//! Tests of `gds-top bench-io`: measured cells, cells that cannot be measured, and no remaining files.

use crate::place::{Place, check_schema};
use crate::program::{PROGRAM, started_by};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

const READS: [&str; 6] = ["--access", "read", "--pattern", "sequential", "--size", "64K"];

impl Place {
    /// Measures a small grid. Returns its report and the exit status.
    fn grid(&self, more: &[&str], env: &[(&str, &str)]) -> (Value, i32) {
        let dir = self.dir();
        let mut arguments = vec!["io", dir.to_str().unwrap(), "--file-size", "4M"];
        if !more.contains(&"--seconds") {
            arguments.extend(["--seconds", "0.01"]);
        }
        if !more.contains(&"--size") {
            arguments.extend(["--size", "4K,64K", "--threads", "1,2"]);
        }
        arguments.extend(more);
        self.json(&arguments, env)
    }

    fn left(&self) -> Vec<PathBuf> {
        std::fs::read_dir(self.dir()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

fn cells(report: &Value) -> &Vec<Value> {
    report["grid"]["cells"].as_array().unwrap()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(180), "{what} never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn on_host_memory_every_cell_is_measured_verified_and_nothing_is_left() {
    let place = Place::host();
    let (report, status) = place.grid(&["--transfer", "cpu,cpu-gpu"], &[]);
    assert_eq!(status, 0, "{report:#}");
    check_schema(&report);
    // Two sizes, two numbers of threads, two transfers, two accesses and two patterns.
    assert_eq!(cells(&report).len(), 32);
    assert_eq!(report["grid"]["planned_cells"], 32);
    for cell in cells(&report) {
        assert_eq!(cell["error"], Value::Null, "{cell:#}");
        compared_in_part(cell);
        assert!(cell["bytes_per_s"].as_f64().unwrap() > 0.0 && cell["operations"].as_u64().unwrap() > 0);
        assert_eq!(
            cell["bytes"].as_u64().unwrap(),
            cell["operations"].as_u64().unwrap() * cell["block_bytes"].as_u64().unwrap()
        );
        assert!(cell["latency_ns"]["p50"].as_u64() <= cell["latency_ns"]["max"].as_u64());
    }
    assert_eq!(place.left(), Vec::<PathBuf>::new());
}

/// Only the last block of each thread is compared, so the cell is not called verified if it moved more.
fn compared_in_part(cell: &Value) {
    let number = |name: &str| cell[name].as_u64().unwrap();
    assert_eq!(number("checked_bytes"), number("block_bytes") * number("threads"), "{cell:#}");
    let all = number("checked_bytes") >= number("bytes");
    assert_eq!(cell["verified"], if all { Value::Bool(true) } else { Value::Null }, "{cell:#}");
}

#[test]
fn what_cannot_run_is_left_out_unless_it_was_named() {
    let place = Place::host();
    let (report, status) = place.grid(&[], &[]);
    assert_eq!(status, 0);
    assert!(cells(&report).iter().all(|cell| cell["transfer"] == "cpu"));
    // If the transfer is named, it is tried, and its error has the reason.
    let (report, status) = place.grid(&["--transfer", "gds"], &[]);
    assert_eq!(status, 3, "{report:#}");
    assert!(cells(&report).iter().all(|cell| cell["error"].as_str().is_some_and(|why| why.len() > 20)), "{report:#}");
    assert_eq!(place.left(), Vec::<PathBuf>::new());
}

#[test]
fn with_the_stand_ins_cufile_cells_are_verified_and_their_route_is_told() {
    let Some(place) = Place::gpu() else { return };
    let (report, status) = place.grid(&[], &[("STANDIN_CUFILE_ROUTE", "nvfs")]);
    assert_eq!(status, 0, "{report:#}");
    check_schema(&report);
    assert_eq!(cells(&report).len(), 64);
    for cell in cells(&report) {
        assert_eq!(cell["error"], Value::Null, "{cell:#}");
        compared_in_part(cell);
        let cufile = cell["transfer"].as_str().unwrap().starts_with("gds");
        assert_eq!(cell["route"].is_object(), cufile, "{cell:#}");
        if cufile {
            assert!(cell["route"]["source"].as_str().is_some_and(|source| !source.is_empty()));
        }
    }
    assert_eq!(place.left(), Vec::<PathBuf>::new());
}

#[test]
fn counters_that_lie_prove_no_route_of_a_cell() {
    let Some(place) = Place::gpu() else { return };
    let more = [&READS[..], &["--transfer", "gds-registered", "--threads", "2", "--seconds", "0.05"]].concat();
    for (lie, is_proven) in crate::standins::COUNTERS {
        let (report, _) = place.grid(&more, &[&[("STANDIN_CUFILE_ROUTE", "p2p")], lie].concat());
        let proven: Vec<_> = cells(&report).iter().map(|cell| cell["route"]["proven"].as_bool()).collect();
        assert!(!proven.is_empty() && proven.iter().all(|proven| *proven == Some(is_proven)), "{lie:?}: {report:#}");
    }
}

#[test]
fn spoilt_bytes_are_a_bad_answer() {
    let Some(place) = Place::gpu() else { return };
    // Each cell makes one operation, which starts however short the time is. A microsecond is over before it ends.
    let more = [&READS[..], &["--transfer", "gds-registered", "--threads", "1", "--seconds", "0.000001"]].concat();
    // The second transfer is the first one that is measured.
    for (told, verified, exit) in [("2", false, 1), ("0", true, 0)] {
        let (report, status) = place.grid(&more, &[("STANDIN_CUFILE_CORRUPT", told)]);
        let cell = &cells(&report)[0];
        assert_eq!((&cell["operations"], &cell["verified"], status), (&1.into(), &verified.into(), exit), "{report:#}");
    }
    assert_eq!(place.left(), Vec::<PathBuf>::new());
}

#[test]
fn a_process_that_dies_in_a_cell_costs_that_cell_only() {
    let Some(place) = Place::gpu() else { return };
    let more = [&READS[..], &["--transfer", "gds-registered,cpu", "--threads", "1,2"]].concat();
    let (report, status) = place.grid(&more, &[("STANDIN_CUFILE_FAIL", "cuFileRead:abort")]);
    assert_eq!(status, 3, "a transfer that was named died: {report:#}");
    for cell in cells(&report) {
        let died = cell["transfer"] == "gds-registered";
        assert_eq!(cell["error"].is_string(), died, "{cell:#}");
    }
    assert_eq!(cells(&report).len(), 4);
    assert_eq!(place.left(), Vec::<PathBuf>::new());
}

#[test]
fn what_is_asked_wrongly_is_answered_before_anything_is_written() {
    let place = Place::host();
    let dir = place.dir();
    let dir = dir.to_str().unwrap();
    for (arguments, part) in [
        (&["io", "/nonexistent/folder"][..], "/nonexistent/folder"),
        (&["io", dir, "--size", "5000"], "multiple"),
        (&["io", dir, "--transfer", "teleport"], "teleport"),
        (&["io", dir, "--seconds", "0"], "--seconds"),
        (&["io", dir, "--size", "1M", "--threads", "16", "--file-size", "4M"], "--file-size"),
        // No disk has this much free space.
        (&["io", dir, "--file-size", "900000000G"], "free"),
    ] {
        let output = place.run(arguments, &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        let status = if part == "free" { 3 } else { 2 };
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    assert_eq!(place.left(), Vec::<PathBuf>::new());
}

#[test]
fn a_disk_that_fills_up_on_the_way_is_a_sentence_and_leaves_nothing() {
    let place = Place::host();
    // A limit on the file size replaces a full disk: the write fails in the middle.
    let command = format!(
        "ulimit -f 1024; trap '' XFSZ; exec '{}' io '{}' --gpu host --json --seconds 0.01 --size 4K --threads 1 --file-size 4M",
        PROGRAM,
        place.dir().display()
    );
    let output = started_by("sh").args(["-c", &command]).current_dir(place.folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        cells(&report).iter().all(|cell| cell["error"].as_str().is_some_and(|why| why.contains("writing"))),
        "{report:#}"
    );
    assert_eq!(place.left(), Vec::<PathBuf>::new());
}

#[test]
fn ended_by_a_signal_it_removes_its_folder() {
    for wait_for_cells in [true, false] {
        let place = Place::host();
        let dir = place.dir();
        let size = if wait_for_cells { "4M" } else { "4G" };
        let small = ["--seconds", "30", "--size", "4K", "--threads", "1", "--file-size", size];
        let arguments = [&["io", dir.to_str().unwrap(), "--gpu", "host", "--yes"], &small[..]].concat();
        if !wait_for_cells && rustix::fs::statvfs(&dir).is_ok_and(|told| told.f_bavail * told.f_frsize < 10 << 30) {
            eprintln!("skipped: too little room");
            continue;
        }
        let mut child = place.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("its directory", || !place.left().is_empty());
        if wait_for_cells {
            let is_whole =
                |path: &Path| std::fs::metadata(path.join("write.bin")).is_ok_and(|meta| meta.len() == 4 << 20);
            until("its files", || place.left().iter().any(|path| is_whole(path)));
        }
        kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(place.left(), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_recording_tells_the_same_grid() {
    let place = Place::host();
    let file = place.folder.path().join("io.gdsrec");
    let (report, _) = place.grid(&["--record", file.to_str().unwrap()], &[]);
    let output = place.run(&["replay", file.to_str().unwrap(), "--headless", "--json"], &[]);
    let replayed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(report["grid"], replayed["grid"]);
    let text = place.run(&["report", file.to_str().unwrap()], &[]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("sequential read, GB/s"));
}
