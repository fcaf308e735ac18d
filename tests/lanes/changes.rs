//! Tests changes during a run: of files, and of the session to which the run belongs.

use crate::harness::{STANDIN_UUID, folder, gpu_order, order, run, until, with_settings};
use crate::program::gds_top;
use crate::{models, standins};
use gds_top::core::{CacheState, Engine, LaneOrder};
use std::fs::OpenOptions;
use std::process::{Command, Stdio};

const ENGINES: [Engine; 3] = [Engine::Mmap, Engine::Pread, Engine::Odirect];

#[test]
fn a_file_that_was_cut_or_has_grown_since_is_a_change() {
    for (name, bytes) in [("b.safetensors", 4096), ("e.safetensors", 1 << 20)] {
        for engine in ENGINES {
            let folder = folder();
            let model = models::odd(folder.path());
            let path = folder.path().join(name);
            OpenOptions::new().write(true).open(&path).unwrap().set_len(bytes).unwrap();
            let outcome = run(&order(engine, &model), &[]);
            let error = outcome.error();
            assert!(error.contains("changed") && error.contains(name) && error.contains(&bytes.to_string()), "{error}");
        }
    }
}

#[test]
fn a_file_that_is_cut_during_the_load_is_an_error_and_under_a_mapping_the_end_of_the_lane() {
    let Some(built) = standins::build() else { return };
    for engine in Engine::named().filter(|engine| !matches!(engine, Engine::Nixl(_) | Engine::Auto)).cloned() {
        let folder = folder();
        let model = models::odd(folder.path());
        let machine = folder.path().join("machine");
        standins::machine(&machine, folder.path());
        // When the target is allocated, the files are open and their headers were read.
        let waiting = folder.path().join("waiting");
        let env = [
            ("LD_LIBRARY_PATH", built.folder.to_str().unwrap()),
            ("LD_PRELOAD", built.redirect.to_str().unwrap()),
            ("GDS_TOP_TEST_REDIRECT", machine.to_str().unwrap()),
            ("STANDIN_CUDA_FAIL", "cuMemAlloc_v2:wait:1"),
            ("STANDIN_WAIT", waiting.to_str().unwrap()),
        ];
        let order = with_settings(gpu_order(engine.clone(), &model), &[("block_bytes", 4096), ("depth", 1)]);
        let outcome = std::thread::scope(|scope| {
            let lane = scope.spawn(|| run(&order, &env));
            until("a lane that waits", || waiting.exists().then_some(()));
            let cut = OpenOptions::new().write(true).open(folder.path().join("b.safetensors")).unwrap();
            cut.set_len(8192).unwrap();
            std::fs::remove_file(&waiting).unwrap();
            lane.join().unwrap()
        });
        if engine == Engine::Mmap {
            assert_eq!(outcome.signal(), libc::SIGBUS);
        } else {
            let error = outcome.error();
            // There are three possible results: a read ends early; the headers, which some engines check during the
            // first reads, no longer match; or a file that is opened late has another length.
            let early = error.contains("changed during the load") && error.contains("at or before byte");
            let headers = error.contains("the model changed") && error.contains("truncated");
            let length = error.contains("the model changed")
                && error.contains("b.safetensors had ")
                && error.contains(" and has 8192");
            assert!(error.contains("b.safetensors") && (early || headers || length), "{engine}: {error}");
        }
    }
}

#[test]
fn a_fifo_in_place_of_a_file_is_a_change_and_is_not_waited_for() {
    for engine in ENGINES {
        for cache in [CacheState::Cold, CacheState::Hot, CacheState::AsIs] {
            let folder = folder();
            let model = models::odd(folder.path());
            let path = folder.path().join("b.safetensors");
            std::fs::remove_file(&path).unwrap();
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            let outcome = run(&LaneOrder { cache, ..order(engine.clone(), &model) }, &[]);
            assert!(outcome.error().contains("b.safetensors"), "{engine} {cache}: {}", outcome.error());
        }
    }
}

#[test]
fn a_file_with_other_tensors_of_the_same_length_is_a_change() {
    let folder = folder();
    let path = folder.path().join("m.safetensors");
    models::write(&path, &[("first", "U8", &[100])], 0);
    let model = gds_top::models::open(folder.path()).unwrap();
    models::write(&path, &[("other", "U8", &[100])], 0);
    let outcome = run(&order(Engine::Pread, &model), &[]);
    assert!(outcome.error().contains("other tensors"), "{}", outcome.error());
}

