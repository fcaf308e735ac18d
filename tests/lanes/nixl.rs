//! Tests of the engine `nixl` with a stand-in for its C interface, and with the real library of the wheels.

use crate::harness::{folder, gpu_order, order, run, standin_env, with_settings};
use crate::{models, sound, standins};
use gds_top::core::{Engine, LaneOrder, NixlPlugin, Note, Phase, Route};
use std::path::PathBuf;

const PLUGINS: [NixlPlugin; 3] = [NixlPlugin::Gds, NixlPlugin::GdsMt, NixlPlugin::Posix];

#[test]
fn every_plugin_lands_the_model_tensor_by_tensor_and_tells_its_phases_and_set_up() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    let model = models::odd(folder.path());
    let machine = folder.path().join("machine");
    standins::machine(&machine, folder.path());
    let env = standin_env(
        &built.folder,
        &[
            ("GDS_TOP_NIXL", built.nixl.to_str().unwrap()),
            ("LD_PRELOAD", built.redirect.to_str().unwrap()),
            ("GDS_TOP_TEST_REDIRECT", machine.to_str().unwrap()),
        ],
    );
    let with_bytes = model.tensors.iter().filter(|t| t.bytes > 0).count();
    for plugin in PLUGINS {
        for order in [order(Engine::Nixl(plugin), &model), gpu_order(Engine::Nixl(plugin), &model)] {
            let gpu = order.target != gds_top::core::Target::Host;
            let outcome = run(&order, &env);
            sound::check(&outcome, &model);
            let result = outcome.result();
            for part in ["nixl_library", "nixl_agent", "nixl_backend"] {
                assert!(result.setup_parts_ns.contains_key(part), "{part}: {:?}", result.setup_parts_ns);
            }
            assert_eq!(result.setup_parts_ns.contains_key("driver_open"), plugin.uses_cufile());
            assert_eq!(result.route.is_some(), plugin.uses_cufile());
            let spans = outcome.spans();
            for phase in
                [Phase::RegisterBuffer, Phase::RegisterHandle, Phase::Submit, Phase::Transfer, Phase::Deregister]
            {
                let told = spans.iter().filter(|s| s.phase == phase && s.tensor.is_some()).count();
                assert_eq!(told, with_bytes, "{plugin:?} {phase:?}");
            }
            let copied = spans.iter().any(|s| s.phase == Phase::Copy);
            assert_eq!(copied, gpu && plugin == NixlPlugin::Posix, "{plugin:?} {gpu}");
            let named = |note: &Note| matches!(note, Note::Nixl { plugin: named, .. } if *named == plugin);
            assert!(result.notes.iter().any(named), "{:?}", result.notes);
        }
    }
}

#[test]
fn one_transfer_registers_once_and_lands_the_same_bytes() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    let model = models::odd(folder.path());
    let env = [("GDS_TOP_NIXL", built.nixl.to_str().unwrap())];
    let order = with_settings(order(Engine::Nixl(NixlPlugin::Posix), &model), &[("one_transfer", 1)]);
    let outcome = run(&order, &env);
    sound::check(&outcome, &model);
    let count = |phase| outcome.spans().iter().filter(|span| span.phase == phase).count();
    assert_eq!((count(Phase::RegisterBuffer), count(Phase::RegisterHandle), count(Phase::Submit)), (1, 1, 1));
    assert_eq!(outcome.result().settings["one_transfer"], 1);
}

#[test]
fn one_transfer_by_batches_is_divided_into_what_compat_mode_supports() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    let model = models::odd(folder.path());
    let machine = folder.path().join("machine");
    standins::machine(&machine, folder.path());
    let env = standin_env(
        &built.folder,
        &[
            ("GDS_TOP_NIXL", built.nixl.to_str().unwrap()),
            ("LD_PRELOAD", built.redirect.to_str().unwrap()),
            ("GDS_TOP_TEST_REDIRECT", machine.to_str().unwrap()),
        ],
    );
    // The plugin GDS makes batches of cuFile, the plugin GDS_MT does not.
    let several = model.tensors.iter().filter(|tensor| tensor.bytes > 0).count().div_ceil(32);
    for (plugin, transfers) in [(NixlPlugin::Gds, several), (NixlPlugin::GdsMt, 1)] {
        let order = with_settings(gpu_order(Engine::Nixl(plugin), &model), &[("one_transfer", 1)]);
        let outcome = run(&order, &env);
        sound::check(&outcome, &model);
        let count = |phase| outcome.spans().iter().filter(|span| span.phase == phase).count();
        assert_eq!((count(Phase::RegisterBuffer), count(Phase::Submit)), (1, transfers), "{plugin:?}");
        let divided = Note::NixlTransfers { transfers: several as u64, requests: 32, compat: true };
        assert_eq!(outcome.result().notes.contains(&divided), transfers > 1, "{:?}", outcome.result().notes);
    }
}

