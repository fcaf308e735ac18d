//! KV-cache workloads from outside: on host memory, and on stand-ins for CUDA and cuFile, which measure nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod kv_support;

use kv_support::{Place, check_schema, number, run, runs};
use serde_json::Value;
use std::path::PathBuf;

const WORKLOADS: [(&str, &[&str]); 3] = [
    ("ucm", &["--set", "block_tokens=64"]),
    ("llmd", &["--set", "block_size=64", "--cufile-json", "none"]),
    ("lmcache", &["--set", "chunk_size=64", "--set", "compute_us=100"]),
];

#[test]
fn without_a_gpu_every_workload_writes_and_reads_host_memory_and_leaves_nothing() {
    let place = Place::host();
    for (workload, set) in WORKLOADS {
        let plain = if workload == "llmd" { "staging" } else { "disk" };
        let variants = format!("{plain},ram");
        let more = [&["--variants", variants.as_str(), "--batch", "2"][..], set].concat();
        let (report, status) = place.report(workload, &more, &[]);
        assert_eq!(status, 0, "{report:#}");
        check_schema(&report);
        for variant in [plain, "ram"] {
            // 4 files of 64 tokens in each of two sequences; 3 KiB a token.
            for direction in ["write", "read"] {
                let run = run(&report, &format!("{workload}/{variant}/{direction}"));
                assert_eq!(number(run, "/bytes"), 2 * 4 * 64 * 6 * 2 * 256);
                assert_eq!(run["target"], "host memory");
                assert_eq!(run["workload"]["hit_rate_fraction"].as_f64(), (direction == "read").then_some(1.0));
            }
        }
        assert_eq!(place.files(), Vec::<PathBuf>::new());
    }
}

#[test]
fn with_the_stand_ins_every_variant_of_every_workload_is_verified_and_its_route_told() {
    let Some(place) = Place::gpu() else { return };
    for (workload, set) in WORKLOADS {
        let (report, status) = place.report(workload, set, &[("STANDIN_CUFILE_ROUTE", "nvfs")]);
        assert_eq!(status, 0);
        check_schema(&report);
        assert_eq!(runs(&report).len(), 8);
        for (variant, buffers) in [("gds", false), ("gds-registered", true)] {
            for direction in ["write", "read"] {
                let run = run(&report, &format!("{workload}/{variant}/{direction}"));
                assert_eq!(
                    (run["route"]["route"].as_str(), run["route"]["proven"].as_bool()),
                    (Some("nvfs"), Some(true))
                );
                assert_eq!(number(run, "/route/nvfs_reads"), number(run, "/workload/operations"), "{run:#}");
                assert_eq!(number(run, "/workload/buffer_registrations") > 0, buffers, "{run:#}");
                assert!(number(run, "/workload/handle_registrations") > 0);
                assert!(run["workload"]["fallbacks"].as_array().unwrap().is_empty());
            }
        }
        run(&report, &format!("{workload}/ram/read"));
        assert_eq!(place.files(), Vec::<PathBuf>::new());
    }
}

#[test]
fn the_handle_cache_on_and_off_are_one_command() {
    let Some(place) = Place::gpu() else { return };
    let more = [
        "--variants",
        "gds",
        "--compare",
        "handle_cache=0,1,65536",
        "--set",
        "block_tokens=64",
        "--set",
        "stream_number=1",
    ];
    let (report, _) = place.report("ucm", &more, &[]);
    let registrations = |limit: u64| {
        let run = run(&report, &format!("ucm/gds:handle_cache={limit}/read"));
        (number(run, "/workload/handle_registrations"), number(run, "/workload/operations"))
    };
    let (all, operations) = registrations(65_536);
    // A file is registered once and used for each of its 6 layers' K and V.
    assert_eq!((all, operations), (4, 4 * 12));
    // A worker alone opens and registers for every operation where nothing is kept; with room for one, once a file.
    assert_eq!(registrations(0), (48, 48));
    assert_eq!(registrations(1), (4, 48));
}

