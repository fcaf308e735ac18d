//! Tests of failures on a GPU target with the stand-ins for CUDA and cuFile. Nothing is measured.

use crate::gpu::{run_with, setting};
use crate::harness::{ENGINES, STANDIN_NAME, folder, gpu_order, run, run_until, standin_env, with_settings};
use crate::sound;
use crate::standins;
use gds_top::core::{Engine, LaneOrder, Note, Target};
use std::cell::Cell;

#[test]
fn a_failing_cuda_call_is_a_sentence() {
    let Some((_folder, model, built)) = setting() else { return };
    let cases: [(Engine, &str, &[&str]); 10] = [
        (Engine::Mmap, "cuMemAlloc_v2:2", &["allocating", "are free", "--target"]),
        (Engine::Pread, "cuMemAlloc_v2:2", &["allocating", "8 GiB", "are free"]),
        (Engine::Odirect, "cuMemAlloc_v2:2", &["are free"]),
        (Engine::GdsSlab, "cuMemAlloc_v2:2", &["are free"]),
        (Engine::Pread, "cuMemHostRegister_v2:2", &["pinning", "slots"]),
        (Engine::Odirect, "cuMemHostRegister_v2:1", &["pinning", "CUDA_ERROR_INVALID_VALUE"]),
        (Engine::Pread, "cuMemcpyHtoDAsync_v2:700:2", &["copy", "CUDA_ERROR_ILLEGAL_ADDRESS"]),
        (Engine::Odirect, "cuMemcpyHtoDAsync_v2:700:2", &["copy", "CUDA_ERROR_ILLEGAL_ADDRESS"]),
        (Engine::Mmap, "cuMemcpyHtoD_v2:700:5", &["copying pageable memory", "CUDA_ERROR_ILLEGAL_ADDRESS"]),
        (Engine::Pread, "cuStreamCreate:2", &["stream", "CUDA_ERROR_OUT_OF_MEMORY"]),
    ];
    for (engine, fails, parts) in cases {
        let outcome = run_with(&built, &gpu_order(engine.clone(), &model), &[("STANDIN_CUDA_FAIL", fails)]);
        let error = outcome.error();
        assert!(parts.iter().all(|part| error.contains(part)), "{engine} {fails}: {error}");
    }
    // A failure to pin host memory is not related to GPU memory.
    let outcome =
        run_with(&built, &gpu_order(Engine::Pread, &model), &[("STANDIN_CUDA_FAIL", "cuMemHostRegister_v2:2")]);
    assert!(!outcome.error().contains("the GPU has too little"), "{}", outcome.error());
}

#[test]
fn a_failing_cufile_call_is_a_sentence_with_what_is_usually_behind_it() {
    let Some((_folder, model, built)) = setting() else { return };
    let cases: [(Engine, &str, &[&str]); 16] = [
        (Engine::GdsSlab, "cuFileDriverOpen:5011", &["cuFileDriverOpen", "5011", "CUDA"]),
        (Engine::GdsPerTensor, "cuFileDriverOpen:5001", &["5001"]),
        (Engine::GdsSlab, "cuFileHandleRegister:5027:3", &["5027", "udev", "c.safetensors"]),
        (Engine::GdsPerTensor, "cuFileHandleRegister:5027", &["5027", "udev", "a.safetensors"]),
        (Engine::GdsPerTensor, "cuFileBufRegister:5036:2", &["5036", "BAR1", "tiny."]),
        (Engine::GdsPerTensor, "cuFileRead:5008", &["5008", "compat"]),
        (Engine::GdsSlab, "cuFileRead:5008", &["5008", "reading"]),
        (Engine::GdsBounce, "cuFileRead:5", &["Input/output error"]),
        (Engine::GdsBatch, "cuFileBatchIOSetUp:5039", &["5039", "batch"]),
        (Engine::GdsBatch, "cuFileBatchIOSubmit:5040", &["5040", "reading"]),
        (Engine::GdsBatch, "cuFileBatchIOGetStatus:5041", &["5041", "collecting"]),
        (Engine::GdsBatch, "cuFileBatchIO.entry:5", &["Input/output error"]),
        (Engine::GdsStream, "cuFileStreamRegister:5038", &["5038", "not available here"]),
        (Engine::GdsStream, "cuFileReadAsync:5038", &["5038", "reading"]),
        (Engine::GdsStream, "cuFileReadAsync.later:5044", &["5044"]),
        (Engine::GdsPerTensor, "cuFileRead:5", &["Input/output error", "tensor tiny."]),
    ];
    for (engine, fails, parts) in cases {
        // One block with everything, or many blocks. If all reads fail, none may use another route.
        let set: &[_] = match engine {
            Engine::GdsPerTensor => &[],
            Engine::GdsBounce => &[("block_bytes", 1 << 30)],
            _ => &[("block_bytes", 65_536)],
        };
        let order = with_settings(gpu_order(engine.clone(), &model), set);
        let outcome = run_with(&built, &order, &[("STANDIN_CUFILE_FAIL", fails)]);
        let error = outcome.error();
        assert!(parts.iter().all(|part| error.contains(part)), "{engine} {fails}: {error}");
    }
}

