//! Tests of one model that is divided among several targets, and of several models at the same time, as a user starts
//! them.

use crate::harness::{STANDIN_UUID, folder, program};
use crate::models;
use crate::standins;
use gds_top::core::{EventBody, LaneId, LaneStage};
use gds_top::session::{State, recording};
use serde_json::Value;
use std::path::Path;

fn load(arguments: &[&str], env: &[(&str, &str)]) -> Value {
    let folder = folder();
    load_recorded(&folder.path().join("events.gdsrec"), arguments, env)
}

fn load_recorded(recording: &Path, arguments: &[&str], env: &[(&str, &str)]) -> Value {
    let mut all = vec!["load", "--json", "--no-telemetry", "--record", text(recording)];
    if !arguments.contains(&"--repeat") {
        all.extend(["--repeat", "1"]);
    }
    all.extend(arguments);
    let out = program(&all, env);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    wait_for_one_another(recording, &report);
    report
}

/// Tests that the runs of a group wait for one another: no clock starts before all caches are prepared, and no
/// verification starts before all runs have loaded. The time of the group is from the first start to the last end.
fn wait_for_one_another(recording: &Path, report: &Value) {
    let mut state = State::default();
    let mut stages: Vec<(LaneId, LaneStage, u64)> = Vec::new();
    for event in recording::read(recording).unwrap().map(Result::unwrap) {
        if let EventBody::LaneStage { lane, stage } = &event.body {
            stages.push((*lane, *stage, event.at_ns));
        }
        state.reduce(&event);
    }
    for (number, group) in state.groups().iter().enumerate() {
        let is_in = |id: LaneId| group.lanes.iter().any(|lane| lane.id == id);
        let times = |wanted: LaneStage| {
            stages.iter().filter(move |(id, stage, _)| is_in(*id) && *stage == wanted).map(|(_, _, at)| *at)
        };
        let starts = || group.lanes.iter().map(|lane| lane.clock_ns.unwrap());
        let ends = || group.lanes.iter().map(|lane| lane.clock_ns.unwrap() + lane.result.as_ref().unwrap().wall_ns);
        let (first, last) = (starts().min().unwrap(), ends().max().unwrap());
        assert!(times(LaneStage::PreparingCache).count() >= group.lanes.len(), "{stages:?}");
        assert!(times(LaneStage::PreparingCache).all(|at| at < first), "{stages:?}");
        assert!(times(LaneStage::Verifying).all(|at| at >= last), "{stages:?} {last}");
        assert_eq!(report["together"][number]["wall_ns"].as_u64(), Some(last - first));
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn valid(report: &Value) {
    let schema: Value = serde_json::from_str(gds_top::report::SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<String> =
        validator.iter_errors(report).map(|e| format!("{} at {}", e, e.instance_path())).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Tests every group of a report: it is verified, takes as long as its slowest run, and has the bytes of all its
/// runs.
fn sound(report: &Value, groups: usize, lanes: usize) {
    valid(report);
    let together = report["together"].as_array().unwrap();
    assert_eq!(together.len(), groups, "{together:#?}");
    for group in together {
        let members = group["lanes"].as_array().unwrap();
        assert_eq!(members.len(), lanes);
        assert!(group["verified"] == true && group["error"].is_null(), "{group:#?}");
        assert!(members.iter().all(|m| m["verified"] == true), "{group:#?}");
        let sum: u64 = members.iter().map(|m| m["bytes"].as_u64().unwrap()).sum();
        assert_eq!(group["bytes"].as_u64().unwrap(), sum);
        let slowest = members.iter().map(|m| m["wall_ns"].as_u64().unwrap()).max().unwrap();
        assert!(group["wall_ns"].as_u64().unwrap() >= slowest, "{group:#?}");
    }
}

#[test]
fn a_model_cut_over_two_host_targets_lands_each_byte_once_with_every_engine() {
    let folder = folder();
    let model = models::odd(folder.path());
    let arguments = [text(folder.path()), "--gpu", "host,host", "--engine", "mmap,pread,auto", "--cache", "hot,cold"];
    let report = load(&arguments, &[]);
    sound(&report, 6, 2);
    assert_eq!(report["together"][0]["bytes"].as_u64(), Some(model.tensor_bytes()));
    assert_eq!(
        (&report["together"][0]["kind"], &report["together"][0]["target"]),
        (&"parts".into(), &"2 × host memory".into())
    );
    // Tensors at a cut are reported by both runs, and all others by one. None is missing.
    let named: std::collections::BTreeSet<&str> =
        report["tensors"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    let with_bytes = model.tensors.iter().filter(|t| t.bytes > 0);
    assert!(with_bytes.clone().count() > 5);
    with_bytes.for_each(|t| assert!(named.contains(t.name.as_str()), "{} is missing", t.name));
}

#[test]
fn nixl_loads_parts_and_tells_them_by_the_whole_model_s_tensors() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    let model = models::odd(folder.path());
    let arguments = [text(folder.path()), "--gpu", "host,host", "--engine", "nixl:POSIX", "--cache", "as-is"];
    let report = load(&arguments, &[("GDS_TOP_NIXL", text(&built.nixl))]);
    sound(&report, 1, 2);
    assert_eq!(report["together"][0]["bytes"].as_u64(), Some(model.tensor_bytes()));
    let named: std::collections::BTreeSet<&str> =
        report["tensors"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    let missing: Vec<_> = model.tensors.iter().filter(|t| t.bytes > 0 && !named.contains(t.name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_program_that_loads_whole_models_is_refused_where_one_would_be_cut() {
    let folder = folder();
    models::odd(folder.path());
    let engines = ["--engine", "loader:safetensors", "--engine", "command:true"];
    let out = program(&[&["load", text(folder.path()), "--gpu", "host,host"], &engines[..]].concat(), &[]);
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(said.matches("an external loader cannot load a part of a model").count() >= 2, "{said}");
}

#[test]
fn commands_together_start_at_one_time_once_every_page_cache_is_ready() {
    let (a, b) = (folder(), folder());
    models::odd(a.path());
    models::synthetic(b.path());
    let line = "command:cat {model}/*.safetensors > /dev/null";
    let arguments =
        [text(a.path()), text(b.path()), "--together", "--gpu", "host", "--engine", line, "--cache", "cold"];
    let report = load(&arguments, &[]);
    let group = &report["together"][0];
    let slowest = group["lanes"].as_array().unwrap().iter().map(|m| m["wall_ns"].as_u64().unwrap()).max().unwrap();
    let wall = group["wall_ns"].as_u64().unwrap();
    assert!(group["error"].is_null() && wall >= slowest, "{group:#}");
}

#[test]
fn models_together_may_be_shapes_by_name() {
    let cache = folder();
    let arguments = [
        "odd-sizes",
        "tiny-tensors",
        "--together",
        "--gpu",
        "host",
        "--engine",
        "pread",
        "--cache",
        "hot",
        "--ceilings",
    ];
    let report = load(&arguments, &[("XDG_CACHE_HOME", text(cache.path()))]);
    sound(&report, 1, 2);
    let names: Vec<&str> =
        report["plan"]["models"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"odd-sizes") && names.contains(&"tiny-tensors"), "{names:?}");
    let ceiling = &report["together"][0]["ceiling"];
    assert_eq!(ceiling["kind"], "cached_read", "{ceiling:#}");
    assert!(ceiling["fraction"].as_f64().unwrap() > 0.0, "{ceiling:#}");
}

#[test]
fn a_baseline_of_loads_together_is_held_against_wholes() {
    let folder = folder();
    models::odd(folder.path());
    let (recording, export) = (folder.path().join("cut.gdsrec"), folder.path().join("report"));
    let race = [text(folder.path()), "--engine", "pread", "--cache", "as-is"];
    let cut = [&race[..], &["--gpu", "host,host", "--export", text(&export), "--format", "json"]].concat();
    let report = load_recorded(&recording, &cut, &[]);
    let whole = report["together"][0]["wall_ns"].as_u64().unwrap();
    for baseline in [recording.clone(), export.join("report.json")] {
        let run =
            |more: &[&str]| program(&[&["load"], &race[..], &["--baseline", text(&baseline)], more].concat(), &[]);
        // The time of a part is not used as the time of a model.
        let said = run(&["--gpu", "host"]);
        assert_eq!(said.status.code(), Some(3));
        assert!(String::from_utf8_lossy(&said.stderr).contains("Nothing here can be compared"), "{said:?}");
        let said = String::from_utf8(run(&["--gpu", "host,host"]).stdout).unwrap();
        let told = said.split_once("\nCompared with ").unwrap().1;
        assert!(told.contains("2 × host memory") && !told.contains("cache, host memory"), "{told}");
        assert!(told.contains(&gds_top::core::units::duration(whole)), "{whole}: {told}");
    }
}

#[test]
fn a_tensor_without_bytes_behind_what_a_part_has_hinders_no_engine() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    models::write(&folder.path().join("a.safetensors"), &[("long", "U8", &[900_000]), ("nothing", "F32", &[0, 3])], 0);
    let engines = ["--engine", "mmap,pread,odirect,nixl:POSIX", "--cache", "as-is"];
    let arguments = [&[text(folder.path()), "--gpu", "host,host,host"], &engines[..]].concat();
    sound(&load(&arguments, &[("GDS_TOP_NIXL", text(&built.nixl))]), 4, 3);
}

#[test]
fn a_model_is_cut_over_more_targets_than_its_files_have_pages() {
    let folder = folder();
    let model = models::odd(folder.path());
    let hosts = ["host"; 9].join(",");
    let report = load(&[text(folder.path()), "--gpu", &hosts, "--engine", "pread", "--cache", "as-is"], &[]);
    sound(&report, 1, 9);
    assert_eq!(report["together"][0]["bytes"].as_u64(), Some(model.tensor_bytes()));
}

#[test]
fn two_gpus_take_a_part_each_and_every_engine_verifies_on_both() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    models::odd(folder.path());
    let machine = crate::harness::folder();
    standins::machine(machine.path(), machine.path());
    let env = [
        ("LD_LIBRARY_PATH", text(&built.folder)),
        ("STANDIN_CUDA_DEVICES", "2"),
        ("LD_PRELOAD", text(&built.redirect)),
        ("GDS_TOP_TEST_REDIRECT", text(machine.path())),
    ];
    let engines = "mmap,pread,gds-per-tensor,gds-bounce,gds-slab,gds-batch,gds-stream";
    for gpus in ["0,1", "all"] {
        let report = load(&[text(folder.path()), "--gpu", gpus, "--engine", engines, "--cache", "as-is"], &env);
        sound(&report, 7, 2);
        let lanes = report["plan"]["lanes"].as_array().unwrap();
        assert_eq!((&lanes[0]["target"]["ordinal"], &lanes[1]["target"]["ordinal"]), (&0.into(), &1.into()));
        assert_eq!(lanes[0]["target"]["uuid"], STANDIN_UUID);
        assert_ne!(lanes[1]["target"]["uuid"], STANDIN_UUID);
    }
}

#[test]
fn models_together_are_held_against_each_alone_and_a_recording_says_the_same() {
    let (a, b, out) = (folder(), folder(), folder());
    models::odd(a.path());
    models::synthetic(b.path());
    let recording = out.path().join("both.gdsrec");
    let arguments =
        [text(a.path()), text(b.path()), "--together", "--gpu", "host", "--engine", "pread", "--cache", "hot"];
    let report = load_recorded(&recording, &arguments, &[]);
    sound(&report, 1, 2);
    assert_eq!(report["runs"].as_array().unwrap().len(), 4);
    let group = &report["together"][0];
    assert_eq!((&group["kind"], &group["target"]), (&"models".into(), &"host memory".into()));
    for member in group["lanes"].as_array().unwrap() {
        let (wall, alone) = (member["wall_ns"].as_f64().unwrap(), member["alone_wall_ns"].as_f64().unwrap());
        assert!((member["ratio_to_alone"].as_f64().unwrap() - wall / alone).abs() < 1e-6);
    }
    assert_eq!(report["plan"]["models"].as_array().unwrap().len(), 2);
    let again = program(&["report", "--json", text(&recording)], &[]);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    let again = if again.is_array() { &again[0] } else { &again };
    assert_eq!(again["together"], report["together"]);
    let export = out.path().join("report");
    program(&["report", text(&recording), "--export", text(&export), "--format", "md,html", "-q"], &[]);
    for file in ["report.md", "report.html"] {
        let page = std::fs::read_to_string(export.join(file)).unwrap();
        assert!(page.contains("at once into host memory") && page.contains("vs alone"), "{file}");
    }
}

#[test]
fn a_lane_that_fails_holds_up_nobody_and_fails_its_group() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    models::odd(folder.path());
    let env = [
        ("LD_LIBRARY_PATH", text(&built.folder)),
        ("STANDIN_CUDA_DEVICES", "2"),
        ("STANDIN_CUDA_FAIL", "cuMemAlloc_v2:2"),
    ];
    let arguments = [
        "load",
        "--json",
        "--no-telemetry",
        text(folder.path()),
        "--gpu",
        "0,1",
        "--engine",
        "mmap",
        "--cache",
        "as-is",
    ];
    let out = program(&arguments, &env);
    assert_eq!(out.status.code(), Some(3), "{}", String::from_utf8_lossy(&out.stderr));
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    let group = &report["together"][0];
    assert!(group["error"].as_str().unwrap().contains("allocating"), "{group:#?}");
    assert!(group["wall_ns"].is_null() && group["bytes_per_s"].is_null());
}

#[test]
fn calls_that_make_no_sense_are_answered_with_what_to_do() {
    for (arguments, part) in [
        (&["load", "m", "--together"][..], "at least two"),
        (&["load", "m", "--gpu", "host,0"], "mixes targets"),
        (&["load", "m", "--gpu", "0,"], "is not a target"),
    ] {
        let out = program(arguments, &[]);
        assert_eq!(out.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
}

#[test]
fn ceilings_are_measured_first_and_each_run_is_a_share_of_one() {
    let folder = folder();
    models::synthetic(folder.path());
    let asked = ["--gpu", "host", "--engine", "pread", "--cache", "hot,cold", "--repeat", "2", "--ceilings"];
    let recording = folder.path().join("events.gdsrec");
    let report = load_recorded(&recording, &[&[text(folder.path())], &asked[..]].concat(), &[]);
    valid(&report);
    let kinds: Vec<&str> = report["ceilings"].as_array().unwrap().iter().filter_map(|c| c["kind"].as_str()).collect();
    assert!(kinds.contains(&"cached_read"), "{kinds:?}");
    let hot = &report["runs"][0];
    let (share, rate) = (hot["ceiling"]["fraction"].as_f64().unwrap(), hot["ceiling"]["bytes_per_s"].as_f64().unwrap());
    assert!((share * rate / hot["bytes_per_s"].as_f64().unwrap() - 1.0).abs() < 1e-6);
    if !kinds.contains(&"direct_read") {
        standins::skipped("O_DIRECT is not taken here, so its ceiling was not measured");
        let gaps = report["messages"].as_array().unwrap();
        assert!(gaps.iter().any(|m| m["text"].as_str().unwrap().contains("O_DIRECT read rate was not measured")));
        return;
    }
    // The plain reader read the complete files before the first of the two rounds of cold loads and after the second.
    let direct = report["ceilings"].as_array().unwrap().iter().find(|c| c["kind"] == "direct_read").unwrap();
    let rounds: Vec<u64> = direct["passes"].as_array().unwrap().iter().map(|p| p["round"].as_u64().unwrap()).collect();
    assert_eq!(rounds, [0, 1], "{direct:#}");
    let mut order = String::new();
    for event in recording::read(&recording).unwrap().map(Result::unwrap) {
        match event.body {
            EventBody::CeilingMeasured { ceiling } if !ceiling.passes.is_empty() => order.push('r'),
            EventBody::LaneFinished { .. } => order.push('l'),
            _ => {}
        }
    }
    assert_eq!(order, "llrllr", "two hot loads, then two cold ones");
    assert!(direct["reader"]["threads"].as_u64().is_some_and(|threads| threads > 0), "{direct:#}");
    let beside = &report["analysis"]["compared_with_plain_reads"][0];
    assert_eq!(
        (&beside["engine"], beside["runs"].as_u64(), beside["passes"].as_u64()),
        (&"pread".into(), Some(2), Some(2))
    );
    let number = |name: &str| beside[name].as_f64().unwrap();
    assert!((number("fraction") - number("run_bytes_per_s") / number("read_bytes_per_s")).abs() < 1e-6, "{beside:#}");
    assert!(number("lowest_fraction") > 0.0 && number("lowest_fraction") <= number("highest_fraction"), "{beside:#}");
}

#[test]
fn a_gpu_that_is_not_there_is_refused_and_nothing_takes_its_place() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    models::odd(folder.path());
    let env = [("LD_LIBRARY_PATH", text(&built.folder))];
    for gpu in ["7", "GPU-abc", "0,1", "0,GPU-abc"] {
        let out = program(&["load", text(folder.path()), "--engine", "pread", "--gpu", gpu], &env);
        let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert_eq!(out.status.code(), Some(3), "{gpu}: {said}");
        assert!(said.contains("there is no GPU") && said.contains("pass one of them with --target"), "{gpu}: {said}");
        assert!(!said.contains("would be divided among"), "{gpu}: {said}");
    }
}
