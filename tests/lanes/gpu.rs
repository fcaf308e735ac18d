//! Tests of a GPU target with the stand-ins for CUDA and cuFile: the paths of the bytes. Nothing is
//! measured.

use crate::harness::{ENGINES, Outcome, STANDIN_NAME, folder, gpu_order, run, standin_env, with_settings};
use crate::standins::{self, Standins};
use crate::{models, sound};
use gds_top::core::{AutoReason, CacheState, Engine, LaneOrder, ModelInfo, Note, Phase, Route, RunResult};

const CUFILE: [Engine; 5] =
    [Engine::GdsPerTensor, Engine::GdsBounce, Engine::GdsSlab, Engine::GdsBatch, Engine::GdsStream];

/// The model and the stand-ins. `None`, with a message, if there is no C compiler.
pub(crate) fn setting() -> Option<(tempfile::TempDir, ModelInfo, Standins)> {
    let built = standins::build()?;
    let folder = folder();
    let model = models::odd(folder.path());
    Some((folder, model, built))
}

pub(crate) fn run_with(built: &Standins, order: &LaneOrder, env: &[(&str, &str)]) -> Outcome {
    run_on(built, order, env, true)
}

fn run_on(built: &Standins, order: &LaneOrder, env: &[(&str, &str)], nvidia_fs: bool) -> Outcome {
    let mut env = standin_env(&built.folder, env);
    // The stand-in libcufile reports version 1.20, which is not opened if /proc/modules is missing. The preload
    // provides one.
    let machine = folder();
    standins::machine(machine.path(), machine.path());
    if nvidia_fs {
        standins::load_nvidia_fs(machine.path());
    }
    env.push(("LD_PRELOAD", built.redirect.to_str().unwrap()));
    env.push(("GDS_TOP_TEST_REDIRECT", machine.path().to_str().unwrap()));
    run(order, &env)
}

#[test]
fn every_engine_lands_the_model_on_the_gpu() {
    let Some((_folder, model, built)) = setting() else { return };
    for engine in ENGINES {
        let outcome = run_with(&built, &gpu_order(engine.clone(), &model), &[]);
        sound::check(&outcome, &model);
        let result = outcome.result();
        assert_eq!(result.target.as_str(), STANDIN_NAME);
        assert!(result.gpu_peak_bytes.is_some_and(|bytes| bytes >= model.tensor_bytes()), "{result:?}");
        let pins = matches!(engine, Engine::Pread | Engine::Odirect);
        assert_eq!(result.pinned_peak_bytes.unwrap() > 0, pins, "{engine}");
        assert!(!outcome.stderr.contains("registrations left"), "{}", outcome.stderr);
        assert!(!outcome.stderr.contains("closed before its handle"), "{}", outcome.stderr);
    }
}

#[test]
fn settings_change_how_and_not_what() {
    let Some((_folder, model, built)) = setting() else { return };
    let settings: [(Engine, &[(&str, u64)]); 14] = [
        (Engine::GdsSlab, &[("register", 1), ("threads", 5), ("block_bytes", 4096)]),
        (Engine::GdsSlab, &[("register", 0), ("threads", 1), ("block_bytes", 100_000), ("odirect", 0)]),
        (Engine::GdsPerTensor, &[("odirect", 0)]),
        (Engine::GdsBounce, &[("threads", 3), ("block_bytes", 8192)]),
        (Engine::GdsBatch, &[("register", 1), ("threads", 3), ("depth", 9), ("block_bytes", 4096)]),
        (Engine::GdsBatch, &[("register", 0), ("threads", 1), ("depth", 1), ("block_bytes", 1 << 40)]),
        (Engine::GdsBatch, &[("threads", 200), ("depth", 1000), ("block_bytes", 5000), ("odirect", 0)]),
        (Engine::GdsStream, &[("register", 1), ("threads", 3), ("depth", 1), ("block_bytes", 4096)]),
        (Engine::GdsStream, &[("register", 0), ("threads", 2), ("depth", 5), ("block_bytes", 100_000)]),
        // Pieces that are smaller than a block. The last one is shorter.
        (Engine::GdsSlab, &[("register", 1), ("slab_bytes", 81_920), ("block_bytes", 65_536)]),
        (Engine::GdsBatch, &[("register", 1), ("slab_bytes", 12_288), ("block_bytes", 8192)]),
        (Engine::GdsStream, &[("register", 1), ("slab_bytes", 69_632), ("block_bytes", 16_384)]),
        (Engine::Odirect, &[("depth", 2), ("block_bytes", 8192), ("registered", 1)]),
        (Engine::Pread, &[("threads", 2), ("slots", 1), ("block_bytes", 8192)]),
    ];
    for (engine, set) in settings {
        let order = with_settings(gpu_order(engine, &model), set);
        let outcome = run_with(&built, &order, &[("STANDIN_CUFILE_ROUTE", "posix")]);
        sound::check(&outcome, &model);
        let result = outcome.result();
        // Threads read instead of io_uring where the kernel, a container or an emulator has none. They register nothing.
        let by_threads = result.settings.get("io_uring") == Some(&0);
        let used = |name: &str| result.settings.contains_key(name) || (by_threads && name == "registered");
        assert!(set.iter().all(|(name, _)| used(name)), "{set:?}: {:?}", result.settings);
        for (name, value) in set.iter().filter(|(name, _)| matches!(*name, "register" | "slab_bytes")) {
            assert_eq!(result.settings[*name], *value, "{set:?}");
        }
    }
}

