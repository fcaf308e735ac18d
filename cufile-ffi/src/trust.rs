//! Decides which files are loaded without being named: files that belong to root or to the effective user, in
//! directories that no other user can change.

use std::collections::VecDeque;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// The maximum number of links in a path, as in the kernel.
const MAX_LINKS: u32 = 40;
/// All users have write permission.
const OTHERS_WRITE: u32 = 0o002;
/// The group has write permission.
const GROUP_WRITE: u32 = 0o020;
/// In a directory with this bit, only the owner of an entry can rename or remove it.
const STICKY: u32 = 0o1000;

/// Checks whether a user other than root and the effective user can change the file at `path`. Returns the reason as a
/// sentence, or `None` if no other user can.
///
/// The file, each directory in its path and each link in it must belong to root or to the effective user. They must
/// not be writable by all users, except directories with the sticky bit. For root, they must not be writable by another
/// group than that of root either, or by a user or group of an access control list. For other users, groups are not
/// checked, because libraries of a cluster often belong to a group of its administrators.
#[must_use]
pub fn distrust(path: &Path) -> Option<String> {
    let (owners, groups) = trusted();
    distrust_as(path, &owners, is_root().then_some(&groups[..]))
}

/// [`distrust`] with groups and access control lists checked for every user: whether another user could exchange an
/// entry of this directory, which the effective user creates.
#[must_use]
pub fn distrust_place(path: &Path) -> Option<String> {
    let (owners, groups) = trusted();
    distrust_as(path, &owners, Some(&groups[..]))
}

