//! A private scratch folder that is removed with the value that holds it.

use super::folder::PrivateFolder;
use std::io;
use std::path::Path;

/// A folder that only this user can read and write, below the system's folder for temporary files.
#[derive(Debug)]
pub struct Scratch(Option<PrivateFolder>);

impl Scratch {
    /// Makes one whose name begins with `prefix`, below TMPDIR or /tmp.
    ///
    /// # Errors
    /// If the system refuses, or another user could replace the folder: native libraries write their logs into it by path.
    pub fn new(prefix: &str) -> io::Result<Self> {
        Self::new_in(&std::env::temp_dir(), prefix).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                io::Error::new(error.kind(), format!("{error}; set TMPDIR to a folder that only you can write in"))
            }
            _ => error,
        })
    }

    /// Makes one below `above`.
    ///
    /// # Errors
    /// As for [`Scratch::new`].
    pub fn new_in(above: &Path, prefix: &str) -> io::Result<Self> {
        match cufile_ffi::distrust(above) {
            Some(why) => Err(io::Error::new(io::ErrorKind::PermissionDenied, why)),
            None => Ok(Self(Some(PrivateFolder::make_new(above, prefix)?))),
        }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        // Empty only after `close`, which takes the value.
        self.0.as_ref().map_or(Path::new(""), PrivateFolder::path)
    }

    /// Removes it with everything in it.
    ///
    /// # Errors
    /// If something stays.
    pub fn close(mut self) -> io::Result<()> {
        self.0.take().map_or(Ok(()), |folder| Ok(folder.remove()?))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(folder) = self.0.take() {
            // There is no one to report it to; `close` reports.
            let _ = folder.remove();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn it_is_private_and_goes_with_its_value() {
        let scratch = Scratch::new("gds-top-test-").unwrap();
        let path = scratch.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        fs::create_dir(path.join("lane")).unwrap();
        drop(scratch);
        assert!(!path.exists());
        let scratch = Scratch::new("gds-top-test-").unwrap();
        let path = scratch.path().to_owned();
        scratch.close().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn none_is_made_where_all_users_could_replace_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        let why = Scratch::new_in(dir.path(), "x-").unwrap_err();
        assert!(why.kind() == io::ErrorKind::PermissionDenied && why.to_string().contains("can be written"), "{why}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        // As /tmp is.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        Scratch::new_in(dir.path(), "x-").unwrap().close().unwrap();
    }
}
