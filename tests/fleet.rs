//! Tests `gds-top fleet` with generated fleets that contain known differences, and with sources that are not reports.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod program;

use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Output;

/// The report of a healthy node, with the parts that the fleet command reads.
fn report(host: &str) -> Value {
    json!({
        "schema_version": 1, "tool": "gds-top 0.1.0", "started_unix_ms": 1_790_000_000_000_u64,
        "machine": {
            "host": host, "kernel": "6.8.0-60-generic", "distribution": "Ubuntu 24.04.2 LTS", "cpus": 32, "memory_bytes": 1_u64 << 38,
            "gpus": [{"name": "NVIDIA H200", "pcie_generation": [5, 5], "pcie_width": [16, 16]}],
            "driver": "580.159.04 open", "cuda": "13.0", "libcufile": {"path": "/l", "version": "1.15"}, "nvidia_fs": {"version": "2.26.6"},
            "cufile_settings": [{"key": "properties.max_direct_io_size_kb", "value": "16384", "origin": "/etc/cufile.json:3"}],
        },
        "checks": [
            {"id": "gpu-present", "group": "gpu", "status": "pass", "summary": "1 GPU", "fix": null},
            {"id": "udev-database", "group": "files", "status": "pass", "summary": "udev knows the disk", "fix": "udev-record"},
        ],
        "verdicts": [{"path": "/data", "gpu": "GPU-1", "route": "nvfs", "possible": "nvfs", "proven": true, "blockers": []}],
        "runs": [],
    })
}

fn run(engine: &str, rate: f64) -> Value {
    json!({"engine": engine, "cache": "cold", "model": "qwen3-0.6b", "bytes": 1_503_300_328_u64, "bytes_per_s": rate, "verified": true, "error": null})
}

fn fleet(folder: &Path, options: &[&str]) -> Output {
    program::gds_top().arg("fleet").arg(folder).args(options).output().unwrap()
}

fn as_json(folder: &Path) -> Value {
    let out = fleet(folder, &["--json"]);
    assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    let fleet = serde_json::from_slice(&out.stdout).unwrap();
    let schema: Value = serde_json::from_str(include_str!("../schema/fleet.schema.json")).unwrap();
    if let Err(error) = jsonschema::validate(&schema, &fleet) {
        panic!("schema/fleet.schema.json: {error} at {}", error.instance_path());
    }
    fleet
}

fn write(folder: &Path, reports: &[Value]) {
    for (number, report) in reports.iter().enumerate() {
        std::fs::write(folder.join(format!("{number}.json")), report.to_string()).unwrap();
    }
}

/// The differing nodes of a JSON report: the property, its value, and the nodes.
fn oddities(fleet: &Value) -> BTreeSet<(String, String, Vec<String>)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    fleet["odd"]
        .as_array()
        .unwrap()
        .iter()
        .map(|odd| {
            (text(&odd["fact"]), text(&odd["value"]), odd["nodes"].as_array().unwrap().iter().map(text).collect())
        })
        .collect()
}

#[test]
fn planted_oddities_are_found_and_none_is_invented() {
    let folder = tempfile::tempdir().unwrap();
    let mut reports: Vec<Value> = (0..10_000)
        .map(|number| {
            let mut report = report(&format!("node{number:05}"));
            // Noise of about 2 %, and a setting that half of the nodes have. Neither is a difference.
            report["runs"] = json!([run("odirect", 3e9 * (1.0 + 0.02 * (f64::from(number) * 12.9898).sin()))]);
            report["machine"]["cpus"] = json!(if number % 2 == 0 { 32 } else { 64 });
            report
        })
        .collect();
    reports[17]["machine"]["driver"] = json!("570.1 open");
    reports[18]["machine"]["kernel"] = json!("6.8.0-59-generic");
    reports[19]["machine"]["gpus"][0]["pcie_width"] = json!([8, 16]);
    reports[20]["machine"]["cufile_settings"] = json!([]);
    reports[21]["machine"]["cufile_settings"][0]["value"] = json!("1024");
    reports[22]["runs"] = json!([run("odirect", 2e9)]);
    reports[23]["checks"][1]["status"] = json!("warn");
    reports[24]["verdicts"][0]["route"] = json!("compat");
    for report in &mut reports[30..33] {
        report["machine"]["nvidia_fs"] = json!({"version": "2.17.5"});
    }
    // All reports in one file, as a scheduler's job may collect them.
    let lines: Vec<String> = reports.iter().map(Value::to_string).collect();
    std::fs::write(folder.path().join("all.jsonl"), lines.join("\n")).unwrap();
    let found = oddities(&as_json(folder.path()));
    let planted = [
        ("driver", "570.1 open", vec!["node00017"]),
        ("kernel", "6.8.0-59-generic", vec!["node00018"]),
        ("PCIe links", "1 x PCIe 5 x8", vec!["node00019"]),
        ("cufile.json properties.max_direct_io_size_kb", "absent", vec!["node00020"]),
        ("cufile.json properties.max_direct_io_size_kb", "1024", vec!["node00021"]),
        ("bandwidth of odirect, cold cache, qwen3-0.6b", "2.00 GB/s", vec!["node00022"]),
        ("check udev-database", "warn", vec!["node00023"]),
        ("route", "compat", vec!["node00024"]),
        ("nvidia-fs", "2.17.5", vec!["node00030", "node00031", "node00032"]),
    ];
    let planted = planted.map(|(fact, value, nodes)| {
        (fact.to_owned(), value.to_owned(), nodes.into_iter().map(str::to_owned).collect::<Vec<_>>())
    });
    assert_eq!(found, BTreeSet::from(planted));
}