#[test]
fn offsets_that_miss_the_grid_are_moved_all_the_same() {
    let Some(place) = Place::gpu() else { return };
    let (report, _) =
        place.report("ucm", &["--misalign", "--variants", "gds,gds-registered,disk", "--set", "block_tokens=64"], &[]);
    for variant in ["gds", "gds-registered", "disk"] {
        assert_eq!(number(run(&report, &format!("ucm/{variant}/read")), "/knobs/misalign"), 512);
    }
    assert!(report["tensors"].as_array().unwrap().iter().all(|tensor| tensor["aligned"] == false));
}

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
    /// Reason, arguments, environment.
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
        let more = [&["--variants", "gds", "--set", "block_size=64", "--cufile-json", "none"][..], provoke].concat();
        let (report, status) = place.report("llmd", &more, env);
        assert_eq!(status, 0, "{reason}: {report:#}");
        for direction in ["write", "read"] {
            let run = run(&report, &format!("llmd/gds/{direction}"));
            let falls = run["workload"]["fallbacks"].as_array().unwrap();
            assert_eq!(falls.iter().map(|f| f["reason"].as_str().unwrap()).collect::<Vec<_>>(), [reason], "{env:?}");
            let count = number(&falls[0], "/operations");
            let all = number(run, "/workload/operations");
            assert_eq!(count == all, reason != "operation_failed", "{reason}: {count} of {all}");
        }
    }
}

#[test]
fn a_writer_that_dies_leaves_no_chunk_that_a_reader_takes_for_whole() {
    let Some(place) = Place::gpu() else { return };
    for (workload, set) in WORKLOADS {
        let write = [&["--variants", "gds", "--direction", "write", "--keep", "--batch", "3"][..], set].concat();
        let (report, status) = place.report(workload, &write, &[("STANDIN_CUFILE_FAIL", "cuFileWrite:abort:7")]);
        assert_eq!(status, 3);
        assert!(runs(&report)[0]["error"].as_str().unwrap().contains("signal"), "{report:#}");
        let read = [&["--variants", "disk", "--as-found", "--batch", "3"][..], set].concat();
        let (report, _) = place.report(workload, &read, &[]);
        let lane = format!("{workload}/disk/read");
        let read = runs(&report)[0];
        match read["error"].as_str() {
            // Nothing at all was whole, and that is said.
            Some(error) => assert!(error.contains("none of the 12 files"), "{error}"),
            None => assert!(number(run(&report, &lane), "/workload/hits") < 12),
        }
        std::fs::remove_dir_all(place.dir().join(format!("gds-top-kv-{workload}"))).unwrap();
    }
}

#[test]
fn a_cut_or_damaged_chunk_is_a_miss_and_a_damaged_payload_is_found_out() {
    let place = Place::host();
    let set: &[&str] = &["--variants", "disk", "--set", "chunk_size=64", "--set", "compute_us=0"];
    let (_, status) = place.report("lmcache", &[set, &["--keep"]].concat(), &[]);
    assert_eq!(status, 0);
    let chunks: Vec<PathBuf> =
        place.files().into_iter().filter(|f| f.extension().is_some_and(|e| e == "kvcache")).collect();
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
    header[40] ^= 1;
    std::fs::write(&chunks[0], header).unwrap();
    assert!(hits(&found(&[]).0) < 4);
    let mut payload = whole.clone();
    *payload.last_mut().unwrap() ^= 1;
    std::fs::write(&chunks[0], payload).unwrap();
    assert!(hits(&found(&["--set", "check_payload=1"]).0) < 4);
    // Without that check the verification of the read sees it.
    let (report, status) = found(&[]);
    assert_eq!((status, &runs(&report)[0]["verified"]), (1, &Value::Bool(false)));
}

