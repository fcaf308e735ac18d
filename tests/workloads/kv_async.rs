//! Tests of asynchronous transfers in UCM's store and LMCache. The stand-ins for CUDA and cuFile have streams that
//! work in order on separate threads.

use crate::kv::{number, run, runs};
use crate::place::{Place, check_schema};
use serde_json::Value;

/// On the route posix, the stand-in moves the bytes during the call, like libcufile may in compat mode. On this
/// route, it moves them when the stream reaches the transfer.
const ON_STREAM: (&str, &str) = ("STANDIN_CUFILE_ROUTE", "nvfs");
const COMPAT: (&str, &str) = ("STANDIN_CUFILE_ROUTE", "posix");
/// 300 tokens in blocks of 64 are 4 files with 12 pieces.
const OPERATIONS: u64 = 48;
const SET: [&str; 2] = ["--set", "block_tokens=64"];

fn ucm(place: &Place, more: &[&str], env: &[(&str, &str)]) -> (Value, i32) {
    place.report("ucm", &[&SET[..], more].concat(), env)
}

/// The error of the one run, which failed. No incomplete files may be left.
fn failure(place: &Place, more: &[&str], env: &[(&str, &str)]) -> String {
    let (report, status) = ucm(place, more, env);
    let error = runs(&report)[0]["error"].as_str().unwrap_or_else(|| panic!("{env:?}: {report:#}")).to_owned();
    assert_eq!((status, runs(&report).len()), (3, 1), "{env:?}: {error}");
    assert!(place.files().iter().all(|file| file.extension().is_none_or(|e| e != "act")), "{:?}", place.files());
    error
}

#[test]
fn registered_memory_does_not_limit_the_transfers_on_a_stream() {
    let Some(place) = Place::gpu() else { return };
    // Without a direct route, unregistered memory needs the buffers of the library: 32 streams get 32 of 64.
    let more = ["--variants", "gds,gds-registered", "--set", "async=1", "--set", "async_depth=7"];
    let (report, status) = ucm(&place, &more, &[COMPAT]);
    assert_eq!(status, 0, "{report:#}");
    for (variant, depth) in [("gds", 1), ("gds-registered", 7)] {
        let run = run(&report, &format!("ucm/{variant}/read"));
        assert_eq!(number(run, "/workload/on_streams/depth"), depth, "{variant}");
        let limited = |note: &Value| note.as_str().unwrap().contains("instead of 7 (async_depth)");
        assert_eq!(run["notes"].as_array().unwrap().iter().any(limited), depth == 1, "{:#}", run["notes"]);
    }
}

