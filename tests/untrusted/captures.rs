//! Tests captured machines: each file, and each string in their JSON files.

use crate::{HOSTILE, SHOWN, coloured, plain, run};
use gds_top::checks;
use gds_top::machine::Root;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (kind, target) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path()).unwrap(), target).unwrap();
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files(&entry.path(), out);
        } else if kind.is_file() {
            out.push(entry.path());
        }
    }
}

/// The pointers to all strings of a value.
fn pointers(value: &Value, at: &str, out: &mut Vec<String>) {
    match value {
        Value::String(_) => out.push(at.to_owned()),
        Value::Array(list) => list.iter().enumerate().for_each(|(n, value)| pointers(value, &format!("{at}/{n}"), out)),
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            pointers(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), out);
        }),
        _ => {}
    }
}

/// Renders the findings for a terminal. If a machine is rejected, the error is a sentence, which the program
/// sanitises before it prints it.
fn examine(what: &str, machine: &Path) -> bool {
    let Ok(root) = Root::open(machine) else { return false };
    let found = checks::run(&root, &root.captured_paths(), None, &mut |_| {});
    let text = |colour| gds_top::report::findings(&found.findings, &found.verdicts, 100, colour);
    plain(what, &text(false)) | coloured(what, &text(true))
}

fn each_field(name: &str) -> usize {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines").join(name);
    let scratch = tempfile::tempdir().unwrap();
    let machine = scratch.path().join("machine");
    copy(&base, &machine);
    let mut arrived = 0;
    let mut all = Vec::new();
    files(&machine, &mut all);
    for file in all {
        let Ok(original) = fs::read_to_string(&file) else { continue };
        let what = format!("{name}: {}", file.strip_prefix(&machine).unwrap().display());
        let in_files = file.starts_with(machine.join("files"));
        if !in_files && let Ok(value) = serde_json::from_str::<Value>(&original) {
            let mut places = Vec::new();
            pointers(&value, "", &mut places);
            for place in places {
                let mut planted = value.clone();
                if let Some(Value::String(text)) = planted.pointer_mut(&place) {
                    text.push_str(HOSTILE);
                }
                fs::write(&file, planted.to_string()).unwrap();
                arrived += usize::from(examine(&format!("{what} {place}"), &machine));
            }
        } else {
            let lines: String = original.lines().map(|line| format!("{line}{HOSTILE}\n")).collect();
            for planted in [lines, format!("{HOSTILE}\n{original}"), HOSTILE.to_owned()] {
                fs::write(&file, planted).unwrap();
                arrived += usize::from(examine(&what, &machine));
            }
        }
        fs::write(&file, original).unwrap();
    }
    arrived
}

#[test]
fn no_field_of_a_captured_machine_commands_a_terminal() {
    for name in ["h200-vm-no-udev", "nvfs-healthy"] {
        let arrived = each_field(name);
        assert!(arrived > 10, "{name}: the string arrived {arrived} times");
    }
}

/// A machine with the string in the places that commands show most: names of GPUs and file systems, the kernel log,
/// and cufile.json.
fn planted_machine(folder: &Path) -> PathBuf {
    let machine = folder.join("machine");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/h200-vm-no-udev"), &machine);
    for (file, places) in [("nvml.json", vec!["/gpus/0/name"]), ("paths.json", vec!["/0/source", "/0/mount_options"])] {
        let path = machine.join(file);
        let mut value: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        for place in places {
            if let Some(Value::String(text)) = value.pointer_mut(place) {
                text.push_str(HOSTILE);
            }
        }
        fs::write(&path, value.to_string()).unwrap();
    }
    fs::create_dir_all(machine.join("files/etc")).unwrap();
    let config = serde_json::json!({"logging": {"level": HOSTILE}, HOSTILE: 1, "properties": {HOSTILE: HOSTILE}});
    fs::write(machine.join("files/etc/cufile.json"), config.to_string()).unwrap();
    machine
}

#[test]
fn no_command_on_a_captured_machine_lets_it_command_the_terminal() {
    let scratch = tempfile::tempdir().unwrap();
    let machine = planted_machine(scratch.path());
    let machine = machine.to_str().unwrap();
    let shown = [
        run(&["check", "--root", machine]),
        run(&["check", "--root", machine, "--plain"]),
        run(&["check", "--root", machine, "-v"]),
        run(&["config", "lint", "--root", machine]),
    ];
    assert_eq!(shown, [true; 4], "'{SHOWN}' did not arrive");
    for arguments in [
        ["check", "--root", machine, "--json"].as_slice(),
        &["fix", "--list", "--root", machine],
        &["fix", "--list", "--json", "--root", machine],
        &["fix", "--dry-run", "cufile-config", "--root", machine],
        &["fix", "--dry-run", "nvidia-gds", "--root", machine],
        &["config", "lint", "--json", "--root", machine],
        &["config", "show", "--root", machine],
        &["config", "show", "--json", "--root", machine],
    ] {
        run(arguments);
    }
    // In JSON the string is escaped and not replaced, so the data does not change.
    let out = crate::program::gds_top().args(["check", "--root", machine, "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(report["machine"]["gpus"][0]["name"].as_str().is_some_and(|name| name.ends_with(HOSTILE)), "{report}");
}
