//! Attacks on the journal: what is planted there by another user must not be written back, and commands that only look write nothing.

use crate::throwaway::{PROGRAM, Throwaway, UBUNTU, err};
use rustix::process::Signal;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A tree of files with room for a journal, in the form that `check` reads.
fn machine() -> Throwaway {
    let root = Throwaway::tree(UBUNTU);
    let files = root.top().join("files");
    fs::create_dir(&files).unwrap();
    for name in ["etc", "proc"] {
        fs::rename(root.top().join(name), files.join(name)).unwrap();
    }
    root
}

/// All commands that only look at `--root`.
fn look(root: &Throwaway) {
    let top = root.top();
    for words in [
        &["fix", "--list"][..],
        &["fix", "--list", "--json"],
        &["fix", "--dry-run"],
        &["fix", "--dry-run", "memlock"],
        &["fix", "nvidia-gds"],
        &["fix", "nvidia-gds", "--yes"],
        &["check"],
        &["check", "--json"],
        &["config", "lint"],
    ] {
        let done = Command::new(PROGRAM).args(words).arg("--root").arg(&top).stdin(Stdio::null()).output().unwrap();
        assert!(done.status.code().is_some_and(|code| code < 2), "{words:?}: {}", err(&done));
    }
}

/// An entry of an interrupted undo: it wants `before` in the place of `after`.
fn planted(id: &str, path: &str, mode: u32, before: &str, after: &str) -> String {
    json!({
        "schema_version": 1, "id": id, "check": "lim-memlock", "title": "planted", "at_unix_s": 1, "stage": "undoing",
        "files": [{
            "path": path, "before": {"text": before, "mode": mode, "uid": 0, "gid": 0}, "after": after, "mode": mode,
            "made_folders": [],
        }],
    })
    .to_string()
}

fn plant(folder: &Path, id: &str, text: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(format!("{id}.json")), text).unwrap();
}

#[test]
fn commands_that_look_leave_a_prepared_folder_as_it_is() {
    let root = machine();
    let path = root.files().join("etc/security/limits.d/99-gds.conf");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "harmless\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let entry = planted("memlock", "/etc/security/limits.d/99-gds.conf", 0o104_755, "#!/bin/sh\nid\n", "harmless\n");
    plant(&root.top().join(".gds-top/journal"), "memlock", &entry);
    let before = root.image();
    look(&root);
    assert_eq!(root.image(), before);
}

#[test]
fn commands_that_look_leave_an_interrupted_fix_as_it_is() {
    let mut steps = 0;
    for step in 1.. {
        let root = machine();
        if !root.killed_at(step, &["memlock", "--yes"], Signal::KILL) {
            break;
        }
        steps = step;
        let before = root.image();
        look(&root);
        assert_eq!(root.image(), before, "step {step}");
        let said = err(&root.fix(&["--list"]));
        let is_begun = root.top().join(".gds-top/journal/memlock.json").exists();
        assert_eq!(said.contains("memlock: it was interrupted"), is_begun, "step {step}: {said}");
        let resumed = err(&root.resume());
        assert_eq!(resumed.contains("it is resumed now"), is_begun, "step {step}: {resumed}");
    }
    assert!(steps >= 5, "{steps}");
}
