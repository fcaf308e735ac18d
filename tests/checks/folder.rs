//! A captured folder is read inside itself only.

use gds_top::host::{Root, Unread};
use std::os::unix::fs::symlink;

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
    assert_eq!(root.read_text("/proc/modules"), Err(Unread::Denied("operation not permitted".to_owned())));
    assert_eq!(root.entries("/proc").unwrap(), ["modules"]);
    assert!(root.exists("/proc/modules"));
}

#[test]
fn a_folder_that_is_no_capture_is_refused_with_a_sentence() {
    let top = tempfile::tempdir().unwrap();
    let said = Root::folder(top.path()).unwrap_err();
    assert!(said.contains("capture.json"), "{said}");
    assert!(Root::folder(&top.path().join("none")).unwrap_err().contains("no folder"));
    std::fs::create_dir(top.path().join("files")).unwrap();
    std::fs::write(top.path().join("nvml.json"), "{").unwrap();
    assert!(Root::folder(top.path()).unwrap_err().contains("nvml.json"));
}
