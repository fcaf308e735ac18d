//! The real libcufile of its public wheels, on host memory, which it serves from 1.16 on. Without the wheels these tests say so and pass.

use crate::harness::{folder, knobs, order, run};
use crate::{models, sound, standins};
use gds_top::domain::{Engine, LaneOrder, Route};
use std::path::PathBuf;

/// libcufile of the wheels of `GDS_TOP_TEST_WHEELS`, oldest first: minor version and file.
fn libraries() -> Vec<(u32, PathBuf)> {
    let Some(root) = std::env::var_os("GDS_TOP_TEST_WHEELS") else {
        standins::skipped("GDS_TOP_TEST_WHEELS is not set (run .ci/wheels and set it to the folder)");
        return Vec::new();
    };
    let root = std::path::absolute(root).unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).expect("GDS_TOP_TEST_WHEELS is a folder").flatten() {
        let minor = entry.file_name().to_string_lossy().split('.').nth(1).and_then(|m| m.parse().ok());
        let file = ["nvidia/cu13", "nvidia/cufile"]
            .map(|part| entry.path().join(part).join("lib/libcufile.so.0"))
            .into_iter()
            .find(|file| file.is_file());
        found.extend(minor.zip(file));
    }
    assert!(!found.is_empty(), "GDS_TOP_TEST_WHEELS has no folder named after a version");
    found.sort();
    found
}

#[test]
fn the_real_library_lands_the_model_and_takes_the_compat_route() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    let model = models::odd(folder.path());
    let machine = folder.path().join("machine");
    standins::machine(&machine, folder.path());
    let env = [("LD_PRELOAD", built.redirect.to_str().unwrap()), ("GDS_TOP_TEST_REDIRECT", machine.to_str().unwrap())];
    for (minor, library) in libraries().into_iter().filter(|(minor, _)| *minor >= 16) {
        for (engine, set) in [
            (Engine::GdsPerTensor, &[][..]),
            (Engine::GdsSlab, &[][..]),
            (Engine::GdsSlab, &[("register", 1), ("threads", 3), ("block_bytes", 65_536)][..]),
            (Engine::GdsBounce, &[("threads", 2), ("block_bytes", 131_072)][..]),
            (Engine::GdsBatch, &[("threads", 3), ("block_bytes", 65_536)][..]),
            (Engine::GdsBatch, &[("register", 1), ("threads", 1), ("depth", 32), ("block_bytes", 4096)][..]),
            // Aligned entries of an O_DIRECT descriptor go by another path inside the library than the last one.
            (Engine::GdsBatch, &[("odirect", 1), ("threads", 2), ("block_bytes", 65_536)][..]),
            (Engine::GdsBatch, &[("odirect", 1), ("register", 1), ("threads", 1), ("block_bytes", 8192)][..]),
            (Engine::GdsSlab, &[("odirect", 1), ("register", 1), ("block_bytes", 65_536)][..]),
            (Engine::GdsBounce, &[("odirect", 1), ("block_bytes", 65_536)][..]),
            (Engine::GdsPerTensor, &[("odirect", 1)][..]),
        ] {
            let order = LaneOrder { libcufile: Some(library.clone()), ..knobs(order(engine, &model), set) };
            let outcome = run(&order, &env);
            sound::check(&outcome, &model);
            let result = outcome.result();
            let route = result.route.clone().unwrap();
            assert_eq!((route.route, route.proven), (Route::Compat, true), "1.{minor}: {route:?}");
            assert!(result.setup_parts_ns["driver_open"] > 0 && result.setup_parts_ns["library"] > 0);
        }
    }
}

#[test]
fn reads_on_streams_land_the_model_in_host_memory_or_are_not_available_there() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    let model = models::odd(folder.path());
    let machine = folder.path().join("machine");
    standins::machine(&machine, folder.path());
    let env = [("LD_PRELOAD", built.redirect.to_str().unwrap()), ("GDS_TOP_TEST_REDIRECT", machine.to_str().unwrap())];
    for (minor, library) in libraries().into_iter().filter(|(minor, _)| *minor >= 16) {
        let order = LaneOrder { libcufile: Some(library.clone()), ..order(Engine::GdsStream, &model) };
        let outcome = run(&order, &env);
        if outcome.result().error.is_none() {
            sound::check(&outcome, &model);
        } else {
            let error = outcome.error();
            assert!(error.contains("not available here") && error.contains("host memory"), "1.{minor}: {error}");
        }
    }
}

#[test]
fn without_a_udev_record_of_the_disk_the_error_says_so() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    let model = models::odd(folder.path());
    let machine = folder.path().join("machine");
    standins::machine(&machine, folder.path());
    for record in std::fs::read_dir(machine.join("run/udev/data")).unwrap() {
        std::fs::remove_file(record.unwrap().path()).unwrap();
    }
    let env = [("LD_PRELOAD", built.redirect.to_str().unwrap()), ("GDS_TOP_TEST_REDIRECT", machine.to_str().unwrap())];
    for (minor, library) in libraries().into_iter().filter(|(minor, _)| *minor >= 16) {
        let order = LaneOrder { libcufile: Some(library), ..order(Engine::GdsSlab, &model) };
        let outcome = run(&order, &env);
        let error = outcome.error();
        assert!(
            error.contains("5027") && error.contains("udev") && error.contains("gds-top fix"),
            "1.{minor}: {error}"
        );
    }
}

#[test]
fn where_the_open_would_never_return_the_lane_refuses_before_it() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    let model = models::odd(folder.path());
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    // An empty folder stands for a machine without /proc/modules.
    let env = [("LD_PRELOAD", built.redirect.to_str().unwrap()), ("GDS_TOP_TEST_REDIRECT", empty.to_str().unwrap())];
    let mut libraries = libraries();
    libraries.push((20, built.cufile.clone()));
    for (minor, library) in libraries.into_iter().filter(|(minor, _)| *minor >= 16) {
        let order = LaneOrder { libcufile: Some(library), ..order(Engine::GdsPerTensor, &model) };
        let outcome = run(&order, &env);
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
