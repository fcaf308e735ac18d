//! Tests with the real libcufile of its public wheels, on host memory, which it supports since 1.16. Without the
//! wheels, these tests print a message and pass.

use crate::harness::{Outcome, folder, order, run, with_settings};
use crate::standins::{self, Standins};
use crate::{models, sound};
use gds_top::core::{Engine, LaneOrder, ModelInfo, Route};
use std::path::PathBuf;

/// The versions of libcufile in `GDS_TOP_TEST_WHEELS`, with the oldest first: minor version and file.
fn libraries() -> Vec<(u32, PathBuf)> {
    let Some(root) = std::env::var_os("GDS_TOP_TEST_WHEELS").filter(|root| !root.is_empty()) else {
        standins::skipped("GDS_TOP_TEST_WHEELS is not set (run .ci/wheels and set it to the directory)");
        return Vec::new();
    };
    let root = std::path::absolute(root).unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).expect("GDS_TOP_TEST_WHEELS is a directory").flatten() {
        let minor = entry.file_name().to_string_lossy().split('.').nth(1).and_then(|m| m.parse().ok());
        let file = ["nvidia/cu13", "nvidia/cufile"]
            .map(|part| entry.path().join(part).join("lib/libcufile.so.0"))
            .into_iter()
            .find(|file| file.is_file());
        found.extend(minor.zip(file));
    }
    assert!(!found.is_empty(), "GDS_TOP_TEST_WHEELS has no directory named after a version");
    found.sort();
    found
}

/// The versions that support host memory.
fn libraries_for_host() -> Vec<(u32, PathBuf)> {
    libraries().into_iter().filter(|(minor, _)| *minor >= 16).collect()
}

/// A model, and a machine with /proc/modules and a udev record, which the preload shows to the library.
struct Place {
    folder: tempfile::TempDir,
    model: ModelInfo,
    built: Standins,
}

impl Place {
    /// `None`, with a message, if there is no C compiler.
    fn new() -> Option<Self> {
        let built = standins::build()?;
        let folder = folder();
        let place = Self { model: models::odd(folder.path()), folder, built };
        standins::machine(&place.machine(), place.folder.path());
        Some(place)
    }

    fn machine(&self) -> PathBuf {
        self.folder.path().join("machine")
    }

    /// Runs a lane process with this library.
    fn run(&self, engine: Engine, set: &[(&str, u64)], library: PathBuf) -> Outcome {
        let order = LaneOrder { libcufile: Some(library), ..with_settings(order(engine, &self.model), set) };
        let (preload, machine) = (self.built.redirect.to_str().unwrap(), self.machine());
        let mut env = vec![("LD_PRELOAD", preload), ("GDS_TOP_TEST_REDIRECT", machine.to_str().unwrap())];
        // The harness removes the variables of the program.
        if std::env::var_os(EMULATED).is_some() {
            env.push((EMULATED, "1"));
        }
        run(&order, &env)
    }
}

/// The variable of `.ci/emulated`.
const EMULATED: &str = "GDS_TOP_TEST_EMULATED";

/// Whether qemu runs this test (`.ci/emulated`). It has no io_setup, without which the library sets up no batch (5039).
fn is_emulated() -> bool {
    let is_emulated = std::env::var_os(EMULATED).is_some();
    if is_emulated {
        standins::skipped("gds-batch with the real libcufile, because qemu has no io_setup");
    }
    is_emulated
}

