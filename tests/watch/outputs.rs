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
fn a_proven_route_is_not_lost_because_statistics_were_not_requested_again() {
    let Some(place) = Place::new() else { return };
    let report = place.file("report.json");
    let run = |options: &[&str], route: &str| {
        let mut command = place.watch(options);
        command.env("STANDIN_CUFILE_ROUTE", route).arg(place.file("linked")).arg(place.data()).args(["read", "2000"]);
        command.output().unwrap()
    };
    let earlier = run(&["--json", "--statistics"], "p2p");
    std::fs::write(&report, &earlier.stdout).unwrap();
    let seen: Value = serde_json::from_slice(&earlier.stdout).unwrap();
    assert_eq!(seen["program"]["transfers"][0]["proven"], true);
    for (route, status) in [("p2p", 0), ("posix", 1)] {
        let output = run(&["--baseline", report.to_str().unwrap(), "--threshold", "1000"], route);
        assert_eq!(output.status.code(), Some(status), "{route}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn a_direct_route_is_lost_also_if_the_file_has_another_name() {
    let Some(place) = Place::new() else { return };
    let (report, other) = (place.file("report.json"), place.file("other"));
    std::fs::copy(place.data(), &other).unwrap();
    let run = |options: &[&str], route: &str, file: &std::path::Path, words: &[&str]| {
        let mut command = place.watch(options);
        command.env("STANDIN_CUFILE_ROUTE", route).arg(place.file("linked")).arg(file).args(words);
        command.output().unwrap()
    };
    let read = ["read", "200"];
    std::fs::write(&report, run(&["--json", "--statistics"], "p2p", &place.data(), &read).stdout).unwrap();
    let options = ["--baseline", report.to_str().unwrap(), "--threshold", "1000"];
    let (lost, ended) = ("took a proven direct route", "The program ended by signal 9, and the earlier one did not.");
    for (route, words, status, sentence) in [
        ("p2p", &read[..], 0, "No regression against report.json."),
        ("posix", &read, 1, lost),
        // A program that was killed proves no route.
        ("p2p", &["keep", "200", "die"], 1, ended),
    ] {
        let output = run(&options, route, &other, words);
        let text = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(status), "{text}");
        assert!(text.contains(sentence), "{sentence}: {text}");
        assert_eq!((text.contains("No regression"), text.contains(lost)), (status == 0, sentence == lost), "{text}");
    }
}

#[test]
fn a_recording_without_its_end_is_no_baseline() {
    let Some(place) = Place::new() else { return };
    let path = place.file("cut.gdsrec");
    let run = |options: &[&str]| {
        let mut command = place.watch(options);
        // The recording has several blocks of compressed data, so its header can be read without its end.
        command.arg(place.file("linked")).arg(place.data()).args(["read", "20000"]).output().unwrap()
    };
    run(&["--record", path.to_str().unwrap()]);
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 13]).unwrap();
    let output = run(&["--baseline", path.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.contains("incomplete")), (Some(2), true), "{said}");
}

