//! Tests of directories for results.

use super::*;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;

#[test]
fn files_of_dead_processes_are_removed_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    // This is above the largest process ID.
    let dead = dir.path().join(format!("{PREFIX}4194305-7-abc"));
    let held = dir.path().join(format!("{PREFIX}4194305-7-held"));
    let target = dir.path().join("thesis");
    for path in [&dead, &held, &target, &dir.path().join(".gds-top-AHE1dh")] {
        fs::write(path, "x").unwrap();
    }
    let lock = File::open(&held).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    symlink(&target, dir.path().join(format!("{PREFIX}4194305-7-link"))).unwrap();
    let folder = Destination::open(dir.path()).unwrap();
    let first = folder.unfinished_file().unwrap();
    let second = folder.unfinished_file().unwrap();
    assert!(!dead.exists() && held.exists() && target.exists() && dir.path().join(&first.name).exists());
    // These are the unrelated file, the locked file, the link and its target, and the two new files.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 6);
    drop((first, second));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
}

#[test]
fn a_complete_file_gets_its_name_and_a_new_one_replaces_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Destination::open(dir.path()).unwrap();
    let mut file = folder.unfinished_file().unwrap();
    file.file_mut().write_all(b"one").unwrap();
    file.persist("a").unwrap();
    let second = folder.unfinished_file().unwrap();
    assert_eq!(second.persist_new("a").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    folder.unfinished_file().unwrap().persist_new("b").unwrap();
    assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"one");
    folder.unfinished_file().unwrap().persist("a").unwrap();
    assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn a_folder_that_takes_its_place_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let (path, victim) = (dir.path().join("results"), dir.path().join("victim"));
    fs::create_dir(&path).unwrap();
    fs::create_dir(&victim).unwrap();
    let folder = Destination::open(&path).unwrap();
    let file = folder.unfinished_file().unwrap();
    fs::rename(&path, dir.path().join("aside")).unwrap();
    symlink(&victim, &path).unwrap();
    fs::write(victim.join(&file.name), "thesis").unwrap();
    file.persist("report").unwrap();
    drop(folder.unfinished_file().unwrap());
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
    assert!(dir.path().join("aside/report").exists());
}

#[test]
fn another_file_with_the_temporary_name_is_neither_used_nor_removed() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Destination::open(dir.path()).unwrap();
    for persisted in [true, false] {
        let file = folder.unfinished_file().unwrap();
        let path = dir.path().join(&file.name);
        fs::rename(&path, dir.path().join("aside")).unwrap();
        fs::write(&path, "thesis").unwrap();
        if persisted {
            assert!(file.persist("report").is_err());
        } else {
            drop(file);
        }
        assert_eq!(fs::read(&path).unwrap(), b"thesis");
        assert!(!dir.path().join("report").exists());
    }
}

#[test]
fn created_folders_stay_only_with_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b");
    let folder = Destination::make(&path, Owners::Any).unwrap();
    assert!(folder.is_new());
    drop(folder.inner("c").unwrap());
    drop(folder);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let folder = Destination::make(&path, Owners::Any).unwrap();
    folder.create("file", 0o644).unwrap();
    drop(folder);
    assert!(path.join("file").exists());
    fs::remove_file(path.join("file")).unwrap();
    // A directory of the user is kept.
    drop(Destination::make(&path, Owners::Any).unwrap());
    assert!(path.exists());
    fs::write(path.join("file"), "").unwrap();
    assert!(Destination::make(&path.join("file/c/d"), Owners::Any).is_err());
    assert!(Destination::make(&path.join("new/x\0y"), Owners::Any).is_err());
    assert!(!path.join("new").exists());
}

#[test]
fn only_regular_files_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Destination::open(dir.path()).unwrap();
    fs::write(dir.path().join("file"), "x").unwrap();
    symlink("file", dir.path().join("link")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, dir.path().join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert!(folder.read("file").unwrap().is_some() && folder.read("missing").unwrap().is_none());
    for name in ["link", "fifo", "."] {
        assert!(folder.read(name).is_err(), "{name}");
    }
}