#[test]
fn in_compat_mode_a_registration_pins_less_where_nobody_chose_otherwise() {
    let Some((_folder, model, built)) = setting() else { return };
    const NAME: &str = "max_direct_io_size_kb";
    // Up to 1.15 the setting is effective immediately; later versions must be opened again. 1.18 forgets it when the
    // flags of P2PDMA are queried.
    for version in ["1150", "1180", "1200"] {
        let kib = |engine, set: &[(&str, u64)], env: &[(&str, &str)]| {
            let env = [&[("STANDIN_CUFILE_VERSION", version), ("STANDIN_CUFILE_ROUTE", "posix")], env].concat();
            let outcome = run_with(&built, &with_settings(gpu_order(engine, &model), set), &env);
            sound::check(&outcome, &model);
            assert!(outcome.result().setup_parts_ns["driver_open"] > 0);
            outcome.result().settings[NAME]
        };
        assert_eq!(kib(Engine::GdsPerTensor, &[], &[]), 1024, "{version}");
        assert_eq!(kib(Engine::GdsPerTensor, &[], &[("STANDIN_CUFILE_DIRECT_IO", "4096")]), 4096, "cufile.json's own");
        assert_eq!(kib(Engine::GdsPerTensor, &[(NAME, 16384)], &[]), 16384, "as set");
        assert_eq!(kib(Engine::GdsPerTensor, &[(NAME, 2048)], &[("STANDIN_CUFILE_DIRECT_IO", "4096")]), 2048, "as set");
        assert_eq!(kib(Engine::GdsSlab, &[], &[]), 16384, "nothing is registered");
        assert_eq!(kib(Engine::GdsSlab, &[(NAME, 4096)], &[]), 4096);
        let refused = [("STANDIN_CUFILE_FAIL", "cuFileDriverSetMaxDirectIOSize:5022")];
        assert_eq!(kib(Engine::GdsPerTensor, &[], &refused), 16384, "the report is true");
        let order = with_settings(gpu_order(Engine::GdsPerTensor, &model), &[(NAME, 2048)]);
        let env = [("STANDIN_CUFILE_VERSION", version), refused[0]];
        let outcome = run_with(&built, &order, &env);
        let error = outcome.error();
        assert!(error.contains("setting max_direct_io_size_kb to 2048 failed") && error.contains("5022"), "{error}");
    }
}

#[test]
fn a_read_that_is_short_is_read_on() {
    let Some((_folder, model, built)) = setting() else { return };
    for engine in CUFILE {
        sound::check(&run_with(&built, &gpu_order(engine, &model), &[("STANDIN_CUFILE_SHORT", "1")]), &model);
    }
}

#[test]
fn the_route_is_what_the_statistics_prove() {
    let Some((_folder, model, built)) = setting() else { return };
    for (said, route) in [("posix", Route::Compat), ("nvfs", Route::Nvfs), ("p2p", Route::P2pdma)] {
        for engine in CUFILE {
            let outcome = run_with(&built, &gpu_order(engine.clone(), &model), &[("STANDIN_CUFILE_ROUTE", said)]);
            sound::check(&outcome, &model);
            let counts = outcome.result().route.clone().unwrap();
            assert_eq!((counts.route, counts.proven), (route, true), "{counts:?}");
            let own = match route {
                Route::Nvfs => counts.nvfs_reads,
                Route::P2pdma => counts.p2p_reads,
                _ => counts.posix_reads,
            };
            let all: u64 = [counts.nvfs_reads, counts.p2p_reads, counts.posix_reads].iter().flatten().sum();
            assert!(own.is_some_and(|reads| reads > 0 && reads == all), "{counts:?}");
            assert!(counts.source.contains("level-3"), "{counts:?}");
            // If the submitting call makes the transfer, as for batches in compat mode, its time is not overhead.
            let submits = outcome.spans().iter().filter(|s| s.phase == Phase::Submit && s.bytes > 0).count();
            let expected = engine == Engine::GdsStream || (engine == Engine::GdsBatch && route != Route::Compat);
            assert_eq!(submits > 0, expected, "{engine}: {submits} submits of bytes, {route:?}");
        }
    }
}

