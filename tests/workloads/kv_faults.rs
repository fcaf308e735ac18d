//! Tests of KV-cache workloads with faults: a call that fails, a writer that dies, a damaged chunk, and a full disk.

use crate::kv::{WORKLOADS, number, run, runs};
use crate::place::Place;
use serde_json::Value;
use std::path::PathBuf;

#[test]
fn a_failed_registration_ends_a_lane_of_ucm_with_a_sentence() {
    let Some(place) = Place::gpu() else { return };
    for (fails, words) in [("cuFileHandleRegister:5027", "registering"), ("cuFileBufRegister:5036", "BAR1")] {
        let more = ["--variants", "gds-registered", "--direction", "write", "--set", "block_tokens=64"];
        let (report, status) = place.report("ucm", &more, &[("STANDIN_CUFILE_FAIL", fails)]);
        let error = runs(&report)[0]["error"].as_str().unwrap().to_owned();
        assert!(status == 3 && error.contains(words), "{status}: {error}");
    }
}

#[test]
fn every_reason_to_fall_back_is_reported_and_the_bytes_are_right() {
    let Some(place) = Place::gpu() else { return };
    /// Reason, arguments and environment.
    type Case = (&'static str, &'static [&'static str], &'static [(&'static str, &'static str)]);
    let cases: [Case; 7] = [
        ("no_library", &["--provoke", "no-library"], &[]),
        ("init_failed", &["--provoke", "init-failed"], &[]),
        ("no_odirect", &["--provoke", "no-odirect"], &[]),
        ("operation_failed", &["--provoke", "operation-failed"], &[]),
        ("no_library", &[], &[("GDS_TOP_LIBCUFILE", "/nonexistent/libcufile.so.0")]),
        ("init_failed", &[], &[("STANDIN_CUFILE_FAIL", "cuFileDriverOpen:5011")]),
        ("operation_failed", &[], &[("STANDIN_CUFILE_FAIL", "cuFileRead:5:2,cuFileWrite:5:2")]),
    ];
    for (reason, provoke, env) in cases {
        let set = ["--set", "block_size=64", "--set", "on_failure=1", "--set", "staging_bytes=65536"];
        let more = [&["--variants", "gds", "--cufile-json", "none"][..], &set, provoke].concat();
        let (report, status) = place.report("llmd", &more, env);
        assert_eq!(status, 0, "{reason}: {report:#}");
        for direction in ["write", "read"] {
            let run = run(&report, &format!("llmd/gds/{direction}"));
            let falls = run["workload"]["fallbacks"].as_array().unwrap();
            assert_eq!(falls.iter().map(|f| f["reason"].as_str().unwrap()).collect::<Vec<_>>(), [reason], "{env:?}");
            let count = number(&falls[0], "/operations");
            let all = number(run, "/workload/operations");
            assert_eq!(count == all, reason != "operation_failed", "{reason}: {count} of {all}");
            // The staging path opens files without O_DIRECT, so its writes end in the page cache.
            assert_eq!(run["workload"]["in_page_cache"] == true, direction == "write", "{reason} {direction}");
            assert_eq!(
                run["route"].is_null(),
                count == all,
                "a route of bytes that cuFile did not move: {}",
                run["route"]
            );
        }
    }
}

#[test]
fn a_file_that_cannot_be_registered_is_counted_as_a_file_with_all_its_transfers() {
    let Some(place) = Place::gpu() else { return };
    let set = ["--variants", "gds", "--cufile-json", "none", "--set", "block_size=64", "--set", "threads_per_gpu=1"];
    // 4 files, each of 24 transfers. The registration of the second file fails.
    let fails = [("STANDIN_CUFILE_FAIL", "cuFileHandleRegister:5027:2")];
    let counts = |report: &Value, direction: &str| {
        let w = &run(report, &format!("llmd/gds/{direction}"))["workload"];
        let fall = &w["fallbacks"][0];
        ["operations", "files"].map(|name| fall[name].as_u64()).into_iter().chain([w["requested"].as_u64()]).collect()
    };
    let dropped: Vec<Option<u64>> = counts(&place.report("llmd", &set, &fails).0, "write");
    assert_eq!(dropped, [Some(24), Some(1), Some(96)]);
    // Staging makes the transfers of a file at once.
    let staged: Vec<Option<u64>> =
        counts(&place.report("llmd", &[&set[..], &["--set", "on_failure=1"]].concat(), &fails).0, "write");
    assert_eq!(staged, [Some(1), Some(1), None]);
    // A transfer that fails is not a file. The transfers after it are part of the request.
    let transfer = [("STANDIN_CUFILE_FAIL", "cuFileWrite:5:30")];
    let (report, _) = place.report("llmd", &set, &transfer);
    let failed: Vec<Option<u64>> = counts(&report, "write");
    assert_eq!(failed, [Some(1), Some(0), Some(96)]);
}

#[test]
fn files_that_are_staged_at_once_count_as_one_transfer_and_a_missed_fault_is_named() {
    let Some(place) = Place::gpu() else { return };
    let set = ["--variants", "gds", "--cufile-json", "none", "--provoke", "operation-failed"];
    let (report, status) = place.report("llmd", &set, &[("GDS_TOP_LIBCUFILE", "/nonexistent/libcufile.so.0")]);
    assert_eq!(status, 0, "{report:#}");
    for direction in ["write", "read"] {
        let run = run(&report, &format!("llmd/gds/{direction}"));
        let staged = number(run, "/workload/fallbacks/0/operations");
        assert_eq!((staged, &run["route"]), (number(run, "/workload/operations"), &Value::Null), "{run:#}");
        let notes = run["notes"].as_array().unwrap();
        assert!(
            notes.iter().any(|note| note.as_str().unwrap().contains("operation_failed was not reached")),
            "{run:#}"
        );
    }
}

#[test]
fn a_failure_drops_the_write_and_ignores_the_read_as_in_0_22() {
    let Some(place) = Place::gpu() else { return };
    let set = ["--variants", "gds", "--set", "block_size=64", "--set", "threads_per_gpu=1", "--cufile-json", "none"];
    // The second file fails. Each file has 24 transfers.
    let (report, status) = place.report("llmd", &set, &[("STANDIN_CUFILE_FAIL", "cuFileWrite:5:30")]);
    assert_eq!(status, 0, "{report:#}");
    let write = run(&report, "llmd/gds/write");
    let falls = &write["workload"]["fallbacks"][0];
    assert_eq!((&falls["action"], &falls["reason"]), (&"dropped".into(), &"operation_failed".into()), "{write:#}");
    let (hits, lookups) = (
        number(run(&report, "llmd/gds/read"), "/workload/hits"),
        number(run(&report, "llmd/gds/read"), "/workload/lookups"),
    );
    assert_eq!((hits, lookups), (1, 4), "a dropped file is a miss, and so are the files after it");
    let (report, status) = place.report("llmd", &set, &[("STANDIN_CUFILE_FAIL", "cuFileRead:5:30")]);
    assert_eq!(status, 0, "{report:#}");
    let falls = &run(&report, "llmd/gds/read")["workload"]["fallbacks"][0];
    assert_eq!((&falls["action"], number(falls, "/operations")), (&"ignored".into(), 1));
    // If each file has a failed transfer, nothing is stored, and the run fails.
    let (report, status) = place.report("llmd", &[&set[..], &["--provoke", "operation-failed"]].concat(), &[]);
    let write = runs(&report)[0];
    assert_eq!((status, &write["verified"]), (3, &Value::Null), "{write:#}");
    assert_eq!(write["workload"]["fallbacks"][0]["action"], "dropped");
    assert!(!write["error"].is_null());
    // A failed registration is a warning and does not end the run.
    let registered = [&["--set", "register=1"][..], &set].concat();
    let registered: Vec<&str> = registered.iter().map(|w| if *w == "gds" { "gds-registered" } else { w }).collect();
    let (report, status) = place.report("llmd", &registered, &[("STANDIN_CUFILE_FAIL", "cuFileBufRegister:5036:3")]);
    assert_eq!(status, 0, "{report:#}");
    let read = run(&report, "llmd/gds-registered/read");
    assert_eq!(number(read, "/workload/buffer_registrations"), 2);
    assert!(read["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains("2 of 6 buffers")));
}

#[test]
fn a_writer_that_dies_leaves_no_chunk_that_a_reader_takes_for_whole() {
    let Some(place) = Place::gpu() else { return };
    // vLLM's tier does not call cuFile, and a slab is lost with the process that wrote it.
    for (workload, set) in WORKLOADS.into_iter().take(3) {
        let write = [&["--variants", "gds", "--direction", "write", "--keep", "--batch", "3"][..], set].concat();
        let (report, status) = place.report(workload, &write, &[("STANDIN_CUFILE_FAIL", "cuFileWrite:abort:7")]);
        assert_eq!(status, 3);
        assert!(runs(&report)[0]["error"].as_str().unwrap().contains("signal"), "{report:#}");
        let read = [&["--variants", "disk", "--as-found", "--batch", "3"][..], set].concat();
        let (report, _) = place.report(workload, &read, &[]);
        let lane = format!("{workload}/disk/read");
        let read = runs(&report)[0];
        match read["error"].as_str() {
            // No file was complete, and this is reported.
            Some(error) => assert!(error.contains("none of the 12 requested files"), "{error}"),
            None => assert!(number(run(&report, &lane), "/workload/hits") < 12),
        }
        std::fs::remove_dir_all(place.dir().join(format!("gds-top-kv-{workload}"))).unwrap();
    }
}

#[test]
fn a_cut_or_damaged_chunk_is_a_miss_and_a_damaged_payload_is_found_out() {
    let place = Place::host();
    let set: &[&str] = &["--variants", "disk", "--set", "chunk_size=64"];
    let (_, status) = place.report("lmcache", &[set, &["--keep"]].concat(), &[]);
    assert_eq!(status, 0);
    let chunks: Vec<PathBuf> =
        place.files().into_iter().filter(|f| f.to_string_lossy().ends_with(".kvcache.safetensors")).collect();
    assert_eq!(chunks.len(), 4);
    let found = |more: &[&str]| place.report("lmcache", &[set, &["--as-found"], more].concat(), &[]);
    assert_eq!(number(run(&found(&[]).0, "lmcache/disk/read"), "/workload/hits"), 4);
    let whole = std::fs::read(&chunks[0]).unwrap();
    let hits = |report: &Value| match runs(report)[0]["error"].as_str() {
        Some(error) => {
            assert!(error.contains("none of the 4"), "{error}");
            0
        }
        None => number(run(report, "lmcache/disk/read"), "/workload/hits"),
    };
    std::fs::write(&chunks[0], &whole[..whole.len() - 4096]).unwrap();
    assert!(hits(&found(&[]).0) < 4);
    let mut header = whole.clone();
    header[4] ^= 1;
    std::fs::write(&chunks[0], header).unwrap();
    assert!(hits(&found(&[]).0) < 4);
    let mut payload = whole.clone();
    *payload.last_mut().unwrap() ^= 1;
    std::fs::write(&chunks[0], payload).unwrap();
    assert!(hits(&found(&["--set", "check_payload=1"]).0) < 4);
    // Without that check, the verification of the read finds the damage.
    let (report, status) = found(&[]);
    assert_eq!((status, &runs(&report)[0]["verified"]), (1, &Value::Bool(false)));
}

#[test]
fn a_full_disk_is_a_sentence_and_leaves_nothing_half_written() {
    let Some(place) = Place::gpu() else { return };
    for (workload, set) in WORKLOADS.into_iter().take(3) {
        let more = [&["--variants", "gds", "--direction", "write", "--keep"][..], set].concat();
        let (report, status) = place.report(workload, &more, &[("STANDIN_CUFILE_FAIL", "cuFileWrite:28")]);
        // llm-d drops the file.
        if workload != "llmd" {
            let error = runs(&report)[0]["error"].as_str().unwrap();
            assert!(status == 3 && error.contains("the disk is full"), "{error}");
        }
        assert!(
            place
                .files()
                .iter()
                .all(|f| !f.to_string_lossy().ends_with(".tmp") && !f.to_string_lossy().ends_with(".act"))
        );
        std::fs::remove_dir_all(place.dir().join(format!("gds-top-kv-{workload}"))).unwrap();
    }
}
