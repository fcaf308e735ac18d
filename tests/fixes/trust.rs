//! Tests attacks on the journal. Entries of another user must not be written back, and commands that only read write
//! nothing.

use crate::copies::{image, look as inspect};
use crate::machine::{fixture, fixtures};
use crate::program::{PROGRAM, gds_top, started_by};
use crate::throwaway::{RESUME, Throwaway, UBUNTU, err};
use gds_top::core::{Change, FixId, Needs};
use gds_top::fixes;
use serde_json::json;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const LIMITS: &str = "etc/security/limits.d/99-gds.conf";

/// A tree of files with space for a journal, in the form that `check` reads.
fn machine() -> Throwaway {
    let root = Throwaway::tree(UBUNTU);
    let files = root.top().join("files");
    fs::create_dir(&files).unwrap();
    for name in ["etc", "proc"] {
        fs::rename(root.top().join(name), files.join(name)).unwrap();
    }
    root
}

/// Runs all commands that only read `--root`.
fn look(root: &Throwaway) {
    let top = root.top();
    for words in [
        &["fix", "--list"][..],
        &["fix", "--list", "--json"],
        &["fix", "--dry-run"],
        &["fix", "--dry-run", "memlock"],
        &["fix", "nvidia-gds", "--dry-run"],
        &["fix", "nvidia-gds", "--json"],
        &["check"],
        &["check", "--json"],
        &["config", "lint"],
    ] {
        let done = gds_top().args(words).arg("--root").arg(&top).stdin(Stdio::null()).output().unwrap();
        assert!(done.status.code().is_some_and(|code| code < 2), "{words:?}: {}", err(&done));
    }
}

/// An entry of an interrupted undo. It would replace `after` by `before`.
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