#[test]
fn a_route_that_only_some_reads_took_is_told_with_the_others_and_a_tie_is_none() {
    let Some((_folder, model, built)) = setting() else { return };
    for (every, route) in [("3", Route::Nvfs), ("2", Route::Compat)] {
        let env = [("STANDIN_CUFILE_ROUTE", "nvfs"), ("STANDIN_CUFILE_POSIX_EVERY", every)];
        let outcome = run_with(&built, &gpu_order(Engine::GdsPerTensor, &model), &env);
        let counts = outcome.result().route.clone().unwrap();
        let (direct, posix) = (counts.nvfs_reads.unwrap(), counts.posix_reads.unwrap());
        assert!(posix > 0 && direct >= posix, "{counts:?}");
        assert_eq!(counts.route, if direct > posix { Route::Nvfs } else { route }, "{counts:?}");
        assert!(!counts.proven && !counts.straight(), "{counts:?}");
        let said = format!("{direct} by nvidia-fs, {posix} by POSIX reads");
        assert!(counts.source.ends_with(&said), "{counts:?}");
    }
}

#[test]
fn reads_that_level_3_does_not_count_and_a_module_that_is_not_loaded_leave_the_route_unproven() {
    let Some((_folder, model, built)) = setting() else { return };
    let nvfs = ("STANDIN_CUFILE_ROUTE", "nvfs");
    let order = gpu_order(Engine::GdsPerTensor, &model);
    let proven = |outcome: &Outcome| {
        let counts = outcome.result().route.clone().unwrap();
        assert_eq!(counts.route, Route::Nvfs, "{counts:?}");
        counts.proven
    };
    assert!(proven(&run_with(&built, &order, &[nvfs])));
    assert!(!proven(&run_on(&built, &order, &[nvfs], false)), "the module is not loaded");
    // First, one of many reads is counted by route. Then all reads are counted, but only a part of the bytes.
    assert!(!proven(&run_with(&built, &order, &[nvfs, ("STANDIN_CUFILE_COUNT_READS", "1")])));
    assert!(!proven(&run_with(&built, &order, &[nvfs, ("STANDIN_CUFILE_COUNT_BYTES", "4096")])));
}

#[test]
fn without_statistics_nothing_is_proven() {
    let Some((_folder, model, built)) = setting() else { return };
    for call in ["cuFileSetStatsLevel:5022", "cuFileStatsStart:5030", "cuFileGetStatsL3:5030"] {
        let outcome = run_with(
            &built,
            &gpu_order(Engine::GdsSlab, &model),
            &[("STANDIN_CUFILE_FAIL", call), ("STANDIN_CUFILE_ROUTE", "nvfs")],
        );
        sound::check(&outcome, &model);
        let counts = outcome.result().route.clone().unwrap();
        assert!(!counts.proven && counts.nvfs_reads.is_none(), "{call}: {counts:?}");
    }
}

#[test]
fn a_slab_that_cannot_be_registered_is_read_into_all_the_same_and_said() {
    let Some((_folder, model, built)) = setting() else { return };
    let order = with_settings(gpu_order(Engine::GdsSlab, &model), &[("register", 1)]);
    let outcome = run_with(&built, &order, &[("STANDIN_CUFILE_FAIL", "cuFileBufRegister:5036")]);
    sound::check(&outcome, &model);
    let result = outcome.result();
    let failed_at = |result: &RunResult| {
        result.notes.iter().find_map(|note| match note {
            Note::SlabNotRegistered { from_bytes, error, .. } if error.contains("5036") => Some(*from_bytes),
            _ => None,
        })
    };
    assert_eq!(failed_at(result), Some(0), "{:?}", result.notes);
    assert_eq!(result.settings["register"], 0, "the settings are those that were used");
    // If there is space for some pieces, these are registered. The rest is read into unregistered memory.
    let order = with_settings(gpu_order(Engine::GdsSlab, &model), &[("register", 1), ("slab_bytes", 65_536)]);
    let outcome = run_with(&built, &order, &[("STANDIN_CUFILE_FAIL", "cuFileBufRegister:5036:3")]);
    sound::check(&outcome, &model);
    let result = outcome.result();
    assert_eq!(failed_at(result), Some(128 << 10), "{:?}", result.notes);
    assert_eq!((result.settings["register"], result.settings["slab_bytes"]), (1, 65_536));
}

