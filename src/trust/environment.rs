//! Keeps folders of other users out of the variables from which root loads code.

use super::distrust;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Lists of folders in which the dynamic linker and Python look for code. An empty part is the working directory.
const VARIABLES: [&str; 2] = ["LD_LIBRARY_PATH", "PYTHONUSERBASE"];

/// Starts the program again without such folders, if root runs it and a variable names any. The dynamic linker reads
/// its variable only at the start of a process. Returns if there is nothing to leave out.
///
/// # Errors
/// Returns a sentence if the program cannot be started again.
pub fn leave_out_foreign_folders() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let changed: Vec<(&str, OsString)> = VARIABLES
        .into_iter()
        .filter_map(|name| {
            let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
            let (kept, left_out) = trusted(&value);
            for why in &left_out {
                eprintln!("gds-top: {name} is used only in part, because {why}");
            }
            (!left_out.is_empty()).then_some((name, kept))
        })
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    let own = std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
    let mut arguments = std::env::args_os();
    let mut command = Command::new(own);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    for (name, value) in changed {
        if value.is_empty() {
            command.env_remove(name);
        } else {
            command.env(name, value);
        }
    }
    Err(format!("this program cannot be started again: {}", command.args(arguments).exec()))
}

/// Examines the libraries that the variables of this program name.
///
/// # Errors
/// Returns a sentence if one is not a regular file. The dynamic linker would wait for the writer of a FIFO, and every
/// later use of the linker would wait too.
pub fn examine_named_libraries() -> Result<(), String> {
    for name in ["GDS_TOP_LIBCUFILE", "GDS_TOP_NVML"] {
        let value = std::env::var_os(name).unwrap_or_default();
        // A missing file is reported where the library is needed. A directory cannot be loaded.
        let kind = std::fs::metadata(&value).map(|meta| meta.file_type());
        if kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir()) {
            return Err(format!("{name} names {}, which is not a regular file", Path::new(&value).display()));
        }
    }
    Ok(())
}

/// The folders of a list that no other user can change, and the reasons why the others are left out.
fn trusted(list: &OsStr) -> (OsString, Vec<String>) {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut left_out = Vec::new();
    // The dynamic linker also accepts semicolons.
    for part in list.as_bytes().split(|byte| matches!(byte, b':' | b';')) {
        let folder = if part.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(part)) };
        // A folder that does not exist could be created by a user who can change the nearest one above it.
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let existing = absolute.ancestors().find(|above| above.symlink_metadata().is_ok()).unwrap_or(&absolute);
        match distrust(existing).or_else(|| (existing != absolute).then(|| open_to_all(existing)).flatten()) {
            None => kept.push(part),
            Some(why) => left_out.push(why),
        }
    }
    (OsString::from_vec(kept.join(&b':')), left_out)
}

/// The reason why every user could create a folder in `above`, also if its entries are protected by the sticky bit.
fn open_to_all(above: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let mode = above.metadata().ok()?.mode();
    (mode & 0o002 != 0).then(|| format!("every user can create folders in {}", above.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn folders_that_others_can_change_are_left_out_of_a_list() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        let list = format!("/usr/lib:{}:{}/later;/usr/nowhere/lib", open.display(), open.display());
        let (kept, left_out) = trusted(OsStr::new(&list));
        assert_eq!(kept, "/usr/lib:/usr/nowhere/lib");
        assert_eq!(left_out.len(), 2, "{left_out:?}");
        // With the permissions of /tmp, existing folders are safe, but every user can create missing ones.
        fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
        fs::create_dir(open.join("own")).unwrap();
        let list = format!("{0}/own:{0}/later", open.display());
        assert_eq!(trusted(OsStr::new(&list)).0, OsStr::new(&format!("{}/own", open.display())));
    }
}
