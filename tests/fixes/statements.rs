//! What an error of a fix says about the files is true, whichever write fails.

use crate::throwaway::{Throwaway, UBUNTU};
use gds_top::fixes::{self, FixError, Journal, Place, Step};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const ID: &str = "nvfs-load";
/// Names that are made beside a file while it is written: a folder of that name makes the write fail, for root as well.
const BLOCKED: [&[&str]; 4] = [
    &[".gds-top/journal/.entry-nvfs-load.json"],
    &["etc/modules-load.d/.gds-top-nvidia_fs.conf"],
    &["etc/modprobe.d/.gds-top-nvidia-fs.conf"],
    // The last write of the journal, and then the one that puts the file back.
    &[".gds-top/journal/.entry-nvfs-load.json", "etc/modprobe.d/.gds-top-nvidia-fs.conf"],
];

/// A root with one file that the fix edits; the other one does not exist.
fn prepared() -> Throwaway {
    let root = Throwaway::tree(UBUNTU);
    let path = root.top().join("etc/modprobe.d/nvidia-fs.conf");
    fs::write(&path, "# ours\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    root
}

/// The files outside the journal, with their text.
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

/// Whether an error of applying says that all files are as they were.
fn unapplied(text: &str) -> bool {
    ["no file was changed", "the files are as they were"].iter().any(|part| text.contains(part))
}

/// Whether an error of undoing says that no file was restored.
fn not_undone(text: &str) -> bool {
    ["no file was changed", "still as the fix wrote it"].iter().any(|part| text.contains(part))
        && !text.contains("restored: ")
}

#[derive(Debug, Default)]
struct Counted {
    unchanged: u32,
    changed: u32,
}

/// Makes each kind of write fail from each step on, and compares what the error says with the files.
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
                assert!(is_same || is_known, "{names:?}, from step {from}: what is changed is in the journal: {text}");
                // With the cause gone the next command puts everything right.
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

fn tree(top: &Path) -> (gds_top::host::Root, gds_top::checks::Report) {
    let root = gds_top::host::Root::tree(top).unwrap();
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
        // Two files to restore, so that the second can fail after the first.
        fs::create_dir_all(root.top().join("etc/modules-load.d")).unwrap();
        fs::write(root.top().join("etc/modules-load.d/nvidia_fs.conf"), "# theirs\n").unwrap();
        assert!(root.fix(&[ID, "--yes"]).status.success());
    };
    let counted = fail_everywhere(applied, not_undone, |place, hook| fixes::undo(ID, place, hook));
    assert!(counted.unchanged >= 2 && counted.changed >= 1, "{counted:?}");
}
