//! The identity of a folder or file, which does not depend on its name.

use rustix::fd::AsFd;
use rustix::fs::AtFlags;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;

/// Device and inode of a folder or file. They identify it even if its name changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileId {
    pub(super) device: u64,
    inode: u64,
}

impl FileId {
    /// The identity of an open file or folder.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn of(file: impl AsFd) -> rustix::io::Result<Self> {
        let stat = rustix::fs::fstat(file)?;
        Ok(Self { device: stat.st_dev, inode: stat.st_ino })
    }

    /// The identity of an entry of a folder. A link is not followed.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn at(folder: impl AsFd, name: &OsStr) -> rustix::io::Result<Self> {
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Self { device: stat.st_dev, inode: stat.st_ino })
    }
}
