//! Tests of attacks on a private directory: links and other directories that replace it, and directories of other users.

use super::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

fn made(dir: &Path) -> PrivateFolder {
    PrivateFolder::make(dir, OsStr::new("ours")).unwrap()
}

fn fill(folder: &Path) {
    fs::create_dir_all(folder.join("a/b")).unwrap();
    fs::write(folder.join("a/b/file"), "x").unwrap();
    fs::write(folder.join("top"), "x").unwrap();
}

/// Another directory with a file that must not be removed.
fn theirs(dir: &Path) -> PathBuf {
    let folder = dir.join("theirs");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("thesis"), "x").unwrap();
    folder
}

#[test]
fn a_deep_folder_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let ours = made(dir.path());
    // The names of earlier removals do not stop this one.
    let mut deep = ours.path().join(".gds-top-removed-0");
    fs::write(ours.path().join(".gds-top-removed-1"), "").unwrap();
    for level in 0..300 {
        fs::create_dir(&deep).unwrap();
        fs::write(deep.join("file"), "").unwrap();
        symlink("/", deep.join("link")).unwrap();
        deep.push(if level % 2 == 0 { "a" } else { "b" });
    }
    ours.remove().unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn it_is_private_whatever_the_umask_and_goes_with_everything_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let folder = made(dir.path());
    assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
    fill(folder.path());
    let outside = theirs(dir.path());
    symlink(&outside, folder.path().join("link")).unwrap();
    symlink(&outside, folder.path().join("a/link")).unwrap();
    folder.empty(Some("top")).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    folder.remove().unwrap();
    assert!(!dir.path().join("ours").exists() && outside.join("thesis").exists());
}

#[test]
fn a_link_that_takes_its_place_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let outside = theirs(dir.path());
    let folder = made(dir.path());
    fill(folder.path());
    fs::rename(folder.path(), dir.path().join("aside")).unwrap();
    symlink(&outside, dir.path().join("ours")).unwrap();
    assert!(matches!(folder.remove(), Err(FolderError::Replaced)));
    assert!(outside.join("thesis").exists());
    // The files of the private directory were removed under its new name.
    assert_eq!(fs::read_dir(dir.path().join("aside")).unwrap().count(), 0);
}

#[test]
fn a_folder_that_takes_its_place_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let folder = made(dir.path());
    fs::rename(folder.path(), dir.path().join("aside")).unwrap();
    fs::create_dir(dir.path().join("ours")).unwrap();
    assert!(matches!(folder.remove(), Err(FolderError::Replaced)));
    assert!(dir.path().join("ours").exists());
}

#[test]
fn the_folder_above_may_be_replaced_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let above = dir.path().join("above");
    fs::create_dir_all(&above).unwrap();
    let folder = PrivateFolder::make(&above, OsStr::new("ours")).unwrap();
    fs::rename(&above, dir.path().join("aside")).unwrap();
    let victim = dir.path().join("victim");
    fs::create_dir_all(victim.join("ours")).unwrap();
    fs::write(victim.join("ours/thesis"), "x").unwrap();
    symlink(&victim, &above).unwrap();
    folder.remove().unwrap();
    assert!(victim.join("ours/thesis").exists() && !dir.path().join("aside/ours").exists());
}

#[test]
fn links_files_and_open_folders_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let outside = theirs(dir.path());
    symlink(&outside, dir.path().join("link")).unwrap();
    fs::write(dir.path().join("file"), "x").unwrap();
    for name in ["link", "file"] {
        assert!(matches!(PrivateFolder::open(dir.path(), OsStr::new(name)), Err(FolderError::NotAFolder)), "{name}");
    }
    let exists = PrivateFolder::make(dir.path(), OsStr::new("link")).unwrap_err();
    assert!(matches!(exists, FolderError::System(error) if error.kind() == io::ErrorKind::AlreadyExists));
    // A private group has no other members.
    let is_private = writers(fs::metadata(&outside).unwrap().gid(), own_ids(), false) == 0o002;
    for (mode, is_refused) in [(0o777, true), (0o775, !is_private), (0o2770, !is_private)] {
        fs::set_permissions(&outside, Permissions::from_mode(mode)).unwrap();
        let opened = PrivateFolder::open(dir.path(), OsStr::new("theirs"));
        assert_eq!(matches!(opened, Err(FolderError::Open)), is_refused, "{mode:o}: {opened:?}");
        let now = fs::metadata(&outside).unwrap().mode() & 0o7777;
        assert_eq!(now, if is_refused { mode } else { mode & !0o022 });
    }
}

#[test]
fn only_a_private_group_without_a_list_may_write() {
    for (group, user, has_list, wanted) in [
        (1000, (1000, 1000), false, 0o002),
        (1000, (1000, 1000), true, 0o022),
        (100, (1000, 1000), false, 0o022),
        (1000, (1000, 100), false, 0o022),
        (0, (0, 0), false, 0o022),
    ] {
        assert_eq!(writers(group, user, has_list), wanted, "{group} {user:?} {has_list}");
    }
}

#[test]
fn a_folder_of_another_user_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let outside = theirs(dir.path());
    if chown(&outside, Some(12_345), None).is_err() {
        eprintln!("skipped: only root can give a directory to another user");
        return;
    }
    let refused = PrivateFolder::open(dir.path(), OsStr::new("theirs"));
    assert!(matches!(refused, Err(FolderError::Foreign(12_345))));
    assert!(outside.join("thesis").exists());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the probe for the owner stays");
}

#[test]
fn only_the_folder_that_was_meant_is_entered() {
    let dir = tempfile::tempdir().unwrap();
    let folder = made(dir.path());
    let id = folder.id();
    fs::rename(folder.path(), dir.path().join("aside")).unwrap();
    symlink(dir.path().join("aside"), dir.path().join("ours")).unwrap();
    // A link to the directory is rejected too, because it could be changed a moment later.
    assert!(matches!(enter(&dir.path().join("ours"), id), Err(FolderError::NotAFolder)));
    fs::remove_file(dir.path().join("ours")).unwrap();
    fs::create_dir(dir.path().join("ours")).unwrap();
    assert!(matches!(enter(&dir.path().join("ours"), id), Err(FolderError::Replaced)));
}

#[test]
fn new_names_differ() {
    let dir = tempfile::tempdir().unwrap();
    let folders: Vec<_> = (0..8).map(|_| PrivateFolder::make_new(dir.path(), "p-").unwrap()).collect();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 8);
    folders.into_iter().for_each(|folder| folder.remove_empty().unwrap());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
