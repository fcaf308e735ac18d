//! `/proc/self/mountinfo` (Linux, Documentation/filesystems/proc.rst, 3.5).

use std::path::{Path, PathBuf};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Mount id, as in `statx` `stx_mnt_id`.
    pub id: u64,
    /// `major:minor` of the file system.
    pub device: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Options of the mount and of the file system, in the order of `/proc/mounts`, without repeats.
    pub options: String,
    /// File-system type.
    pub filesystem: String,
    /// Source: a device node, an export, a name.
    pub source: String,
}

/// All mounts, in the file's order; lines that are malformed are passed over.
#[must_use]
pub fn parse_mountinfo(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let right: Vec<&str> = right.split(' ').collect();
    let (own, of_fs) = (*left.get(5)?, right.get(2).copied().unwrap_or(""));
    let mut options: Vec<&str> = Vec::new();
    for option in own.split(',').chain(of_fs.split(',')) {
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    Some(Mount {
        id: left.first()?.parse().ok()?,
        device: (*left.get(2)?).to_owned(),
        point: PathBuf::from(unescape(left.get(4)?)),
        options: options.join(","),
        filesystem: (*right.first()?).to_owned(),
        source: unescape(right.get(1)?),
    })
}

/// mountinfo writes space, tab, newline and backslash as three octal digits.
fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = (bytes[at] == b'\\').then(|| bytes.get(at + 1..at + 4)).flatten();
        match octal.and_then(|d| std::str::from_utf8(d).ok()).and_then(|d| u8::from_str_radix(d, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The mount that holds `path` (a real path): the one with `id` where known, else the longest mount point; of two on one point the later
/// one covers the earlier.
#[must_use]
pub fn mount_for<'a>(mounts: &'a [Mount], path: &Path, id: Option<u64>) -> Option<&'a Mount> {
    if let Some(mount) = id.and_then(|id| mounts.iter().find(|m| m.id == id)) {
        return Some(mount);
    }
    mounts.iter().filter(|mount| path.starts_with(&mount.point)).max_by_key(|mount| mount.point.components().count())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const TEXT: &str = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard,data=ordered\n\
        30 27 0:27 / /data\\040sets rw shared:1 - tmpfs tmpfs rw,size=1k\n\
        31 27 8:1 / /data rw - xfs /dev/sda1 rw\n\
        32 27 8:2 / /data rw - ext4 /dev/sda2 rw\nnonsense\n";

    #[test]
    fn a_path_belongs_to_its_longest_mount_and_the_later_one_covers() {
        let mounts = parse_mountinfo(TEXT);
        assert_eq!(mounts.len(), 4);
        assert_eq!(mount_for(&mounts, Path::new("/home/x"), None).unwrap().source, "/dev/vda");
        assert_eq!(mount_for(&mounts, Path::new("/data sets/x"), None).unwrap().filesystem, "tmpfs");
        assert_eq!(mount_for(&mounts, Path::new("/data/m"), None).unwrap().source, "/dev/sda2");
        assert_eq!(mount_for(&mounts, Path::new("/data/m"), Some(31)).unwrap().source, "/dev/sda1");
        assert_eq!(mount_for(&mounts, Path::new("/database"), None).unwrap().source, "/dev/vda");
    }

    #[test]
    fn options_of_mount_and_file_system_are_one_list() {
        assert_eq!(parse_mountinfo(TEXT)[0].options, "rw,relatime,discard,data=ordered");
    }
}
