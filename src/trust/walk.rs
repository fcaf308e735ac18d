//! Opens a directory by its path, one name at a time. A link in the path is followed only if it belongs to the effective
//! user or to root and is in a directory in which no other user can write, so that no other user can choose where this
//! program writes.

use super::file_id::FileId;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, PROC_SUPER_MAGIC};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// The maximum number of links in a path, as in the kernel.
const MAX_LINKS: u32 = 40;
/// All users have write permission.
const OTHERS_WRITE: u32 = 0o002;
/// The group has write permission.
const GROUP_WRITE: u32 = 0o020;
/// In a directory with this bit, only the owner of an entry can rename or remove it.
const STICKY: u32 = 0o1000;

/// The owners that the directories of a path may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// All users. Only links are examined.
    Any,
    /// If root runs the program: root. No other user may be able to change one of the directories.
    Own,
}

/// A directory that the walk created.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) above: OwnedFd,
    pub(super) name: OsString,
    pub(super) id: FileId,
}

/// Opens an existing directory. The descriptor is only a place: for `*at` calls, and for [`listable`].
pub(super) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let (folder, missing) = open_nearest(path, Owners::Any)?;
    if missing { Err(Errno::NOENT.into()) } else { Ok(folder) }
}

/// Opens the directory, or the nearest existing one above it. The second value is true if the directory does not exist.
pub(super) fn open_nearest(path: &Path, owners: Owners) -> io::Result<(OwnedFd, bool)> {
    let mut walk = Walk::begin(path, owners)?;
    while let Some(name) = walk.todo.front().cloned() {
        match walk.step(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((walk.at, true)),
            stepped => stepped?,
        }
    }
    Ok((walk.at, false))
}

/// Opens the directory and creates the missing ones, which are added to `made` even if the function fails later.
pub(super) fn make_folders(path: &Path, owners: Owners, made: &mut Vec<Made>) -> io::Result<OwnedFd> {
    let mut walk = Walk::begin(path, owners)?;
    while let Some(name) = walk.todo.front().cloned() {
        match walk.step(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(one) = make_folder(&walk.at, &name, owners)? {
                    made.push(one);
                }
                walk.step(&name)?;
            }
            stepped => stepped?,
        }
    }
    Ok(walk.at)
}

/// Creates one directory. `None` if it exists.
pub(super) fn make_folder(above: &OwnedFd, name: &OsStr, owners: Owners) -> io::Result<Option<Made>> {
    // The umask of the caller could let all users write.
    let mode = if owners == Owners::Own { 0o755 } else { 0o775 };
    match rustix::fs::mkdirat(above, name, Mode::from_raw_mode(mode)) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    }
    // The directory is removed later only if its name still belongs to this identity.
    let id = FileId::at(above, name);
    let held = above.try_clone();
    match (id, held) {
        (Ok(id), Ok(above)) => Ok(Some(Made { above, name: name.to_owned(), id })),
        (id, held) => {
            let _ = rustix::fs::unlinkat(above, name, rustix::fs::AtFlags::REMOVEDIR);
            Err(id.map_err(io::Error::from).err().or(held.err()).unwrap_or_else(|| Errno::NOENT.into()))
        }
    }
}

