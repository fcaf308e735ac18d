//! Tests of the workload on NIXL, with the stand-in for its C interface, and with the real library of the wheels.

use crate::kv::{number, run, runs};
use crate::place::{Place, check_schema};
use crate::standins;
use serde_json::Value;

const SET: [&str; 4] = ["--set", "chunk_size=64", "--batch", "2"];
const PLUGINS: [&str; 3] = ["nixl-posix", "nixl-gds", "nixl-gds-mt"];

#[test]
fn every_plugin_writes_and_reads_the_pool_in_batches_of_chunks() {
    let Some(place) = Place::gpu() else { return };
    let built = standins::build().unwrap();
    let env = [("GDS_TOP_NIXL", built.nixl.to_str().unwrap())];
    for chunks in [3, 8] {
        let setting = format!("batch_chunks={chunks}");
        let variants = PLUGINS.join(",");
        let more = [&["--variants", &variants, "--set", &setting][..], &SET].concat();
        let (report, status) = place.report("lmcache-nixl", &more, &env);
        assert_eq!(status, 0, "{report:#}");
        check_schema(&report);
        for plugin in PLUGINS {
            for direction in ["write", "read"] {
                let run = run(&report, &format!("lmcache-nixl/{plugin}/{direction}"));
                // Two sequences with 4 chunks each.
                assert_eq!(number(run, "/workload/operations"), 8, "{plugin} {direction}");
                assert_eq!(number(run, "/bytes"), 2 * 4 * 64 * 6 * 2 * 256);
                assert_eq!(run["route"].is_null(), plugin == "nixl-posix", "{run:#}");
                let note = run["notes"].as_array().unwrap().iter().any(|note| {
                    let note = note.as_str().unwrap();
                    note.contains(&format!("{chunks} buffer pages and 8 files were registered"))
                });
                assert!(note, "{:#}", run["notes"]);
            }
        }
        assert!(place.files().is_empty());
    }
}

#[test]
fn a_transfer_that_compat_mode_would_never_end_is_an_error() {
    let Some(place) = Place::gpu() else { return };
    let built = standins::build().unwrap();
    let env = [("GDS_TOP_NIXL", built.nixl.to_str().unwrap())];
    // 80 chunks, each of one request. The pool of the library has 64 buffers.
    let more = ["--variants", "nixl-gds", "--set", "chunk_size=64", "--set", "batch_chunks=80", "--batch", "20"];
    let (report, status) = place.report("lmcache-nixl", &more, &env);
    let error = runs(&report)[0]["error"].as_str().unwrap_or_default().to_owned();
    assert!(status == 3 && error.contains("set batch_chunks to 64 or less"), "{status} {error}");
}

#[test]
fn a_refused_call_and_wrong_bytes_are_results() {
    let Some(place) = Place::gpu() else { return };
    let built = standins::build().unwrap();
    let nixl = ("GDS_TOP_NIXL", built.nixl.to_str().unwrap());
    let more = [&["--variants", "nixl-gds"][..], &SET].concat();
    for (failure, part) in [
        ("register_mem:-2", "nixl_capi_register_mem of memory"),
        ("register_mem:-2:9", "nixl_capi_register_mem of a file"),
        ("create_xfer_req:-2", "nixl_capi_create_xfer_req of a write"),
        ("get_xfer_status:-2:2", "a transfer of 8 chunks"),
    ] {
        let (report, status) = place.report("lmcache-nixl", &more, &[nixl, ("STANDIN_NIXL_FAIL", failure)]);
        let error = runs(&report)[0]["error"].as_str().unwrap_or_default().to_owned();
        assert!(status == 3 && error.contains(part), "{failure}: {status} {error}");
        assert!(place.files().is_empty());
    }
    let (report, status) = place.report("lmcache-nixl", &more, &[nixl, ("STANDIN_NIXL_CORRUPT", "1")]);
    let wrong = |direction: usize| runs(&report)[direction]["first_difference"].as_str().unwrap_or_default().to_owned();
    assert_eq!((status, &runs(&report)[0]["verified"]), (1, &Value::Bool(false)), "{report:#}");
    assert!(wrong(0).contains("ai-dynamo/nixl#2146"), "{}", wrong(0));
}

#[test]
fn other_systems_have_no_such_variant_and_this_one_no_others() {
    let place = Place::host();
    for (system, variant) in [("ucm", "nixl-gds"), ("lmcache-nixl", "gds")] {
        let dir = place.dir();
        let output = place.run(&["kv", system, dir.to_str().unwrap(), "--variants", variant], &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("has no variant"), "{said}");
    }
}

#[test]
fn the_real_library_writes_and_reads_by_posix() {
    let wheel = std::env::var_os("GDS_TOP_TEST_WHEELS").map(|root| std::path::absolute(root).unwrap().join("nixl"));
    let Some(wheel) = wheel.filter(|wheel| wheel.is_dir()) else {
        standins::skipped("GDS_TOP_TEST_WHEELS names no directory with NIXL (run .ci/wheels)");
        return;
    };
    let place = Place::host();
    let more = [&["--variants", "nixl-posix", "--set", "batch_chunks=3"][..], &SET].concat();
    let (report, status) = place.report("lmcache-nixl", &more, &[("GDS_TOP_NIXL", wheel.to_str().unwrap())]);
    assert_eq!(status, 0, "{report:#}");
    for direction in ["write", "read"] {
        run(&report, &format!("lmcache-nixl/nixl-posix/{direction}"));
    }
}