#[test]
fn a_failed_read_on_a_stream_into_registered_memory_in_compat_mode_says_what_to_do() {
    let Some((_folder, model, built)) = setting() else { return };
    let order = with_settings(gpu_order(Engine::GdsStream, &model), &[("register", 1), ("block_bytes", 65_536)]);
    let faults = [("STANDIN_CUFILE_ROUTE", "posix"), ("STANDIN_CUFILE_FAIL", "cuFileReadAsync:5011")];
    let outcome = run_with(&built, &order, &faults);
    let error = outcome.error();
    assert!(error.contains("5011") && error.contains("leave register at 0"), "{error}");
}

#[test]
fn single_reads_that_fail_are_done_again_another_way_and_said() {
    let Some((_folder, model, built)) = setting() else { return };
    for (engine, fails, code) in [
        (Engine::GdsSlab, "cuFileRead:5:2", "Input/output error"),
        (Engine::GdsPerTensor, "cuFileRead:5:7", "Input/output error"),
        (Engine::GdsBounce, "cuFileRead:5030:1,cuFileRead:5030:7", "5030"),
        (Engine::GdsBatch, "cuFileBatchIO.entry:5044:3", "5044"),
        (Engine::GdsBatch, "cuFileBatchIOSubmit:5040:2", "5040"),
        (Engine::GdsStream, "cuFileReadAsync:5030:4", "5030"),
        (Engine::GdsStream, "cuFileReadAsync.later:5:4", "cuFileReadAsync"),
    ] {
        let set = [("block_bytes", 65_536), ("threads", 2), ("depth", 4)];
        let order = with_settings(gpu_order(engine.clone(), &model), &set);
        let outcome = run_with(&built, &order, &[("STANDIN_CUFILE_FAIL", fails)]);
        sound::check(&outcome, &model);
        let notes = &outcome.result().notes;
        let names = |note: &Note| matches!(note, Note::RepeatedReads { first_error, .. } if first_error.contains(code));
        assert!(notes.iter().any(names), "{engine} {fails}: {notes:?}");
        // Each batch contains several reads, so fewer calls are made.
        let least = if engine == Engine::GdsBounce { 2 } else { 1 };
        assert!(outcome.result().repeated_reads >= Some(least), "{engine} {fails}");
    }
}

#[test]
fn wrong_bytes_are_seen_on_every_way_to_the_gpu() {
    let Some((_folder, model, built)) = setting() else { return };
    for (engine, spoiled) in [
        (Engine::Mmap, "STANDIN_CUDA_CORRUPT"),
        (Engine::Pread, "STANDIN_CUDA_CORRUPT"),
        (Engine::Odirect, "STANDIN_CUDA_CORRUPT"),
        (Engine::GdsPerTensor, "STANDIN_CUFILE_CORRUPT"),
        (Engine::GdsPerTensor, "STANDIN_CUFILE_LOSE"),
        (Engine::GdsSlab, "STANDIN_CUFILE_CORRUPT"),
        (Engine::GdsSlab, "STANDIN_CUFILE_LOSE"),
        (Engine::GdsBatch, "STANDIN_CUFILE_LOSE"),
        (Engine::GdsStream, "STANDIN_CUFILE_CORRUPT"),
    ] {
        let set: &[_] =
            if engine == Engine::Mmap || engine == Engine::GdsPerTensor { &[] } else { &[("block_bytes", 65_536)] };
        let outcome = run_with(&built, &with_settings(gpu_order(engine.clone(), &model), set), &[(spoiled, "2")]);
        let result = outcome.result();
        assert_eq!((result.verified, &result.error), (Some(false), &None), "{engine} {spoiled}");
        let said = result.first_difference.as_ref().expect("it is said");
        assert!(model.tensors.iter().any(|t| said.contains(&t.name)), "which tensor: {said}");
    }
}

#[test]
fn a_call_that_aborts_ends_the_lane_by_its_signal_with_last_words() {
    let Some((_folder, model, built)) = setting() else { return };
    for (variable, fails, engine) in [
        ("STANDIN_CUFILE_FAIL", "cuFileRead:abort:2", Engine::GdsPerTensor),
        ("STANDIN_CUFILE_FAIL", "cuFileDriverOpen:abort", Engine::GdsSlab),
        ("STANDIN_CUDA_FAIL", "cuMemcpyHtoDAsync_v2:abort", Engine::Pread),
    ] {
        let outcome = run_with(&built, &gpu_order(engine, &model), &[(variable, fails)]);
        assert_eq!(outcome.signal(), libc::SIGABRT);
        assert!(outcome.stderr.contains("will abort"), "{}", outcome.stderr);
    }
}

