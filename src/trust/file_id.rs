//! The identity of a directory or file, which does not depend on its name, and the mount on which it is.

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, StatxFlags};
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, OsStr};

/// Device and inode of a directory or file. They identify it even if its name changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The identity of an open file or directory.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn of(file: impl AsFd) -> rustix::io::Result<Self> {
        let stat = rustix::fs::fstat(file)?;
        Ok(Self { device: stat.st_dev, inode: stat.st_ino })
    }

    /// The identity of an entry of a directory. A link is not followed.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn at(folder: impl AsFd, name: &OsStr) -> rustix::io::Result<Self> {
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Self { device: stat.st_dev, inode: stat.st_ino })
    }
}

/// The mount on which a file or directory is. A directory that is mounted at a second place of its file system (a bind mount)
/// has the same device there and another mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    device: u64,
    /// `None` if the kernel does not show it (before Linux 5.8).
    number: Option<u64>,
}

impl Mount {
    /// The mount of an open directory.
    pub(super) fn of(folder: impl AsFd) -> rustix::io::Result<Self> {
        let (device, number) = (rustix::fs::fstat(&folder)?.st_dev, number(&folder, c"", AtFlags::EMPTY_PATH));
        Ok(Self { device, number })
    }

    /// The mount of an entry of a directory. A link is not followed.
    pub(super) fn at(folder: impl AsFd, name: &CStr) -> rustix::io::Result<Self> {
        let device = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_dev;
        Ok(Self { device, number: number(&folder, name, AtFlags::SYMLINK_NOFOLLOW) })
    }
}

fn number(folder: impl AsFd, name: &CStr, flags: AtFlags) -> Option<u64> {
    let stat = rustix::fs::statx(folder, name, flags, StatxFlags::MNT_ID).ok()?;
    (stat.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(stat.stx_mnt_id)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_a_folder_are_on_its_mount_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("inner")).unwrap();
        std::os::unix::fs::symlink("/proc", dir.path().join("link")).unwrap();
        let open = |path: &std::path::Path| std::fs::File::open(path).unwrap();
        let own = Mount::of(open(dir.path())).unwrap();
        for name in [c"inner", c"link"] {
            assert_eq!(Mount::at(open(dir.path()), name).unwrap(), own, "{name:?}");
        }
        assert_ne!(Mount::of(open("/proc".as_ref())).unwrap(), own);
        // The same file system at another place.
        let same = Mount { number: own.number.map(|number| number + 1), ..own };
        assert_eq!(same == own, own.number.is_none(), "Linux 5.8 and later show the mount");
    }
}