#[test]
fn nodes_with_other_gpus_are_not_peers() {
    let folder = tempfile::tempdir().unwrap();
    let mut reports: Vec<Value> = (0..6).map(|number| report(&format!("a{number}"))).collect();
    for number in 0..4 {
        let mut other = report(&format!("b{number}"));
        other["machine"]["gpus"] = json!([{"name": "NVIDIA L40S", "pcie_generation": [4, 4], "pcie_width": [16, 16]}]);
        other["machine"]["driver"] = json!("575.1 open");
        reports.push(other);
    }
    write(folder.path(), &reports);
    assert_eq!(oddities(&as_json(folder.path())), BTreeSet::new());
}

#[test]
fn small_fleets_halves_and_sub_fleets_are_told_apart() {
    let of = |gpu: &str, driver: &str, hosts: std::ops::Range<u32>| -> Vec<Value> {
        hosts
            .map(|number| {
                let mut report = report(&format!("{}{number}", &gpu[..1].to_lowercase()));
                report["machine"]["gpus"][0]["name"] = json!(format!("NVIDIA {gpu}"));
                report["machine"]["driver"] = json!(driver);
                report["runs"] = json!([run("odirect", if gpu == "H200" { 6e9 } else { 3e9 })]);
                report
            })
            .collect()
    };
    let odd = |reports: Vec<Value>| {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &reports);
        oddities(&as_json(folder.path()))
    };
    // One of three nodes differs.
    let three = [of("H200", "580.1 open", 0..2), of("H200", "570.1 open", 2..3)].concat();
    assert_eq!(odd(three), BTreeSet::from([("driver".to_owned(), "570.1 open".to_owned(), vec!["h2".to_owned()])]));
    // Two different nodes, and two halves: neither is a difference.
    assert_eq!(odd([of("H200", "580.1 open", 0..1), of("H200", "570.1 open", 1..2)].concat()), BTreeSet::new());
    assert_eq!(odd([of("H200", "580.1 open", 0..6), of("H200", "570.1 open", 6..12)].concat()), BTreeSet::new());
    // Sub-fleets of one kind each. One of them contains a slow node and a node with another kernel.
    let mut mixed =
        [of("H200", "580.1 open", 0..40), of("L40S", "570.1 open", 0..9), of("B200", "590.1 open", 0..3)].concat();
    mixed[7]["runs"] = json!([run("odirect", 3e9)]);
    mixed[44]["machine"]["kernel"] = json!("6.8.0-1-generic");
    let found = odd(mixed);
    assert_eq!(
        found,
        BTreeSet::from([
            ("bandwidth of odirect, cold cache, qwen3-0.6b".to_owned(), "3.00 GB/s".to_owned(), vec!["h7".to_owned()]),
            ("kernel".to_owned(), "6.8.0-1-generic".to_owned(), vec!["l4".to_owned()]),
        ])
    );
}