/// Opens the same directory for reading its entries.
pub(super) fn listable(folder: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

struct Walk {
    at: OwnedFd,
    /// The path of `at`, for messages.
    shown: PathBuf,
    todo: VecDeque<OsString>,
    links: u32,
    owners: Owners,
}

impl Walk {
    fn begin(path: &Path, owners: Owners) -> io::Result<Self> {
        // The directories above the working directory count too, because another user could have moved it.
        let path = if owners == Owners::Own { std::path::absolute(path)? } else { path.to_owned() };
        let start = if path.is_absolute() { "/" } else { "." };
        let at = rustix::fs::open(start, place(), Mode::empty())?;
        let walk = Self { at, shown: PathBuf::from(start), todo: names(&path), links: 0, owners };
        walk.examine()?;
        Ok(walk)
    }

    /// Enters the first directory of the list, or replaces a link by its target.
    fn step(&mut self, name: &OsStr) -> io::Result<()> {
        match rustix::fs::openat(&self.at, name, place() | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(folder) => {
                if name == ".." {
                    self.examine_parent(&folder)?;
                }
                self.enter(folder, name)
            }
            // For a link, the combination of O_DIRECTORY and O_NOFOLLOW fails with ENOTDIR.
            Err(Errno::NOTDIR | Errno::LOOP) => self.follow(name),
            Err(errno) => Err(errno.into()),
        }
    }

    fn enter(&mut self, folder: OwnedFd, name: &OsStr) -> io::Result<()> {
        self.at = folder;
        self.shown.push(name);
        self.todo.pop_front();
        self.examine()
    }

    fn follow(&mut self, name: &OsStr) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let link = rustix::fs::openat(&self.at, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&link)?;
        let shown = self.shown.join(name);
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Err(Errno::NOTDIR.into());
        }
        let refused = |why: String| {
            let text = format!("{} is a link {why}; pass the path to which it leads", shown.display());
            Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
        };
        if !is_trusted(stat.st_uid) {
            return refused(format!("of another user (uid {})", stat.st_uid));
        }
        // A user who can write in two directories can move a link of root from one to the other.
        let here = rustix::fs::fstat(&self.at)?;
        if !is_trusted(here.st_uid) || others_write(&self.at, &here) {
            return refused("in a directory in which another user can write".to_owned());
        }
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        // Links of procfs, such as /proc/PID/root, lead to another place than their text.
        if rustix::fs::fstatfs(&link)?.f_type == PROC_SUPER_MAGIC {
            let folder = rustix::fs::openat(&self.at, name, place(), Mode::empty())?;
            return self.enter(folder, name);
        }
        let target = PathBuf::from(OsString::from_vec(rustix::fs::readlinkat(&link, "", Vec::new())?.into_bytes()));
        self.todo.pop_front();
        if target.is_absolute() {
            self.at = rustix::fs::open("/", place(), Mode::empty())?;
            self.shown = PathBuf::from("/");
            self.examine()?;
        }
        for name in names(&target).into_iter().rev() {
            self.todo.push_front(name);
        }
        Ok(())
    }

    /// Fails if another user could have moved the current directory into `parent`. That user needs write permission in
    /// both. Without the sticky bit, a user who can write in `parent` can replace its entries anyway.
    fn examine_parent(&self, parent: &OwnedFd) -> io::Result<()> {
        let (here, above) = (rustix::fs::fstat(&self.at)?, rustix::fs::fstat(parent)?);
        let is_movable = !is_trusted(here.st_uid) || others_write(&self.at, &here);
        let shared = if above.st_mode & STICKY == 0 { OTHERS_WRITE } else { OTHERS_WRITE | GROUP_WRITE };
        if is_movable && (!is_trusted(above.st_uid) || above.st_mode & shared != 0) {
            let text = format!(
                "'..' is not followed from {}, because another user can move this directory; pass a path without '..'",
                self.shown.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        Ok(())
    }

    /// Fails if root runs the program and another user can change the directory, unless this is permitted.
    fn examine(&self) -> io::Result<()> {
        if self.owners == Owners::Any || !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let stat = rustix::fs::fstat(&self.at)?;
        let shown = self.shown.display();
        let why = if !is_trusted(stat.st_uid) {
            format!("{shown} belongs to another user (uid {})", stat.st_uid)
        } else if stat.st_mode & OTHERS_WRITE != 0 && stat.st_mode & STICKY == 0 {
            format!("{shown} can be written by all users")
        } else if stat.st_mode & STICKY == 0 && others_write(&self.at, &stat) {
            format!("{shown} can be written by another user or a group")
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }
}

/// Whether files of this owner are trusted: the effective user and root.
pub(super) fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw() || Some(owner) == cufile_ffi::unmapped_owner()
}

/// Whether another user has write permission in a directory, also by its group or an access control list.
fn others_write(folder: &OwnedFd, stat: &rustix::fs::Stat) -> bool {
    // The list of a descriptor that is only a place can be read through procfs.
    let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    stat.st_mode & OTHERS_WRITE != 0
        || (stat.st_mode & GROUP_WRITE != 0 && cufile_ffi::is_writable_by_group(&path, stat.st_gid))
}

/// With O_DIRECTORY, a file system that is mounted on demand is mounted.
fn place() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// The names in a path. `..` is kept.
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    /// A user without an account.
    const OTHER: u32 = 54_321;

    fn is_root() -> bool {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            eprintln!("skipped: only root can give a file to another user");
        }
        is_root
    }

    fn leads_to(path: &Path) -> io::Result<(u64, u64)> {
        let stat = rustix::fs::fstat(open_folder(path)?)?;
        Ok((stat.st_dev, stat.st_ino))
    }

    fn inode(path: &Path) -> (u64, u64) {
        let meta = fs::metadata(path).unwrap();
        (meta.dev(), meta.ino())
    }

    #[test]
    fn a_path_leads_to_the_same_folder_as_in_the_kernel() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        symlink("a/./b", at("relative")).unwrap();
        symlink(at("a"), at("absolute")).unwrap();
        symlink("../relative", at("a/second")).unwrap();
        symlink("ring", at("ring")).unwrap();
        fs::write(at("file"), "").unwrap();
        for name in ["a/b", "a/b/../b/.", "relative", "absolute/b", "absolute/second", "a/second/..", "a//b/"] {
            assert_eq!(leads_to(&at(name)).unwrap(), inode(&at(name)), "{name}");
        }
        assert_eq!(leads_to(Path::new("/proc/self/cwd")).unwrap(), inode(Path::new(".")));
        assert_eq!(leads_to(Path::new("")).unwrap(), inode(Path::new(".")));
        for name in ["missing", "file", "file/x", "ring", "a/missing/.."] {
            assert!(leads_to(&at(name)).is_err(), "{name}");
        }
    }

    #[test]
    fn missing_folders_are_made_and_existing_ones_are_not_counted() {
        let dir = tempfile::tempdir().unwrap();
        let mut made = Vec::new();
        fs::create_dir(dir.path().join("a")).unwrap();
        make_folders(&dir.path().join("a/b/c"), Owners::Any, &mut made).unwrap();
        assert_eq!(made.iter().map(|one| one.name.as_os_str()).collect::<Vec<_>>(), ["b", "c"]);
        assert!(dir.path().join("a/b/c").is_dir());
        let (_, missing) = open_nearest(&dir.path().join("a/x/y"), Owners::Any).unwrap();
        assert!(missing && !dir.path().join("a/x").exists());
    }

    #[test]
    fn a_link_of_another_user_is_refused_and_links_of_the_user_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        fs::create_dir(&target).unwrap();
        symlink(&target, &link).unwrap();
        assert_eq!(leads_to(&link).unwrap(), inode(&target));
        if !is_root() {
            return;
        }
        std::os::unix::fs::lchown(&link, Some(OTHER), None).unwrap();
        for path in [link.clone(), link.join("inner"), dir.path().join("target/../link")] {
            let why = make_folders(&path, Owners::Any, &mut Vec::new()).unwrap_err();
            assert!(why.to_string().contains("is a link of another user (uid 54321)"), "{why}");
        }
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
        // A link of the user that leads to the link of another user.
        symlink(&link, dir.path().join("own")).unwrap();
        assert!(open_folder(&dir.path().join("own")).is_err());
    }

    #[test]
    fn a_link_is_followed_only_in_a_folder_in_which_no_other_user_can_write() {
        let dir = tempfile::tempdir().unwrap();
        let (target, folder) = (dir.path().join("target"), dir.path().join("folder"));
        fs::create_dir(&target).unwrap();
        fs::create_dir(&folder).unwrap();
        symlink("../target", folder.join("link")).unwrap();
        let set = |mode: u32| fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        let group = fs::metadata(&folder).unwrap().gid();
        let is_own = !cufile_ffi::is_writable_by_group(&folder, group);
        for (mode, is_followed) in
            [(0o755, true), (0o775, is_own), (0o3775, is_own), (0o777, false), (0o1777, false), (0o700, true)]
        {
            set(mode);
            match make_folders(&folder.join("link/new"), Owners::Any, &mut Vec::new()) {
                Ok(_) => assert!(is_followed, "{mode:o}"),
                Err(why) => {
                    let text = format!("{} is a link in a directory in which", folder.join("link").display());
                    assert!(!is_followed && why.to_string().starts_with(&text), "{mode:o}: {why}");
                }
            }
            assert_eq!(target.join("new").exists(), is_followed, "{mode:o}");
            let _ = fs::remove_dir(target.join("new"));
            // Directories need no link.
            assert!(open_folder(&folder).is_ok());
        }
        // Root can give the directory to another user or group. The link of root in it was moved there.
        for (owner, group) in [(None, Some(OTHER)), (Some(OTHER), None)] {
            if std::os::unix::fs::chown(&folder, owner, group).is_ok() {
                set(0o2775);
                assert!(open_folder(&folder.join("link")).is_err());
            }
        }
    }

    #[test]
    fn a_parent_is_not_entered_from_a_folder_that_another_user_can_move() {
        if !is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("above/folder")).unwrap();
        symlink("above/folder/..", at("link")).unwrap();
        let theirs = Some(OTHER);
        for (above, folder, is_followed) in [
            ((0o755, None), (0o755, None), true),
            ((0o1777, None), (0o755, None), true),
            ((0o755, None), (0o755, theirs), true),
            // All users can write in /tmp, and none can move it.
            ((0o755, None), (0o1777, None), true),
            ((0o755, theirs), (0o755, None), true),
            ((0o1777, None), (0o755, theirs), false),
            ((0o1770, None), (0o755, theirs), false),
            ((0o755, theirs), (0o755, theirs), false),
            ((0o755, theirs), (0o777, None), false),
        ] {
            for (name, (mode, owner)) in [("above", above), ("above/folder", folder)] {
                std::os::unix::fs::chown(at(name), Some(owner.unwrap_or(0)), None).unwrap();
                fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
            }
            for path in [at("above/folder/.."), at("above/folder/../new"), at("link")] {
                let row = format!("{above:?} {folder:?} {}", path.display());
                match make_folders(&path, Owners::Any, &mut Vec::new()) {
                    Ok(_) => assert!(is_followed, "{row}"),
                    Err(why) => {
                        assert!(!is_followed && why.to_string().contains("'..' is not followed"), "{row}: {why}")
                    }
                }
            }
            assert_eq!(at("above/new").exists(), is_followed);
            let _ = fs::remove_dir(at("above/new"));
        }
    }

    #[test]
    fn root_makes_no_folder_below_a_folder_that_another_user_can_change() {
        if !is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        fs::create_dir(&home).unwrap();
        let make = |name: &str| make_folders(&home.join(name), Owners::Own, &mut Vec::new());
        make("first/models").unwrap();
        fs::set_permissions(&home, Permissions::from_mode(0o777)).unwrap();
        assert!(make("open").unwrap_err().to_string().contains("can be written by all users"));
        fs::set_permissions(&home, Permissions::from_mode(0o1777)).unwrap();
        make("sticky").unwrap();
        std::os::unix::fs::chown(&home, Some(OTHER), None).unwrap();
        assert!(make("theirs").unwrap_err().to_string().contains("home belongs to another user (uid 54321)"));
        assert!(!home.join("open").exists() && !home.join("theirs").exists());
        // A report is written there, because root named the directory.
        make_folders(&home.join("report"), Owners::Any, &mut Vec::new()).unwrap();
    }
}
