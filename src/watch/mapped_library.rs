//! Opens a library that another process has mapped, but only on a file system that no other user can stop. A process can
//! get an open file from other mounts, and a read of FUSE ends only when its server answers.

use crate::trust::{Allowance, open_regular};
use procfs::process::MountInfo;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// Maximum number of bytes of a list of mounts.
const MOUNTS_BYTES: u64 = 16 << 20;

/// Opens the file that a process has mapped at `range`. `shown` is its path for the process.
///
/// # Errors
/// Returns a sentence without its end if the file system is not mounted for this program, or another user serves it, or if
/// the file cannot be read.
pub(super) fn open(process: u32, range: (u64, u64), shown: &Path) -> Result<File, String> {
    let shown = shown.display();
    let failed = |error: io::Error| format!("cannot read {shown}: {error}");
    // This is the mapped file itself. The process can put another file at its path at any time, and the kernel writes the
    // probes into the file that is named here.
    let mapped = format!("/proc/{process}/map_files/{:x}-{:x}", range.0, range.1);
    // Such a descriptor does not open the file, so no server is asked. Its mount cannot change any more.
    let named = rustix::fs::open(mapped, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let named = named.map_err(|error| failed(error.into()))?;
    let is_safe = mount_of(&named).is_some_and(|mount| is_safe(mount, &mounts("self"), &mounts(&process.to_string())));
    if !is_safe {
        return Err(format!("the file system of {shown} is not mounted here, or another user serves it"));
    }
    open_regular(Path::new(&format!("/proc/self/fd/{}", named.as_raw_fd()))).map_err(failed)
}

/// The id of the mount of a descriptor.
fn mount_of(named: &OwnedFd) -> Option<i32> {
    let facts = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", named.as_raw_fd())).ok()?;
    facts.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

/// The mounts of a process. Those with an unusual form are left out.
fn mounts(process: &str) -> Vec<MountInfo> {
    let file = format!("/proc/{process}/mountinfo");
    let text = Allowance::unlimited().beginning(Path::new(&file), MOUNTS_BYTES).map(|text| text.bytes);
    parse(&String::from_utf8_lossy(&text.unwrap_or_default()))
}

fn parse(text: &str) -> Vec<MountInfo> {
    text.lines().filter_map(|line| MountInfo::from_line(line).ok()).collect()
}

/// Whether a file of this mount is on a file system that is mounted for this program, so that no other user can have
/// mounted it, and that no other user serves. The mount can be one of the process, for example of its container.
fn is_safe(mount: i32, own: &[MountInfo], of_process: &[MountInfo]) -> bool {
    let Some(found) = own.iter().chain(of_process).find(|known| known.mnt_id == mount) else { return false };
    let mut here = own.iter().filter(|known| known.majmin == found.majmin).peekable();
    here.peek().is_some() && here.all(|known| !is_of_user(known) && !is_above(known, own))
}

/// Whether another user than root serves a file system.
fn is_of_user(mount: &MountInfo) -> bool {
    let is_fuse = mount.fs_type == "fuseblk" || mount.fs_type.split('.').next() == Some("fuse");
    is_fuse && mount.super_options.get("user_id").is_some_and(|user| user.as_deref() != Some("0"))
}

/// Whether an overlay has directories in a file system that another user serves.
fn is_above(mount: &MountInfo, own: &[MountInfo]) -> bool {
    let folders = || mount.super_options.values().flatten();
    mount.fs_type == "overlay"
        && own.iter().filter(|below| is_of_user(below)).any(|below| {
            let point = below.mount_point.to_string_lossy();
            folders().any(|folders| folders.contains(&*point))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 21 0:40 / /home/m/fuse rw,nosuid,nodev - fuse.sshfs host:/ rw,user_id=1000,group_id=1000
31 21 0:41 / /srv/root-fuse rw - fuse.glusterfs host:/ rw,user_id=0,group_id=0,allow_other
32 21 0:42 / /var/lib/merged rw - overlay overlay rw,lowerdir=/var/l2:/var/l1,upperdir=/var/u,workdir=/var/w
33 21 0:43 / /mnt/above rw - overlay overlay rw,lowerdir=/home/m/fuse/x:/var/l1
34 21 8:1 / /mnt/usb rw - fuseblk /dev/sda1 rw,user_id=1000,group_id=1000
";
    /// The same overlay in a container, and a file system that only the process has.
    const OF_PROCESS: &str = "\
90 80 0:42 / / rw - overlay overlay rw,lowerdir=/var/l2:/var/l1,upperdir=/var/u,workdir=/var/w
91 90 0:77 / /mnt rw - overlay overlay rw,lowerdir=/a:/b
92 90 0:78 / /fuse rw - fuse.x x rw,user_id=0,group_id=0
93 90 0:40 / /x rw - fuse.sshfs host:/ rw,user_id=1000,group_id=1000
";

    #[test]
    fn a_library_is_read_only_on_a_file_system_of_this_machine_that_no_other_user_serves() {
        let (own, of_process) = (parse(OWN), parse(OF_PROCESS));
        assert_eq!((own.len(), of_process.len()), (6, 4));
        let safe: Vec<i32> = (0..100).filter(|mount| is_safe(*mount, &own, &of_process)).collect();
        // 31 is served by root. 90 is the overlay 32 in the container.
        assert_eq!(safe, [21, 31, 32, 90]);
        assert!(!is_safe(21, &[], &own), "nothing is known of the own mounts");
    }

    #[test]
    fn the_mount_of_an_open_file_is_one_of_this_program() {
        let Ok(named) = rustix::fs::open("/proc", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else {
            unreachable!("procfs is mounted")
        };
        let own = mounts("self");
        assert!(mount_of(&named).is_some_and(|mount| own.iter().any(|known| known.mnt_id == mount)));
    }
}
