//! Tests of Markdown, HTML, CSV, trace and Prometheus text for a race and for random states, and of their export into
//! a directory.

use crate::any::any_state;
use crate::program::{PROGRAM, gds_top, started_by};
use crate::race::race;
use gds_top::core::{Event, EventBody, LogLevel};
use gds_top::report::{self, Format};
use gds_top::session::State;
use proptest::prelude::*;
use std::fs;
use std::path::Path;

fn exported(state: &State, format: Format) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let files = report::export(state, folder.path(), &[format]).unwrap();
    files.iter().map(|f| fs::read_to_string(f).unwrap()).collect()
}

/// A parser for RFC 4180 that is as strict as the standard.
fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (vec![], vec![], String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => cell.push(chars.next().unwrap()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !quoted && chars.peek() == Some(&'\n') => {
                chars.next();
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            _ => cell.push(c),
        }
    }
    assert!(!quoted && cell.is_empty() && row.is_empty(), "the last line is not complete");
    rows
}

#[test]
fn the_page_of_a_race_reads_as_intended() {
    insta::assert_snapshot!("race.md", report::markdown(&race()));
}

#[test]
fn an_empty_session_says_so() {
    assert!(report::markdown(&State::default()).contains("Nothing was checked and nothing was run."));
    assert!(report::html(&State::default()).contains("Nothing was checked and nothing was run."));
}

#[test]
fn a_recording_that_ends_before_its_first_result_says_so() {
    let mut state = State::default();
    let body = EventBody::Said { level: LogLevel::Warn, text: "the end of the recording is missing".to_owned() };
    state.reduce(&Event { at_ns: 1_500_000_000, body });
    let page = report::markdown(&state);
    assert!(page.contains("No result was recorded.") && page.contains("1.50 s after the start"), "{page}");
}

#[test]
fn html_needs_nothing_from_outside_and_shows_the_charts() {
    let page = report::html(&race());
    for outside in ["http://", "https://", "<script", "src=", "url(", "@import", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.matches("<svg").count() >= 4, "{}", page.matches("<svg").count());
    assert!(page.contains("prefers-color-scheme:dark"));
    assert!(page.contains("t = 2.7"), "the fitted line is named");
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
}

#[test]
fn the_runs_table_has_a_row_a_run_and_gaps_are_empty() {
    let tables = exported(&race(), Format::Csv);
    let runs = parse_csv(&tables[0]);
    assert_eq!(runs.len(), 16);
    let column = |name: &str| runs[0].iter().position(|c| c == name).unwrap();
    assert_eq!(runs[1][column("engine")], "mmap");
    assert_eq!(runs[1][column("posix_reads")], "", "mmap has no cuFile reads");
    assert_eq!(runs[7][column("posix_reads")], "21");
    let phases: u64 = runs[0]
        .iter()
        .enumerate()
        .filter(|(i, c)| *i > column("error") && c.ends_with("_ns"))
        .map(|(i, _)| runs[1][i].parse::<u64>().unwrap())
        .sum();
    assert_eq!(phases.to_string(), runs[1][column("wall_ns")]);
    assert_eq!(parse_csv(&tables[1]).len(), 1 + 15 * 21);
    assert_eq!(parse_csv(&tables[2]).len(), 1 + 15);
}

#[test]
fn spans_of_a_track_nest_and_the_trace_is_json() {
    let trace: serde_json::Value = serde_json::from_str(&exported(&race(), Format::Trace)[0]).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let complete: Vec<_> = events.iter().filter(|e| e["ph"] == "X").collect();
    assert_eq!(complete.len(), 15 * (1 + 21 * 3) - 3 * 21 * 2);
    let mut end_of_track = std::collections::HashMap::new();
    for e in complete {
        let (start, long) = (e["ts"].as_f64().unwrap(), e["dur"].as_f64().unwrap());
        let end = end_of_track.insert((e["pid"].as_u64(), e["tid"].as_u64()), start + long);
        assert!(end.is_none_or(|end| start >= end - 0.001), "spans of a track overlap");
    }
    assert!(events.iter().any(|e| e["ph"] == "C" && e["name"] == "gpu_memory_bytes"));
    assert!(events.iter().any(|e| e["args"]["name"] == "gds-per-tensor hot #2"));
}

