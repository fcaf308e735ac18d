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

/// Kinds of files that another user can put in place of each file of a machine.
const KINDS: [&str; 11] =
    ["fifo", "socket", "zero", "tty", "folder", "link to itself", "link to /", "30 GiB", "zeros", "lines", "words"];

/// Replaces a file. Returns false if only root can create this kind.
fn replace(file: &Path, kind: &str) -> bool {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    fs::remove_file(file).unwrap();
    let node = |kind, device| mknodat(CWD, file, kind, Mode::from_raw_mode(0o666), device);
    let large = 15 << 20;
    match kind {
        "fifo" => node(FileType::Fifo, 0).unwrap(),
        "socket" => node(FileType::Socket, 0).unwrap(),
        "zero" => return node(FileType::CharacterDevice, makedev(1, 5)).is_ok(),
        "tty" => return node(FileType::CharacterDevice, makedev(5, 0)).is_ok(),
        "folder" => fs::create_dir(file).unwrap(),
        "link to itself" => std::os::unix::fs::symlink(file.file_name().unwrap(), file).unwrap(),
        "link to /" => std::os::unix::fs::symlink("/", file).unwrap(),
        "30 GiB" => fs::File::create(file).unwrap().set_len(30 << 30).unwrap(),
        "zeros" => fs::File::create(file).unwrap().set_len(large).unwrap(),
        "lines" => fs::write(file, "\n".repeat(large as usize)).unwrap(),
        _ => fs::write(file, "a 1 nvidia_fs = {[\n".repeat(large as usize / 19)).unwrap(),
    }
    true
}

#[test]
fn special_and_large_files_of_a_machine_take_little_time_and_memory() {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/h200-vm-no-udev");
    for kind in KINDS {
        let scratch = tempfile::tempdir().unwrap();
        let machine = scratch.path().join("machine");
        copy(&base, &machine);
        let mut all = Vec::new();
        files(&machine.join("files"), &mut all);
        if !all.iter().all(|file| replace(file, kind)) {
            eprintln!("skipped: {kind} needs root");
            continue;
        }
        for words in [
            &["check", "--capture"][..],
            &["fix", "--list", "--sysroot"],
            &["fix", "memlock", "--dry-run", "--sysroot"],
        ] {
            let began = std::time::Instant::now();
            let mut command = std::process::Command::new("sh");
            // 800 MB of address space. The program itself maps about 150 MB.
            command.args(["-c", "ulimit -v 800000 && exec timeout -s KILL 100 \"$@\"", "sh", crate::program::PROGRAM]);
            let output = command.args(words).arg(&machine).envs(crate::program::VARIABLES).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code().is_some_and(|status| status <= 2), "{kind}, {words:?}: {said}");
            assert!(!said.contains("panicked") && !said.contains("memory allocation"), "{kind}, {words:?}: {said}");
            eprintln!("{kind}, {}: {:?}", words.join(" "), began.elapsed());
        }
    }
}

#[test]
fn a_folder_with_any_number_of_entries_takes_little_time() {
    let scratch = tempfile::tempdir().unwrap();
    let devices = scratch.path().join("files/sys/bus/pci/devices");
    fs::create_dir_all(&devices).unwrap();
    for number in 0..20_000 {
        fs::write(devices.join(format!("{number:04x}:00:00.0")), "").unwrap();
    }
    let root = Root::open(scratch.path()).unwrap();
    let why = root.entries("/sys/bus/pci/devices").unwrap_err().to_string();
    assert!(why.contains("more than 16384 entries"), "{why}");
    let found = checks::run(&root, &[], None, &mut |_| {});
    assert!(!found.findings.is_empty());
}