#[test]
fn synchronous_and_asynchronous_calls_are_shown_by_one_command_and_by_its_recording() {
    let Some(place) = Place::gpu() else { return };
    for (env, route) in [(ON_STREAM, "nvfs"), (COMPAT, "compat")] {
        let record = place.folder.path().join(format!("{route}.gdsrec"));
        let more = ["--variants", "gds", "--compare", "async=0,1", "--record", record.to_str().unwrap()];
        let (report, status) = ucm(&place, &more, &[env]);
        assert_eq!(status, 0, "{report:#}");
        check_schema(&report);
        for direction in ["write", "read"] {
            let called = run(&report, &format!("ucm/gds:async=0/{direction}"));
            assert_eq!((called["phases"].get("submit"), called["workload"].get("on_streams")), (None, None));
            let found = run(&report, &format!("ucm/gds:async=1/{direction}"));
            assert!(number(found, "/phases/submit") > 0, "{found:#}");
            assert_eq!(number(found, "/settings/async"), 1);
            assert_eq!(number(found, "/workload/operations"), OPERATIONS);
            assert_eq!(number(found, "/workload/handle_registrations"), 4);
            assert_eq!(found["route"]["route"].as_str(), Some(route));
            let seen = &found["workload"]["on_streams"];
            assert_eq!((number(seen, "/streams"), number(seen, "/depth")), (32, 1), "{seen:#}");
            assert_eq!(number(seen, "/most_under_way"), 1, "{seen:#}");
            assert!(number(seen, "/in_call_ns") <= number(seen, "/in_flight_ns"), "{seen:#}");
            let notes = found["notes"].as_array().unwrap();
            assert!(notes.iter().any(|note| note.as_str().unwrap().contains("asynchronous on 32 CUDA streams")));
        }
        let out = place.folder.path().join(format!("{route}-out"));
        let again = place.run(&["report", record.to_str().unwrap(), "--export", out.to_str().unwrap()], &[]);
        assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
        for (file, words) in [
            ("report.json", "most_under_way"),
            ("report.md", "ucm/gds:async=1/read"),
            ("report.html", "asynchronous on 32 CUDA streams"),
            ("workloads.csv", "ucm/gds:async=1/write"),
            ("runs.csv", "ucm/gds:async=0/read"),
        ] {
            assert!(std::fs::read_to_string(out.join(file)).unwrap().contains(words), "{file}");
        }
    }
    assert_eq!(place.files(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_stream_has_as_many_transfers_under_way_as_it_may_and_files_stay_open_until_their_callback() {
    let Some(place) = Place::gpu() else { return };
    for (depth, cache) in [(1, 0), (4, 0), (4, 1), (30, 65_536)] {
        let (depth_set, cache_set) = (format!("async_depth={depth}"), format!("handle_cache={cache}"));
        let set = ["--set", "async=1", "--set", "stream_number=1", "--set", &depth_set, "--set", &cache_set];
        // A transfer and its callback. The stream starts when it has the maximum number of transfers. So a file or
        // parameters that were released too early would no longer exist.
        let hold = (2 * depth).to_string();
        let more = [&["--variants", "gds"][..], &set].concat();
        let (report, status) = ucm(&place, &more, &[ON_STREAM, ("STANDIN_CUDA_HOLD", &hold)]);
        assert_eq!(status, 0, "{report:#}");
        for direction in ["write", "read"] {
            let run = run(&report, &format!("ucm/gds/{direction}"));
            assert_eq!(number(run, "/workload/on_streams/most_under_way"), depth, "{run:#}");
            let registrations = number(run, "/workload/handle_registrations");
            if cache > 0 {
                assert_eq!(registrations, 4, "{run:#}");
            } else {
                // Handles that are not cached are not shared.
                assert_eq!(registrations, OPERATIONS, "{run:#}");
            }
        }
    }
}

#[test]
fn what_cannot_be_made_asynchronously_ends_the_job_at_once_and_is_never_made_otherwise() {
    let Some(place) = Place::gpu() else { return };
    /// The failing call, the direction, and the text of the error.
    type Case = (&'static [(&'static str, &'static str)], &'static str, &'static [&'static str]);
    let cases: [Case; 11] = [
        (&[("STANDIN_CUFILE_FAIL", "cuFileReadAsync:5038")], "read", &["5038", "CU_FILE_ASYNC_NOT_SUPPORTED"]),
        (&[("STANDIN_CUFILE_FAIL", "cuFileReadAsync:5011:9")], "read", &["5011", "reading"]),
        (&[("STANDIN_CUFILE_FAIL", "cuFileReadAsync.later:5044:20")], "read", &["5044", "cuFileReadAsync"]),
        (&[("STANDIN_CUFILE_FAIL", "cuFileReadAsync.later:5:48")], "read", &["Input/output error"]),
        (&[("STANDIN_CUFILE_FAIL", "cuFileWriteAsync:5038")], "write", &["5038", "writing"]),
        (&[("STANDIN_CUFILE_FAIL", "cuFileWriteAsync.later:5030:20")], "write", &["5030", "cuFileWriteAsync"]),
        (&[("STANDIN_CUFILE_FAIL", "cuFileStreamRegister:5038")], "read", &["5038", "registering a CUDA stream"]),
        (&[("STANDIN_CUDA_FAIL", "cuStreamAddCallback:801:7")], "read", &["CUDA error 801"]),
        (&[("STANDIN_CUDA_FAIL", "cuStreamAddCallback.later:700:7")], "read", &["CUDA_ERROR_ILLEGAL_ADDRESS"]),
        (&[("STANDIN_CUDA_FAIL", "cuStreamAddCallback.later:700:7")], "write", &["CUDA_ERROR_ILLEGAL_ADDRESS"]),
        (&[("STANDIN_CUDA_FAIL", "cuLaunchHostFunc:700:7")], "read", &["5011"]),
    ];
    for (found, direction, words) in cases {
        for route in [ON_STREAM, COMPAT] {
            if route == COMPAT && found[0].1.starts_with("cuLaunch") {
                continue;
            }
            let set = ["--set", "async=1", "--set", "stream_number=3", "--set", "stream_flags=7"];
            let more = [&["--variants", "gds", "--direction", direction, "--keep"][..], &set].concat();
            let error = failure(&place, &more, &[found, &[route]].concat());
            for words in words.iter().chain(&["the job is aborted", "async=0"]) {
                assert!(error.contains(words), "{found:?} {route:?}: {error}");
            }
            std::fs::remove_dir_all(place.dir().join("gds-top-kv-ucm")).unwrap();
        }
    }
    // The other runs continue.
    let more = ["--variants", "gds", "--compare", "async=1,0", "--direction", "read"];
    let (report, _) = ucm(&place, &more, &[("STANDIN_CUFILE_FAIL", "cuFileReadAsync:5038")]);
    assert!(runs(&report)[0]["error"].as_str().unwrap().contains("5038"));
    run(&report, "ucm/gds:async=0/read");
}

#[test]
fn other_failures_are_those_of_synchronous_calls() {
    let Some(place) = Place::gpu() else { return };
    let set = ["--variants", "gds", "--set", "async=1", "--direction"];
    for route in [ON_STREAM, COMPAT] {
        let full = failure(
            &place,
            &[&set[..], &["write"]].concat(),
            &[route, ("STANDIN_CUFILE_FAIL", "cuFileWriteAsync.later:28:9")],
        );
        assert!(full.contains("the disk is full") && !full.contains("aborted"), "{full}");
        let fails = ("STANDIN_CUFILE_FAIL", "cuFileHandleRegister:5027:3");
        let unknown = failure(&place, &[&set[..], &["read"]].concat(), &[route, fails]);
        assert!(unknown.contains("5027") && unknown.contains("udev"), "{unknown}");
        let (report, status) = ucm(&place, &[&set[..], &["read"]].concat(), &[route, ("STANDIN_CUFILE_CORRUPT", "30")]);
        assert_eq!((status, &runs(&report)[0]["verified"]), (1, &Value::Bool(false)));
    }
}

#[test]
fn a_process_that_dies_with_transfers_under_way_leaves_no_file_that_is_taken_for_whole() {
    let Some(place) = Place::gpu() else { return };
    for fails in ["cuFileWriteAsync:abort:20", "cuFileWriteAsync.later:abort:20"] {
        let write = ["--variants", "gds", "--set", "async=1", "--direction", "write", "--keep"];
        let (report, status) = ucm(&place, &write, &[ON_STREAM, ("STANDIN_CUFILE_FAIL", fails)]);
        assert_eq!(status, 3);
        assert!(runs(&report)[0]["error"].as_str().unwrap().contains("signal"), "{report:#}");
        let (report, _) = ucm(&place, &["--variants", "disk", "--as-found"], &[]);
        match runs(&report)[0]["error"].as_str() {
            Some(error) => assert!(error.contains("none of the 4 requested files"), "{error}"),
            None => assert!(number(run(&report, "ucm/disk/read"), "/workload/hits") < 4),
        }
        std::fs::remove_dir_all(place.dir().join("gds-top-kv-ucm")).unwrap();
    }
}

#[test]
fn short_and_unaligned_transfers_arrive_whole() {
    let Some(place) = Place::gpu() else { return };
    for route in [ON_STREAM, COMPAT] {
        let more = ["--variants", "gds", "--compare", "misalign=0,512", "--set", "async=1"];
        let (report, status) = ucm(&place, &more, &[route, ("STANDIN_CUFILE_SHORT", "1")]);
        assert_eq!(status, 0, "{report:#}");
        for lane in ["misalign=0/write", "misalign=0/read", "misalign=512/write", "misalign=512/read"] {
            let run = run(&report, &format!("ucm/gds:{lane}"));
            assert_eq!(number(run, "/workload/operations"), OPERATIONS);
            assert_eq!(number(run, "/bytes"), 4 * 64 * 6 * 2 * 256);
        }
    }
}

#[test]
fn registered_memory_is_given_by_its_base_in_compat_mode_too() {
    let Some(place) = Place::gpu() else { return };
    let more = ["--variants", "gds-registered", "--set", "async=1", "--direction", "read"];
    for route in [ON_STREAM, COMPAT] {
        let (report, status) = ucm(&place, &more, &[route]);
        assert_eq!(status, 0, "{report:#}");
        run(&report, "ucm/gds-registered/read");
    }
}

#[test]
fn a_slab_has_one_handle_and_its_chunks_cross_registered_regions() {
    let Some(place) = Place::gpu() else { return };
    // Chunks of 1.5 MiB, in staging slots that are not multiples of a region of 1 MiB.
    let set = ["--set", "chunk_size=512", "--tokens", "2560", "--set", "region_bytes=1048576"];
    for route in [ON_STREAM, COMPAT] {
        for more in [&["--compare", "async=1,0"][..], &["--compare", "stream_flags=7,16"]] {
            let more = [&["--variants", "gds-registered"][..], &set, more].concat();
            let (report, status) = place.report("lmcache-mp", &more, &[route]);
            assert_eq!(status, 0, "{report:#}");
            check_schema(&report);
            for run_of in runs(&report) {
                let lane = run_of["engine"].as_str().unwrap();
                let run = run(&report, lane);
                assert_eq!(number(run, "/workload/handle_registrations"), 1, "{lane}");
                assert_eq!(number(run, "/workload/operations"), 5, "{lane}");
                assert!(number(run, "/workload/buffer_registrations") >= 2, "{lane}");
                assert_eq!(run["workload"].get("unchecked"), None, "{lane}");
            }
        }
    }
}

#[test]
fn results_that_no_one_checks_lose_bytes_in_silence_and_the_loss_is_counted() {
    let Some(place) = Place::gpu() else { return };
    let set = ["--set", "chunk_size=512", "--tokens", "2560", "--set", "region_bytes=1048576", "--direction", "read"];
    let lane = |variant: &str, env: (&str, &str)| {
        let (report, status) = place.report("lmcache-mp", &[&["--variants", variant][..], &set].concat(), &[env]);
        (runs(&report)[0].clone(), status)
    };
    // Unregistered memory: in compat mode, a transfer at any offset other than 0 moves nothing.
    let (checked, status) = lane("gds", COMPAT);
    let error = checked["error"].as_str().unwrap();
    assert!(status == 3 && error.contains("not registered") && error.contains("gds-registered"), "{error}");
    let (ignored, status) = lane("gds:check_results=0", COMPAT);
    assert_eq!((status, &ignored["verified"]), (1, &Value::Bool(false)), "{ignored:#}");
    let (failed, lost) =
        (number(&ignored, "/workload/unchecked/operations"), number(&ignored, "/workload/unchecked/lost_bytes"));
    assert!(failed > 0 && lost + number(&ignored, "/bytes") == 5 * 512 * 6 * 2 * 256, "{ignored:#}");
    // Without failures, nothing is lost.
    let (whole, status) = lane("gds-registered:check_results=0", COMPAT);
    assert_eq!((status, number(&whole, "/workload/unchecked/lost_bytes")), (0, 0), "{whole:#}");
}

#[test]
fn chunks_are_moved_asynchronously_through_places_in_the_slab() {
    let Some(place) = Place::gpu() else { return };
    let more = ["--variants", "gds,gds-registered", "--set", "async=1", "--set", "chunk_size=64", "--batch", "3"];
    for route in [ON_STREAM, COMPAT] {
        let (report, status) = place.report("lmcache", &more, &[route, ("STANDIN_CUFILE_SHORT", "1")]);
        assert_eq!(status, 0, "{report:#}");
        for lane in ["gds/write", "gds/read", "gds-registered/write", "gds-registered/read"] {
            let run = run(&report, &format!("lmcache/{lane}"));
            assert_eq!(number(run, "/workload/operations"), 12);
        }
    }
}

/// Each of the six layers of a read was loaded before it was computed.
fn layers_are_computed_after_they_were_loaded(run: &Value) {
    let layers = run["workload"]["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 6);
    let time = |layer: &Value, name: &str| layer[name].as_u64().unwrap();
    for layer in layers {
        let loaded = time(layer, "load_start_ns") + time(layer, "load_ns");
        assert!(loaded <= time(layer, "compute_start_ns"), "computed before it was there: {layer}");
    }
}

#[test]
fn staged_layers_are_read_asynchronously_and_computed_after_they_were_scattered() {
    let Some(place) = Place::gpu() else { return };
    for (prefetch, region) in [(0, 0), (2, 0), (2, 1 << 20)] {
        let (prefetch, region) = (format!("prefetch_factor={prefetch}"), format!("region_bytes={region}"));
        let set = ["--set", "async=1", "--set", "enable_layerwise=1", "--set", "compute_us=200", "--set", &prefetch];
        let more = ["--variants", "gds-registered", "--direction", "read", "--set", "chunk_size=64", "--set", &region];
        for route in [ON_STREAM, COMPAT] {
            let (report, status) = place.report("lmcache", &[&more[..], &set].concat(), &[route]);
            assert_eq!(status, 0, "{report:#}");
            layers_are_computed_after_they_were_loaded(run(&report, "lmcache/gds-registered/read"));
        }
    }
}

#[test]
fn chunks_of_lmcache_cross_registered_regions_if_they_are_asked_for() {
    let Some(place) = Place::gpu() else { return };
    // Chunks of 1.5 MiB, so that each crosses a boundary of the regions of 1 MiB.
    let set = ["--set", "chunk_size=512", "--tokens", "2560", "--set", "region_bytes=1048576"];
    for route in [ON_STREAM, COMPAT] {
        let more = [&["--variants", "gds-registered", "--compare", "async=1,0"][..], &set].concat();
        let (report, status) = place.report("lmcache", &more, &[route]);
        assert_eq!(status, 0, "{report:#}");
        for value in [0, 1] {
            let run = run(&report, &format!("lmcache/gds-registered:async={value}/read"));
            assert_eq!((number(run, "/workload/operations"), &run["verified"]), (5, &Value::Bool(true)));
            assert!(number(run, "/workload/buffer_registrations") >= 6, "{run:#}");
        }
    }
    // A failure in one large registration names the regions.
    let large = ["--variants", "gds-registered", "--set", "async=1", "--direction", "read"];
    let env = [("STANDIN_CUFILE_FAIL", "cuFileReadAsync.later:5:1"), COMPAT];
    let (report, _) = place.report("lmcache", &large, &env);
    let error = runs(&report)[0]["error"].as_str().unwrap_or_else(|| panic!("{report:#}"));
    assert!(error.contains("region_bytes=16777216"), "{error}");
}

#[test]
fn layers_are_waited_for_by_their_callbacks() {
    let Some(place) = Place::gpu() else { return };
    let set = ["--set", "async=1", "--set", "enable_layerwise=1", "--set", "compute_us=200"];
    let more = [&["--variants", "gds", "--direction", "read"][..], &set].concat();
    for route in [ON_STREAM, COMPAT] {
        let (report, status) = ucm(&place, &more, &[route, ("STANDIN_CUFILE_SHORT", "1")]);
        assert_eq!(status, 0, "{report:#}");
        layers_are_computed_after_they_were_loaded(run(&report, "ucm/gds/read"));
    }
}

#[test]
fn host_memory_and_a_library_without_the_calls_are_told_before_anything_is_moved() {
    let Some(place) = Place::gpu() else { return };
    let more = ["--variants", "gds", "--set", "async=1", "--direction", "read"];
    let host = failure(&place, &[&more[..], &["--gpu", "host"]].concat(), &[]);
    assert!(host.contains("host memory") && host.contains("async=0"), "{host}");
    let old = place.folder.path().join("libcufile.so.0");
    let built = std::process::Command::new(std::env::var_os("GDS_TOP_TEST_CC").unwrap_or_else(|| "cc".into()))
        .args(["-shared", "-fPIC", "-fvisibility=hidden", "-DSTANDIN_OLD", "-Wl,-soname,libcufile.so.0", "-o"])
        .arg(&old)
        .args(["tests/standins/cufile.c", "-lpthread", "-ldl"])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let env = [("GDS_TOP_LIBCUFILE", old.to_str().unwrap()), ("STANDIN_CUFILE_VERSION", "1160")];
    let error = failure(&place, &more, &env);
    assert!(error.contains("cuFileReadAsync is not in this libcufile") && error.contains("GDS 1.7"), "{error}");
}