#[test]
fn the_real_library_lands_the_model_and_takes_the_compat_route() {
    let Some(place) = Place::new() else { return };
    let has_batches = !is_emulated();
    for (minor, library) in libraries_for_host() {
        for (engine, set) in [
            (Engine::GdsPerTensor, &[][..]),
            (Engine::GdsSlab, &[][..]),
            (Engine::GdsSlab, &[("register", 1), ("threads", 3), ("block_bytes", 65_536)][..]),
            (Engine::GdsBounce, &[("threads", 2), ("block_bytes", 131_072)][..]),
            (Engine::GdsBatch, &[("threads", 3), ("block_bytes", 65_536)][..]),
            (Engine::GdsBatch, &[("register", 1), ("threads", 1), ("depth", 32), ("block_bytes", 4096)][..]),
            // Inside the library, aligned batch entries of an O_DIRECT descriptor take another path than the last
            // entry.
            (Engine::GdsBatch, &[("odirect", 1), ("threads", 2), ("block_bytes", 65_536)][..]),
            (Engine::GdsBatch, &[("odirect", 1), ("register", 1), ("threads", 1), ("block_bytes", 8192)][..]),
            (Engine::GdsSlab, &[("odirect", 1), ("register", 1), ("block_bytes", 65_536)][..]),
            (Engine::GdsSlab, &[("register", 1), ("slab_bytes", 81_920), ("block_bytes", 65_536)][..]),
            (Engine::GdsBounce, &[("odirect", 1), ("block_bytes", 65_536)][..]),
            (Engine::GdsPerTensor, &[("odirect", 1)][..]),
        ] {
            if engine == Engine::GdsBatch && !has_batches {
                continue;
            }
            let outcome = place.run(engine, set, library.clone());
            sound::check(&outcome, &place.model);
            let result = outcome.result();
            let route = result.route.clone().unwrap();
            assert_eq!((route.route, route.proven), (Route::Compat, true), "1.{minor}: {route:?}");
            assert!(result.setup_parts_ns["driver_open"] > 0 && result.setup_parts_ns["library"] > 0);
        }
    }
}

#[test]
fn the_longest_transfer_is_what_was_set_or_the_load_says_why_not() {
    let Some(place) = Place::new() else { return };
    for (minor, library) in libraries_for_host() {
        let outcome = place.run(Engine::GdsPerTensor, &[("max_direct_io_size_kb", 2048)], library);
        if minor >= 18 {
            // The open driver accepts the setting without effect, so it is opened again.
            sound::check(&outcome, &place.model);
            assert_eq!(outcome.result().settings["max_direct_io_size_kb"], 2048, "1.{minor}");
        } else {
            // 1.16 returns 5011 without a GPU.
            let error = outcome.error();
            assert!(error.contains("setting max_direct_io_size_kb to 2048 failed"), "1.{minor}: {error}");
        }
    }
}

#[test]
fn reads_on_streams_land_the_model_in_host_memory_or_are_not_available_there() {
    let Some(place) = Place::new() else { return };
    for (minor, library) in libraries_for_host() {
        let outcome = place.run(Engine::GdsStream, &[], library);
        if outcome.result().error.is_none() {
            sound::check(&outcome, &place.model);
        } else {
            let error = outcome.error();
            assert!(error.contains("not available here") && error.contains("host memory"), "1.{minor}: {error}");
        }
    }
}

#[test]
fn without_a_udev_record_of_the_disk_the_error_says_so() {
    let Some(place) = Place::new() else { return };
    for record in std::fs::read_dir(place.machine().join("run/udev/data")).unwrap() {
        std::fs::remove_file(record.unwrap().path()).unwrap();
    }
    for (minor, library) in libraries_for_host() {
        let outcome = place.run(Engine::GdsSlab, &[], library);
        let error = outcome.error();
        assert!(
            error.contains("5027") && error.contains("udev") && error.contains("gds-top fix"),
            "1.{minor}: {error}"
        );
    }
}

#[test]
fn where_the_open_would_never_return_the_lane_refuses_before_it() {
    let Some(place) = Place::new() else { return };
    // An empty directory represents a machine without /proc/modules.
    std::fs::remove_dir_all(place.machine()).unwrap();
    std::fs::create_dir(place.machine()).unwrap();
    let mut libraries = libraries_for_host();
    libraries.push((20, place.built.cufile.clone()));
    for (minor, library) in libraries {
        let outcome = place.run(Engine::GdsPerTensor, &[], library);
        let error = outcome.error();
        assert!(error.contains("/proc/modules") && error.contains("1.16"), "1.{minor}: {error}");
    }
}

#[test]
fn a_library_too_old_for_host_memory_is_refused_before_it_is_opened() {
    let folder = folder();
    let model = models::odd(folder.path());
    let mut old: Vec<(u32, PathBuf)> = libraries().into_iter().filter(|(minor, _)| *minor < 16).collect();
    let built = standins::build();
    old.extend(built.iter().map(|b| (15, b.cufile.clone())));
    for (minor, library) in old {
        let order = LaneOrder { libcufile: Some(library), ..order(Engine::GdsSlab, &model) };
        let outcome = run(&order, &[("STANDIN_CUFILE_VERSION", "1150")]);
        let error = outcome.error();
        assert!(error.contains("1.16 or later") && error.contains(&format!("1.{minor}")), "{error}");
    }
}