#[test]
fn a_file_or_folder_that_is_gone_is_named() {
    for engine in ENGINES {
        let folder = folder();
        let model = models::odd(folder.path());
        std::fs::remove_file(folder.path().join("d.safetensors")).unwrap();
        let outcome = run(&order(engine.clone(), &model), &[]);
        let error = outcome.error();
        assert!(error.contains("d.safetensors") && error.contains("No such file"), "{engine}: {error}");
        std::fs::remove_dir_all(folder.path()).unwrap();
        assert!(run(&order(engine, &model), &[]).error().contains("a.safetensors"));
    }
}

#[test]
fn an_order_that_is_no_order_is_refused_with_status_2() {
    for text in ["", "{}", "{\"engine\": \"mmap\"", "\u{1b}[2J"] {
        let mut child = gds_top()
            .arg("__lane")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        let out = child.wait_with_output().unwrap();
        assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0), "{text:?}");
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(said.contains("order is malformed") && !said.contains('\u{1b}'), "{said:?}");
    }
}

/// The state of a process and its parent; `None` if it has ended.
fn stat(pid: u32) -> Option<(char, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// A child process of `parent` with this word in its command line.
fn child_of(parent: u32, word: &str) -> Option<u32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.into_iter().find(|pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        stat(*pid).is_some_and(|(_, ppid)| ppid == parent) && String::from_utf8_lossy(&line).contains(word)
    })
}

#[test]
fn a_lane_dies_with_its_session_however_that_ends() {
    let Some(built) = standins::build() else { return };
    let (folder, temporary) = (folder(), folder());
    models::odd(folder.path());
    for signal in ["-TERM", "-KILL"] {
        let mut session = gds_top()
            .args(["load", "--engine", "mmap", "--cache", "as-is", "--gpu", STANDIN_UUID])
            .arg(folder.path())
            .env("LD_LIBRARY_PATH", &built.folder)
            .env("STANDIN_CUDA_FAIL", "cuMemAlloc_v2:hang")
            .env("TMPDIR", temporary.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lane = until("a lane that runs", || {
            assert_eq!(session.try_wait().unwrap(), None, "the session ended by itself");
            // After it has loaded CUDA, it has read its order and requested the parent-death signal from the kernel.
            // Then it hangs in the stand-in.
            let in_cuda = |lane: &u32| {
                std::fs::read_to_string(format!("/proc/{lane}/maps")).is_ok_and(|maps| maps.contains("libcuda.so.1"))
            };
            child_of(session.id(), "__lane").filter(in_cuda)
        });
        assert!(Command::new("kill").args([signal, &session.id().to_string()]).status().unwrap().success());
        let status = until("the session's end", || session.try_wait().unwrap());
        assert!(!status.success());
        if signal == "-TERM" {
            assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "temporary files are left");
        }
        // There may be no parent that waits for it, so a zombie counts as ended.
        until("the lane's end", || stat(lane).is_none_or(|(state, _)| state == 'Z').then_some(()));
    }
}

#[test]
fn a_probe_that_hangs_dies_with_its_session() {
    let Some(built) = standins::build() else { return };
    let (folder, temporary) = (folder(), folder());
    models::odd(folder.path());
    let mut session = gds_top()
        .args(["load", "--engine", "mmap", "--cache", "as-is"])
        .arg(folder.path())
        .env("LD_LIBRARY_PATH", &built.folder)
        .env("STANDIN_CUDA_FAIL", "cuInit:hang")
        .env("TMPDIR", temporary.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let probe = until("a probe that hangs", || {
        let in_cuda = |probe: &u32| {
            std::fs::read_to_string(format!("/proc/{probe}/maps")).is_ok_and(|maps| maps.contains("libcuda.so.1"))
        };
        child_of(session.id(), "__probe-cuda").filter(in_cuda)
    });
    assert!(Command::new("kill").args(["-KILL", &session.id().to_string()]).status().unwrap().success());
    session.wait().unwrap();
    until("the probe's end", || stat(probe).is_none_or(|(state, _)| state == 'Z').then_some(()));
}