#[test]
fn auto_takes_cufile_only_where_a_read_proves_a_direct_route() {
    let Some((_folder, model, built)) = setting() else { return };
    let because_direct = Some(AutoReason::DirectRoute(Route::Nvfs));
    for (set, route, slab) in [
        (&[("cufile", 1)][..], "nvfs", true),
        (&[("cufile", 1), ("threads", 2), ("block_bytes", 65_536)][..], "nvfs", true),
        (&[("cufile", 1)][..], "posix", false),
        (&[("cufile", 0)][..], "nvfs", false),
    ] {
        let order = LaneOrder { cache: CacheState::Cold, ..with_settings(gpu_order(Engine::Auto, &model), set) };
        let outcome = run_with(&built, &order, &[("STANDIN_CUFILE_ROUTE", route)]);
        sound::check(&outcome, &model);
        let result = outcome.result();
        if result.cache_resident_before_fraction.is_none_or(|share| share >= 0.45) {
            return standins::skipped("the page cache cannot be emptied here");
        }
        let reason = result.auto_choice.as_ref().and_then(|choice| choice.reason);
        assert_eq!(reason == because_direct, slab, "{set:?} {route}: {reason:?}");
        assert_eq!(result.route.as_ref().map(|r| (r.route, r.proven)), slab.then_some((Route::Nvfs, true)));
        assert_eq!(result.setup_parts_ns.contains_key("probing_read"), set[0].1 == 1);
    }
    // If a library cannot be opened, the others are still available.
    let order =
        LaneOrder { cache: CacheState::Cold, ..with_settings(gpu_order(Engine::Auto, &model), &[("cufile", 1)]) };
    let outcome = run_with(&built, &order, &[("STANDIN_CUFILE_FAIL", "cuFileDriverOpen:5001")]);
    sound::check(&outcome, &model);
    let is_refusal = |note: &Note| matches!(note, Note::AutoWithoutCufile { error } if error.contains("5001"));
    assert!(outcome.result().notes.iter().any(is_refusal), "{:?}", outcome.result().notes);
    assert!(outcome.result().setup_parts_ns.contains_key("cufile_refused"), "failed attempts are set-up too");
}

#[test]
fn a_selftest_shows_reads_that_were_repeated() {
    let Some((_folder, _, built)) = setting() else { return };
    let (cache, machine) = (folder(), folder());
    standins::machine(machine.path(), machine.path());
    standins::load_nvidia_fs(machine.path());
    let run = |json: &[&str], fails: &str| {
        let arguments = [&["selftest", "--engine", "gds-slab", "--cache", "as-is", "--no-telemetry"], json].concat();
        let out = crate::program::gds_top()
            .args(arguments)
            .envs(standin_env(&built.folder, &[("STANDIN_CUFILE_FAIL", fails)]))
            .env("GDS_TOP_LIBCUFILE", &built.cufile)
            .env("LD_PRELOAD", &built.redirect)
            .env("GDS_TOP_TEST_REDIRECT", machine.path())
            .env("XDG_CACHE_HOME", cache.path())
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "{}{}",
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let report: serde_json::Value = serde_json::from_str(&run(&["--json"], "cuFileRead:5:2")).unwrap();
    let runs = report["runs"].as_array().unwrap();
    let repeated: u64 = runs.iter().map(|run| run["repeated_reads"].as_u64().unwrap()).sum();
    assert!(repeated > 0 && report["repeated_reads"] == repeated, "{report:#}");
    assert!(run(&[], "cuFileRead:5:2").contains("failed and repeated by pread"));
    assert!(!run(&[], "cuFileNothing:5").contains("repeated"));
}

#[test]
fn a_batch_never_has_more_in_flight_than_the_pool_bears() {
    let Some((_folder, model, built)) = setting() else { return };
    let order =
        with_settings(gpu_order(Engine::GdsBatch, &model), &[("depth", 256), ("block_bytes", 4096), ("threads", 3)]);
    let outcome = run_with(&built, &order, &[]);
    sound::check(&outcome, &model);
    let result = outcome.result();
    assert!(result.settings["depth"] <= 32, "{:?}", result.settings);
    assert!(result.notes.contains(&Note::BatchLimited { entries: 32, wanted: 256 }), "{:?}", result.notes);
}
