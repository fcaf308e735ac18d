//! Decides which files and directories are trusted: programs and libraries that no other user could have written, and
//! private directories that this program creates and removes. Opens the directories into which results are written.

mod allowance;
mod destination;
mod environment;
mod examiner;
mod file_id;
mod folder;
mod left_out;
mod maker;
pub mod process;
mod regular;
mod scratch;
mod walk;

pub use allowance::{Allowance, Beginning};
pub use cufile_ffi::{cached_libraries, distrust, unmapped_owner};
pub use destination::{Destination, Unfinished};
pub use environment::{
    examine_named_libraries, foreign_commands, foreign_variables, has_foreign_home, has_foreign_packages, is_of_others,
    leave_out_foreign_paths, own_path, system_command, without_foreign_variables,
};
pub use examiner::{Examiner, Limits, Unexamined};
pub use file_id::FileId;
pub use folder::{FolderError, PrivateFolder, enter, has_access_list, own_ids, shown, writers};
pub use left_out::{LEFT_OUT, LeftOutVariable, keep_left_out, left_out_variables};
pub use maker::Maker;
pub use regular::{open_regular, open_regular_blocking, open_regular_direct, read_descriptor, read_regular};
pub use scratch::{Scratch, remove_leftovers};
pub use walk::Owners;

use std::path::PathBuf;

/// Directories of administration tools, which are often not in a user's PATH.
const SYSTEM_FOLDERS: &str = "/usr/sbin:/sbin:/usr/bin:/bin";

/// Finds a program in PATH and in the system's directories. Only a program that no other user could have written is
/// returned, because the PATH of root may contain a directory of the user who called sudo.
///
/// # Errors
/// Returns a part of a sentence: the program is not installed, or the reason why it must not be run.
pub fn program(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var("PATH").unwrap_or_default();
    program_in(name, &format!("{path}:{SYSTEM_FOLDERS}"))
}

/// Whether a file could not be written because the disk is full, or the quota of this user.
#[must_use]
pub fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

fn program_in(name: &str, path: &str) -> Result<PathBuf, String> {
    let mut refused = None;
    for found in which::which_in_all(name, Some(path), "/").into_iter().flatten() {
        match distrust(&found) {
            None => return Ok(found),
            Some(why) => refused = refused.or(Some(format!("{} is not run, because {why}", found.display()))),
        }
    }
    Err(refused.unwrap_or_else(|| format!("{name} is not installed")))
}

#[cfg(test)]
pub(crate) mod waiting_tests;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_program_that_others_could_replace_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["open", "own"] {
            let folder = dir.path().join(folder);
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
            fs::write(folder.join("tool"), "#!/bin/sh\n").unwrap();
            fs::set_permissions(folder.join("tool"), Permissions::from_mode(0o755)).unwrap();
        }
        let (open, own) = (dir.path().join("open"), dir.path().join("own"));
        let both = format!("{}:{}", open.display(), own.display());
        assert_eq!(program_in("tool", &both), Ok(open.join("tool")));
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(program_in("tool", &both), Ok(own.join("tool")));
        let why = program_in("tool", open.to_str().unwrap()).unwrap_err();
        assert!(why.contains("can be written by all users"), "{why}");
        assert!(program_in("tool", "/nonexistent").unwrap_err().contains("not installed"));
    }
}
