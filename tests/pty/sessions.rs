//! Tests of live sessions on screens: races, the lesson, KV caches, and the profiling overhead.

use crate::program::gds_top;
use crate::terminal::{PATIENCE, Terminal};
use gds_top::core::EventBody;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A directory on a real file system.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A small model on a real file system.
fn model(folder: &Path) -> PathBuf {
    let path = folder.join("model");
    let status = gds_top()
        .args(["synth", "qwen3-0.6b"])
        .arg(&path)
        .args(["--scale", "0.02", "--quiet"])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    path
}

/// A session in this directory, on the Race screen.
pub(crate) fn race(folder: &Path, more: &[&str]) -> Terminal {
    let (model, home) = (model(folder), folder.to_str().unwrap());
    let arguments = [&[model.to_str().unwrap(), "--gpu", "host"], more].concat();
    let mut terminal = Terminal::start(&arguments, &[("HOME", home), ("XDG_CACHE_HOME", home)]);
    terminal.until("1 Environment");
    terminal.keys("2");
    terminal
}

/// The number of run processes of the session with this HOME, which no other session has.
fn lanes_of(home: &Path) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let variable = format!("HOME={}", home.display());
    all.filter(|entry| {
        let is_in = |file: &str, word: &str| {
            std::fs::read(entry.path().join(file))
                .is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|part| part == word.as_bytes()))
        };
        is_in("cmdline", "__lane") && is_in("environ", &variable)
    })
    .count()
}