#[test]
fn slower_calls_on_a_busy_machine_are_not_decided() {
    let Some(place) = Place::new() else { return };
    let mut earlier = place.seen("linked", &[], &["read", "2000"]).report;
    let report = place.file("report.json");
    // The earlier calls took a tenth of the time, on a machine on which tasks always waited for a CPU.
    for pace in earlier["program"]["paces"].as_array_mut().unwrap() {
        for part in pace["parts"].as_array_mut().unwrap() {
            part[1] = (part[1].as_u64().unwrap() / 10).into();
        }
    }
    earlier["samples"] = serde_json::json!([{"values": {"cpu_pressure_percent": 99.0}}]);
    std::fs::write(&report, earlier.to_string()).unwrap();
    let mut command = place.watch(&["--baseline", report.to_str().unwrap()]);
    let output = command.arg(place.file("linked")).arg(place.data()).args(["read", "2000"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("Not decided against report.json.") && text.contains("waited for a CPU in 99 %"), "{text}");
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
    let hidden = format!("gds_top_processes_hidden {}", sample["hidden_processes"]);
    assert!(metrics.lines().any(|line| line == hidden), "{metrics}");
    assert!(sample["unexamined_processes"].is_u64() && metrics.contains("gds_top_processes_unexamined "), "{metrics}");
    assert!(text.contains(&pid.to_string()), "{text}");
}

#[test]
fn the_exports_have_the_calls_the_files_and_the_requirement() {
    let Some(place) = Place::new() else { return };
    // The version of the file that the program loads is known without a call.
    let library = place.file("libcufile.so.1.16.1");
    std::fs::copy(&place.built.cufile, &library).unwrap();
    let link = place.file("libcufile.so.0");
    std::os::unix::fs::symlink(&library, &link).unwrap();
    let data = place.data().canonicalize().unwrap().to_string_lossy().into_owned();
    for (given, route, failing) in [("p2p", "p2pdma", vec![]), ("posix", "compat", vec!["--require direct", &data])] {
        let folder = place.file(given);
        let mut command = place.watch(&["--require", "direct", "--export", folder.to_str().unwrap()]);
        command.env("STANDIN_CUFILE_ROUTE", given).env("LIBRARY", &link);
        let output = command.arg(place.file("loaded")).arg(&data).args(["read", "5"]).output().unwrap();
        assert_eq!(output.status.code(), Some(i32::from(!failing.is_empty())), "{output:?}");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();

        let junit = read("junit.xml");
        let cases = junit.lines().filter(|line| line.contains("<testcase "));
        let named = |line: &str| line.split("name=\"").nth(2).unwrap().split('"').next().unwrap().to_owned();
        let failed: Vec<String> = cases.clone().filter(|line| line.contains("<failure ")).map(named).collect();
        assert_eq!(failed, failing, "{junit}");
        assert_eq!(
            cases.map(named).collect::<Vec<_>>(),
            ["exit status", "complete recording", "route", "--require direct", &data]
        );
        assert!(junit.contains(&format!("tests=\"5\" failures=\"{}\"", failing.len())), "{junit}");

        let rows = |name: &str| -> Vec<std::collections::HashMap<String, String>> {
            let text = read(name);
            let mut lines = csv::Reader::from_reader(text.as_bytes());
            lines.deserialize().map(Result::unwrap).collect()
        };
        let calls = rows("calls.csv");
        let call = calls.iter().find(|row| row["function"] == "cuFileRead").unwrap();
        assert_eq!((call["calls"].as_str(), call["errors"].as_str(), call["bytes"].as_str()), ("5", "0", "20480"));
        let files = rows("files.csv");
        let file = files.iter().find(|row| row["path"] == data).unwrap();
        let wanted = [("reads", "5"), ("read_bytes", "20480"), ("route", route), ("route_proven", "true")];
        assert!(wanted.iter().all(|(name, value)| file[*name] == *value), "{file:?}");
        let timeline = rows("timeline.csv");
        let reads: Vec<_> = timeline.iter().filter(|row| row["function"] == "cuFileRead").collect();
        assert!(reads.len() == 5 && reads.iter().all(|row| row["path"] == data && row["result"] == "4096"));
        assert!(rows("file_tensors.csv").is_empty() && !folder.join("runs.csv").exists());

        let metrics = read("gds-top.prom");
        let labels = format!("route=\"{route}\",proven=\"true\",direction=\"read\"");
        for line in [
            "gds_top_watch_calls{function=\"cuFileRead\"} 5".to_owned(),
            "gds_top_watch_call_bytes{function=\"cuFileRead\"} 20480".to_owned(),
            format!("gds_top_watch_transfers{{{labels}}} 5"),
            format!("gds_top_watch_transferred_bytes{{{labels}}} 20480"),
            format!("gds_top_watch_transfer_errors{{{labels}}} 0"),
            "gds_top_watch_exit_status 0".to_owned(),
        ] {
            assert!(metrics.lines().any(|known| known == line), "{line} is not in\n{metrics}");
        }
        assert!(metrics.contains("libcufile=\"1.16\""), "{metrics}");

        let report: Value = serde_json::from_str(&read("report.json")).unwrap();
        let used = &report["program"]["libraries"][0];
        assert_eq!((&used["path"], &used["version"]), (&link.to_str().unwrap().into(), &1160.into()));
        assert_eq!(report["machine"]["libcufile"]["path"], used["path"]);
        let text = read("report.md");
        let is_missing = |line: &str| line.contains("libcufile") && line.contains("not found");
        assert!(text.contains("defaults of libcufile 1.16.") && !text.lines().any(is_missing), "{text}");
    }
}

#[test]
fn files_with_long_paths_are_separate_and_have_their_complete_path() {
    let Some(place) = Place::new() else { return };
    let start = place.folder.path().canonicalize().unwrap();
    let folder = (0..10).fold(start, |folder, _| folder.join("x".repeat(200)));
    std::fs::create_dir_all(&folder).unwrap();
    let files = ["m1.bin", "m2.bin"].map(|name| folder.join(name));
    files.iter().for_each(|file| std::fs::write(file, vec![7; 1 << 20]).unwrap());
    let mut command = place.watch(&["--json"]);
    let script = "\"$0\" \"$1\" read 3 && \"$0\" \"$2\" read 4 plain 5";
    command.args(["sh", "-c", script]).arg(place.file("linked")).args(&files);
    let seen = Seen::of(command);
    assert_eq!(seen.status(), Some(0), "{}", String::from_utf8_lossy(&seen.output.stderr));
    let counts = files.each_ref().map(|file| seen.file(file)["reads"]["count"].as_u64());
    assert_eq!(counts, [Some(3), Some(4)]);
}