#[test]
fn a_call_that_hangs_never_becomes_a_result() {
    let Some((_folder, model, built)) = setting() else { return };
    let machine = folder();
    standins::machine(machine.path(), machine.path());
    for (variable, fails, engine) in [
        ("STANDIN_CUFILE_FAIL", "cuFileRead:hang:2", Engine::GdsSlab),
        ("STANDIN_CUDA_FAIL", "cuMemcpyHtoDAsync_v2:hang:3", Engine::Odirect),
    ] {
        let run_with = [
            (variable, fails),
            ("LD_PRELOAD", built.redirect.to_str().unwrap()),
            ("GDS_TOP_TEST_REDIRECT", machine.path().to_str().unwrap()),
        ];
        let order = with_settings(gpu_order(engine, &model), &[("block_bytes", 65_536)]);
        // It continues to report while it hangs.
        let before = Cell::new(None);
        let enough = |out: &str, err: &str| {
            let run_with = out.matches("\"landed_bytes\"").count();
            if before.get().is_none() && err.contains("will hang") {
                before.set(Some(run_with));
            }
            before.get().is_some_and(|before| run_with > before + 3)
        };
        let outcome = run_until(&order, &standin_env(&built.folder, &run_with), Some(&enough));
        assert!(outcome.status.is_none() && !outcome.finished(), "{:?}: {:?}", outcome.status, outcome.frames.last());
        let progress = outcome.progress();
        assert!(progress.iter().all(|(landed, ..)| *landed < model.tensor_bytes()), "{progress:?}");
    }
}

#[test]
fn without_libcufile_the_error_names_what_was_tried() {
    let Some((_folder, model, built)) = setting() else { return };
    let cuda_only = folder();
    std::os::unix::fs::symlink(&built.cuda, cuda_only.path().join("libcuda.so.1")).unwrap();
    let nowhere = cuda_only.path().join("libcufile.so.0");
    let env = [("GDS_TOP_LIBCUFILE", nowhere.to_str().unwrap())];
    let outcome = run(&gpu_order(Engine::GdsSlab, &model), &standin_env(cuda_only.path(), &env));
    let error = outcome.error();
    assert!(error.contains(nowhere.to_str().unwrap()) && error.contains("cannot open shared object"), "{error}");
    // The order may also name the library. Then no other library is used.
    let order = LaneOrder { libcufile: Some(built.nvml.clone()), ..gpu_order(Engine::GdsSlab, &model) };
    let outcome = run(&order, &standin_env(&built.folder, &[]));
    assert!(outcome.error().contains("libnvidia-ml.so.1"), "{}", outcome.error());
}

#[test]
fn a_gpu_that_is_not_there_is_answered_with_those_that_are() {
    let Some((_folder, model, built)) = setting() else { return };
    let uuid = Some("GPU-00000000-0000-0000-0000-000000000000".to_owned());
    let target = Target::Gpu { ordinal: 0, uuid, name: "another".to_owned() };
    let outcome = run_with(&built, &LaneOrder { target, ..gpu_order(Engine::Mmap, &model) }, &[]);
    let error = outcome.error();
    assert!(error.contains(STANDIN_NAME) && error.contains("CUDA_VISIBLE_DEVICES"), "{error}");
    let outcome = run_with(&built, &gpu_order(Engine::Mmap, &model), &[("STANDIN_CUDA_FAIL", "cuInit:100")]);
    assert!(outcome.error().contains("CUDA_ERROR_NO_DEVICE"), "{}", outcome.error());
}

#[test]
fn a_model_larger_than_the_gpu_is_an_error_and_not_a_crash() {
    let Some((_folder, model, built)) = setting() else { return };
    for engine in ENGINES {
        let outcome = run_with(&built, &gpu_order(engine.clone(), &model), &[("STANDIN_CUDA_TOTAL_BYTES", "1000000")]);
        assert!(outcome.error().contains("977 KiB free: choose another GPU with --target"), "{}", outcome.error());
        // The free memory may be fragmented.
        let outcome = run_with(&built, &gpu_order(engine, &model), &[("STANDIN_CUDA_FAIL", "cuMemAlloc_v2:2")]);
        assert!(outcome.error().contains("too little free memory"), "{}", outcome.error());
    }
}

#[test]
fn a_rude_library_neither_disturbs_the_frames_nor_takes_the_input() {
    let Some((_folder, model, built)) = setting() else { return };
    let outcome = run_with(&built, &gpu_order(Engine::GdsSlab, &model), &[("STANDIN_CUFILE_RUDE", "1")]);
    sound::check(&outcome, &model);
    assert!(outcome.stderr.contains("words on standard output"), "{}", outcome.stderr);
}