fn is_root() -> bool {
    // SAFETY: the function has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// The users and the groups that may change files: root, the effective user, and the private group of this user.
fn trusted() -> ([Option<u32>; 3], [Option<u32>; 3]) {
    // SAFETY: the functions have no arguments and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    ([Some(0), Some(user), unmapped_owner()], [Some(0), private_group(user, group), unmapped_owner()])
}

/// The group of a user that has no other members. Many systems create such a group for each user, with the same number.
#[must_use]
pub const fn private_group(user: u32, group: u32) -> Option<u32> {
    if user != 0 && user == group { Some(group) } else { None }
}

/// The settings that libcufile reads at every start. No variable replaces all of them.
const SYSTEM_SETTINGS: &str = "/etc/cufile.json";

/// The reason why root must not start libcufile or a library that starts it: another user could have written the settings
/// of the system. They name the directory of the log, which libcufile opens for writing. `None` for other users, who use
/// the settings that they find.
#[must_use]
pub fn foreign_settings() -> Option<String> {
    is_root().then(|| foreign_settings_in(Path::new(SYSTEM_SETTINGS))).flatten()
}

fn foreign_settings_in(file: &Path) -> Option<String> {
    let why = file.symlink_metadata().is_ok().then(|| distrust(file)).flatten()?;
    let file = file.display();
    Some(format!(
        "{why}, so another user could choose the settings of {file}; let only root write it: chown root {file}; chmod 644 {file}"
    ))
}

/// The owner id of files whose owner is not mapped, if root itself is not mapped. In a container without root
/// (Apptainer, rootless Podman), everything that the host's root installed has this owner. `None` if root is mapped,
/// because the id can then belong to an ordinary user.
#[must_use]
pub fn unmapped_owner() -> Option<u32> {
    // It does not change while the process runs, and each file of a search is examined.
    static OWNER: std::sync::OnceLock<Option<u32>> = std::sync::OnceLock::new();
    *OWNER.get_or_init(|| {
        let maps = std::fs::read_to_string("/proc/self/uid_map").ok()?;
        let overflow = std::fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?.trim().parse().ok()?;
        unmapped_owner_of(&maps, overflow, std::fs::metadata("/").ok()?.uid())
    })
}

/// Each line of the maps has the first id inside, the first id outside, and the number of ids. In a container in a
/// container, the outside is the other container, so its 0 may not be root. Then `/` has the owner that is not mapped.
fn unmapped_owner_of(maps: &str, overflow: u32, owner_of_top: u32) -> Option<u32> {
    let root_is_mapped = maps.lines().any(|line| line.split_whitespace().nth(1) == Some("0"));
    let is_complete = maps.split_whitespace().eq(["0", "0", "4294967295"]);
    (!root_is_mapped || (!is_complete && owner_of_top == overflow)).then_some(overflow)
}

/// `owners` and `groups` may write; `None` means that every group may.
fn distrust_as(path: &Path, owners: &[Option<u32>], groups: Option<&[Option<u32>]>) -> Option<String> {
    let path = match std::path::absolute(path) {
        Ok(path) => path,
        Err(error) => return Some(format!("the absolute path of {} cannot be determined: {error}", path.display())),
    };
    let mut todo: VecDeque<OsString> = names(&path);
    // The root directory is checked like all others.
    let mut at = PathBuf::from("/");
    let mut next = Some(at.clone());
    let mut links = 0;
    loop {
        if let Some(here) = next.take() {
            let meta = match std::fs::symlink_metadata(&here) {
                Ok(meta) => meta,
                Err(error) => return Some(format!("{} cannot be examined: {error}", here.display())),
            };
            if !owners.contains(&Some(meta.uid())) {
                return Some(format!("{} belongs to another user (uid {})", here.display(), meta.uid()));
            }
            if meta.is_symlink() {
                links += 1;
                let target = match std::fs::read_link(&here) {
                    Ok(target) if links <= MAX_LINKS => target,
                    Ok(_) => return Some(format!("{} is behind too many links", here.display())),
                    Err(error) => return Some(format!("{} cannot be examined: {error}", here.display())),
                };
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                for name in names(&target).into_iter().rev() {
                    todo.push_front(name);
                }
            } else {
                if meta.mode() & OTHERS_WRITE != 0 && !(meta.is_dir() && meta.mode() & STICKY != 0) {
                    return Some(format!("{} can be written by all users", here.display()));
                }
                let is_open = meta.mode() & GROUP_WRITE != 0 && !(meta.is_dir() && meta.mode() & STICKY != 0);
                if is_open
                    && let Some(groups) = groups
                    && let Some(writer) = other_writer(&here, meta.gid(), owners, groups)
                {
                    return Some(format!("{} can be written by the {writer}", here.display()));
                }
                at = here;
            }
        }
        match todo.pop_front() {
            None => return None,
            Some(name) if name == ".." => {
                at.pop();
            }
            Some(name) => next = Some(at.join(name)),
        }
    }
}

/// The first user or group that has write permission for a file with the group bit and is not in these lists. It is the
/// group of the file, or an entry of its access control list. With a list, the bit is the maximum of all its groups and
/// named users.
fn other_writer(path: &Path, group: u32, owners: &[Option<u32>], groups: &[Option<u32>]) -> Option<String> {
    let of_group = |id: u32| (!groups.contains(&Some(id))).then(|| format!("group {id}"));
    let Some(list) = access_list(path) else { return of_group(group) };
    list.into_iter().filter(|entry| entry.permissions & MAY_WRITE != 0).find_map(|entry| match entry.kind {
        Kind::User => (!owners.contains(&Some(entry.id))).then(|| format!("user {}", entry.id)),
        Kind::OwnGroup => of_group(group),
        Kind::Group => of_group(entry.id),
        Kind::Other => None,
    })
}

/// Whether another user has write permission by the group bit or an access control list.
#[must_use]
pub fn is_writable_by_group(path: &Path, group: u32) -> bool {
    let (owners, groups) = trusted();
    other_writer(path, group, &owners, &groups).is_some()
}

/// Write permission in an entry of an access control list.
const MAY_WRITE: u16 = 2;

/// The kind of an entry of an access control list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A named user.
    User,
    /// The group of the file.
    OwnGroup,
    /// A named group.
    Group,
    /// The owner, the mask, or all others, which the mode shows too.
    Other,
}

/// An entry of an access control list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    kind: Kind,
    permissions: u16,
    id: u32,
}

/// The access control list of a file. `None` if it has none beyond its mode.
fn access_list(path: &Path) -> Option<Vec<Entry>> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut text = [0_u8; MOST_LIST];
    // SAFETY: both names are C strings, and the call writes at most as many bytes as the array has.
    let length = unsafe {
        libc::getxattr(path.as_ptr(), c"system.posix_acl_access".as_ptr(), text.as_mut_ptr().cast(), text.len())
    };
    let length = usize::try_from(length).ok()?;
    Some(entries(text.get(4..length)?))
}

/// The maximum size of a list: a header of 4 bytes and 8 bytes per entry. No file system stores more.
const MOST_LIST: usize = 64 << 10;

/// The entries of a list as `linux/posix_acl_xattr.h` describes them, without the header.
fn entries(bytes: &[u8]) -> Vec<Entry> {
    let entry = |bytes: &[u8; 8]| {
        let [kind, kind_high, permissions, permissions_high, id @ ..] = *bytes;
        let kind = match u16::from_le_bytes([kind, kind_high]) {
            0x02 => Kind::User,
            0x04 => Kind::OwnGroup,
            0x08 => Kind::Group,
            _ => Kind::Other,
        };
        Entry { kind, permissions: u16::from_le_bytes([permissions, permissions_high]), id: u32::from_le_bytes(id) }
    };
    bytes.as_chunks().0.iter().map(entry).collect()
}

