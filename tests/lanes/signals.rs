//! Tests of commands that a signal ends: they end soon, in order, with status 130, and leave nothing.

use crate::harness::{folder, until};
use crate::models;
use crate::program::gds_top;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

/// Runs the program until `begun` accepts a file in one of the directories, sends INT like a terminal, and checks that
/// nothing is left.
fn ended(arguments: &[&str], watched: &Path, begun: impl Fn(&Path) -> bool) {
    let temporary = folder();
    let mut child = gds_top()
        .args(arguments)
        .env("TMPDIR", temporary.path())
        .env("XDG_CACHE_HOME", watched)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let all = |at: &Path| -> Vec<_> {
        std::fs::read_dir(at).map_or_else(|_| Vec::new(), |all| all.flatten().map(|entry| entry.path()).collect())
    };
    until("its first trace", || {
        assert_eq!(child.try_wait().unwrap(), None, "{arguments:?} ended by itself");
        all(temporary.path()).iter().chain(&all(watched)).any(|path| begun(path)).then_some(())
    });
    kill_process_group(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{arguments:?}");
    assert_eq!(all(temporary.path()), Vec::<std::path::PathBuf>::new(), "{arguments:?}");
}

fn partial(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".gds-top-partial")
}

/// Whether it is the temporary directory of a session.
fn is_session(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("gds-top-"))
}

#[test]
fn a_signal_at_the_start_of_a_session_leaves_no_folder() {
    let (model, cache) = (folder(), folder());
    models::odd(model.path());
    let path = model.path().to_str().unwrap();
    for _ in 0..5 {
        ended(&["bench", path, "--gpu", "host", "--repeat", "1000"], cache.path(), is_session);
    }
}

#[test]
fn a_signal_ends_the_session_of_a_later_model_in_order() {
    let (place, recordings) = (folder(), folder());
    let models = ["first", "second"].map(|name| place.path().join(name));
    for model in &models {
        std::fs::create_dir(model).unwrap();
        models::odd(model);
    }
    let [first, second] = models.each_ref().map(|model| model.to_str().unwrap());
    let recording = recordings.path().join("r.gdsrec");
    let engine = "command:case {model} in *second) sleep 600;; esac";
    let arguments = ["bench", first, second, "--gpu", "host", "--engine", engine, "--record"];
    let is_second = |path: &Path| path.to_string_lossy().contains("r-2-second");
    ended(&[&arguments[..], &[recording.to_str().unwrap()]].concat(), recordings.path(), is_second);
}

#[test]
fn reports_of_recordings_end_with_a_signal() {
    let place = folder();
    let reports = place.path().join("reports");
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/recordings/h200-full-qwen2.5-7b.gdsrec");
    let arguments = [&["report"], &[recording; 5][..], &["--export", reports.to_str().unwrap()]].concat();
    ended(&arguments, place.path(), |path| path == reports);
}

#[test]
fn measuring_what_looking_costs_ends_with_its_sessions() {
    let model = folder();
    models::odd(model.path());
    let path = model.path().to_str().unwrap();
    let arguments = ["overhead", path, "--gpu", "host", "--repeat", "1000"];
    let has_recording =
        |path: &Path| ["bare-0.gdsrec", "bare-0.gdsrec.partial"].iter().any(|name| path.join(name).exists());
    ended(&arguments, model.path(), has_recording);
}

#[test]
fn the_self_test_ends_its_session() {
    let cache = folder();
    ended(&["selftest", "--gpu", "host", "--repeat", "1000"], cache.path(), is_session);
}

#[test]
fn a_model_that_is_being_made_is_left_in_no_part() {
    let place = folder();
    let left = |at: &Path| std::fs::read_dir(at).map_or(0, |all| all.flatten().filter(|e| partial(&e.path())).count());
    let path = place.path().to_str().unwrap();
    ended(&["make-model", "--yes", "qwen3-0.6b", path], place.path(), partial);
    assert_eq!(left(place.path()), 0);
    let made = place.path().join("gds-top/models/qwen3-0.6b");
    for arguments in
        [["load", "qwen3-0.6b", "--gpu", "host", "--yes"], ["--headless", "qwen3-0.6b", "--gpu", "host", "--yes"]]
    {
        ended(&arguments, place.path(), |_| left(&made) > 0);
        assert_eq!(left(&made), 0, "{arguments:?}");
    }
}

#[test]
fn ceilings_are_measured_no_longer_than_they_are_wanted() {
    let model = folder();
    models::odd(model.path());
    let path = model.path().to_str().unwrap();
    let mut child = gds_top()
        .args(["load", path, "--gpu", "host", "--engine", "pread", "--ceilings", "--json", "--quiet"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id();
    until("the process that measures them", || {
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let mut theirs = all.filter(|entry| {
            let text = |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
            text("cmdline").contains("__ceilings") && text("status").contains(&format!("PPid:\t{pid}\n"))
        });
        theirs.next()
    });
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::TERM).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(130));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(report["ceilings"], serde_json::json!([]), "{report:#}");
    assert!(!report["messages"].to_string().contains("were not measured"), "{report:#}");
}
