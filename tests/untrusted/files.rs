//! Tests files that the user passes to the program: safetensors headers and indices, cufile.json, and the line
//! protocol of commands.

use crate::{HOSTILE, exported, run};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/recordings/h200-io.gdsrec");

fn safetensors(path: &Path, header: &Value, bytes: usize) {
    let header = header.to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.resize(file.len() + bytes, 7);
    fs::write(path, file).unwrap();
}

/// A model with the string in the names of tensors and in its metadata.
fn model(folder: &Path) -> PathBuf {
    let path = folder.join("model.safetensors");
    let tensor = |from: u64| json!({"dtype": "U8", "shape": [4096], "data_offsets": [from, from + 4096]});
    let header = json!({
        "__metadata__": {"format": HOSTILE, HOSTILE: HOSTILE},
        HOSTILE: tensor(0),
        format!("model.layers.0.{HOSTILE}.weight"): tensor(4096),
    });
    safetensors(&path, &header, 8192);
    path
}

#[test]
fn no_field_of_a_model_commands_a_terminal_or_is_a_formula() {
    let scratch = tempfile::tempdir().unwrap();
    let path = model(scratch.path());
    let path = path.to_str().unwrap();
    run(&["inspect", path, "--json"]);
    run(&["inspect", path]);
    let out = scratch.path().join("report");
    let load = ["load", path, "--gpu", "host", "--engine", "pread,mmap", "--cache", "as-is", "--export"];
    run(&[&load[..], &[out.to_str().unwrap()]].concat());
    let arrived = exported("load", &out);
    assert!(["tensors.csv", "report.json"].iter().all(|name| arrived.iter().any(|file| file == name)), "{arrived:?}");
}

#[test]
fn no_malformed_model_commands_a_terminal() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("bad.safetensors");
    let tensor = |dtype: &str, end: u64| json!({"dtype": dtype, "shape": [4096], "data_offsets": [0, end]});
    let mut shown = 0;
    for header in [
        json!({HOSTILE: tensor("U8", 9)}),
        json!({HOSTILE: tensor("U8", 1 << 40)}),
        json!({"a": tensor(HOSTILE, 4096)}),
        json!({HOSTILE: HOSTILE}),
        json!({HOSTILE: tensor("U8", 4096), "b": tensor("U8", 4096)}),
        json!(HOSTILE),
    ] {
        safetensors(&path, &header, 4096);
        shown += usize::from(run(&["inspect", path.to_str().unwrap()]));
    }
    let folder = scratch.path().join("sharded");
    fs::create_dir(&folder).unwrap();
    let index = json!({"metadata": {"total_size": HOSTILE}, "weight_map": {HOSTILE: format!("{HOSTILE}.safetensors")}});
    fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
    shown += usize::from(run(&["inspect", folder.to_str().unwrap()]));
    assert!(shown >= 4, "the string was shown {shown} times");
    run(&["inspect", HOSTILE]);
    run(&["load", HOSTILE, "--gpu", HOSTILE]);
}

#[test]
fn no_field_of_a_cufile_json_commands_a_terminal() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("cufile.json");
    let mut shown = 0;
    for text in [
        json!({HOSTILE: HOSTILE}).to_string(),
        json!({"logging": {"level": HOSTILE, "dir": HOSTILE}}).to_string(),
        json!({"properties": {"max_direct_io_size_kb": HOSTILE, HOSTILE: true}}).to_string(),
        json!({"denylist": {"drivers": [HOSTILE], "mounts": HOSTILE}}).to_string(),
        json!({"execution": {"max_io_threads": -1, HOSTILE: {}}}).to_string(),
        format!("{{ // {HOSTILE}\n 'a': {HOSTILE}, }}"),
        HOSTILE.to_owned(),
    ] {
        fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        for arguments in [
            ["config", "lint", path].as_slice(),
            &["config", "lint", path, "--json"],
            &["config", "show", path],
            &["config", "show", path, "--json"],
        ] {
            shown += usize::from(run(arguments));
        }
    }
    assert!(shown >= 6, "the string was shown {shown} times");
}

