//! Tests of KV-cache workloads: writes, reads, reports and errors.

use crate::place::{Place, check_schema, files_in, words};
use serde_json::Value;
use std::path::PathBuf;

pub(crate) const WORKLOADS: [(&str, &[&str]); 5] = [
    ("ucm", &["--set", "block_tokens=64"]),
    ("llmd", &["--set", "block_size=64", "--cufile-json", "none"]),
    ("lmcache", &["--set", "chunk_size=64", "--set", "compute_us=100"]),
    ("lmcache-mp", &["--set", "chunk_size=64"]),
    ("vllm-fs", &["--set", "block_size=64"]),
];

/// The variants with cuFile that a workload runs by default.
fn by_cufile(workload: &str) -> &'static [(&'static str, bool)] {
    match workload {
        "vllm-fs" => &[],
        "lmcache-mp" => &[("gds-registered", true)],
        _ => &[("gds", false), ("gds-registered", true)],
    }
}

impl Place {
    fn shape(&self) -> PathBuf {
        let path = self.folder.path().join("tiny.json");
        let shape = r#"{"name":"tiny","title":"Tiny","source":"made up","layers":6,"kv_heads":2,"head_size":64,"dtype":"BF16","dtype_bytes":2,"mla":false}"#;
        std::fs::write(&path, shape).unwrap();
        path
    }

    /// Runs a workload with a small shape, once unless `more` says otherwise. Returns its report and the exit status.
    pub(crate) fn report(&self, workload: &str, more: &[&str], env: &[(&str, &str)]) -> (Value, i32) {
        let (shape, dir) = (self.shape(), self.dir());
        let mut arguments = vec!["kv", workload, dir.to_str().unwrap(), "--shape", shape.to_str().unwrap()];
        arguments.push("--no-telemetry");
        if !more.contains(&"--tokens") {
            arguments.extend(["--tokens", "300"]);
        }
        if !more.contains(&"--repeat") {
            arguments.extend(["--repeat", "1"]);
        }
        arguments.extend(more);
        self.json(&arguments, env)
    }
}

pub(crate) fn runs(report: &Value) -> Vec<&Value> {
    report["runs"].as_array().unwrap().iter().collect()
}

/// The run with this name. It must be successful and verified, and its phases must add up.
pub(crate) fn run<'r>(report: &'r Value, lane: &str) -> &'r Value {
    let run = runs(report)
        .into_iter()
        .find(|run| run["engine"] == lane)
        .unwrap_or_else(|| panic!("no {lane} in {:?}", runs(report).iter().map(|r| &r["engine"]).collect::<Vec<_>>()));
    assert_eq!((&run["error"], &run["verified"]), (&Value::Null, &Value::Bool(true)), "{lane}: {run:#}");
    let phases: u64 = run["phases"].as_object().unwrap().values().map(|ns| ns.as_u64().unwrap()).sum();
    assert_eq!(phases, run["wall_ns"].as_u64().unwrap(), "{lane}");
    let latency = &run["workload"]["latency_ns"];
    assert!(latency["p50"].as_u64().unwrap() <= latency["p99"].as_u64().unwrap(), "{lane}");
    assert!(latency["p99"].as_u64().unwrap() <= latency["max"].as_u64().unwrap(), "{lane}");
    run
}

pub(crate) fn number(run: &Value, pointer: &str) -> u64 {
    run.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer} in {run:#}"))
}

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
            // Each of two sequences has 4 files of 64 tokens. A token has 3 KiB.
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
fn variants_that_compete_run_three_times_and_a_single_one_once() {
    let place = Place::host();
    let (shape, dir) = (place.shape(), place.dir());
    let call = ["kv", "ucm", dir.to_str().unwrap(), "--shape", shape.to_str().unwrap(), "--tokens", "300"];
    for (variants, expected) in [("disk,ram", 12), ("disk", 2)] {
        let (report, status) = place.json(&[&call[..], &["--no-telemetry", "--variants", variants]].concat(), &[]);
        assert_eq!((status, runs(&report).len()), (0, expected), "{variants}");
    }
}