#[test]
fn a_full_disk_is_a_sentence_and_leaves_nothing_half_written() {
    let Some(place) = Place::gpu() else { return };
    for (workload, set) in WORKLOADS {
        let more = [&["--variants", "gds", "--direction", "write", "--keep"][..], set].concat();
        let (report, status) = place.report(workload, &more, &[("STANDIN_CUFILE_FAIL", "cuFileWrite:28")]);
        // llm-d's way tries the same again by plain writes, which find room here.
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

#[test]
fn prefetch_hides_what_no_prefetch_cannot() {
    let place = Place::host();
    let more = [
        "--variants",
        "ram",
        "--compare",
        "prefetch_factor=0,2",
        "--direction",
        "read",
        "--set",
        "chunk_size=64",
        "--set",
        "compute_us=150000",
        "--set",
        "max_concurrent_ops=1",
        "--tokens",
        "4096",
    ];
    let (report, _) = place.report("lmcache", &more, &[]);
    // How much is hidden depends on the machine's mood; which layer may be read while the one before computes does not. Reading takes a small part of the
    // time that a layer computes, so that even a very busy machine has begun some by then.
    let early = |factor: u64| {
        let run = run(&report, &format!("lmcache/ram:prefetch_factor={factor}/read"));
        let layers = run["workload"]["layers"].as_array().unwrap();
        assert_eq!(layers.len(), 6);
        let time = |layer: &Value, name: &str| layer[name].as_u64().unwrap();
        let early = layers
            .windows(2)
            .filter(|two| {
                time(&two[1], "load_start_ns") < time(&two[0], "compute_start_ns") + time(&two[0], "compute_ns")
            })
            .count();
        (early, run["workload"]["hidden_fraction"].as_f64().unwrap())
    };
    let ((none, hidden_without), (some, hidden_with)) = (early(0), early(2));
    assert!(none == 0 && some > 0, "{none} layers of 5 were read early without prefetch, {some} with it");
    assert!(hidden_without == 0.0 && hidden_with > 0.0, "{hidden_without} {hidden_with}");
}

#[test]
fn ucm_waits_for_each_layer_or_for_all_at_the_end() {
    let place = Place::host();
    let more = [
        "--variants",
        "disk",
        "--compare",
        "enable_layerwise=0,1",
        "--set",
        "block_tokens=64",
        "--set",
        "compute_us=2000",
    ];
    let (report, status) = place.report("ucm", &more, &[]);
    assert_eq!(status, 0, "{report:#}");
    check_schema(&report);
    let layers = |on: u64| {
        run(&report, &format!("ucm/disk:enable_layerwise={on}/read"))["workload"]["layers"].as_array().unwrap().clone()
    };
    assert!(layers(0).is_empty());
    let waited = layers(1);
    assert_eq!(waited.len(), 6);
    let time = |layer: &Value, name: &str| layer[name].as_u64().unwrap();
    for (number, layer) in waited.iter().enumerate() {
        let loaded = time(layer, "load_start_ns") + time(layer, "load_ns");
        assert!(loaded <= time(layer, "compute_start_ns"), "layer {number} was computed before it was there: {layer}");
    }
    // The writes are the same with and without: nobody computes while a cache is stored.
    assert!(run(&report, "ucm/disk:enable_layerwise=1/write")["workload"]["layers"].as_array().unwrap().is_empty());
}

#[test]
fn llm_ds_threads_take_reads_before_writes_or_both_as_they_come() {
    let place = Place::host();
    for variant in ["staging", "ram"] {
        let more = [
            "--variants",
            variant,
            "--compare",
            "read_priority=0,1",
            "--direction",
            "read",
            "--set",
            "block_size=64",
            "--set",
            "write_percent=100",
            "--set",
            "threads_per_gpu=1",
        ];
        let (report, status) = place.report("llmd", &more, &[]);
        assert_eq!(status, 0, "{report:#}");
        check_schema(&report);
        let beside =
            |on: u64| run(&report, &format!("llmd/{variant}:read_priority={on}/read"))["workload"]["beside"].clone();
        let (fair, first) = (beside(0), beside(1));
        for beside in [&fair, &first] {
            assert_eq!((number(beside, "/files"), number(beside, "/bytes")), (4, 4 * 64 * 6 * 2 * 256), "{beside}");
        }
        // One thread with priority writes nothing before its last read; without, three of four files.
        assert_eq!(number(&first, "/before_last_read_operations"), 0, "{first}");
        assert!(number(&fair, "/before_last_read_operations") >= number(&fair, "/operations") / 2, "{fair}");
        assert_eq!((&first["read_priority"], &fair["read_priority"]), (&Value::Bool(true), &Value::Bool(false)));
        assert_eq!(place.files(), Vec::<PathBuf>::new());
    }
    let (report, _) = place.report("llmd", &["--variants", "staging", "--set", "block_size=64"], &[]);
    assert!(run(&report, "llmd/staging/read")["workload"].get("beside").is_none());
}

#[test]
fn a_hit_rate_and_a_limit_of_the_store_make_misses() {
    let place = Place::host();
    let (report, _) = place.report(
        "lmcache",
        &["--variants", "disk", "--tokens", "640", "--hit-rate", "0.5", "--set", "chunk_size=64"],
        &[],
    );
    let read = run(&report, "lmcache/disk/read");
    assert_eq!((number(read, "/workload/lookups"), number(read, "/workload/hits")), (10, 5));
    // 20 chunks of 196 KiB in two sequences, of which 1 MiB may stay: the last five of the second, whose beginning is gone.
    let more = [
        "--variants",
        "disk",
        "--tokens",
        "640",
        "--batch",
        "2",
        "--set",
        "chunk_size=64",
        "--set",
        "max_cache_size_mb=1",
        "--set",
        "max_concurrent_ops=1",
    ];
    let (report, _) = place.report("lmcache", &more, &[]);
    assert_eq!(number(run(&report, "lmcache/disk/write"), "/workload/evicted_chunks"), 15);
    let read = runs(&report).into_iter().find(|r| r["engine"] == "lmcache/disk/read").unwrap();
    let error = read["error"].as_str().unwrap();
    assert!(error.contains("none of the 20") && error.contains("max_cache_size_mb=1 keeps 5 of 20 files"), "{error}");
}

#[test]
fn a_recording_makes_every_form_of_the_report_again() {
    let place = Place::host();
    let record = place.folder.path().join("kv.gdsrec");
    let more = ["--variants", "disk,ram", "--set", "chunk_size=64", "--record", record.to_str().unwrap()];
    assert_eq!(place.report("lmcache", &more, &[]).1, 0);
    let out = place.folder.path().join("out");
    let output = place.run(&["report", record.to_str().unwrap(), "--export", out.to_str().unwrap()], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (file, words) in [
        ("report.md", "Layers: loading against simulated computing"),
        ("report.html", "Hits, hiding and what it takes"),
        ("workloads.csv", "lmcache/ram/read"),
        ("layers.csv", "lmcache/disk/read"),
        ("runs.csv", "lmcache/disk/write"),
        ("tensors.csv", "chunk 3 layer 5"),
    ] {
        let text = std::fs::read_to_string(out.join(file)).unwrap();
        assert!(text.contains(words), "{file}");
    }
}

#[test]
fn wrong_calls_are_sentences_and_touch_nothing() {
    let place = Place::host();
    let dir = place.dir();
    let dir = dir.to_str().unwrap();
    let space = rustix::fs::statvfs(dir).unwrap();
    let more_than_is_free = (space.f_bavail.saturating_mul(space.f_frsize) / (2 << 40) + 1).to_string();
    for (arguments, words) in [
        (&["kv", "vllm", dir][..], "no KV-cache workload"),
        (&["kv", "ucm", dir, "--set", "prefetch_factor=1"], "no setting of ucm"),
        (&["kv", "ucm", dir, "--variants", "rdma"], "no variant"),
        (&["kv", "ucm", dir, "--tokens", "5"], "no whole file"),
        (
            // 2.4 TiB a sequence.
            &[
                "kv",
                "ucm",
                dir,
                "--tokens",
                "10000000",
                "--batch",
                &more_than_is_free,
                "--set",
                "block_tokens=65536",
                "--variants",
                "disk",
                "--direction",
                "write",
            ],
            "on the disk",
        ),
        (&["kv", "ucm", dir, "--hit-rate", "2"], "--hit-rate"),
        (&["kv", "ucm", dir, "--shape", "gpt-9"], "no shape"),
        (&["kv", "ucm", "/nonexistent/folder"], "DIR must be a folder"),
    ] {
        let output = place.run(arguments, &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(words), "{arguments:?}: {said}");
    }
    assert_eq!(place.files(), Vec::<PathBuf>::new());
    std::fs::create_dir(place.dir().join("gds-top-kv-ucm")).unwrap();
    std::fs::write(place.dir().join("gds-top-kv-ucm/mine"), "x").unwrap();
    let output = place.run(&["kv", "ucm", dir, "--gpu", "host"], &[]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("was not made by gds-top"));
    assert!(place.dir().join("gds-top-kv-ucm/mine").exists());
}