#[test]
fn nothing_that_a_command_writes_commands_a_terminal_or_is_a_formula() {
    let scratch = tempfile::tempdir().unwrap();
    let path = model(scratch.path());
    let frames = scratch.path().join("frames");
    let lines = [
        json!({"ready": true, "version": HOSTILE}),
        json!({"phase": HOSTILE, "ns": 1}),
        json!({"phase": "transfer", "ns": 1000, "note": HOSTILE}),
        json!({HOSTILE: HOSTILE}),
        json!({"error": HOSTILE}),
        json!({"done": true, "bytes": 8192, "verified": HOSTILE}),
        json!(HOSTILE),
    ];
    let lines: Vec<String> = lines.iter().map(|line| format!("{line}\n")).chain([format!("{HOSTILE}\n")]).collect();
    fs::write(&frames, lines.concat()).unwrap();
    fs::write(scratch.path().join("said"), format!("{HOSTILE}\n")).unwrap();
    let mut shown = 0;
    for status in [0, 3] {
        let script = scratch.path().join("loader.sh");
        let text = format!(
            "eval \"cat {0}/frames >&$GDS_TOP_FD\"\ncat {0}/said\ncat {0}/said >&2\nexit {status}\n",
            scratch.path().display()
        );
        fs::write(&script, text).unwrap();
        let engine = format!("command:sh {} '{HOSTILE}'", script.display());
        let report = scratch.path().join(format!("report-{status}"));
        let load = ["load", path.to_str().unwrap(), "--gpu", "host", "--cache", "as-is", "--engine", &engine];
        shown += usize::from(run(&[&load[..], &["--export", report.to_str().unwrap()]].concat()));
        shown += usize::from(run(&[&load[..], &["--json"]].concat()));
        shown += exported("command", &report).len();
    }
    assert!(shown >= 6, "the string was shown {shown} times");
}

#[test]
fn a_fifo_or_a_device_in_place_of_any_input_is_refused_at_once() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name).display().to_string();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    std::os::unix::fs::symlink(at("fifo"), at("link.json")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", at("zero.json")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at("socket"), rustix::fs::FileType::Socket, mode, 0).unwrap();
    let model = model(scratch.path()).display().to_string();
    let index = scratch.path().join("indexed/model.safetensors.index.json");
    fs::create_dir(index.parent().unwrap()).unwrap();
    for input in ["fifo", "link.json", "zero.json", "socket"] {
        let input = at(input);
        let _ = fs::remove_file(&index);
        std::os::unix::fs::symlink(&input, &index).unwrap();
        for words in [&["watch", "--", "true"][..], &["check", "--no-probe", "/usr"], &["config", "show"]] {
            let mut command = std::process::Command::new("timeout");
            command.args(["-s", "KILL", "60", crate::program::PROGRAM]).args(words).envs(crate::program::VARIABLES);
            let output = command.env("CUFILE_ENV_PATH_JSON", &input).output().unwrap();
            assert!(output.status.code().is_some_and(|status| status <= 2), "{words:?} with {input}: {output:?}");
        }
        for name in ["GDS_TOP_LIBCUFILE", "GDS_TOP_NVML", "GDS_TOP_NIXL"] {
            let mut command = std::process::Command::new("timeout");
            command.args(["-s", "KILL", "60", crate::program::PROGRAM, "check", "--no-probe", "/usr"]);
            let output = command.envs(crate::program::VARIABLES).env(name, &input).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{name}: {said}");
            assert!(said.contains(name) && said.contains("not a regular file"), "{said}");
        }
        for words in [
            &["check", "--root", &input][..],
            &["check", "--for", "lmcache", &input],
            &["check", "--for", "vllm", &input],
            &["check", "--for", "nixl", &input],
            &["fix", "--list", "--root", &input],
            &["report", &input],
            &["report", RECORDING, "--baseline", &input],
            &["report", RECORDING, &input],
            &["watch", "--baseline", &input, "--", "true"],
            &["replay", "--headless", &input],
            &["fleet", &input],
            &["inspect", &input],
            &["config", "lint", &input],
            &["config", "diff", &input],
            &["config", "show", &input],
            &["explain", &input],
            &["--config", &input, "bench", "--list-loaders"],
            &["inspect", "--predict", "--from", &input, &model],
            &["inspect", &at("indexed")],
            &["config", "tune", &at("indexed")],
            &["bench", &model, "--target", "host", "--yes", "--baseline", &input],
            &["capture", &input],
            &["bench", &input, "--target", "host", "--yes"],
            &["bench-kv", "ucm", &at(""), "--shape", &input, "--target", "host", "--yes"],
        ] {
            let mut command = std::process::Command::new("timeout");
            command.args(["-s", "KILL", "60", crate::program::PROGRAM]).args(words).envs(crate::program::VARIABLES);
            let output = command.stdin(std::process::Stdio::null()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
            assert!(!said.trim().is_empty(), "{words:?}");
        }
    }
}