#[test]
fn nodes_are_grouped_by_their_next_step_with_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let mut reports: Vec<Value> = (1..=5).map(|number| report(&format!("node{number}"))).collect();
    for report in &mut reports[..2] {
        report["checks"][1]["status"] = json!("fail");
        report["checks"][1]["summary"] = json!("udev has no record of this disk");
        report["verdicts"] = json!([
            {"path": "/data", "gpu": "GPU-1", "route": "none", "possible": "nvfs", "proven": false, "blockers": ["udev-database"]},
            {"path": "/scratch", "gpu": "GPU-1", "route": "nvfs", "possible": "nvfs", "proven": true, "blockers": []},
        ]);
    }
    write(folder.path(), &reports);
    let out = fleet(folder.path(), &["--json"]);
    assert_eq!(out.status.code(), Some(1), "two nodes have no route");
    let fleet: Value = serde_json::from_slice(&out.stdout).unwrap();
    let causes: Vec<(&str, &str, &str, &str)> = fleet["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| {
            let text = |name: &str| cause[name].as_str().unwrap_or("");
            (text("route"), text("blocker"), text("hostlist"), text("command"))
        })
        .collect();
    assert_eq!(
        causes,
        [
            ("none", "udev-database", "node[1-2]", "sudo gds-top fix udev-record --path /data"),
            ("nvfs", "", "node[3-5]", "")
        ]
    );
}

#[test]
fn a_healthy_fleet_ends_with_status_0() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[report("node1"), report("node2"), report("node3")]);
    assert_eq!(fleet(folder.path(), &[]).status.code(), Some(0));
}

#[test]
fn a_newer_report_of_another_path_hides_no_blocked_path() {
    let folder = tempfile::tempdir().unwrap();
    let mut old = report("node1");
    old["verdicts"][0]["route"] = json!("none");
    old["verdicts"][0]["path"] = json!("/broken");
    let mut new = report("node1");
    new["started_unix_ms"] = json!(1_790_000_000_001_u64);
    write(folder.path(), &[old, new]);
    assert_eq!(fleet(folder.path(), &[]).status.code(), Some(1));
    let fleet = as_json(folder.path());
    let node = &fleet["nodes"][0];
    assert_eq!((&node["route"], &node["path"]), (&json!("none"), &json!("/broken")));
    assert_eq!(fleet["superseded"], json!(0));
}