#[test]
fn prometheus_text_has_a_type_before_each_family_and_base_units() {
    let text = exported(&race(), Format::Prom).remove(0);
    assert!(text.contains("gds_top_load_seconds{engine=\"pread\",cache=\"hot\",model=\"small\",gpu=\"GPU-1\"} 0.0"));
    assert!(text.contains("gds_top_route{path=\"/data/models/small\",gpu=\"GPU-1\",route=\"compat\"} 1"));
    assert!(text.contains("gds_top_route_proven{path=\"/data/models/small\",gpu=\"GPU-1\"} 1"));
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        assert!(text.contains(&format!("# TYPE {name} gauge")), "{line}");
        assert!(line.rsplit(' ').next().unwrap().parse::<f64>().unwrap().is_finite());
    }
}

#[test]
fn tables_tell_the_loads_of_one_session_apart() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/recordings/h200x2-together.gdsrec");
    let mut state = State::default();
    gds_top::session::recording::read(&path).unwrap().for_each(|event| state.reduce(&event.unwrap()));
    let tables: Vec<_> = exported(&state, Format::Csv).iter().map(|text| parse_csv(text)).collect();
    let (runs, tensors) = (&tables[0], &tables[1]);
    assert_eq!((runs[0][0].as_str(), runs[0][1].as_str(), tensors[0][0].as_str()), ("lane", "share", "lane"));
    let mut lanes: Vec<&str> = runs[1..].iter().map(|row| row[0].as_str()).collect();
    let shares: std::collections::BTreeSet<&str> = runs[1..].iter().map(|row| row[1].as_str()).collect();
    assert_eq!(
        shares.into_iter().collect::<Vec<_>>(),
        ["q06 on GPU 0", "q06 on GPU 0, together", "q7b on GPU 0", "q7b on GPU 0, together"]
    );
    assert!(tensors[1..].iter().all(|row| lanes.contains(&row[0].as_str())));
    lanes.sort_unstable();
    lanes.dedup();
    assert_eq!(lanes.len(), runs.len() - 1);
}

#[test]
fn an_export_writes_every_form_and_replaces_an_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("new/folder");
    let files = report::export(&race(), &place, &Format::ALL).unwrap();
    let names: Vec<&str> = files.iter().map(|f| f.file_name().unwrap().to_str().unwrap()).collect();
    let all = [
        "report.json",
        "report.schema.json",
        "report.md",
        "report.html",
        "runs.csv",
        "tensors.csv",
        "samples.csv",
        "results.csv",
        "trace.json",
        "gds-top.prom",
        "junit.xml",
    ];
    assert_eq!(names, all);
    let report: serde_json::Value = serde_json::from_slice(&fs::read(&files[0]).unwrap()).unwrap();
    let schema: serde_json::Value = serde_json::from_slice(&fs::read(&files[1]).unwrap()).unwrap();
    assert!(jsonschema::draft202012::new(&schema).unwrap().is_valid(&report));
    fs::write(&files[2], "# gds-top report\nof yesterday").unwrap();
    report::export(&race(), &place, &[Format::Markdown]).unwrap();
    assert!(!fs::read_to_string(&files[2]).unwrap().contains("of yesterday"));
    assert_eq!(fs::read_dir(&place).unwrap().count(), all.len(), "no temporary file is left");
}

#[test]
fn a_bad_folder_fails_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    for bad in [file.clone(), file.join("below"), Path::new("/proc/no-such-folder").to_owned()] {
        let said = report::prepare(&bad, &[]).unwrap_err().to_string();
        assert!(said.contains(bad.to_str().unwrap()) && said.contains("failed"), "{said}");
        assert!(report::export(&race(), &bad, &[Format::Json]).is_err());
    }
    assert_eq!(fs::read(&file).unwrap(), b"x");
}

