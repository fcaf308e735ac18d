//! Parses `/proc/self/mountinfo` (Linux, Documentation/filesystems/proc.rst, 3.5).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// One mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Mount id, as in the field `stx_mnt_id` of `statx`.
    pub id: u64,
    /// `major:minor` of the file system.
    pub device: String,
    /// The mount point.
    pub point: PathBuf,
    /// Options of the mount and of the file system, in the order of `/proc/mounts`, without duplicates.
    pub options: String,
    /// File-system type.
    pub filesystem: String,
    /// Source of the mount: a device node, an export or a name.
    pub source: String,
}

impl Mount {
    /// Whether the operating system needs the mount while it runs.
    #[must_use]
    pub fn is_of_system(&self) -> bool {
        const FOLDERS: [&str; 9] = ["/etc", "/usr", "/boot", "/proc", "/sys", "/dev", "/run", "/snap", "/var"];
        self.point == Path::new("/") || FOLDERS.iter().any(|folder| self.point.starts_with(folder))
    }
}

/// All mounts in the order of the file. Malformed lines are skipped. The input is bytes, because names need not be
/// UTF-8.
#[must_use]
pub fn parse_mountinfo(text: impl AsRef<[u8]>) -> Vec<Mount> {
    text.as_ref().split(|b| *b == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let words: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    // The number of optional fields before the dash varies.
    let dash = words.iter().skip(6).position(|word| *word == b"-")? + 6;
    let (left, right) = (&words[..dash], &words[dash + 1..]);
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let (own, of_fs) = (text(left.get(5)?), right.get(2).map(|word| text(word)).unwrap_or_default());
    let mut options: Vec<&str> = Vec::new();
    for option in own.split(',').chain(of_fs.split(',')) {
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    Some(Mount {
        id: text(left.first()?).parse().ok()?,
        device: text(left.get(2)?),
        point: PathBuf::from(OsString::from_vec(unescape(left.get(4)?))),
        options: options.join(","),
        filesystem: text(right.first()?),
        source: text(&unescape(right.get(1)?)),
    })
}

/// Decodes the octal escapes with which mountinfo and fstab write space, tab, newline and backslash.
pub(super) fn unescape(bytes: &[u8]) -> Vec<u8> {
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
    out
}

/// The mount of `path`, which must be a real path. If `id` is known, it is the mount with that id, otherwise the one
/// with the longest mount point. If two mounts have the same mount point, the later one covers the earlier one.
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
    fn optional_fields_and_names_that_are_no_text_hide_no_mount() {
        let line =
            |point: &[u8]| [b"40 27 0:9 /sub ".as_slice(), point, b" rw shared:1 master:2 - xfs /dev/x rw\n"].concat();
        let text = [line(b"/a\xff"), line(b"/b\\134\\012c"), line(b"/-")].concat();
        let mounts = parse_mountinfo(&text);
        let names: Vec<&[u8]> = mounts.iter().map(|m| m.point.as_os_str().as_encoded_bytes()).collect();
        assert_eq!(names, [b"/a\xff".as_slice(), b"/b\\\nc", b"/-"]);
        assert!(mounts.iter().all(|m| m.filesystem == "xfs"));
    }

    #[test]
    fn options_of_mount_and_file_system_are_one_list() {
        assert_eq!(parse_mountinfo(TEXT)[0].options, "rw,relatime,discard,data=ordered");
    }
}
