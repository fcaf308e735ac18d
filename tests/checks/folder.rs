//! Tests that only files inside a captured directory are read.

use gds_top::machine::{Denial, Root, Unread};
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn links_lead_nowhere_outside_the_folder() {
    let top = tempfile::tempdir().unwrap();
    std::fs::write(top.path().join("secret"), "outside").unwrap();
    let files = top.path().join("machine/files");
    std::fs::create_dir_all(files.join("etc")).unwrap();
    std::fs::write(files.join("etc/real"), "inside").unwrap();
    symlink(top.path().join("secret"), files.join("absolute")).unwrap();
    symlink("../../../../../../secret", files.join("relative")).unwrap();
    symlink(top.path(), files.join("folder")).unwrap();
    symlink("/etc/real", files.join("good")).unwrap();
    symlink("loop", files.join("loop")).unwrap();
    let root = Root::folder(&top.path().join("machine")).unwrap();
    assert_eq!(root.read_text("/absolute"), Err(Unread::Missing));
    assert_eq!(root.read_text("/relative"), Err(Unread::Missing));
    assert_eq!(root.read_text("/folder/secret"), Err(Unread::Missing));
    assert_eq!(root.read_text("/../../secret"), Err(Unread::Missing));
    assert_eq!(root.read_text("/loop"), Err(Unread::Missing));
    assert_eq!(root.read_text("/good").unwrap(), "inside");
    assert_eq!(root.resolve("/good").unwrap().to_str(), Some("/etc/real"));
}

#[test]
fn a_denied_file_says_why_and_shows_in_its_folder() {
    let top = tempfile::tempdir().unwrap();
    let proc = top.path().join("files/proc");
    std::fs::create_dir_all(&proc).unwrap();
    std::fs::write(proc.join("modules.denied"), "operation not permitted\n").unwrap();
    let root = Root::folder(top.path()).unwrap();
    assert_eq!(root.read_text("/proc/modules"), Err(Unread::Denied(Denial::NotPermitted)));
    assert_eq!(root.entries("/proc").unwrap(), ["modules"]);
    assert!(root.exists("/proc/modules"));
}

#[test]
fn a_folder_that_is_no_capture_is_refused_with_a_sentence() {
    let top = tempfile::tempdir().unwrap();
    let said = Root::folder(top.path()).unwrap_err();
    assert!(said.contains("capture.json"), "{said}");
    assert!(Root::folder(&top.path().join("none")).unwrap_err().contains("none"));
    std::fs::create_dir(top.path().join("files")).unwrap();
    std::fs::write(top.path().join("nvml.json"), "{").unwrap();
    assert!(Root::folder(top.path()).unwrap_err().contains("nvml.json"));
}

#[test]
fn a_capture_whose_files_or_json_are_links_is_refused() {
    let here = tempfile::tempdir().unwrap();
    std::fs::create_dir(here.path().join("etc")).unwrap();
    std::fs::write(here.path().join("etc/secret"), "of this machine").unwrap();
    let top = tempfile::tempdir().unwrap();
    symlink(here.path(), top.path().join("files")).unwrap();
    let said = Root::folder(top.path()).unwrap_err();
    assert!(said.contains("files is not a directory"), "{said}");
    // It is also not read as a plain tree, or as a capture without files.
    assert!(Root::stand_in(top.path()).is_err());
    std::fs::write(top.path().join("capture.json"), "{}").unwrap();
    assert!(Root::folder(top.path()).is_err());
    let top = tempfile::tempdir().unwrap();
    std::fs::create_dir(top.path().join("files")).unwrap();
    std::fs::write(here.path().join("capture.json"), r#"{"euid": 4242}"#).unwrap();
    symlink(here.path().join("capture.json"), top.path().join("capture.json")).unwrap();
    assert!(Root::folder(top.path()).is_err());
}

#[test]
fn a_folder_that_takes_the_place_of_an_opened_capture_is_not_read() {
    let here = tempfile::tempdir().unwrap();
    std::fs::create_dir(here.path().join("etc")).unwrap();
    std::fs::write(here.path().join("etc/secret"), "of this machine").unwrap();
    let top = tempfile::tempdir().unwrap();
    let files = top.path().join("files");
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("name"), "captured").unwrap();
    let root = Root::folder(top.path()).unwrap();
    std::fs::rename(&files, top.path().join("aside")).unwrap();
    symlink(here.path(), &files).unwrap();
    assert_eq!(root.read_text("/etc/secret"), Err(Unread::Missing));
    assert_eq!(root.read_text("/name").unwrap(), "captured");
}

#[test]
fn an_archive_whose_files_are_a_link_is_not_this_machine() {
    for name in ["files", "machine/files"] {
        let archive = tempfile::Builder::new().suffix(".tar.zst").tempfile().unwrap();
        let mut encoder = zstd::Encoder::new(archive.reopen().unwrap(), 1).unwrap();
        {
            let mut builder = tar::Builder::new(&mut encoder);
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            builder.append_link(&mut header, name, "/").unwrap();
            builder.finish().unwrap();
        }
        encoder.finish().unwrap();
        let said = Root::open(archive.path()).unwrap_err();
        assert!(said.contains("leads out of it"), "{name}: {said}");
    }
}

#[test]
fn a_link_that_takes_the_place_of_a_file_or_folder_while_it_is_read_leads_nowhere() {
    let top = tempfile::tempdir().unwrap();
    let (files, outside) = (top.path().join("machine/files"), top.path().join("outside"));
    for (folder, text) in [(files.join("etc/deep"), "inside"), (outside.join("deep"), "outside")] {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("file"), text).unwrap();
    }
    std::fs::write(outside.join("deep/secret"), "").unwrap();
    let root = Root::folder(&top.path().join("machine")).unwrap();
    let is_over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        // The file and its directory are alternately replaced by a link to a file or directory outside.
        scope.spawn(|| {
            let swaps = [("etc", outside.clone()), ("etc/deep/file", outside.join("deep/file"))];
            for (at, to) in swaps.iter().cycle() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let (at, away) = (files.join(at), top.path().join("away"));
                std::fs::rename(&at, &away).unwrap();
                symlink(to, &at).unwrap();
                std::fs::remove_file(&at).unwrap();
                std::fs::rename(&away, &at).unwrap();
            }
        });
        let mut seen = BTreeSet::new();
        for _ in 0..50_000 {
            seen.extend(root.read_text("/etc/deep/file").ok());
            seen.extend(root.entries("/etc/deep").unwrap_or_default());
        }
        is_over.store(true, Ordering::Relaxed);
        seen
    });
    assert_eq!(seen, BTreeSet::from(["file".to_owned(), "inside".to_owned()]));
}
