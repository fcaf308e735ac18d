//! Tests of a race with several runs, as a user starts it, in which one run fails.

use crate::harness::{STANDIN_UUID, folder, program, standin_env};
use crate::models;
use crate::standins::{self, Standins};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

/// Runs `load` on the stand-in GPU.
fn load(built: &Standins, model: &Path, arguments: &[&str], told: &[(&str, &str)]) -> Output {
    let usual = ["load", "--cache", "as-is", "--no-telemetry", "--json", "--gpu", STANDIN_UUID];
    let repeat: &[&str] = if arguments.contains(&"--repeat") { &[] } else { &["--repeat", "1"] };
    let arguments = [&usual[..], repeat, arguments, &[model.to_str().unwrap()]].concat();
    program(&arguments, &standin_env(&built.folder, told))
}

fn runs(out: &Output) -> Vec<Value> {
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    report["runs"].as_array().unwrap().clone()
}

#[test]
fn a_lane_that_dies_is_told_with_its_last_words_while_the_others_go_on() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    models::odd(folder.path());
    let told = [("STANDIN_CUDA_FAIL", "cuMemcpyHtoD_v2:abort:2")];
    let out = load(&built, folder.path(), &["--engine", "mmap,pread,odirect"], &told);
    let runs = runs(&out);
    assert_eq!(runs.len(), 3, "{runs:#?}");
    assert_eq!((&runs[0]["engine"], &runs[0]["verified"]), (&"mmap".into(), &Value::Null));
    assert!(runs[0]["error"].as_str().unwrap().contains("signal 6"), "{}", runs[0]);
    assert!(runs[1..].iter().all(|run| run["verified"] == true && run["error"].is_null()), "{runs:#?}");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("will abort in cuMemcpyHtoD_v2"), "{said}");
}

#[test]
fn wrong_bytes_make_the_exit_status_1_and_a_race_without_a_result_makes_it_3() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    models::odd(folder.path());
    for (told, status) in
        [(("STANDIN_CUDA_CORRUPT", "2"), 1), (("STANDIN_CUDA_FAIL", "cuMemAlloc_v2:2"), 3), (("NOTHING", ""), 0)]
    {
        let out = load(&built, folder.path(), &["--engine", "mmap"], &[told]);
        assert_eq!(out.status.code(), Some(status), "{told:?}: {}", String::from_utf8_lossy(&out.stderr));
        let runs = runs(&out);
        let verified = [(0, Value::Bool(true)), (1, Value::Bool(false)), (3, Value::Null)];
        assert!(verified.contains(&(status, runs[0]["verified"].clone())), "{told:?}: {}", runs[0]);
    }
}

#[test]
fn a_sweep_prints_what_it_tried_and_the_command_of_the_best_which_it_verified() {
    let folder = folder();
    models::odd(folder.path());
    let sweep = |arguments: &[&str]| {
        let usual = ["load", "--sweep", "--gpu", "host", "--cache", "as-is", folder.path().to_str().unwrap()];
        program(&[&usual[..], arguments].concat(), &[])
    };
    let out = sweep(&["--engine", "pread", "--json"]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let told: Value = serde_json::from_slice(&out.stdout).unwrap();
    let told = &told["sweeps"][0];
    assert!(told["tried"].as_array().unwrap().len() > 5 && told["verified"] == true, "{told}");
    assert!(told["best_wall_ns"].as_u64().unwrap() > 0 && told["default_wall_ns"].as_u64().unwrap() > 0);
    let command = told["command"].as_str().unwrap();
    assert!(command.starts_with("gds-top bench ") && command.contains("--engine pread --cache as-is --target host"));
    let reasons = told["reasons"].as_array().unwrap();
    assert!(reasons.iter().any(|r| r.as_str().unwrap().contains("block_bytes")), "{reasons:?}");
    // An engine without settings is a usage error.
    let out = sweep(&["--engine", "mmap"]);
    assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0));
    assert!(String::from_utf8_lossy(&out.stderr).contains("no settings to sweep"));
}