#[test]
fn other_json_files_are_listed_as_such_and_do_not_hide_the_reports() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[report("node1")]);
    // The files of a captured machine, and the report of a fleet.
    for (name, text) in [
        ("paths.json", r#"[{"block_device": {"name": "vda"}, "path": "/data"}]"#),
        ("commands.json", "\n[]"),
        ("capture.json", r#"{"schema_version": 1, "tool": "gds-top 0.1.0", "taken_at": "2026-11-29T00:00:00Z"}"#),
        ("fleet.json", r#"{"schema_version": 1, "tool": "gds-top 0.1.0", "nodes": [], "causes": []}"#),
        ("package.json", r#"{"name": "other"}"#),
        ("number.json", "7"),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let out = fleet(folder.path(), &["--json"]);
    assert_eq!(out.status.code(), Some(1), "{}", String::from_utf8_lossy(&out.stderr));
    let found: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(found["nodes"].as_array().unwrap().len(), 1);
    let unread = found["unread"].as_array().unwrap();
    let why = |name: &str| {
        let is = |entry: &&Value| entry["source"].as_str().unwrap().ends_with(name);
        unread.iter().find(is).unwrap_or_else(|| panic!("{name}: {unread:?}"))["why"].as_str().unwrap()
    };
    for name in ["paths.json", "commands.json", "number.json"] {
        assert_eq!(why(name), "it is not a JSON object, so it is not a report of gds-top");
    }
    for name in ["capture.json", "fleet.json"] {
        assert!(why(name).contains("another output of gds-top"), "{name}: {}", why(name));
    }
    assert!(why("package.json").contains("no schema_version"));
    assert_eq!(unread.len(), 6);
}

#[test]
fn mixed_schema_versions_are_refused_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    for version in [json!(2), json!(7), json!("7"), json!("1"), json!(1.5), json!(-1), json!(null)] {
        let mut new = report("node2");
        new["schema_version"] = version.clone();
        if version == json!(7) {
            // A newer report can have other types.
            new["checks"] = json!({});
        }
        write(folder.path(), &[report("node1"), new]);
        let out = fleet(folder.path(), &["--json"]);
        assert_eq!(out.status.code(), Some(2));
        assert!(out.stdout.is_empty());
        let error = String::from_utf8(out.stderr).unwrap();
        assert!(error.contains("1.json") && error.contains(&version.to_string()), "{error}");
    }
}

#[test]
fn the_newest_report_of_a_node_counts_and_a_benchmark_adds_its_rates() {
    let folder = tempfile::tempdir().unwrap();
    let mut old = report("node1");
    old["verdicts"][0]["route"] = json!("none");
    let mut bench = report("node1");
    bench["started_unix_ms"] = json!(1_790_000_000_001_u64);
    bench["verdicts"] = json!([]);
    bench["runs"] = json!([run("mmap", 1e9)]);
    let mut other = report("node2");
    other["runs"] = json!([run("mmap", 1.1e9)]);
    let mut new = report("node1");
    new["started_unix_ms"] = json!(1_790_000_000_002_u64);
    write(folder.path(), &[old, bench, other, new]);
    let fleet = as_json(folder.path());
    assert_eq!(fleet["superseded"], json!(1), "only the older check was replaced");
    let routes: Vec<&str> =
        fleet["nodes"].as_array().unwrap().iter().map(|node| node["route"].as_str().unwrap()).collect();
    assert_eq!(routes, ["nvfs", "nvfs"]);
    assert_eq!(fleet["bandwidth"][0]["nodes"], json!(2));
}

#[test]
fn a_broken_file_is_listed_and_the_others_count() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[report("node1"), report("node2")]);
    let text = report("node3").to_string();
    std::fs::write(folder.path().join("cut.json"), &text[..text.len() / 2]).unwrap();
    std::fs::write(folder.path().join("other.json"), "{\"a\": 1}").unwrap();
    std::fs::write(folder.path().join("empty.json"), "").unwrap();
    let out = fleet(folder.path(), &["--json"]);
    assert_eq!(out.status.code(), Some(1), "three nodes are not known");
    let fleet: Value = serde_json::from_slice(&out.stdout).unwrap();
    let unread: BTreeMap<&str, &str> = fleet["unread"]
        .as_array()
        .unwrap()
        .iter()
        .map(|unread| {
            (
                Path::new(unread["source"].as_str().unwrap()).file_name().unwrap().to_str().unwrap(),
                unread["why"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(unread.keys().copied().collect::<Vec<_>>(), ["cut.json", "empty.json", "other.json"]);
    assert_eq!(fleet["nodes"].as_array().unwrap().len(), 2);
}

#[test]
fn links_fifos_and_sockets_in_a_folder_are_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[report("node1")]);
    let at = |name: &str| folder.path().join(name);
    std::os::unix::fs::symlink("0.json", at("latest.json")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket.json")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo.json"), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    std::fs::write(at("notes.txt"), "").unwrap();
    let found = as_json(folder.path());
    let skipped: Vec<(&str, &str)> = found["skipped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let name = Path::new(one["source"].as_str().unwrap()).file_name().unwrap();
            (name.to_str().unwrap(), one["why"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        skipped,
        [
            ("fifo.json", "it is a FIFO and not a file"),
            ("latest.json", "it is a link, and links are not followed; pass it as a source"),
            ("socket.json", "it is a socket and not a file"),
        ]
    );
    assert_eq!((found["nodes"].as_array().unwrap().len(), &found["unread"]), (1, &json!([])));
    let out = fleet(folder.path(), &[]);
    let text = String::from_utf8(out.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(out.status.code(), Some(0), "{text}");
    assert!(text.contains("3 entries were skipped.") && text.contains("fifo.json: it is a FIFO"), "{text}");
    // If nothing else is there, the first of them is the reason.
    std::fs::remove_file(at("0.json")).unwrap();
    let out = fleet(folder.path(), &[]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.code() == Some(2) && said.contains("FIFO"), "{said}");
}

#[test]
fn a_file_with_several_names_is_read_once_and_the_others_are_named() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[report("node1"), report("node2")]);
    for number in 10..20 {
        std::fs::hard_link(folder.path().join("1.json"), folder.path().join(format!("{number}.json"))).unwrap();
    }
    let found = as_json(folder.path());
    let skipped = found["skipped"].as_array().unwrap();
    let first = format!("it is the same file as {}", folder.path().join("1.json").display());
    assert!(skipped.len() == 10 && skipped.iter().all(|one| one["why"] == json!(first)), "{skipped:?}");
    assert_eq!((&found["superseded"], found["nodes"].as_array().unwrap().len()), (&json!(0), 2));
    let out = fleet(folder.path(), &[]);
    let text = String::from_utf8(out.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(out.status.code() == Some(0) && text.contains("10 entries were skipped."), "{text}");
}

#[test]
fn long_texts_of_a_report_are_cut_and_paths_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let (long, path) = ("ä".repeat(100_000), format!("/{}", "p".repeat(4000)));
    let mut long_report = report(&long);
    long_report["checks"][1]["summary"] = json!(long);
    long_report["verdicts"] = json!([{"path": path, "route": "none", "blockers": ["udev-database"]}]);
    write(folder.path(), &[long_report]);
    let found = as_json(folder.path());
    let node = &found["nodes"][0];
    let bytes = |value: &Value| value.as_str().unwrap().len();
    assert!(bytes(&node["host"]) < 4200 && bytes(&found["causes"][0]["summary"]) < 700, "{node}");
    assert_eq!(node["path"], json!(path));
}

#[test]
fn sources_without_a_report_end_with_status_2() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("no-such-file"), "/proc/self/environ".into()] {
        let out = fleet(&path, &[]);
        assert_eq!(out.status.code(), Some(2), "{}", path.display());
        assert_eq!(String::from_utf8(out.stderr).unwrap().lines().count(), 1);
    }
}

#[test]
fn more_reports_and_entries_than_a_fleet_has_are_refused_in_bounded_memory() {
    let folder = tempfile::tempdir().unwrap();
    let many = r#"{"schema_version":2}"#.repeat(60_000);
    for name in ["a.json", "b.json"] {
        std::fs::write(folder.path().join(name), &many).unwrap();
    }
    let out = fleet(folder.path(), &[]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("more than 100000 reports"), "{said}");
    std::fs::remove_file(folder.path().join("a.json")).unwrap();
    let entry = r#"{},"#.repeat(2_000_000);
    for list in ["runs", "checks", "verdicts", "machine", "grid"] {
        let list = match list {
            "machine" => format!(r#""machine":{{"gpus":[{entry}{{}}]}}"#),
            "grid" => format!(r#""grid":{{"cells":[{entry}{{}}]}}"#),
            "checks" => format!(r#""checks":[{}{{}}]"#, r#"{"id":"","status":"pass"},"#.repeat(20_000)),
            "verdicts" => format!(r#""verdicts":[{}{{}}]"#, r#"{"route":"none"},"#.repeat(20_000)),
            name => format!(r#""{name}":[{entry}{{}}]"#),
        };
        std::fs::write(folder.path().join("b.json"), format!(r#"{{"schema_version":2,{list}}}"#)).unwrap();
        let out = fleet(folder.path(), &[]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains("more than 10000 entries"), "{said}");
    }
}

#[test]
fn reports_come_one_after_another_on_standard_input() {
    let mut child = program::gds_top()
        .args(["fleet", "-", "--format", "csv"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let text = format!("{}\n{}", report("node2"), report("node10"));
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    let rows = String::from_utf8(out.stdout).unwrap();
    let hosts: Vec<&str> = rows.lines().skip(1).map(|row| row.split(',').next().unwrap()).collect();
    assert_eq!(hosts, ["node2", "node10"]);
}

#[test]
fn cells_of_the_storage_grid_are_compared_between_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let reports: Vec<Value> = (0..6)
        .map(|number| {
            let mut report = report(&format!("node{number}"));
            let cell = |threads: u32, rate: f64| {
                json!({"access": "read", "pattern": "random", "transfer": "gds", "block_bytes": 4096, "threads": threads,
                       "bytes_per_s": rate, "verified": true, "error": null})
            };
            report["grid"] = json!({"cells": [cell(1, 1e8), cell(4, if number == 5 { 2e8 } else { 4e8 })]});
            report
        })
        .collect();
    write(folder.path(), &reports);
    let found = oddities(&as_json(folder.path()));
    let slow = ("bandwidth of gds, random read 4 KiB, 4 threads", "200 MB/s", vec!["node5".to_owned()]);
    assert_eq!(found, BTreeSet::from([(slow.0.to_owned(), slow.1.to_owned(), slow.2)]));
}

#[test]
fn a_cause_without_a_fix_has_the_advice() {
    let folder = tempfile::tempdir().unwrap();
    let reports: Vec<Value> = (1..=3)
        .map(|number| {
            let mut report = report(&format!("node{number}"));
            report["checks"][1] = json!({"id": "vm-type", "group": "storage", "status": "warn", "summary": "vda is a virtual disk",
                                         "fix": null, "advice": "Pass an NVMe device through."});
            report["verdicts"] = json!([{"path": "/data", "gpu": "GPU-1", "route": "compat", "possible": "compat", "proven": false, "blockers": ["vm-type"]}]);
            report
        })
        .collect();
    write(folder.path(), &reports);
    let fleet = as_json(folder.path());
    assert_eq!(fleet["causes"][0]["advice"], json!("Pass an NVMe device through."));
    assert_eq!(fleet["causes"][0]["command"], Value::Null);
}

#[test]
fn the_next_step_of_a_node_precedes_its_permanent_blocker() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/h200-vm-no-udev");
    let out = program::gds_top().args(["check", "--json", "--root"]).arg(root).output().unwrap();
    let check: Value = serde_json::from_slice(&out.stdout).unwrap();
    let verdict = &check["verdicts"][0];
    assert_eq!(verdict["blockers"][0], json!("vm-type"));
    assert_eq!(verdict["steps"][0], json!("udev-database"));
    write(folder.path(), &[check]);
    let fleet_json = as_json(folder.path());
    let cause = &fleet_json["causes"][0];
    assert_eq!((&cause["route"], &cause["blocker"]), (&json!("none"), &json!("udev-database")));
    assert_eq!(cause["command"], json!("sudo gds-top fix udev-record --path /data/models"));
    let text = String::from_utf8(fleet(folder.path(), &[]).stdout).unwrap();
    assert!(text.contains("0 on compat, 1 without a route"), "{text}");
}

#[test]
fn slurm_drains_a_node_with_its_next_step_first() {
    if std::process::Command::new("python3").arg("-V").output().is_err() {
        eprintln!("skipped: there is no python3");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let verdict =
        json!({"path": "/data", "route": "none", "blockers": ["vm-type", "udev-database"], "steps": ["udev-database"]});
    let mut old = verdict.clone();
    old.as_object_mut().unwrap().remove("steps");
    let script = |name: &str, text: &str| {
        std::fs::write(here.join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(here.join(name), mode).unwrap();
    };
    script("gds-top", &format!("cat {}; exit 1", here.join("check.json").display()));
    script("scontrol", &format!("for word; do echo \"$word\"; done > {}", here.join("words").display()));
    let defaults = here.join("defaults");
    std::fs::write(&defaults, format!("GDS_TOP={}\nGDS_PATHS=/data\n", here.join("gds-top").display())).unwrap();
    for (verdict, checks) in [(verdict, "udev-database,vm-type"), (old, "vm-type,udev-database")] {
        std::fs::write(here.join("check.json"), json!({"verdicts": [verdict]}).to_string()).unwrap();
        let status = std::process::Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/slurm/gds-health"))
            .env("PATH", format!("{}:{}", here.display(), std::env::var("PATH").unwrap()))
            .env("GDS_HEALTH_DEFAULTS", &defaults)
            .env("SLURMD_NODENAME", "node1")
            .env_remove("SLURM_JOB_ID")
            .status();
        assert_eq!(status.unwrap().code(), Some(0));
        let words = std::fs::read_to_string(here.join("words")).unwrap();
        assert_eq!(words.lines().last(), Some(format!("Reason=GDS: /data none {checks}").as_str()), "{words}");
    }
}

#[test]
fn hostile_names_stay_text_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let name = "=cmd()\u{1b}[31m<script>\u{202e}";
    let mut hostile = report(name);
    hostile["verdicts"][0]["path"] = json!(name);
    write(folder.path(), &[hostile, report("node1"), report("node2")]);
    for format in ["text", "html", "csv"] {
        let out = fleet(folder.path(), &["--format", format]);
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(format != "html" || !text.contains("<script>"), "a name is markup");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{format}");
        assert!(!text.lines().any(|line| line.starts_with('=')), "{format}: a spreadsheet would run it");
    }
}

#[test]
fn a_report_of_the_program_itself_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for machine in ["h200-vm-no-udev", "nvfs-healthy"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines").join(machine);
        let out = program::gds_top().args(["check", "--json", "--root"]).arg(root).output().unwrap();
        std::fs::write(folder.path().join(format!("{machine}.json")), out.stdout).unwrap();
    }
    let fleet = as_json(folder.path());
    // Both captures have the same redacted host name, so the newer one counts.
    assert_eq!(fleet["nodes"].as_array().unwrap().len() as u64 + fleet["superseded"].as_u64().unwrap(), 2);
    assert_eq!(fleet["unread"], json!([]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn text_that_is_not_a_report_never_ends_the_program(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.json"), &bytes).unwrap();
        let code = fleet(folder.path(), &[]).status.code();
        prop_assert_eq!(code, Some(2));
    }
}