/// Puts an entry into a journal that belongs only to this user.
fn plant(folder: &Path, id: &str, text: &str) {
    fs::create_dir_all(folder).unwrap();
    let entry = folder.join(format!("{id}.json"));
    fs::write(&entry, text).unwrap();
    for (path, mode) in [(folder.parent().unwrap(), 0o700), (folder, 0o700), (&entry, 0o600)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
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
        if !root.killed_at(step, &["memlock", "--yes"]) {
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

/// A tree with the file that the fix `memlock` edits.
fn with_limits(text: &str) -> Throwaway {
    let root = Throwaway::tree(UBUNTU);
    let path = root.top().join(LIMITS);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    root
}

fn journal(root: &Throwaway) -> PathBuf {
    root.top().join(".gds-top/journal")
}

#[test]
fn every_plan_edits_files_that_its_fix_declares_and_needs_root_for_sudo() {
    let (mut seen, mut of_root) = (0, 0);
    for name in fixtures() {
        let (root, report) = inspect(&fixture(&name));
        let plans = FixId::ALL.iter().filter_map(|id| fixes::plan_by_id(&root, &report, *id));
        for plan in plans {
            for change in &plan.changes {
                match change {
                    Change::WriteFile { path, .. } => {
                        seen += 1;
                        assert!(fixes::may_edit(plan.id, path), "{name}: {} edits {}", plan.id, path.display());
                    }
                    Change::Run { argv } => {
                        let line = argv.join(" ");
                        let is_of_root = line.split_whitespace().any(|word| matches!(word, "sudo" | "sudoedit"));
                        assert!(!is_of_root || plan.needs != Needs::User, "{name}: {}: {line}", plan.id);
                        of_root += u32::from(is_of_root);
                    }
                }
            }
        }
    }
    assert!(seen > 100 && of_root > 100, "{seen}, {of_root}");
}

#[test]
fn an_entry_that_names_a_file_of_no_fix_is_refused() {
    let root = Throwaway::tree(UBUNTU);
    fs::write(root.top().join("etc/passwd"), "root:x:0:0::/root:/bin/sh\n").unwrap();
    let entry = planted("memlock", "/etc/passwd", 0o644, "evil::0:0::/:/bin/sh\n", "root:x:0:0::/root:/bin/sh\n");
    plant(&journal(&root), "memlock", &entry);
    let before = root.outside_the_journal();
    for words in [RESUME, &["--undo"], &["--undo", "memlock"], &["memlock", "--yes"]] {
        let done = root.fix(words);
        assert!(err(&done).contains("memlock does not edit /etc/passwd"), "{words:?}: {}", err(&done));
        assert_eq!(root.outside_the_journal(), before, "{words:?}");
    }
    assert_eq!(fs::read_to_string(journal(&root).join("memlock.json")).unwrap(), entry, "it is left for a person");
}

#[test]
fn an_entry_that_names_folders_of_others_is_refused() {
    let root = with_limits("new\n");
    fs::create_dir(root.top().join("etc/empty")).unwrap();
    let entry = planted("memlock", &format!("/{LIMITS}"), 0o644, "old\n", "new\n")
        .replace("\"made_folders\":[]", "\"made_folders\":[\"/etc/empty\"]");
    assert!(entry.contains("/etc/empty"));
    plant(&journal(&root), "memlock", &entry);
    let said = err(&root.resume());
    assert!(said.contains("/etc/empty is not a directory of"), "{said}");
    assert!(root.top().join("etc/empty").is_dir());
}

#[test]
fn set_id_bits_and_owners_of_an_entry_are_not_restored() {
    let root = with_limits("new\n");
    let mut entry: serde_json::Value =
        serde_json::from_str(&planted("memlock", &format!("/{LIMITS}"), 0o4777, "old\n", "new\n")).unwrap();
    entry["files"][0]["before"]["uid"] = json!(12345);
    plant(&journal(&root), "memlock", &entry.to_string());
    let path = root.top().join(LIMITS);
    let owner = fs::metadata(&path).unwrap().uid();
    root.resume();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old\n");
    let meta = fs::metadata(&path).unwrap();
    assert_eq!((meta.mode() & 0o7777, meta.uid()), (0o644, owner));
}

#[test]
fn a_journal_in_a_folder_that_others_can_write_is_not_used() {
    for (part, mode) in [
        (".", 0o777),
        (".gds-top", 0o777),
        (".gds-top", 0o702),
        (".gds-top/journal", 0o777),
        (".gds-top/journal", 0o1777),
        (".gds-top/journal/memlock.json", 0o666),
    ] {
        let root = with_limits("new\n");
        plant(&journal(&root), "memlock", &planted("memlock", &format!("/{LIMITS}"), 0o644, "old\n", "new\n"));
        fs::set_permissions(root.top().join(part), fs::Permissions::from_mode(mode)).unwrap();
        let done = root.fix(RESUME);
        assert!(err(&done).contains("can be written by other users"), "{part} {mode:o}: {}", err(&done));
        assert_eq!(fs::read_to_string(root.top().join(LIMITS)).unwrap(), "new\n", "{part} {mode:o}");
        let looked = root.fix(&["--list"]);
        assert!(looked.status.success(), "{part} {mode:o}: {}", err(&looked));
        assert!(err(&looked).contains("can be written by other users"), "{part} {mode:o}: {}", err(&looked));
    }
}

#[test]
fn a_journal_of_another_user_is_not_used() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: files of another user can be made by root only");
        return;
    }
    for part in [".", ".gds-top", ".gds-top/journal", ".gds-top/journal/memlock.json"] {
        let root = with_limits("new\n");
        plant(&journal(&root), "memlock", &planted("memlock", &format!("/{LIMITS}"), 0o644, "old\n", "new\n"));
        chown(root.top().join(part), Some(65534), Some(65534)).unwrap();
        let done = root.fix(RESUME);
        assert!(err(&done).contains("belongs to another user (uid 65534)"), "{part}: {}", err(&done));
        assert_eq!(fs::read_to_string(root.top().join(LIMITS)).unwrap(), "new\n", "{part}");
    }
}

#[test]
fn the_journal_is_private_whatever_the_umask_is() {
    for umask in ["0", "022", "077"] {
        let root = Throwaway::tree(UBUNTU);
        let line = format!("umask {umask}; exec \"$0\" fix memlock --yes --root \"$1\"");
        let done = started_by("sh").args(["-c", &line, PROGRAM]).arg(root.top()).output().unwrap();
        assert!(done.status.success(), "umask {umask}: {}", err(&done));
        let mode = |path: &str| fs::metadata(root.top().join(path)).unwrap().mode() & 0o7777;
        for (path, wanted) in [
            (".gds-top", 0o700),
            (".gds-top/journal", 0o700),
            (".gds-top/journal/memlock.json", 0o600),
            (".gds-top/journal/lock", 0o600),
            (LIMITS, 0o644),
            ("etc/security", 0o755),
        ] {
            assert_eq!(mode(path), wanted, "umask {umask}: {path}");
        }
    }
}

#[test]
fn a_lock_on_a_folder_does_not_keep_fixes_out() {
    let root = Throwaway::tree(UBUNTU);
    assert!(root.fix(&["memlock", "--yes"]).status.success());
    for path in [root.top(), root.top().join(".gds-top"), journal(&root)] {
        let folder = fs::File::open(path).unwrap();
        rustix::fs::flock(&folder, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        let undone = root.fix(&["--undo"]);
        assert!(undone.status.success(), "{}", err(&undone));
        assert!(root.fix(&["memlock", "--yes"]).status.success());
    }
}

#[test]
fn captures_are_never_written() {
    let root = Throwaway::captured("h200-vm-no-udev");
    fs::write(root.top().join("capture.json"), "{\"schema_version\": 1}").unwrap();
    let before = root.image();
    for words in [&["udev-record", "--yes"][..], &["--undo"], &["--undo", "udev-record"], &["udev-record"]] {
        let done = root.fix(words);
        assert_eq!(done.status.code(), Some(2), "{words:?}: {}", err(&done));
        assert!(err(&done).contains("captures are never changed"), "{words:?}: {}", err(&done));
        assert_eq!(root.image(), before, "{words:?}");
    }
    assert!(root.fix(&["udev-record", "--dry-run"]).status.success());
    // A journal in this directory must be ignored.
    let path = root.files().join("run/udev/data/b254:0");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "new\n").unwrap();
    plant(&journal(&root), "udev-record", &planted("udev-record", "/run/udev/data/b254:0", 0o4755, "old\n", "new\n"));
    let before = root.image();
    look(&root);
    for words in [RESUME, &["udev-record", "--yes"], &["--undo"]] {
        assert_eq!(root.fix(words).status.code(), Some(2), "{words:?}");
    }
    assert_eq!(root.image(), before);
}

/// Replaces a directory by a link to another one while a fix waits before each of its steps. The target of the link must
/// not change.
fn swap_everywhere(part: &str, prepare: &[&str], words: &[&str]) -> u32 {
    let mut steps = 0;
    for step in 1.. {
        let root = Throwaway::tree(UBUNTU);
        if !prepare.is_empty() {
            assert!(root.fix(prepare).status.success());
        }
        let Some((mut child, mut said)) = root.held_at(step, words) else { break };
        steps = step;
        // The names are the same, so that each of them could be affected.
        let victim = root.folder.path().join("victim");
        let at = if part == "." { root.top() } else { root.top().join(part) };
        for name in ["journal", ".gds-top/journal", "limits.d", "etc/security/limits.d"] {
            fs::create_dir_all(victim.join(name)).unwrap();
            for file in ["memlock.json", ".entry-memlock.json", "lock", "99-gds.conf", ".gds-top-99-gds.conf"] {
                fs::write(victim.join(name).join(file), "precious\n").unwrap();
            }
        }
        for file in ["memlock.json", ".entry-memlock.json", "lock", "99-gds.conf", ".gds-top-99-gds.conf"] {
            fs::write(victim.join(file), "precious\n").unwrap();
        }
        if at.exists() {
            fs::rename(&at, root.folder.path().join("away")).unwrap();
        }
        if at.parent().unwrap().is_dir() {
            symlink(&victim, &at).unwrap();
        }
        fs::create_dir_all(root.top().join(".gds-top")).unwrap();
        fs::write(root.top().join(".gds-top/go"), "").unwrap();
        let before = image(&victim);
        child.wait().unwrap();
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert_eq!(image(&victim), before, "{part}, {words:?}, step {step}: {rest}");
    }
    steps
}

#[test]
fn a_link_that_takes_the_place_of_a_folder_while_a_fix_runs_leads_nowhere() {
    for part in [".", ".gds-top", ".gds-top/journal", "etc", "etc/security", "etc/security/limits.d"] {
        assert!(swap_everywhere(part, &[], &["memlock", "--yes"]) >= 5, "{part}");
        assert!(swap_everywhere(part, &["memlock", "--yes"], &["--undo", "memlock"]) >= 4, "{part}");
    }
}