#[test]
fn a_named_engine_without_its_library_is_reported_once_and_never_started() {
    let folder = folder();
    models::odd(folder.path());
    let absent = [("GDS_TOP_LIBCUFILE", "/nonexistent"), ("GDS_TOP_NIXL", "/nonexistent")];
    let model = folder.path().to_str().unwrap();
    let asked = ["--engine", "mmap,gds-slab,gds-batch,nixl", "--cache", "as-is", "--repeat", "3", "--no-telemetry"];
    let out = program(&[&["bench", "--json", "--target", "host"], &asked[..], &[model]].concat(), &absent);
    assert_eq!(out.status.code(), Some(3), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(runs(&out).iter().filter(|run| run["engine"] == "mmap" && run["error"].is_null()).count(), 3);
    assert_eq!(runs(&out).len(), 3, "{:#?}", runs(&out));
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    let unavailable = report["plan"]["unavailable"].as_array().unwrap();
    let why = |at: usize| (unavailable[at]["engine"].as_str().unwrap(), unavailable[at]["why"].as_str().unwrap());
    assert_eq!(unavailable.len(), 3, "{unavailable:?}");
    assert!(why(0).0 == "gds-slab" && why(0).1.contains("/nonexistent"), "{unavailable:?}");
    assert_eq!((why(1).0, why(1).1), ("gds-batch", why(0).1));
    assert!(why(2).0 == "nixl" && why(2).1.contains("NIXL was not found"), "{unavailable:?}");
    let out = program(&[&["bench", "-q", "--target", "host"], &asked[..], &[model]].concat(), &absent);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("gds-slab cannot run here: no libcufile was found"), "{said}");
    assert!(said.contains("gds-batch cannot run here for the same reason"), "{said}");
    // A sweep and a self-test report the reason too.
    for words in [&["bench", "--sweep", model][..], &["selftest"]] {
        let engines = ["--engine", "gds-slab", "--target", "host", "--cache", "as-is"];
        let env = [&absent[..], &[("XDG_CACHE_HOME", model)]].concat();
        let out = program(&[words, &engines].concat(), &env);
        let said = [out.stdout, out.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(out.status.code() == Some(3) && said.contains("no libcufile was found"), "{words:?}: {said}");
    }
}

#[test]
fn another_engine_goes_first_in_each_round() {
    let folder = folder();
    models::odd(folder.path());
    let asked = ["--engine", "mmap,pread,odirect", "--cache", "hot", "--repeat", "3", "--no-telemetry"];
    let out = program(&[&["load", "--gpu", "host"], &asked[..], &[folder.path().to_str().unwrap()]].concat(), &[]);
    let said = String::from_utf8_lossy(&out.stderr);
    let started: Vec<&str> = said.lines().filter_map(|line| line.strip_suffix(": started")).collect();
    assert_eq!(
        started,
        [
            "[1/9] mmap hot #1",
            "[2/9] pread hot #1",
            "[3/9] odirect hot #1",
            "[4/9] pread hot #2",
            "[5/9] odirect hot #2",
            "[6/9] mmap hot #2",
            "[7/9] odirect hot #3",
            "[8/9] mmap hot #3",
            "[9/9] pread hot #3",
        ]
    );
}

#[test]
fn a_setting_that_changes_nothing_or_is_out_of_bounds_ends_the_call_before_anything_runs() {
    let folder = folder();
    models::odd(folder.path());
    for (set, engines, part) in [
        ("threads=0", "pread", "threads accepts values from 1 to 256"),
        ("block_bytes=5000", "pread", "the next one is 8192"),
        ("mmap.threads=2", "mmap,pread", "mmap has no setting 'threads'; it accepts warmup"),
        ("depth=4", "pread", "'depth' has no effect here: pread accepts threads"),
        ("direct.depth=4", "pread", "odirect is not in this race (pread)"),
        ("gds-batch.block_bytes=33554432", "gds-batch", "from 4096 to 16777216"),
    ] {
        let out = program(&["load", folder.path().to_str().unwrap(), "--engine", engines, "--set", set], &[]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0), "{set}: {said}");
        assert!(said.contains(part), "{set}: {said}");
    }
}

#[test]
fn a_missing_gpu_is_not_reported_again_as_missing_cuda_after_the_checks() {
    let folder = folder();
    models::odd(folder.path());
    let model = folder.path().to_str().unwrap();
    let common = ["--engine", "mmap", "--cache", "as-is", "--repeat", "1", "--no-telemetry", "--json"];
    let out = program(&[&[model, "--headless"][..], &common].concat(), &[]);
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    if report["verdicts"][0]["basis"] != "no_gpu" {
        return standins::skipped("this machine has a GPU");
    }
    let warns = |out: &Output| String::from_utf8_lossy(&out.stderr).contains("no GPU can be used");
    assert!(out.status.success() && !warns(&out), "{}", String::from_utf8_lossy(&out.stderr));
    // Without the checks, no other text has the reason.
    let out = program(&[&["bench", model][..], &common].concat(), &[]);
    assert!(out.status.success() && warns(&out), "{}", String::from_utf8_lossy(&out.stderr));
}
