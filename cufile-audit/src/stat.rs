//! Identifies the regular file of a descriptor.

use crate::system::{self, S_IFMT, S_IFREG, STAT_MODE};

/// The descriptor itself is examined, without asking the server of a network file system (fcntl.h).
const FLAGS: u32 = 0x1000 | 0x4000;
/// The type, the inode, the time of the last change and the time of birth (linux/stat.h).
const WANTED: u32 = 0x1 | 0x100 | 0x80 | BIRTH as u32;
const BIRTH: u64 = 0x800;
/// The positions in `struct statx` in words: mask, mode (upper half of the word), inode, birth, change, device.
const MASK: usize = 0;
const MODE: usize = 3;
const INODE: usize = 4;
const BIRTH_AT: usize = 10;
const CHANGE_AT: usize = 12;
const DEVICE: usize = 17;
/// The position of the time of the last change in `struct stat` in words.
const STAT_CHANGE_AT: usize = 13;

/// A regular file.
#[derive(Clone, Copy)]
pub(crate) struct File {
    /// The device and the inode. A new file can have those of a removed one.
    pub(crate) id: [u64; 2],
    /// The time of birth in seconds and nanoseconds, or that of the last change if the file system has no other.
    pub(crate) since: [u64; 2],
    /// The time of birth in seconds and nanoseconds. 0 if it is unknown.
    pub(crate) birth: [u64; 2],
}

impl File {
    /// Whether the time is that of the last clock ticks, so that another file can have it, too.
    pub(crate) fn is_recent(&self) -> bool {
        /// Several ticks of the slowest kernel clock, which has 100 a second.
        const TICKS_NS: u64 = 50_000_000;
        let at_ns = self.since[0].wrapping_mul(1_000_000_000).wrapping_add(self.since[1]);
        // The clock of a file server can be ahead.
        system::real_ns().checked_sub(at_ns).is_some_and(|age_ns| age_ns < TICKS_NS)
    }
}

/// The regular file of a descriptor. `None` for other kinds of files.
pub(crate) fn regular_file(fd: i32) -> Option<File> {
    let mut room = [0_u64; 32];
    // AT_FDCWD is a negative number, too.
    let (mode, id, since, birth) = if fd < 0 {
        return None;
    } else if system::statx(fd, FLAGS, WANTED, &mut room) {
        let has_birth = room[MASK] & BIRTH != 0;
        let at = if has_birth { BIRTH_AT } else { CHANGE_AT };
        let since = [room[at], room[at + 1] & 0xffff_ffff];
        let (major, minor) = (room[DEVICE] & 0xffff_ffff, room[DEVICE] >> 32);
        // `stat` has the device in this form.
        let device = minor & 0xff | major << 8 | (minor & !0xff) << 12;
        ((room[MODE] >> 32) as u32, [device, room[INODE]], since, if has_birth { since } else { [0; 2] })
    } else if system::fstat(fd, &mut room) {
        // Old kernels and filters of system calls have no statx.
        let mode = (room[STAT_MODE / 2] >> (32 * (STAT_MODE % 2))) as u32;
        (mode, [room[0], room[1]], [room[STAT_CHANGE_AT], room[STAT_CHANGE_AT + 1]], [0; 2])
    } else {
        return None;
    };
    (mode & S_IFMT == S_IFREG).then_some(File { id, since, birth })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    extern crate std;
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_regular_file_has_the_device_and_inode_of_stat_and_keeps_its_time() {
        let path = std::env::temp_dir().join(std::format!("gds-top-stat-{}", std::process::id()));
        let file = std::fs::File::create(&path).unwrap();
        let seen = regular_file(file.as_raw_fd()).unwrap();
        let expected = file.metadata().unwrap();
        assert_eq!(seen.id, [expected.dev(), expected.ino()]);
        assert!(seen.is_recent());
        assert!([seen.since, [0; 2]].contains(&seen.birth), "{:?}", seen.birth);
        std::fs::remove_file(&path).unwrap();
        assert!(regular_file(std::fs::File::open("/dev/null").unwrap().as_raw_fd()).is_none());
        assert!(regular_file(-1).is_none() && regular_file(-100).is_none());
        assert!(!File { since: [0, 0], ..seen }.is_recent());
        assert!(!File { since: [u64::from(u32::MAX), 0], ..seen }.is_recent());
    }
}
