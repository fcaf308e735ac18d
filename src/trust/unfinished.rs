//! A temporary file that is renamed to its destination in the same folder. Creating one removes the temporary files
//! of killed processes in that folder.

use super::maker::Maker;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs;
use std::io;
use std::path::Path;
use tempfile::NamedTempFile;

/// The prefix of the names of these files.
const PREFIX: &str = ".gds-top-file-";
/// Maximum number of entries of a folder that are examined for files of killed processes.
const MOST_EXAMINED: usize = 20_000;

/// Creates a private file in `folder`. It is removed when its value is dropped.
///
/// # Errors
/// Fails if the file cannot be created.
pub fn unfinished_file(folder: &Path) -> io::Result<NamedTempFile> {
    sweep(folder);
    let file = tempfile::Builder::new().prefix(&format!("{PREFIX}{}-", Maker::own())).tempfile_in(folder)?;
    // The lock shows other processes that the creator is alive, even if they cannot see it, for example from another
    // container.
    let _ = flock(file.as_file(), FlockOperation::NonBlockingLockExclusive);
    Ok(file)
}

/// Removes the temporary files of this user whose processes were killed. Links and files of other users are kept.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.take(MOST_EXAMINED).flatten() {
        let name = entry.file_name();
        let is_left = name.to_str().filter(|name| name.starts_with(PREFIX)).and_then(Maker::of);
        if is_left.is_none_or(Maker::may_live) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::open(entry.path(), flags, Mode::empty()) else { continue };
        let is_ours = rustix::fs::fstat(&file).is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw());
        if is_ours && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // If another user replaces the file at this moment, only the entry of that user is removed.
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

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
        let lock = fs::File::open(&held).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        std::os::unix::fs::symlink(&target, dir.path().join(format!("{PREFIX}4194305-7-link"))).unwrap();
        let first = unfinished_file(dir.path()).unwrap();
        let second = unfinished_file(dir.path()).unwrap();
        assert!(!dead.exists() && held.exists() && target.exists() && first.path().exists());
        // These are the unrelated file, the locked file, the link and its target, and the two new files.
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 6);
        drop((first, second));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
    }
}