#[test]
fn with_the_stand_ins_every_variant_of_every_workload_is_verified_and_its_route_told() {
    let Some(place) = Place::gpu() else { return };
    for (workload, set) in WORKLOADS {
        let (report, status) = place.report(workload, set, &[("STANDIN_CUFILE_ROUTE", "nvfs")]);
        assert_eq!(status, 0);
        check_schema(&report);
        assert_eq!(runs(&report).len(), 4 + 2 * by_cufile(workload).len());
        for &(variant, buffers) in by_cufile(workload) {
            for direction in ["write", "read"] {
                let run = run(&report, &format!("{workload}/{variant}/{direction}"));
                assert_eq!(
                    (run["route"]["route"].as_str(), run["route"]["proven"].as_bool()),
                    (Some("nvfs"), Some(true))
                );
                assert!(number(run, "/route/nvfs_reads") >= number(run, "/workload/operations"), "{run:#}");
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
fn counters_that_lie_prove_no_route_of_a_variant() {
    let Some(place) = Place::gpu() else { return };
    for (lie, is_proven) in crate::standins::COUNTERS {
        let told = [&[("STANDIN_CUFILE_ROUTE", "p2p")], lie].concat();
        let (report, _) = place.report("ucm", &words("--variants gds"), &told);
        let proven: Vec<_> = runs(&report).iter().map(|run| run["route"]["proven"].as_bool()).collect();
        assert!(proven.len() >= 2 && proven.iter().all(|proven| *proven == Some(is_proven)), "{lie:?}: {proven:?}");
    }
}

#[test]
fn the_handle_cache_on_and_off_are_one_command() {
    let Some(place) = Place::gpu() else { return };
    let more = words("--variants gds --compare handle_cache=0,1,65536 --set block_tokens=64 --set stream_number=1");
    let (report, _) = place.report("ucm", &more, &[]);
    let registrations = |limit: u64| {
        let run = run(&report, &format!("ucm/gds:handle_cache={limit}/read"));
        (number(run, "/workload/handle_registrations"), number(run, "/workload/operations"))
    };
    let (all, operations) = registrations(65_536);
    // A file is registered once and used for K and V of each of its 6 layers.
    assert_eq!((all, operations), (4, 4 * 12));
    // If nothing is cached, a single worker opens and registers for every operation. With space for one handle, it
    // does so once per file.
    assert_eq!(registrations(0), (48, 48));
    assert_eq!(registrations(1), (4, 48));
}

#[test]
fn offsets_that_miss_the_grid_are_moved_all_the_same() {
    let Some(place) = Place::gpu() else { return };
    let (report, _) =
        place.report("ucm", &["--misalign", "--variants", "gds,gds-registered,disk", "--set", "block_tokens=64"], &[]);
    for variant in ["gds", "gds-registered", "disk"] {
        assert_eq!(number(run(&report, &format!("ucm/{variant}/read")), "/settings/misalign"), 512);
    }
    assert!(report["tensors"].as_array().unwrap().iter().all(|tensor| tensor["aligned"] == false));
}

#[test]
fn a_comparison_of_writes_names_those_that_end_in_the_page_cache() {
    let Some(place) = Place::gpu() else { return };
    let (compat, direct) = (("STANDIN_CUFILE_ROUTE", "posix"), ("STANDIN_CUFILE_ROUTE", "nvfs"));
    let cached = |compare: &str, more: &[&str], env: (&str, &str)| {
        let set = ["--variants", "gds", "--compare", compare, "--set", "block_tokens=64", "--repeat", "1"];
        let (report, _) = place.report("ucm", &[&set[..], more].concat(), &[env]);
        check_schema(&report);
        let all = runs(&report);
        let lanes = all.iter().filter(|run| run["workload"]["in_page_cache"] == true);
        let lanes: Vec<&str> = lanes.map(|run| run["engine"].as_str().unwrap()).collect();
        lanes.join(" ")
    };
    assert_eq!(cached("misalign=0,512", &[], compat), "ucm/gds:misalign=512/write");
    assert_eq!(cached("misalign_length=0,512", &[], compat), "ucm/gds:misalign_length=512/write");
    assert_eq!(cached("odirect=0,1", &[], compat), "ucm/gds:odirect=0/write");
    assert_eq!(cached("misalign=0,512", &["--set", "fsync=1"], compat), "");
    assert_eq!(cached("misalign=0,512", &[], direct), "");
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
    // There are 20 chunks of 196 KiB in two sequences, and 1 MiB is kept. These are the last five chunks of the
    // second sequence, without its beginning.
    let more = words(
        "--variants disk --tokens 640 --batch 2 --set chunk_size=64 --set max_cache_size_mb=1 --set max_concurrent_ops=1",
    );
    let (report, _) = place.report("lmcache", &more, &[]);
    assert_eq!(number(run(&report, "lmcache/disk/write"), "/workload/evicted_chunks"), 15);
    let read = runs(&report).into_iter().find(|r| r["engine"] == "lmcache/disk/read").unwrap();
    let error = read["error"].as_str().unwrap();
    assert!(error.contains("none of the 20") && error.contains("max_cache_size_mb=1 keeps 5 of 20 files"), "{error}");
}

#[test]
fn a_read_is_compared_with_computing_its_tokens_if_their_time_is_given() {
    let place = Place::host();
    let set = ["--set", "chunk_size=64", "--set", "recompute_us=1000", "--hit-rate", "0.5", "--variants", "disk"];
    let (report, status) = place.report("lmcache", &set, &[]);
    assert_eq!(status, 0, "{report:#}");
    check_schema(&report);
    assert!(run(&report, "lmcache/disk/write")["workload"].get("recompute").is_none());
    let read = run(&report, "lmcache/disk/read");
    // 2 of the 4 complete chunks are stored, and all 300 tokens are needed.
    assert_eq!(
        (number(read, "/workload/recompute/tokens"), number(read, "/workload/recompute/read_tokens")),
        (300, 128)
    );
    assert_eq!(number(read, "/workload/recompute/without_ns"), 300_000_000);
    let computed = number(read, "/workload/recompute/first_token_ns") - number(read, "/wall_ns");
    assert_eq!(computed, (300 - 128) * 1_000_000);
    let (plain, _) = place.report("lmcache", &["--set", "chunk_size=64", "--variants", "disk"], &[]);
    assert!(run(&plain, "lmcache/disk/read")["workload"].get("recompute").is_none());
}

#[test]
fn at_a_hit_rate_of_nothing_lookups_are_measured_and_nothing_is_written() {
    for place in [Some(Place::host()), Place::gpu()].into_iter().flatten() {
        for (workload, set) in WORKLOADS {
            let (report, status) =
                place.report(workload, &[&["--hit-rate", "0", "--batch", "2"][..], set].concat(), &[]);
            assert_eq!(status, 0, "{report:#}");
            check_schema(&report);
            for run in runs(&report) {
                assert_eq!((&run["error"], &run["verified"]), (&Value::Null, &Value::Null), "{run:#}");
                assert!(run["engine"].as_str().unwrap().ends_with("/read"));
                let found = (number(run, "/workload/lookups"), number(run, "/workload/hits"), number(run, "/bytes"));
                assert_eq!(found, (8, 0, 0));
            }
            assert_eq!(place.files(), Vec::<PathBuf>::new());
        }
    }
}

#[test]
fn a_comparison_of_what_is_the_same_is_refused_and_one_for_some_variants_told() {
    let place = Place::host();
    let dir = place.dir();
    let call = ["kv", "lmcache", dir.to_str().unwrap(), "--compare", "register=0,1", "--variants", "disk,ram"];
    let output = place.run(&call, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains("does not use cuFile") && said.lines().count() == 1,
        "{said}"
    );
    let more =
        ["--compare", "handle_cache=0,8", "--variants", "disk,ram", "--set", "chunk_size=64", "--set", "async=1"];
    let (report, status) = place.report("lmcache", &more[..6], &[]);
    assert_eq!(status, 0);
    let lanes: Vec<&str> = runs(&report).iter().map(|run| run["engine"].as_str().unwrap()).collect();
    assert_eq!(lanes.iter().filter(|lane| lane.starts_with("lmcache/ram/")).count(), 2, "{lanes:?}");
    assert_eq!(lanes.iter().filter(|lane| lane.contains("handle_cache")).count(), 4, "{lanes:?}");
    let output = place
        .command(&["kv", "lmcache", dir.to_str().unwrap(), "--gpu", "host", "--variants", "ram", "--tokens", "256"])
        .args(["--shape", "qwen3-0.6b", "--set", "fsync=1", "--headless", "--no-telemetry"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        told.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .contains("--set fsync=1 has no effect in this run: host memory has no files"),
        "{told}"
    );
}

#[test]
fn blocks_registered_apart_are_one_registration_each_and_need_no_rdma_on_host_memory() {
    let Some(place) = Place::gpu() else { return };
    let more = words("--variants gds,gds-registered --set register=2 --set block_size=64 --cufile-json none");
    let (report, _) = place.report("llmd", &more, &[]);
    // 16 blocks of 16 tokens in each of 6 layers.
    for (variant, registrations) in [("gds", 0), ("gds-registered", 96)] {
        let run = run(&report, &format!("llmd/{variant}/read"));
        assert_eq!(number(run, "/workload/buffer_registrations"), registrations);
    }
}

#[test]
fn a_gds_mode_gives_each_direction_its_path() {
    let Some(place) = Place::gpu() else { return };
    let set = ["--set", "block_size=64", "--cufile-json", "none", "--gds-mode"];
    let (report, status) = place.report("llmd", &[&set[..], &["bb_read_only"]].concat(), &[]);
    assert_eq!(status, 0, "{report:#}");
    run(&report, "llmd/staging/write");
    let read = run(&report, "llmd/gds-registered:register=1/read");
    assert_eq!(number(read, "/workload/buffer_registrations"), 6, "a registration for each layer");
}

#[test]
fn transfers_off_the_grid_are_counted_where_they_fall_back() {
    let Some(place) = Place::gpu() else { return };
    let more =
        words("--variants gds --set block_tokens=64 --set misalign_length=100 --compare misaligned_fallback=0,1");
    let (report, status) = place.report("ucm", &more, &[("STANDIN_CUFILE_ROUTE", "nvfs")]);
    assert_eq!(status, 0, "{report:#}");
    let direct = run(&report, "ucm/gds:misaligned_fallback=0/read");
    assert!(direct["workload"]["fallbacks"].as_array().unwrap().is_empty());
    // 4 files of 12 pieces, each divided into two transfers.
    assert_eq!(number(direct, "/workload/operations"), 96);
    let staged = run(&report, "ucm/gds:misaligned_fallback=1/read");
    let falls = &staged["workload"]["fallbacks"][0];
    assert_eq!(
        (&falls["reason"], &falls["action"], number(falls, "/operations")),
        (&"misaligned".into(), &"staged".into(), 96)
    );
}

#[test]
fn a_chunk_goes_straight_into_its_slots_or_through_the_slab() {
    let Some(place) = Place::gpu() else { return };
    let more = words("--variants gds,disk --set chunk_size=64 --compare direct_slot=0,1");
    let (report, status) = place.report("lmcache", &more, &[]);
    assert_eq!(status, 0, "{report:#}");
    // One read per chunk, or one read for each block of 16 tokens in each layer's keys and values.
    for (slot, operations) in [(0, 4), (1, 4 * 4 * 12)] {
        for variant in ["gds", "disk"] {
            let run = run(&report, &format!("lmcache/{variant}:direct_slot={slot}/read"));
            assert_eq!(number(run, "/workload/operations"), operations, "{variant} {slot}");
            let copies = run["phases"]["copy"].as_u64().is_some_and(|ns| ns > 0);
            assert_eq!(copies, slot == 0 || variant == "disk", "{run:#}");
        }
    }
}

#[test]
fn a_staged_file_is_one_operation_of_llm_d_and_of_vllm() {
    let place = Place::host();
    let tree = |workload: &str| {
        let more = ["--variants", "disk", "--set", "block_size=64", "--keep"];
        let (report, status) = place.report(workload, &more, &[]);
        assert_eq!(status, 0, "{report:#}");
        let read = run(&report, &format!("{workload}/disk/read"));
        assert_eq!(number(read, "/workload/operations"), 4);
        assert_eq!(4 * number(read, "/workload/operation_bytes"), number(read, "/bytes"));
        let described = place.files().into_iter().filter(|file| file.ends_with("config.json")).count();
        assert_eq!(described, 1, "{workload}");
        std::fs::remove_dir_all(place.dir().join(format!("gds-top-kv-{workload}"))).unwrap();
    };
    tree("llmd");
    tree("vllm-fs");
}

#[test]
fn what_was_kept_is_found_by_runs_that_ask_for_less_and_stays_where_a_call_is_wrong() {
    let place = Place::host();
    let set = ["--variants", "disk", "--set", "chunk_size=64"];
    let kept = [&set[..], &["--keep", "--batch", "2"]].concat();
    assert_eq!(place.report("lmcache", &kept, &[]).1, 0);
    for (more, hits) in [
        (&["--batch", "2", "--hit-rate", "0.5"][..], 4),
        (&["--batch", "2", "--tokens", "128"], 4),
        (&["--batch", "1"], 4),
    ] {
        let (report, status) = place.report("lmcache", &[&set[..], &["--as-found"], more].concat(), &[]);
        assert_eq!((status, number(run(&report, "lmcache/disk/read"), "/workload/hits")), (0, hits), "{more:?}");
    }
    let before = place.files();
    let dir = place.dir();
    let wrong = ["kv", "lmcache", dir.to_str().unwrap(), "--set", "no_such=1"];
    assert_eq!((place.run(&wrong, &[]).status.code(), place.files()), (Some(2), before));
    // The same chunks are rejected for another shape.
    let other = place.folder.path().join("other.json");
    let shape = r#"{"name":"other","title":"Other","source":"made up","layers":12,"kv_heads":1,"head_size":64,"dtype":"BF16","dtype_bytes":2,"mla":false}"#;
    std::fs::write(&other, shape).unwrap();
    let arguments = [
        &["kv", "lmcache", dir.to_str().unwrap(), "--as-found", "--tokens", "300", "--shape", other.to_str().unwrap()],
        &set[..],
    ];
    let (report, status) = place.json(&arguments.concat(), &[]);
    let error = runs(&report)[0]["error"].as_str().unwrap().to_owned();
    // Another model has other keys.
    assert!(status == 3 && error.contains("none of the 4 requested files"), "{error}");
}

#[test]
fn a_recording_makes_every_form_of_the_report_again() {
    let place = Place::host();
    let record = place.folder.path().join("kv.gdsrec");
    let record_set = ["--set", "enable_layerwise=1", "--record", record.to_str().unwrap()];
    let more = [&["--variants", "disk,ram", "--set", "chunk_size=64"][..], &record_set].concat();
    assert_eq!(place.report("lmcache", &more, &[]).1, 0);
    let out = place.folder.path().join("out");
    let output = place.run(&["report", record.to_str().unwrap(), "--export", out.to_str().unwrap()], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (file, words) in [
        ("report.md", "Layers: loading and simulated computing"),
        ("report.html", "Hits, hidden loading and resources"),
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
    let huge = words("--tokens 10000000 --set block_tokens=65536 --variants disk --direction write");
    for (arguments, part) in [
        (&["kv", "vllm", dir][..], "not a KV-cache workload"),
        (&["kv", "ucm", dir, "--set", "prefetch_factor=1"], "not a setting of ucm"),
        (&["kv", "vllm-fs", dir, "--variants", "gds"], "vllm-fs has no variant gds"),
        (&["kv", "ucm", dir, "--gds-mode", "read_only"], "--gds-mode is a setting of llmd"),
        (&["kv", "llmd", dir, "--gds-mode", "on"], "not a gds_mode"),
        (&["kv", "lmcache", dir, "--set", "region_bytes=4096"], "at least 1048576"),
        (&["kv", "ucm", dir, "--variants", "rdma"], "not a variant"),
        (&["kv", "ucm", dir, "--tokens", "5"], "do not fill a file of 128 tokens; use at least --tokens 128"),
        // 2.4 TiB per sequence.
        (&[&["kv", "ucm", dir, "--batch", &more_than_is_free], &huge[..]].concat(), "on the disk"),
        (&["kv", "ucm", dir, "--hit-rate", "2"], "--hit-rate"),
        (&["kv", "ucm", dir, "--shape", "gpt-9"], "not a shape"),
        (&["kv", "ucm", "/nonexistent/folder"], "/nonexistent/folder does not exist; create it, or pass --yes"),
        (&["kv", "ucm", "/nonexistent/folder", "--as-found"], "DIR must be a writable directory"),
    ] {
        let output = place.run(arguments, &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        let status = if part == "on the disk" { 3 } else { 2 };
        assert!(output.status.code() == Some(status) && said.contains(part), "{arguments:?}: {said}");
    }
    assert_eq!(place.files(), Vec::<PathBuf>::new());
    std::fs::create_dir(place.dir().join("gds-top-kv-ucm")).unwrap();
    std::fs::write(place.dir().join("gds-top-kv-ucm/mine"), "x").unwrap();
    let output = place.run(&["kv", "ucm", dir, "--gpu", "host"], &[]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("was not created by gds-top"));
    assert!(place.dir().join("gds-top-kv-ucm/mine").exists());
}

#[test]
fn a_cache_that_does_not_fit_into_host_memory_is_refused_before_it_is_allocated() {
    let place = Place::host();
    let dir = place.dir();
    // 2.4 TiB in host memory, for the cache and for its copy.
    let more = words("--tokens 10000000 --set block_tokens=65536 --variants ram --direction write");
    let (report, status) = place.json(&[&["kv", "ucm", dir.to_str().unwrap()], &more[..]].concat(), &[]);
    let error = runs(&report)[0]["error"].as_str().unwrap_or_else(|| panic!("{report:#}"));
    assert!(status == 3 && error.contains("memory") && error.contains("fewer tokens or sequences"), "{error}");
}

#[test]
fn a_link_in_the_place_of_the_folder_is_followed_neither_by_the_lanes_nor_by_the_clean_up() {
    let place = Place::host();
    let victim = place.folder.path().join("victim");
    std::fs::create_dir_all(victim.join("data")).unwrap();
    // A directory that looks like a directory of gds-top, with files that must not be removed.
    for file in [".gds-top-kv", "thesis.tex", "data/thesis.tex"] {
        std::fs::write(victim.join(file), "x").unwrap();
    }
    let dir = place.dir();
    let arguments = ["kv", "ucm", dir.to_str().unwrap(), "--gpu", "host", "--headless", "--repeat", "400"];
    let shape = place.shape();
    let more =
        ["--variants", "disk", "--shape", shape.to_str().unwrap(), "--tokens", "256", "--set", "block_tokens=64"];
    let mut child = place
        .command(&[&arguments[..], &more[..]].concat())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let ours = dir.join("gds-top-kv-ucm");
    let start = std::time::Instant::now();
    while !ours.join("data").exists() {
        assert!(start.elapsed() < std::time::Duration::from_secs(120) && child.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    std::fs::rename(&ours, dir.join("aside")).unwrap();
    std::os::unix::fs::symlink(&victim, &ours).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("took its place"), "{said}");
    assert_eq!(files_in(&victim), [".gds-top-kv", "data/thesis.tex", "thesis.tex"].map(|name| victim.join(name)));
    assert_eq!(files_in(&dir.join("aside")), Vec::<PathBuf>::new());
}