/// Waits until the session has a run process, or none.
pub(crate) fn until_lanes(home: &Path, wanted: bool) {
    let start = Instant::now();
    while (lanes_of(home) > 0) != wanted {
        assert!(start.elapsed() < PATIENCE, "a lane is there: {}", !wanted);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_race_that_was_left_with_q_is_recorded_whole() {
    let folder = folder();
    let recording = folder.path().join("race.gdsrec");
    let mut terminal = race(folder.path(), &["--engine", "pread", "--record", recording.to_str().unwrap()]);
    terminal.until("✔ yes");
    terminal.keys("q");
    assert_eq!(terminal.end(), 0);
    let events = gds_top::session::recording::read(&recording).unwrap();
    let events: Vec<_> = events.map(|event| event.unwrap().body).collect();
    let is = |wanted: fn(&EventBody) -> bool| events.iter().any(wanted);
    assert!(is(|body| matches!(body, EventBody::LaneFinished { .. })));
    assert!(is(|body| matches!(body, EventBody::SessionEnded { .. })));
}

#[test]
fn overhead_compares_three_modes_and_its_status_shows_whether_it_decided() {
    let folder = folder();
    let model = model(folder.path());
    let home = folder.path().display().to_string();
    let output = gds_top()
        .args(["overhead", model.to_str().unwrap(), "--gpu", "host", "--repeat", "2", "--json"])
        .envs([("HOME", &home), ("XDG_CACHE_HOME", &home)])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let is_decided = told["overheads"][0]["decided"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(if is_decided { 0 } else { 3 }), "{said}");
    assert!(!said.contains("baseline"), "no session is a baseline: {said}");
    let modes = told["overheads"][0]["modes"].as_array().unwrap();
    assert_eq!(modes.iter().map(|w| w["mode"].as_str().unwrap()).collect::<Vec<_>>(), ["bare", "headless", "screens"]);
    assert!(modes.iter().all(|w| w["wall_ns"].as_array().unwrap().len() == 2 && w["ratio"].as_f64().unwrap() > 0.0));
}

#[test]
fn a_race_can_be_stopped_from_any_screen_and_says_so() {
    let folder = folder();
    let mut terminal = race(folder.path(), &["--engine", "pread", "--repeat", "1000"]);
    terminal.until("/1000");
    terminal.keys("6c");
    terminal.until("stopping the race");
    // Nothing is running any more, so q does not ask.
    until_lanes(folder.path(), false);
    terminal.keys("2");
    terminal.until("R race");
    terminal.leave("q", 0, "a stopped race");
}

#[test]
fn top_opens_the_system_screen_on_a_terminal_without_any_check() {
    let folder = folder();
    let home = folder.path().to_str().unwrap();
    let mut terminal = Terminal::start(&["top"], &[("HOME", home), ("XDG_CACHE_HOME", home)]);
    // A sample has arrived.
    terminal.until("Processes with CUDA or cuFile");
    assert!(terminal.is_alternate());
    // It has no other screen, and runs and writes nothing.
    terminal.keys("12P\rRrfuax");
    terminal.until("x does nothing here");
    assert!(!terminal.shown().contains("1 Environment"));
    terminal.leave("q", 0, "top");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_lesson_writes_nothing_until_it_is_asked_to_measure_and_then_measures_a_small_model() {
    let folder = folder();
    let cache = folder.path().to_str().unwrap();
    let arguments = ["learn", "--gpu", "host", "--engine", "pread", "--no-verify"];
    let mut terminal = Terminal::start(&arguments, &[("HOME", cache), ("XDG_CACHE_HOME", cache)]);
    terminal.until("The paths of a byte");
    terminal.until("m measure");
    terminal.until("It first writes");
    assert!(!folder.path().join("gds-top/models").exists(), "a model was made although the user only reads");
    terminal.keys("m");
    terminal.until("Measured here with");
    assert!(folder.path().join("gds-top/models").exists());
    terminal.leave("q", 0, "a lesson");
}

#[test]
fn bare_screens_write_nothing_and_the_plan_names_the_model_that_it_will_write() {
    let folder = folder();
    let home = folder.path().to_str().unwrap();
    let mut terminal = Terminal::start(&[], &[("HOME", home), ("XDG_CACHE_HOME", home)]);
    terminal.until("1 Environment");
    terminal.keys("2");
    terminal.until("P plans");
    terminal.keys("P");
    terminal.until("writes a synthetic model of 143 MiB");
    terminal.leave("\x1bq", 0, "screens");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_kv_cache_is_shown_on_screens_and_its_folder_is_gone_at_the_end() {
    let folder = folder();
    let dir = folder.path().to_str().unwrap();
    let small = "--gpu host --shape qwen3-0.6b --tokens 256 --variants disk --no-telemetry --set enable_layerwise=1"
        .split(' ')
        .collect::<Vec<_>>();
    let arguments = [&["kv", "lmcache", dir], &small[..]].concat();
    let mut terminal = Terminal::start(&arguments, &[("GDS_TOP_LIBCUFILE", "/nonexistent/libcufile.so.0")]);
    // After the read has ended, its layers are shown automatically, and so are the other plans.
    terminal.until("of the loading is hidden behind computing");
    terminal.until("P plans");
    terminal.keys("P");
    terminal.until("kv ucm");
    terminal.keys("\x1b");
    // A key directly after Esc would be read as a key with Alt.
    terminal.until_gone("kv ucm");
    terminal.leave("q", 0, "kv");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_system_screen_shows_the_machine_while_a_program_is_watched() {
    if !cfg!(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64"))) {
        eprintln!("skipped: watch needs glibc on x86-64 or aarch64");
        return;
    }
    let mut terminal = Terminal::start(&["watch", "--screens", "--", "sleep", "600"], &[]);
    terminal.until("1 Environment");
    terminal.keys("4");
    terminal.until("Processes with CUDA or cuFile");
    terminal.keys("q");
    terminal.end();
}

#[test]
fn after_the_screens_a_watched_program_has_the_text_and_the_status_of_headless() {
    if !cfg!(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64"))) {
        eprintln!("skipped: watch needs glibc on x86-64 or aarch64");
        return;
    }
    let end = |arguments: &[&str], ends: &str| {
        let mut terminal = Terminal::start(arguments, &[]);
        terminal.until(ends);
        terminal.keys("q");
        let status = terminal.end();
        terminal.wait("the text", |t| !t.is_alternate() && t.shown().contains("command "));
        (status, terminal.shown())
    };
    let (status, text) = end(&["watch", "--screens", "--", "sh", "-c", "exit 3"], "exit status 3");
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("The program failed with exit status 3."), "{text}");
    let (status, text) = end(&["watch", "--screens", "--", "true"], "does not use cuFile");
    assert_eq!(status, 0, "{text}");
    let required = ["watch", "--screens", "--require", "direct", "--", "true"];
    let (status, text) = end(&required, "does not use cuFile");
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("--require direct is not met"), "{text}");
}
