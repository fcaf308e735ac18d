//! Tests that the statement about the files in a fix's error is true, whichever write fails, and that fixes are
//! undone with the newest first.

use crate::throwaway::{Throwaway, UBUNTU, err, out};
use gds_top::core::FixId;
use gds_top::fixes::{self, FixError, Journal, Place, Step};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const ID: FixId = FixId::NvfsLoad;
/// Temporary names next to a file while it is written. If a directory has such a name, the write fails, even for root.
const BLOCKED: [&[&str]; 4] = [
    &[".gds-top/journal/.entry-nvfs-load.json"],
    &["etc/modules-load.d/.gds-top-nvidia_fs.conf"],
    &["etc/modprobe.d/.gds-top-nvidia-fs.conf"],
    // The last write of the journal, and then the write that restores the file.
    &[".gds-top/journal/.entry-nvfs-load.json", "etc/modprobe.d/.gds-top-nvidia-fs.conf"],
];

/// A root with one of the two files that the fix edits.
fn prepared() -> Throwaway {
    let root = Throwaway::tree(UBUNTU);
    let path = root.top().join("etc/modprobe.d/nvidia-fs.conf");
    fs::write(&path, "# ours\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    root
}

/// The files outside the journal with their content.
fn files(root: &Throwaway) -> BTreeMap<PathBuf, Vec<u8>> {
    root.outside_the_journal().into_iter().filter_map(|(path, _, text)| Some((path, text?))).collect()
}

fn block(root: &Throwaway, names: &[&str]) {
    for name in names {
        let _ = fs::remove_file(root.top().join(name));
        fs::create_dir_all(root.top().join(name)).unwrap();
    }
}

fn unblock(root: &Throwaway, names: &[&str]) {
    for name in names {
        fs::remove_dir(root.top().join(name)).unwrap();
    }
}

/// Whether an error of applying states that all files are unchanged.
fn unapplied(text: &str) -> bool {
    ["no file was changed", "the files are as they were"].iter().any(|part| text.contains(part))
}

/// Whether an error of undoing states that no file was restored.
fn not_undone(text: &str) -> bool {
    ["no file was changed", "still with the text of the fix"].iter().any(|part| text.contains(part))
        && !text.contains("restored: ")
}

#[derive(Debug, Default)]
struct Counted {
    unchanged: u32,
    changed: u32,
}

/// Makes each kind of write fail from each step on, and compares the error message with the files.
fn fail_everywhere(
    prepare: impl Fn(&Throwaway),
    says_same: impl Fn(&str) -> bool,
    work: impl Fn(&Place, &mut dyn FnMut(Step) -> bool) -> Result<(), FixError>,
) -> Counted {
    let mut counted = Counted::default();
    for names in BLOCKED {
        for from in 1.. {
            let root = prepared();
            prepare(&root);
            let before = files(&root);
            let place = Place::folder(&root.top()).unwrap();
            let mut at = 0;
            let done = work(&place, &mut |_| {
                at += 1;
                if at == from {
                    block(&root, names);
                }
                true
            });
            let reached = at >= from;
            if let Err(error) = done {
                let (text, is_same) = (error.to_string(), files(&root) == before);
                assert_eq!(says_same(&text), is_same, "{names:?}, from step {from}: {text}");
                *(if is_same { &mut counted.unchanged } else { &mut counted.changed }) += 1;
                let is_known = !Journal::open(&place).entries().is_empty();
                assert!(is_same || is_known, "{names:?}, from step {from}: each change is in the journal: {text}");
                // After the cause is removed, the next command repairs everything.
                unblock(&root, names);
                root.resume();
                let (now, left) = (files(&root), Journal::open(&Place::folder(&root.top()).unwrap()).entries());
                assert!(now == before || left.iter().all(|entry| entry.stage == fixes::Stage::Applied), "{left:?}");
            }
            if !reached {
                break;
            }
        }
    }
    counted
}

fn apply(place: &Place, hook: &mut dyn FnMut(Step) -> bool) -> Result<(), FixError> {
    let (root, report) = tree(&place.root);
    fixes::apply(&fixes::plan_by_id(&root, &report, ID).unwrap(), place, hook)
}

fn tree(top: &Path) -> (gds_top::machine::Root, gds_top::checks::Report) {
    let root = gds_top::machine::Root::tree(top).unwrap();
    let report = gds_top::checks::run(&root, &[], None, &mut |_| {});
    (root, report)
}

#[test]
fn an_error_of_applying_says_the_truth_about_the_files() {
    let counted = fail_everywhere(|_| {}, unapplied, apply);
    assert!(counted.unchanged >= 8 && counted.changed >= 1, "{counted:?}");
}

#[test]
fn an_error_of_undoing_says_the_truth_about_the_files() {
    let applied = |root: &Throwaway| {
        // Two files must be restored, so that the second one can fail after the first.
        fs::create_dir_all(root.top().join("etc/modules-load.d")).unwrap();
        fs::write(root.top().join("etc/modules-load.d/nvidia_fs.conf"), "# theirs\n").unwrap();
        assert!(root.fix(&[ID.as_str(), "--yes"]).status.success());
    };
    let counted = fail_everywhere(applied, not_undone, |place, hook| fixes::undo(ID, place, hook));
    assert!(counted.unchanged >= 2 && counted.changed >= 1, "{counted:?}");
}

#[test]
fn all_fixes_are_undone_newest_first() {
    // The file has a character that libcufile rejects, and keys are missing. Two fixes edit it.
    const BROKEN: &str = "{\n  // ours\n  \"properties\": { \"max_direct_io_size_kb\": 16384, },\n}\n";
    let root = Throwaway::tree(UBUNTU);
    let path = root.top().join("etc/cufile.json");
    fs::write(&path, BROKEN).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let before = root.image();
    for id in ["cufile-config", "cufile-p2pdma-keys", "memlock"] {
        let applied = root.fix(&[id, "--yes"]);
        assert!(applied.status.success(), "{id}: {}", err(&applied));
    }
    let two = fs::read_to_string(&path).unwrap();
    assert!(two != BROKEN && two.contains("use_pci_p2pdma"), "{two}");
    for words in [&["--undo"][..], &["--undo", "cufile-config", "memlock", "cufile-p2pdma-keys"]] {
        let undone = root.fix(words);
        assert!(undone.status.success(), "{}", err(&undone));
        assert_eq!(fs::read_to_string(&path).unwrap(), BROKEN, "{words:?}: {}", err(&undone));
        assert_eq!(root.image(), before, "{words:?}");
        for id in ["cufile-config", "cufile-p2pdma-keys", "memlock"] {
            assert!(root.fix(&[id, "--yes"]).status.success());
        }
    }
    assert!(out(&root.fix(&["--list"])).contains("memlock  applied"));
}

#[test]
fn an_undo_that_fails_keeps_its_journal_and_the_older_fixes_of_the_same_file() {
    let root = Throwaway::tree(UBUNTU);
    let path = root.top().join("etc/cufile.json");
    fs::write(&path, "{\n  \"properties\": { \"max_direct_io_size_kb\": 16384, },\n}\n").unwrap();
    for id in ["cufile-config", "cufile-p2pdma-keys", "memlock"] {
        assert!(root.fix(&[id, "--yes"]).status.success(), "{id}");
    }
    // The lines of the newer fix were changed, so it cannot be undone.
    let changed =
        fs::read_to_string(&path).unwrap().replacen("\"use_pci_p2pdma\": true", "\"use_pci_p2pdma\":   true", 1);
    fs::write(&path, &changed).unwrap();
    let undone = root.fix(&["--undo"]);
    assert_eq!(undone.status.code(), Some(1), "{}", err(&undone));
    assert!(err(&undone).contains("cufile-config was not undone"), "{}", err(&undone));
    assert_eq!(fs::read_to_string(&path).unwrap(), changed);
    let left = Journal::open(&Place::folder(&root.top()).unwrap()).entries();
    let ids: Vec<&str> = left.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["cufile-config", "cufile-p2pdma-keys"], "the fix of another file was undone");
}