#[test]
fn loads_before_the_measured_one_are_set_up_and_count_nowhere_else() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    let model = models::odd(folder.path());
    let env = [("GDS_TOP_NIXL", built.nixl.to_str().unwrap())];
    let outcome = run(&with_settings(order(Engine::Nixl(NixlPlugin::Posix), &model), &[("warmup", 2)]), &env);
    sound::check(&outcome, &model);
    let result = outcome.result();
    assert!(result.setup_parts_ns["earlier_loads"] > 0 && result.settings["warmup"] == 2, "{result:?}");
}

#[test]
fn each_call_that_is_refused_is_a_sentence_and_wrong_bytes_are_found() {
    let Some(built) = standins::build() else { return };
    let folder = folder();
    let model = models::odd(folder.path());
    let nixl = ("GDS_TOP_NIXL", built.nixl.to_str().unwrap());
    let order = order(Engine::Nixl(NixlPlugin::Posix), &model);
    for (told, part) in [
        (("STANDIN_NIXL_FAIL", "create_agent:-4"), "an exception inside NIXL"),
        (("STANDIN_NIXL_FAIL", "create_backend:-2"), "nixl_capi_create_backend of the plugin POSIX"),
        (("STANDIN_NIXL_PLUGINS", "UCX,OBJ"), "its plugins are [UCX, OBJ]"),
        (("STANDIN_NIXL_FAIL", "register_mem:-2:2"), "nixl_capi_register_mem of a file"),
        (("STANDIN_NIXL_FAIL", "create_xfer_req:-1"), "invalid parameter"),
        (("STANDIN_NIXL_FAIL", "post_xfer_req:-2"), "nixl_capi_post_xfer_req"),
        (("STANDIN_NIXL_FAIL", "get_xfer_status:-2:2"), "nixl_capi_get_xfer_status"),
        (("STANDIN_NIXL_STUB", "1"), "stub"),
    ] {
        let outcome = run(&order, &[nixl, told]);
        assert!(outcome.error().contains(part), "{told:?}: {}", outcome.error());
    }
    let outcome = run(&order, &[nixl, ("STANDIN_NIXL_CORRUPT", "2")]);
    assert_eq!(outcome.result().verified, Some(false));
}

#[test]
fn without_nixl_the_engine_says_how_to_get_it() {
    let folder = folder();
    let model = models::odd(folder.path());
    for plugin in PLUGINS {
        let outcome = run(&order(Engine::Nixl(plugin), &model), &[("GDS_TOP_NIXL", "/nonexistent")]);
        let error = outcome.error();
        assert!(error.contains("pip install nixl") && error.contains("GDS_TOP_NIXL"), "{error}");
    }
}

/// The NIXL wheel in `GDS_TOP_TEST_WHEELS`, if it exists.
fn wheel() -> Option<PathBuf> {
    let Some(root) = std::env::var_os("GDS_TOP_TEST_WHEELS").filter(|root| !root.is_empty()) else {
        standins::skipped("GDS_TOP_TEST_WHEELS is not set (run .ci/wheels and set it to the directory)");
        return None;
    };
    let folder = std::path::absolute(root).unwrap().join("nixl");
    if !folder.is_dir() {
        standins::skipped("the wheels hold no NIXL");
        return None;
    }
    Some(folder)
}

#[test]
fn the_real_library_lands_the_model_by_posix_reads() {
    let Some(wheel) = wheel() else { return };
    let folder = folder();
    let model = models::odd(folder.path());
    let env = [("GDS_TOP_NIXL", wheel.to_str().unwrap())];
    let outcome = run(&order(Engine::Nixl(NixlPlugin::Posix), &model), &env);
    sound::check(&outcome, &model);
    let result = outcome.result();
    let is_version_1 = |note: &Note| matches!(note, Note::Nixl { library, .. } if library.starts_with("NIXL 1."));
    assert!(result.notes.iter().any(is_version_1), "{:?}", result.notes);
}

#[test]
fn the_real_library_lands_the_model_by_the_real_cufile() {
    let Some(wheel) = wheel() else { return };
    let Some(built) = standins::build() else { return };
    let libcufile = wheel.parent().unwrap().join("1.20.0.107/nvidia/cu13/lib/libcufile.so.0");
    if !libcufile.is_file() || !wheel.join("nvidia/cu13/lib/libcudart.so.13").is_file() {
        standins::skipped("NIXL's GDS plugins need the wheels of libcufile 1.20 and of the CUDA run-time library");
        return;
    }
    let folder = folder();
    let model = models::odd(folder.path());
    let machine = folder.path().join("machine");
    standins::machine(&machine, folder.path());
    let env = [
        ("GDS_TOP_NIXL", wheel.to_str().unwrap()),
        ("PYTHONPATH", wheel.to_str().unwrap()),
        ("LD_PRELOAD", built.redirect.to_str().unwrap()),
        ("GDS_TOP_TEST_REDIRECT", machine.to_str().unwrap()),
    ];
    for plugin in [NixlPlugin::Gds, NixlPlugin::GdsMt] {
        let order = LaneOrder { libcufile: Some(libcufile.clone()), ..order(Engine::Nixl(plugin), &model) };
        let outcome = run(&order, &env);
        sound::check(&outcome, &model);
        let route = outcome.result().route.clone().unwrap();
        assert_eq!((route.route, route.proven), (Route::Compat, true), "{route:?}");
    }
}
