//! Tests of other outputs: the trace, the comparison with a baseline, and `top`.

use crate::harness::{Place, Seen};
use crate::program::gds_top;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn the_trace_has_a_track_for_each_thread() {
    let Some(place) = Place::new() else { return };
    let folder = place.file("export");
    let mut command = place.watch(&["--json", "--export", folder.to_str().unwrap(), "--format", "trace,html,json"]);
    command.arg(place.file("linked")).arg(place.data()).args(["read", "2", "threads", "3", "4", "plain", "1"]);
    let seen = Seen::of(command);
    assert_eq!(seen.status(), Some(0), "{}", String::from_utf8_lossy(&seen.output.stderr));
    let trace: Value = serde_json::from_slice(&std::fs::read(folder.join("trace.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let reads: Vec<&Value> = events.iter().filter(|event| event["name"] == "cuFileRead").collect();
    assert_eq!(reads.len(), 2 + 3 * 4);
    let tracks: BTreeSet<String> = reads.iter().map(|event| event["tid"].to_string()).collect();
    assert_eq!(tracks.len(), 4);
    let named = |track: &String| {
        events.iter().any(|e| e["name"] == "thread_name" && e["tid"].to_string().as_str() == track.as_str())
    };
    assert!(tracks.iter().all(named));
    // A viewer drops events that overlap on a track without one containing the other.
    for track in &tracks {
        let of_track = events.iter().filter(|e| e["ph"] == "X" && e["tid"].to_string().as_str() == track.as_str());
        let mut times: Vec<(f64, f64)> = of_track
            .map(|e| (e["ts"].as_f64().unwrap(), e["ts"].as_f64().unwrap() + e["dur"].as_f64().unwrap()))
            .collect();
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(times.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 0.001), "{times:?}");
    }
    let data = place.data().canonicalize().unwrap();
    assert!(reads.iter().all(|event| event["args"]["file"] == *data.to_string_lossy() && event["dur"].is_f64()));
    assert!(events.iter().any(|event| event["name"] == "pread"));
    assert!(folder.join("report.html").is_file() && folder.join("report.json").is_file());
}

#[test]
fn a_baseline_finds_calls_that_fail_more_often() {
    let Some(place) = Place::new() else { return };
    let earlier = place.file("earlier.gdsrec");
    let mut command = place.watch(&["--json", "--record", earlier.to_str().unwrap()]);
    command.arg(place.file("linked")).arg(place.data()).args(["read", "2000"]);
    let seen = Seen::of(command);
    let report = place.file("report.json");
    std::fs::write(&report, &seen.output.stdout).unwrap();
    for before in [&earlier, &report] {
        // The machine may be busy: with many calls, one that waits for a processor does not change the mean much.
        let options = ["--baseline", before.to_str().unwrap(), "--threshold", "1000"];
        for (words, status) in [(["read", "2000"].as_slice(), 0), (&["read", "2000", "bad"], 1)] {
            let mut command = place.watch(&options);
            let output = command.arg(place.file("linked")).arg(place.data()).args(words).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(output.status.code(), Some(status), "{words:?}: {text}");
            assert!(text.contains("cuFileRead"), "{text}");
        }
    }
    let output = place.watch(&["--baseline", "/nowhere"]).arg("true").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_report_of_two_recordings_compares_calls_by_function_and_size() {
    let Some(place) = Place::new() else { return };
    let [before, now] = [200, 300].map(|reads| {
        let file = place.file(&format!("{reads}.gdsrec"));
        let mut command = place.watch(&["--json", "--record", file.to_str().unwrap()]);
        command.arg(place.file("linked")).arg(place.data()).args(["read", &reads.to_string()]);
        assert_eq!(Seen::of(command).status(), Some(0));
        file
    });
    let report = |options: &[&str]| {
        let output = gds_top().arg("report").args(options).args([&before, &now]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let compared: Value = serde_json::from_slice(&report(&["--json"])).unwrap();
    let watch = &compared["comparisons"][0]["watch"];
    let reads = watch["paces"].as_array().unwrap().iter().find(|pace| pace["function"] == "cuFileRead").unwrap();
    assert_eq!(
        (&reads["up_to_bytes"], &reads["before"]["count"], &reads["now"]["count"]),
        (&4096.into(), &200.into(), &300.into())
    );
    assert!(
        reads["before"]["calls_per_s"].as_f64() > Some(0.0) && reads["now"]["mean_ns"].as_u64() > Some(0),
        "{reads}"
    );
    assert!(watch["calls"].as_array().unwrap().iter().any(|call| call["now"]["count"] == 300));
    let text = String::from_utf8(report(&[])).unwrap();
    assert!(text.lines().any(|line| line == "Calls compared") && text.lines().any(|line| line == "Calls by size"));
}

#[test]
fn top_shows_a_process_that_has_libcufile_mapped() {
    let Some(place) = Place::new() else { return };
    let mut program = Command::new(place.file("linked"));
    place.prepare(program.arg(place.data()).args(["read", "3", "wait"]).stdout(Stdio::piped()));
    let mut running = program.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(running.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let top = |words: &[&str]| {
        let output = gds_top().arg("top").args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let (json, metrics, text) = (top(&["--once", "--json"]), top(&["--prom"]), top(&["--once"]));
    let pid = running.id();
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(json.lines().count(), 1);
    let sample: Value = serde_json::from_str(&json).unwrap();
    let schema: Value = serde_json::from_str(include_str!("../../schema/top.schema.json")).unwrap();
    if let Err(error) = jsonschema::validate(&schema, &sample) {
        panic!("schema/top.schema.json: {error} at {}", error.instance_path());
    }
    let process = sample["processes"].as_array().unwrap().iter().find(|process| process["pid"] == pid).unwrap();
    assert!(process["libcufile"].as_str().unwrap().contains("libcufile.so"), "{process}");
    assert!(process["page_cache_bytes"].as_u64().unwrap() > 0 && process["route_proven"] == false, "{process}");
    assert!(process["call_bytes_per_s"].is_number(), "{process}");
    assert!(metrics.contains(&format!("gds_top_process_info{{pid=\"{pid}\"")), "{metrics}");
    assert!(metrics.contains("# TYPE gds_top_process_page_cache_bytes gauge"), "{metrics}");
    assert!(text.contains(&pid.to_string()), "{text}");
}
