//! KV-cache workloads from outside: on host memory, and on stand-ins for CUDA and cuFile, which measure nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "standins/mod.rs"]
mod standins;

use serde_json::Value;
use standins::Standins;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const WORKLOADS: [(&str, &[&str]); 3] = [
    ("ucm", &["--set", "block_tokens=64"]),
    ("llmd", &["--set", "block_size=64", "--cufile-json", "none"]),
    ("lmcache", &["--set", "chunk_size=64", "--set", "compute_us=100"]),
];

/// A folder on a real file system with a small shape beside it.
struct Place {
    folder: tempfile::TempDir,
    machine: tempfile::TempDir,
    built: Option<Standins>,
}

impl Place {
    fn host() -> Self {
        let folder = || tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = Self { folder: folder(), machine: folder(), built: None };
        let shape = r#"{"name":"tiny","title":"Tiny","source":"made up","layers":6,"kv_heads":2,"head_size":64,"dtype":"BF16","dtype_bytes":2,"mla":false}"#;
        std::fs::write(place.shape(), shape).unwrap();
        std::fs::create_dir(place.dir()).unwrap();
        standins::machine(place.machine.path(), place.machine.path());
        place
    }

    /// With the stand-ins; None, said, where there is no C compiler.
    fn gpu() -> Option<Self> {
        let built = standins::build()?;
        Some(Self { built: Some(built), ..Self::host() })
    }

    fn shape(&self) -> PathBuf {
        self.folder.path().join("tiny.json")
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("kv")
    }

    fn run(&self, arguments: &[&str], env: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gds-top"));
        for name in ["GDS_TOP_LIBCUFILE", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "CUFILE_ENV_PATH_JSON"] {
            command.env_remove(name);
        }
        match &self.built {
            Some(built) => {
                command.env("LD_LIBRARY_PATH", &built.folder).env("GDS_TOP_LIBCUFILE", &built.cufile);
                command.env("LD_PRELOAD", &built.redirect).env("GDS_TOP_TEST_REDIRECT", self.machine.path());
            }
            None => {
                command.arg0_host();
            }
        }
        let output =
            command.current_dir(self.folder.path()).args(arguments).envs(env.iter().copied()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked") && !said.contains("registrations left"), "{said}");
        output
    }

    /// Runs a workload with the small shape and returns its report; the status is the last.
    fn report(&self, workload: &str, more: &[&str], env: &[(&str, &str)]) -> (Value, i32) {
        let (shape, dir) = (self.shape(), self.dir());
        let mut arguments = vec!["kv", workload, dir.to_str().unwrap(), "--shape", shape.to_str().unwrap()];
        arguments.extend(["--json", "--no-telemetry"]);
        if !more.contains(&"--tokens") {
            arguments.extend(["--tokens", "300"]);
        }
        if self.built.is_none() {
            arguments.extend(["--gpu", "host"]);
        }
        arguments.extend(more);
        let output = self.run(&arguments, env);
        let text = String::from_utf8_lossy(&output.stdout);
        let value = serde_json::from_str(&text)
            .unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&output.stderr)));
        (value, output.status.code().unwrap())
    }

    fn files(&self) -> Vec<PathBuf> {
        fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() { walk(&path, found) } else { found.push(path) }
            }
        }
        let mut found = Vec::new();
        walk(&self.dir(), &mut found);
        found.sort();
        found
    }
}

/// Host runs take no library from the developer's machine.
trait Host {
    fn arg0_host(&mut self);
}

impl Host for Command {
    fn arg0_host(&mut self) {
        self.env("GDS_TOP_LIBCUFILE", "/nonexistent/libcufile.so.0");
    }
}

fn runs(report: &Value) -> Vec<&Value> {
    report["runs"].as_array().unwrap().iter().collect()
}

/// The run of a lane, which went well, was verified, and whose phases add up.
fn run<'r>(report: &'r Value, lane: &str) -> &'r Value {
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

fn number(run: &Value, pointer: &str) -> u64 {
    run.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer} in {run:#}"))
}

fn check_schema(report: &Value) {
    let schema: Value = serde_json::from_str(gds_top::report::SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(report).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:?}");
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
        "compute_us=20000",
        "--set",
        "max_concurrent_ops=1",
        "--tokens",
        "4096",
    ];
    let (report, _) = place.report("lmcache", &more, &[]);
    // How much is hidden depends on the machine's mood; which layer may be read while the one before computes does not.
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
    assert!(hidden_without < hidden_with, "{hidden_without} {hidden_with}");
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
    assert!(read["error"].as_str().unwrap().contains("none of the 20"), "{read:#}");
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
    for (arguments, words) in [
        (&["kv", "vllm", dir][..], "no KV-cache workload"),
        (&["kv", "ucm", dir, "--set", "prefetch_factor=1"], "no setting of ucm"),
        (&["kv", "ucm", dir, "--variants", "rdma"], "no variant"),
        (&["kv", "ucm", dir, "--tokens", "5"], "no whole file"),
        (
            // 2.4 TiB.
            &[
                "kv",
                "ucm",
                dir,
                "--tokens",
                "10000000",
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
