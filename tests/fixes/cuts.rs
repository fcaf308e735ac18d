//! Fixes that are cut off at any step, directories that lead out of themselves, and foreign journals.

use crate::copies::{image, look, recover};
use crate::machine::{build, config, put, without};
use crate::program::gds_top;
use gds_top::core::{Change, FixId};
use gds_top::fixes::{self, Place, Step};
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn every_recipe_that_writes_survives_a_cut_at_every_step_and_is_taken_back_without_a_trace() {
    const FSTAB: &str = "# ours\n/dev/nvme0n1p1  /data\text4\tdefaults 0 2\n";
    let edits = || {
        vec![
            without("capture.json"),
            put("files/etc/fstab", FSTAB),
            put("files/etc/modprobe.d/nvidia-fs.conf", "# theirs\n"),
            config("{ // ours\n\t\"properties\": { },\r\n}\n"),
            put("files/etc/security/limits.d/99-gds.conf", "* - core 0"),
            put("files/etc/modprobe.d/nvidia.conf", "options nvidia NVreg_RegistryDwords=\"A=1;\"\n"),
        ]
    };
    let mut tried = 0;
    for id in FixId::ALL.iter().copied() {
        let folder = build("p2pdma-two-steps", &edits());
        let (root, report) = look(folder.path());
        let Some(plan) = fixes::plan_by_id(&root, &report, id) else { continue };
        if !plan.applies()
            || plan.obstacle.is_some()
            || !plan.changes.iter().any(|c| matches!(c, Change::WriteFile { .. }))
        {
            continue;
        }
        tried += 1;
        let place = Place::folder(folder.path()).unwrap();
        let before = image(folder.path());
        for at in 1.. {
            let mut step = 0;
            let cut = fixes::apply(&plan, &place, &mut |_: Step| {
                step += 1;
                step != at
            });
            let _ = recover(&place);
            if fixes::Journal::open(&place).entries().is_empty() {
                assert_eq!(image(folder.path()), before, "{}: cut before step {at}", id);
            } else {
                for change in &plan.changes {
                    if let Change::WriteFile { path, after, .. } = change {
                        assert_eq!(root.read_text(path).unwrap(), *after, "{}: cut before step {at}", id);
                    }
                }
                fixes::undo(id, &place, &mut |_| true).unwrap();
                assert_eq!(image(folder.path()), before, "{}: undone", id);
            }
            if cut.is_ok() {
                break;
            }
        }
    }
    assert!(tried >= 5, "{tried} recipes write files here");
}

fn program(words: &[&str]) -> (i32, String) {
    let output = gds_top().args(words).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_folder_that_leads_out_of_itself_is_refused() {
    for part in ["files", ".gds-top", ".gds-top/journal"] {
        let folder = build("p2pdma-two-steps", &[without("capture.json")]);
        let elsewhere = tempfile::tempdir().unwrap();
        let at = folder.path().join(part);
        if part == "files" {
            fs::rename(&at, elsewhere.path().join("files")).unwrap();
        } else {
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            fs::create_dir(elsewhere.path().join("files")).unwrap();
        }
        symlink(elsewhere.path().join("files"), &at).unwrap();
        let before = image(elsewhere.path());
        let (status, said) = program(&["fix", "memlock", "--yes", "--root", folder.path().to_str().unwrap()]);
        assert_eq!(status, 2, "{part}: {said}");
        assert!(said.contains("is a symbolic link"), "{part}: {said}");
        assert_eq!(image(elsewhere.path()), before, "{part}");
    }
}

#[test]
fn a_journal_of_another_version_or_of_no_file_is_left_alone_and_named() {
    let folder = build("p2pdma-two-steps", &[without("capture.json")]);
    let top = folder.path().to_str().unwrap();
    assert_eq!(program(&["fix", "memlock", "--yes", "--root", top]).0, 0);
    let entry = folder.path().join(".gds-top/journal/memlock.json");
    let text = fs::read_to_string(&entry).unwrap();
    fs::write(&entry, text.replace("\"schema_version\": 1", "\"schema_version\": 2")).unwrap();
    let before = image(folder.path());
    let (status, said) = program(&["fix", "--undo", "memlock", "--root", top]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("another version of gds-top"), "{said}");
    assert_eq!(image(folder.path()), before);

    fs::remove_file(&entry).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &entry, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o644), 0)
        .unwrap();
    let (status, said) = program(&["fix", "--list", "--root", top]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("not a regular file"), "{said}");
}