/// The components of a path. `..` is kept.
fn names(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn owner(path: &Path) -> Option<u32> {
        Some(fs::metadata(path).unwrap().uid())
    }

    /// A file in a directory tree with two levels.
    fn file() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a/b/lib.so");
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(&file, "").unwrap();
        // With umask 002, the directory of the test has a group that can write it.
        for path in ["", "a", "a/b", "a/b/lib.so"] {
            mode(&dir.path().join(path), 0o755);
        }
        (dir, file)
    }

    #[test]
    fn files_without_a_mapped_owner_are_those_of_root_if_root_is_not_mapped() {
        for (maps, owner_of_top, wanted) in [
            ("         0          0 4294967295\n", 0, None),
            ("         0          0 4294967295\n", 65_534, None),
            ("0 1000 1\n", 65_534, Some(65_534)),
            ("1000 1000 1\n", 65_534, Some(65_534)),
            ("0 100000 65536\n", 0, Some(65_534)),
            ("0 0 1\n", 0, None),
            ("0 1 1\n1 0 1\n", 1, None),
            // A container in a container.
            ("0 0 1\n", 65_534, Some(65_534)),
        ] {
            assert_eq!(unmapped_owner_of(maps, 65_534, owner_of_top), wanted, "{maps} {owner_of_top}");
        }
    }

    #[test]
    fn own_files_in_sticky_folders_are_trusted_and_those_that_all_may_write_are_not() {
        let (dir, file) = file();
        assert_eq!(distrust(&file), None);
        mode(&dir.path().join("a"), 0o1777);
        assert_eq!(distrust(&file), None);
        for (path, was) in [("a", 0o755), ("a/b", 0o755), ("a/b/lib.so", 0o644)] {
            let path = dir.path().join(path);
            mode(&path, was | 0o002);
            let why = distrust(&file).unwrap();
            assert!(why.contains(&format!("{} can be written", path.display())), "{why}");
            mode(&path, was);
        }
        assert_eq!(distrust(&file), None);
        assert!(distrust(&dir.path().join("none")).is_some());
    }

    #[test]
    fn users_and_groups_of_an_access_control_list_count_for_root() {
        let (dir, file) = file();
        let list = |user: u32, group: u32, permissions: u16| {
            let rows: [(u16, u16, u32); 6] =
                [(1, 7, !0), (2, permissions, user), (4, 5, !0), (8, permissions, group), (16, 7, !0), (32, 5, !0)];
            let row = |(kind, permissions, id): (u16, u16, u32)| {
                [&kind.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
            };
            [2_u32.to_le_bytes().to_vec(), rows.map(row).concat()].concat()
        };
        let expected = Entry { kind: Kind::User, permissions: 7, id: 1234 };
        assert_eq!(entries(&list(1234, 5678, 7)[4..]).get(1), Some(&expected));
        let own = owner(&file);
        let group = Some(fs::metadata(&file).unwrap().gid());
        for (path, (user, named, permissions), wanted) in [
            ("a", (54_321, 0, 7), Some("user 54321")),
            ("a/b", (0, 54_322, 7), Some("group 54322")),
            ("a/b/lib.so", (54_321, 54_322, 5), None),
            ("a/b/lib.so", (0, 0, 7), None),
            ("a/b/lib.so", (54_321, 54_322, 6), Some("user 54321")),
        ] {
            let path = dir.path().join(path);
            let name = CString::new(path.as_os_str().as_bytes()).unwrap();
            let list = list(user, named, permissions);
            let key = c"system.posix_acl_access".as_ptr();
            // SAFETY: both names are C strings, and the list has this length.
            if unsafe { libc::setxattr(name.as_ptr(), key, list.as_ptr().cast(), list.len(), 0) } != 0 {
                eprintln!("skipped: the file system has no access control lists");
                return;
            }
            let why = distrust_as(&file, &[Some(0), own], Some(&[Some(0), group]));
            match wanted {
                Some(writer) => assert!(why.as_ref().is_some_and(|why| why.ends_with(writer)), "{why:?}"),
                None => assert_eq!(why, None, "{path:?} {permissions}"),
            }
            // SAFETY: both names are C strings.
            assert_eq!(unsafe { libc::removexattr(name.as_ptr(), key) }, 0);
            mode(&path, 0o755);
        }
    }

    #[test]
    fn settings_that_others_can_write_are_named_with_the_remedy() {
        let (_dir, file) = file();
        assert_eq!(foreign_settings_in(&file), None);
        assert_eq!(foreign_settings_in(Path::new("/nonexistent/cufile.json")), None);
        mode(&file, 0o666);
        let why = foreign_settings_in(&file).unwrap();
        assert!(why.contains("can be written by all users") && why.contains("chmod 644"), "{why}");
    }

    #[test]
    fn the_owner_of_the_file_and_of_each_folder_counts() {
        let (_dir, file) = file();
        // The result for another user.
        let roots: [Option<u32>; 1] = [Some(0)];
        let why = distrust_as(&file, &roots, None);
        assert_eq!(why.is_none(), owner(&file) == Some(0), "{why:?}");
        let others = [owner(Path::new("/")), owner(Path::new("/tmp")), Some(4_000_000)];
        if owner(&file) != owner(Path::new("/")) {
            assert!(distrust_as(&file, &others, None).unwrap().contains("another user"));
        }
        assert!(distrust_as(&file, &[Some(4_000_000)], None).unwrap().starts_with("/ belongs to another user"));
    }

    #[test]
    fn a_file_or_folder_of_another_user_is_not_trusted() {
        let (dir, file) = file();
        if std::os::unix::fs::chown(dir.path().join("a"), Some(12_345), None).is_err() {
            eprintln!("skipped: only root can give a directory to another user");
            return;
        }
        assert!(distrust(&file).unwrap().contains("a belongs to another user (uid 12345)"));
        std::os::unix::fs::chown(dir.path().join("a"), Some(0), None).unwrap();
        std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
        assert!(distrust(&file).unwrap().contains("lib.so belongs to another user"));
    }

    #[test]
    fn a_file_or_folder_that_another_group_can_write_is_not_trusted_by_root() {
        let (dir, file) = file();
        let here = [owner(Path::new("/")), owner(Path::new("/tmp")), owner(&file)];
        let group = fs::metadata(&file).unwrap().gid();
        let judged = |groups: &[Option<u32>]| distrust_as(&file, &here, Some(groups));
        for (path, open, closed) in [("a", 0o2775, 0o755), ("a/b", 0o775, 0o755), ("a/b/lib.so", 0o664, 0o644)] {
            let path = dir.path().join(path);
            mode(&path, open);
            let why = judged(&[Some(4_000_000)]).unwrap();
            assert!(why.contains(&format!("{} can be written by the group {group}", path.display())), "{why}");
            assert_eq!(distrust_as(&file, &here, None), None, "{}", path.display());
            mode(&path, closed);
        }
        // With the sticky bit, the members of the group can only change their own entries.
        mode(&dir.path().join("a"), 0o3775);
        assert_eq!(judged(&[Some(4_000_000)]), None);
    }

    #[test]
    fn a_place_is_refused_to_every_user_if_a_group_other_than_the_private_one_can_write_it() {
        for (user, group, wanted) in [(1000, 1000, Some(1000)), (1000, 100, None), (0, 0, None)] {
            assert_eq!(private_group(user, group), wanted, "{user} {group}");
        }
        let (dir, file) = file();
        assert_eq!(distrust_place(&file), None);
        let group = fs::metadata(&file).unwrap().gid();
        let is_trusted = trusted().1.contains(&Some(group));
        for (path, open) in [("a", 0o2775), ("a/b", 0o775)] {
            let path = dir.path().join(path);
            mode(&path, open);
            assert_eq!(distrust_place(&file).is_none(), is_trusted, "{}", path.display());
            // Root can give the directory to another group.
            if std::os::unix::fs::chown(&path, None, Some(54_377)).is_ok() {
                mode(&path, open);
                let why = distrust_place(&file).unwrap();
                assert!(why.contains(&format!("{} can be written by the group 54377", path.display())), "{why}");
                mode(&path, open | STICKY);
                assert_eq!(distrust_place(&file), None);
            }
            mode(&path, 0o755);
        }
    }

    #[test]
    fn links_are_followed_to_where_they_lead() {
        let (dir, file) = file();
        let link = dir.path().join("link.so");
        symlink("a/./b/../b/lib.so", &link).unwrap();
        assert_eq!(distrust(&link), None);
        symlink(&link, dir.path().join("second.so")).unwrap();
        mode(&dir.path().join("a"), 0o777);
        assert!(distrust(&dir.path().join("second.so")).unwrap().contains("can be written"));
        let ring = dir.path().join("ring");
        symlink("ring", &ring).unwrap();
        assert!(distrust(&ring).unwrap().contains("too many links"));
        drop(file);
    }
}