#[test]
fn a_report_that_fails_leaves_no_folder_that_it_created() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("new/folder");
    // Like a full disk, a limit of the file size fails while the files are written.
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/recordings/h200-io.gdsrec");
    let script = "ulimit -f 20; exec \"$@\"";
    let mut command = started_by("sh");
    command.args(["-c", script, "sh", PROGRAM, "report", recording, "--export"]);
    let output = command.arg(&place).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{output:?}");
    fs::create_dir_all(&place).unwrap();
    let mut command = started_by("sh");
    command.args(["-c", script, "sh", PROGRAM, "report", recording, "--export"]);
    assert!(!command.arg(&place).output().unwrap().status.success());
    assert!(place.is_dir(), "a directory of the user is kept");
}

#[test]
fn the_umask_decides_who_can_read_an_export_and_others_cannot_write_it() {
    use std::os::unix::fs::PermissionsExt;
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/recordings/h200-io.gdsrec");
    for (umask, wanted) in [("022", 0o644), ("077", 0o600), ("027", 0o640), ("002", 0o644), ("000", 0o644)] {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("umask {umask}; exec \"$@\"");
        let mut command = started_by("sh");
        command.args(["-c", &script, "sh", PROGRAM, "report", recording, "--export"]);
        let output = command.arg(folder.path().join("out")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let files: Vec<_> = fs::read_dir(folder.path().join("out")).unwrap().map(|entry| entry.unwrap()).collect();
        assert!(files.len() > 3, "{files:?}");
        for file in files {
            let mode = file.metadata().unwrap().permissions().mode() & 0o7777;
            assert_eq!(mode, wanted, "umask {umask}: {:?} has {mode:o}", file.file_name());
        }
    }
}

#[test]
fn formats_parse_by_their_names() {
    for format in Format::ALL {
        assert_eq!(format.name().parse::<Format>(), Ok(format));
    }
    assert!("pdf".parse::<Format>().unwrap_err().contains("json, md, html, csv, trace, prom, junit"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn no_state_breaks_a_form_or_its_markup(seed in any::<u64>()) {
        let state = any_state(seed);
        let page = report::markdown(&state);
        let hostile = ["\u{1b}", "\u{202e}", "<script"];
        prop_assert!(!hostile.iter().any(|h| page.contains(h)), "markdown");
        let html = report::html(&state);
        prop_assert!(!hostile.iter().any(|h| html.contains(h)) && !html.contains("NaN"), "html");
        for tag in ["svg", "table", "figure", "details", "section"] {
            let (opened, closed) = (html.matches(&format!("<{tag}")).count(), html.matches(&format!("</{tag}>")).count());
            prop_assert_eq!(opened, closed, "{}", tag);
        }
        for table in exported(&state, Format::Csv) {
            let rows = parse_csv(&table);
            prop_assert!(rows.iter().all(|r| r.len() == rows[0].len()));
        }
        let trace = exported(&state, Format::Trace).remove(0);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&trace).is_ok());
        for line in exported(&state, Format::Prom).remove(0).lines().filter(|l| !l.starts_with('#')) {
            prop_assert!(line.rsplit_once(' ').is_some_and(|(_, v)| v.parse::<f64>().is_ok_and(f64::is_finite)), "{}", line);
        }
    }
}

#[test]
fn recordings_of_one_name_are_exported_into_a_folder_each() {
    let folder = tempfile::tempdir().unwrap();
    let places = ["before", "after"].map(|part| folder.path().join(part).join("race.gdsrec"));
    for place in &places {
        std::fs::create_dir(place.parent().unwrap()).unwrap();
        std::fs::copy("assets/recordings/h200-no-udev.gdsrec", place).unwrap();
    }
    let out = folder.path().join("out");
    let mut command = gds_top();
    command.arg("report").args(&places).arg("--export").arg(&out).args(["--format", "md"]);
    let ran = command.output().unwrap();
    let mut made: Vec<_> = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    made.sort();
    assert_eq!(made, ["1-race", "2-race"], "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(made.iter().all(|name| out.join(name).join("report.md").is_file()));
}
