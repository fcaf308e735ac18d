//! Sessions in which calls are missing: each output marks them, and none of them passes.

use crate::harness::{Place, Seen, wait_until};
use crate::program::gds_top;
use serde_json::Value;
use std::path::Path;

const FORMATS: &str = "json,csv,trace,prom,junit,html,md";

/// The names of the test cases that passed.
fn passed(folder: &Path) -> Vec<String> {
    let junit = std::fs::read_to_string(folder.join("junit.xml")).unwrap();
    let passed = junit.lines().filter(|line| line.contains("<testcase ") && line.ends_with("/>"));
    passed.map(|line| line.split(" name=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()).collect()
}

/// Asserts that each file names these reasons.
fn assert_marked(folder: &Path, missing: &[&str]) {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let is_complete = missing.is_empty();
    let report: Value = serde_json::from_str(&read("report.json")).unwrap();
    let wanted = (&Value::from(is_complete), &serde_json::json!(missing));
    assert_eq!((&report["watch"]["complete"], &report["watch"]["missing"]), wanted);
    let schema: Value = serde_json::from_str(&read("report.schema.json")).unwrap();
    assert!(jsonschema::draft202012::new(&schema).unwrap().is_valid(&report));
    let trace: Value = serde_json::from_str(&read("trace.json")).unwrap();
    let about = &trace["otherData"];
    assert_eq!((&about["complete"], &about["missing"]), wanted);
    let marks = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["cat"] == "missing").count();
    assert_eq!(marks, usize::from(!is_complete));
    let line = format!("gds_top_watch_complete{{missing=\"{}\"}} {}", missing.join(" "), u8::from(is_complete));
    assert!(read("gds-top.prom").lines().any(|known| known == line), "{line}");
    for name in ["program.csv", "calls.csv", "files.csv", "file_tensors.csv", "timeline.csv"] {
        let text = read(name);
        let mut lines = csv::Reader::from_reader(text.as_bytes());
        let rows: Vec<std::collections::HashMap<String, String>> = lines.deserialize().map(Result::unwrap).collect();
        assert!(name != "program.csv" || (rows.len() == 1 && rows[0]["missing"] == missing.join(" ")), "{text}");
        assert!(rows.iter().all(|row| row["complete"] == is_complete.to_string()), "{name}: {text}");
    }
    for name in ["report.html", "report.md"] {
        assert!(read(name).contains("complete"), "{name}");
    }
}

#[test]
fn a_killed_session_is_incomplete_in_each_output() {
    let Some(place) = Place::new() else { return };
    let (partial, done) = place.killed_session();
    let folder = place.file("cut");
    let mut report = gds_top();
    report.args(["report", "--json"]).arg(&partial).args(["--export", folder.to_str().unwrap(), "--format", FORMATS]);
    let seen = Seen::of(report);
    assert_eq!(seen.status(), Some(1));
    let missing: Vec<&str> =
        seen.report["watch"]["missing"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    assert_eq!(missing.first(), Some(&"session-cut"));
    assert_marked(&folder, &missing);
    assert_eq!(passed(&folder), Vec::<String>::new());
    assert!(!seen.report["summary"].to_string().contains("not known yet"), "{}", seen.report["summary"]);
    // The report of such a session is not a baseline either.
    let json = folder.join("report.json");
    let output = place.watch(&["--baseline", json.to_str().unwrap()]).arg("true").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.contains("incomplete")), (Some(2), true), "{said}");
    wait_until("the program does not end", || done.exists());
}

#[test]
fn unrecorded_calls_make_each_output_incomplete_and_decide_no_comparison() {
    let Some(place) = Place::new() else { return };
    let whole = ["read", "200"];
    let paused = ["read", "200", "pause", "1", "sleep", "100", "read", "5", "pause", "0", "read", "4"];
    let data = place.data().canonicalize().unwrap().to_string_lossy().into_owned();
    let run = |folder: &Path, words: &[&str]| {
        let mut command = place.watch(&["--json", "--export", folder.to_str().unwrap(), "--format", FORMATS]);
        command.arg(place.file("linked")).arg(&data).args(words);
        assert_eq!(Seen::of(command).status(), Some(0));
    };
    let (complete, incomplete) = (place.file("complete"), place.file("incomplete"));
    run(&complete, &whole);
    assert_marked(&complete, &[]);
    assert_eq!(passed(&complete), ["exit status", "complete recording", "route", &data]);
    run(&incomplete, &paused);
    assert_marked(&incomplete, &["paused"]);
    assert_eq!(passed(&incomplete), ["exit status"]);
    for (before, words, which) in [(&complete, &paused[..], "later"), (&incomplete, &whole, "earlier")] {
        let report = before.join("report.json");
        let mut command = place.watch(&["--baseline", report.to_str().unwrap(), "--threshold", "1000"]);
        let output = command.arg(place.file("linked")).arg(&data).args(words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(text.contains(&format!("The {which} recording is incomplete: pauses of the recording.")), "{text}");
        assert!(!text.contains("No regression"), "{text}");
    }
}
