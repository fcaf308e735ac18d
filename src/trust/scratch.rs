//! A private scratch directory that is removed when its value is dropped.

use super::allowance::Allowance;
use super::destination::Destination;
use super::folder::{ACCESS_LIST, FolderError, PrivateFolder, own_ids, writers};
use super::maker::Maker;
use super::process;
use rustix::fs::StatVfsMountFlags;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Maximum number of entries of a shared directory that are examined for the directory of this user.
const MOST_EXAMINED: usize = 1 << 16;
/// Maximum number of looks at a process that starts a program, which takes long if the disk is slow. Then it counts as one
/// that uses the directory.
const MOST_LOOKS: usize = 200;
/// The remedy for a directory in which no private directory is created.
const OTHER_TMPDIR: &str = "set TMPDIR to a directory that only you can write in";

/// A directory below the system's directory for temporary files that only this user can read and write.
#[derive(Debug)]
pub struct Scratch(Option<PrivateFolder>);

impl Scratch {
    /// Examines TMPDIR or /tmp, for commands that otherwise continue without a temporary directory.
    ///
    /// # Errors
    /// Returns a sentence if another user could exchange directories in it. A missing directory is accepted.
    pub fn examine_place() -> Result<(), String> {
        let place = std::env::temp_dir();
        let why = place.exists().then(|| cufile_ffi::distrust_place(&place)).flatten();
        why.map_or(Ok(()), |why| Err(format!("no temporary directory is made, because {why}; {OTHER_TMPDIR}")))
    }

    /// Creates a directory with a name that begins with `prefix`, below TMPDIR or /tmp.
    ///
    /// # Errors
    /// Fails if the directory cannot be created. Fails also if another user, or a member of a group, could exchange the
    /// directory, because native libraries write their logs into it by path.
    pub fn new(prefix: &str) -> io::Result<Self> {
        Self::new_in(&std::env::temp_dir(), prefix).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => io::Error::new(error.kind(), format!("{error}; {OTHER_TMPDIR}")),
            _ => error,
        })
    }

    /// Creates a directory for a library whose path is in the environment of other processes. They can outlive the
    /// directory. So other users must not be able to create a directory with its name after its removal.
    ///
    /// # Errors
    /// See [`Scratch::new`].
    pub fn for_code(prefix: &str) -> io::Result<Self> {
        let shared = PathBuf::from("/tmp");
        let mut tried = Vec::new();
        for folder in closed_folders() {
            match cannot_load_from(&folder) {
                None => return Self::new_in(&folder, prefix).map_err(|why| about(&folder, &why)),
                Some(why) => tried.push((folder, why)),
            }
        }
        if let Some(why) = cufile_ffi::distrust_place(&shared) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let own = own_folder(&shared, MOST_EXAMINED)?;
        match cannot_load_from(&own) {
            None => Self::new_in(&own, prefix).map_err(|why| about(&own, &why)),
            Some(why) => {
                tried.push((own, why));
                Err(no_place_for_code(&tried))
            }
        }
    }

    /// Creates a directory below `above`.
    ///
    /// # Errors
    /// See [`Scratch::new`].
    pub fn new_in(above: &Path, prefix: &str) -> io::Result<Self> {
        match cufile_ffi::distrust_place(above) {
            Some(why) => Err(io::Error::new(io::ErrorKind::PermissionDenied, why)),
            None => {
                sweep_once(above);
                let folder = PrivateFolder::make_new(above, &format!("{prefix}{}-", Maker::own()))?;
                // The lock shows that the creator is running. This is needed for processes that cannot see it, such
                // as processes in another container. The lock ends with this process.
                let _ = folder.lock();
                Ok(Self(Some(folder)))
            }
        }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        // The path is only empty after `close`, which consumes the value.
        self.0.as_ref().map_or(Path::new(""), PrivateFolder::path)
    }

    /// Lets other users open files in the directory whose names they know. They cannot list the directory.
    ///
    /// # Errors
    /// Fails if the permissions cannot be changed.
    pub fn let_others_enter(&self) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), PrivateFolder::let_others_enter)
    }

    /// Leaves the directory to other processes that use it. A later process of this user removes it when none does.
    pub fn leave(&mut self) {
        self.0 = None;
    }

    /// Removes the directory and its content.
    ///
    /// # Errors
    /// Fails if an entry cannot be removed.
    pub fn close(mut self) -> io::Result<()> {
        self.0.take().map_or(Ok(()), |folder| Ok(folder.remove()?))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(folder) = self.0.take() {
            // An error cannot be reported here. Callers that need it use `close`.
            let _ = folder.remove();
        }
    }
}

/// The directories in which no other user can create an entry, in the order in which they are used for code.
fn closed_folders() -> Vec<PathBuf> {
    let system = if rustix::process::geteuid().is_root() {
        vec![PathBuf::from("/run"), PathBuf::from("/var/lib")]
    } else {
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).into_iter().collect()
    };
    let all = std::iter::once(std::env::temp_dir()).chain(system);
    all.filter_map(|folder| folder.canonicalize().ok()).filter(|folder| is_closed(folder)).collect()
}

/// Whether only the effective user and root can create entries in the directory and in all directories above it, so that no
/// other user can make its name again after its removal. The linker divides the list of libraries at colons, and it
/// replaces words after `$`.
fn is_closed(folder: &Path) -> bool {
    let has_plain_name = !folder.as_os_str().as_encoded_bytes().iter().any(|byte| b":$".contains(byte));
    has_plain_name && cufile_ffi::distrust_place(folder).is_none() && folder.ancestors().all(admits_no_others)
}

/// Whether only the effective user and root can create entries in this directory.
fn admits_no_others(folder: &Path) -> bool {
    let ids = own_ids();
    let has_list = rustix::fs::getxattr(folder, ACCESS_LIST, &mut [0_u8; 0][..]).is_ok();
    std::fs::metadata(folder)
        .is_ok_and(|meta| meta.mode() & writers(meta.gid(), ids, has_list) == 0 && [0, ids.0].contains(&meta.uid()))
}

/// The reason why this process cannot create a library in the directory and load it from there. `None` if it can.
fn cannot_load_from(folder: &Path) -> Option<&'static str> {
    let flags = rustix::fs::statvfs(folder).map_or(StatVfsMountFlags::empty(), |system| system.f_flag);
    let may = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
    if flags.intersects(StatVfsMountFlags::NOEXEC) {
        Some("mounted with noexec")
    } else if flags.intersects(StatVfsMountFlags::RDONLY) {
        Some("mounted read-only")
    } else {
        may.is_err().then_some("not writable")
    }
}

/// The error if no library can be loaded from any of these directories, with the reason of each.
fn no_place_for_code(tried: &[(PathBuf, &str)]) -> io::Error {
    let tried: Vec<String> = tried.iter().map(|(folder, why)| format!("{} ({why})", folder.display())).collect();
    let text = format!(
        "no library can be loaded from {}; set TMPDIR to a directory that only you can write in, on a file system without noexec",
        tried.join(", ")
    );
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

/// The error with the directory that it is about.
fn about(folder: &Path, why: &io::Error) -> io::Error {
    io::Error::new(why.kind(), format!("{}: {why}", folder.display()))
}

/// The directory of this user in a directory that all users share. It is never removed, so no other user can take its name. If
/// another user has taken the usual name before, the directory has a random number too, and is searched among this number of
/// entries.
fn own_folder(shared: &Path, most: usize) -> io::Result<PathBuf> {
    let name = own_name();
    let folder = match PrivateFolder::make(shared, OsStr::new(&name)) {
        Err(FolderError::System(error)) if error.kind() == io::ErrorKind::AlreadyExists => {
            let mut known = own_names(shared, most).into_iter();
            let opened = known.find_map(|known| PrivateFolder::open(shared, OsStr::new(&known)).ok());
            opened.map_or_else(|| PrivateFolder::make_new(shared, &format!("{name}-")), Ok)
        }
        made => made,
    };
    let folder = folder.map_err(|why| {
        let text = format!("{}: {why}; {OTHER_TMPDIR}", shared.join(&name).display());
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    })?;
    if rustix::process::geteuid().is_root() {
        folder.let_others_enter()?;
    }
    Ok(folder.path().to_owned())
}

/// The usual name of the directory of this user in a directory that all users share.
fn own_name() -> String {
    format!("gds-top-of-{}", rustix::process::geteuid().as_raw())
}

/// The names that the directory of this user can have: the usual one, and those with a number among the first entries of the
/// shared directory. Other users can create any number of entries, also with these names.
fn own_names(shared: &Path, most: usize) -> Vec<String> {
    let usual = own_name();
    let with_number = format!("{usual}-");
    let entries = std::fs::read_dir(shared).into_iter().flatten().flatten().take(most);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(&with_number)).collect();
    names.sort();
    names.insert(0, usual);
    names
}

/// Removes the scratch directories in `above` that killed processes of this user left. It does this once per process.
fn sweep_once(above: &Path) {
    static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if SWEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(above.to_owned()) {
        sweep(above);
    }
}

/// Removes the scratch directories and unfinished files of this process. It is called after the process was replaced,
/// because it could not continue. `arguments` are those of the process; some are directories in which it worked.
pub fn remove_leftovers(arguments: impl Iterator<Item = OsString>) {
    let own = Maker::own();
    let named = arguments.filter_map(|argument| {
        let text = argument.to_string_lossy().into_owned();
        // An option and its value can be one argument.
        Some(PathBuf::from(text.rsplit_once('=').filter(|_| text.starts_with('-')).map_or(text.as_str(), |(_, v)| v)))
            .filter(|path| !path.as_os_str().is_empty())
    });
    let with_parents = named.flat_map(|path| [path.parent().map(Path::to_owned), Some(path)]).flatten();
    let shared = Path::new("/tmp");
    let own_folders = own_names(shared, MOST_EXAMINED).into_iter().map(|name| shared.join(name));
    let usual = [std::env::temp_dir(), PathBuf::from("/dev/shm"), PathBuf::from(".")];
    let all = usual.into_iter().chain(own_folders).chain(closed_folders()).chain(with_parents);
    for folder in all.collect::<BTreeSet<PathBuf>>() {
        sweep_of(&folder, |maker| maker == own);
        if let Ok(folder) = Destination::open(&folder) {
            folder.remove_unfinished(|maker| maker == own);
        }
    }
}

fn sweep(above: &Path) {
    sweep_of(above, |maker| !maker.may_live());
}

/// Removes the scratch directories in `above` of these processes.
fn sweep_of(above: &Path, is_left: impl Fn(Maker) -> bool) {
    for folder in PrivateFolder::left_in(above, is_left).into_iter().filter(|folder| !is_used(folder.path())) {
        let _ = folder.remove();
    }
}

/// Whether the dynamic linker of a running process loads libraries from the directory, so that programs that it starts need
/// it.
fn is_used(folder: &Path) -> bool {
    is_used_by(process::own_folders(Path::new("/proc")), folder)
}

/// Processes of other users are not asked: they could delay the answer for ever. A recorded program that changed its user
/// can lose the library.
fn is_used_by(mut processes: impl Iterator<Item = PathBuf>, folder: &Path) -> bool {
    let folder = folder.as_os_str().as_encoded_bytes();
    let names = |variable: &[u8]| {
        variable.strip_prefix(b"LD_AUDIT=").is_some_and(|list| list.windows(folder.len()).any(|part| part == folder))
    };
    let is_user = |process: PathBuf| {
        for look in 0..MOST_LOOKS {
            // While a process starts a program, it has neither arguments nor variables. The arguments come first here, so
            // a process with arguments has its variables too.
            let words = process::command_line(&process, &mut Allowance::unlimited()).unwrap_or_default();
            let Ok(variables) = process::environment(&process, &mut Allowance::unlimited()) else { return false };
            if !variables.bytes.is_empty() {
                // The part that was not read can name the directory.
                return variables.is_cut || variables.bytes.split(|byte| *byte == 0).any(names);
            }
            let has_program = process.join("exe").read_link().is_ok();
            if !has_program || (look > 0 && !words.is_empty()) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    };
    processes.any(is_user)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    /// Whether new files have the private group of the user who runs the tests.
    fn is_private_group(folder: &Path) -> bool {
        writers(fs::metadata(folder).unwrap().gid(), own_ids(), false) == 0o002
    }

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
        // The permissions of /tmp.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        Scratch::new_in(dir.path(), "x-").unwrap().close().unwrap();
    }

    #[test]
    fn none_is_made_where_a_member_of_a_group_could_replace_it_or_a_folder_above_it() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::set_permissions(&inner, Permissions::from_mode(0o700)).unwrap();
        let set = |mode: u32| fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
        let group = fs::metadata(dir.path()).unwrap().gid();
        // The directory of a user with the umask 002.
        set(0o775);
        let is_own = group == 0 || is_private_group(dir.path());
        let is_given = std::os::unix::fs::chown(dir.path(), None, Some(54_377)).is_ok();
        if is_own && !is_given {
            eprintln!("skipped: only root, or a member of another group, can give a directory to a group");
            Scratch::new_in(dir.path(), "x-").unwrap().close().unwrap();
            return;
        }
        set(0o2775);
        for above in [dir.path(), &inner] {
            let why = Scratch::new_in(above, "x-").unwrap_err();
            let text = format!("{} can be written by the group ", dir.path().display());
            assert!(why.kind() == io::ErrorKind::PermissionDenied && why.to_string().starts_with(&text), "{why}");
        }
        assert_eq!((fs::read_dir(dir.path()).unwrap().count(), fs::read_dir(&inner).unwrap().count()), (1, 0));
        // In a sticky directory, members can exchange only their own entries.
        set(0o3775);
        for above in [dir.path(), &inner] {
            Scratch::new_in(above, "x-").unwrap().close().unwrap();
        }
    }

    #[test]
    fn code_is_written_where_no_other_user_can_take_its_name() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(admits_no_others(dir.path()) && cannot_load_from(dir.path()).is_none());
        fs::set_permissions(dir.path(), Permissions::from_mode(0o775)).unwrap();
        let is_private = is_private_group(dir.path());
        assert_eq!(admits_no_others(dir.path()), is_private, "its group can take the name");
        assert_eq!(cannot_load_from(&dir.path().join("missing")), Some("not writable"));
        // The permissions of /tmp.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        assert!(!is_closed(dir.path()));
        let private = dir.path().join("private");
        fs::create_dir(&private).unwrap();
        fs::set_permissions(&private, Permissions::from_mode(0o700)).unwrap();
        assert!(admits_no_others(&private) && !is_closed(&private), "it can be removed and made again");
        let own = own_folder(dir.path(), MOST_EXAMINED).unwrap();
        let code = Scratch::new_in(&own, "gds-top-watch-").unwrap();
        assert!(admits_no_others(&own) && code.path().starts_with(&own));
        code.close().unwrap();
        sweep(dir.path());
        assert_eq!((own_folder(dir.path(), MOST_EXAMINED).unwrap(), own.exists()), (own.clone(), true));
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&own, Some(54_321), None).unwrap();
            // The directory with the usual name belongs to another user now.
            let other = own_folder(dir.path(), MOST_EXAMINED).unwrap();
            assert!(other != own && admits_no_others(&other));
            assert_eq!(own_folder(dir.path(), MOST_EXAMINED).unwrap(), other, "it is used again");
        }
    }

    #[test]
    fn the_usual_folder_is_found_among_any_number_of_entries() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        let own = own_folder(dir.path(), 0).unwrap();
        assert_eq!((own_folder(dir.path(), 0).unwrap(), &own), (dir.path().join(own_name()), &own));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn another_name_is_used_if_the_usual_one_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        std::os::unix::fs::symlink("/", dir.path().join(own_name())).unwrap();
        fs::write(dir.path().join(format!("{}-planted", own_name())), "").unwrap();
        let own = own_folder(dir.path(), MOST_EXAMINED).unwrap();
        assert!(own.is_dir() && own.starts_with(dir.path()) && admits_no_others(&own), "{}", own.display());
        assert_eq!(own_folder(dir.path(), MOST_EXAMINED).unwrap(), own, "it is used again");
        sweep(dir.path());
        assert!(own.exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_folder_without_executable_files_is_named_with_its_reason_and_a_remedy() {
        let tried = [("/tmp/gds-top-of-0", "mounted with noexec"), ("/run", "mounted read-only")];
        let text = no_place_for_code(&tried.map(|(folder, why)| (PathBuf::from(folder), why))).to_string();
        let wanted = "from /tmp/gds-top-of-0 (mounted with noexec), /run (mounted read-only); set TMPDIR";
        assert!(text.contains(wanted), "{text}");
    }

    #[test]
    fn folders_of_dead_processes_are_swept_and_no_others() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        // No process has this number.
        let dead = "gds-top-root-4194305-7-";
        let make = |name: &str| {
            let folder = dir.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
            fs::create_dir_all(folder.join("lane")).unwrap();
            fs::write(folder.join("lane/cufile.log"), "x").unwrap();
            folder
        };
        let swept = [make(&format!("{dead}01")), make(".gds-top-capture-4194305-7-02")];
        let locked = PrivateFolder::open(
            dir.path(),
            std::ffi::OsStr::new(&{
                make(&format!("{dead}03"));
                format!("{dead}03")
            }),
        );
        let locked = locked.unwrap();
        assert!(locked.lock());
        let stay =
            [make(&format!("gds-top-root-{}-04", Maker::own())), make("gds-top-kv-ucm"), make("other-4194305-7-05")];
        let victim = make("victim");
        symlink(&victim, dir.path().join(format!("{dead}06"))).unwrap();
        sweep(dir.path());
        assert!(swept.iter().all(|folder| !folder.exists()));
        assert!(stay.iter().all(|folder| folder.join("lane/cufile.log").exists()));
        assert!(locked.path().exists() && victim.join("lane/cufile.log").exists());
        assert!(fs::symlink_metadata(dir.path().join(format!("{dead}06"))).is_ok());
        drop(locked);
        sweep(dir.path());
        assert!(!dir.path().join(format!("{dead}03")).exists());
    }

    #[test]
    fn a_folder_from_which_a_process_loads_libraries_is_not_swept() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join("gds-top-watch-4194305-7-1");
        fs::create_dir(&left).unwrap();
        fs::set_permissions(&left, Permissions::from_mode(0o700)).unwrap();
        // The linker of the shell cannot load this library, and the shell runs without it.
        let mut user = std::process::Command::new("sh")
            .args(["-c", "echo; exec sleep 100"])
            .env("LD_AUDIT", left.join("library.so"))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut begun = [0];
        std::io::Read::read_exact(user.stdout.as_mut().unwrap(), &mut begun).unwrap();
        sweep(dir.path());
        assert!(left.exists());
        user.kill().unwrap();
        user.wait().unwrap();
        sweep(dir.path());
        assert!(!left.exists());
    }

    #[test]
    fn processes_of_other_users_are_not_asked_whether_they_use_a_folder() {
        let proc = tempfile::tempdir().unwrap();
        let process = proc.path().join("7");
        fs::create_dir(&process).unwrap();
        let environment = fs::File::create(process.join("environ")).unwrap();
        let is_used = |folder: &str| is_used_by(process::own_folders(proc.path()), Path::new(folder));
        assert!(!is_used("/run/gds-top-watch-1-2-3"));
        // The part that is not read can name any directory.
        environment.set_len(9 << 20).unwrap();
        assert!(is_used("/run/gds-top-watch-1-2-3"));
        if std::os::unix::fs::chown(&process, Some(54_321), None).is_ok() {
            assert!(!is_used("/run/gds-top-watch-1-2-3"));
        }
    }

    #[test]
    fn a_process_that_is_starting_a_program_counts_as_one_that_uses_a_folder() {
        let proc = tempfile::tempdir().unwrap();
        let process = proc.path().join("7");
        fs::create_dir(&process).unwrap();
        let put = |name: &str, text: &str| fs::write(process.join(name), text).unwrap();
        let is_used = || is_used_by(process::own_folders(proc.path()), Path::new("/run/gds-top-watch-1-2-3"));
        put("environ", "");
        put("cmdline", "");
        assert!(!is_used(), "a thread of the kernel has no program");
        std::os::unix::fs::symlink("/bin/sh", process.join("exe")).unwrap();
        assert!(is_used());
        put("cmdline", "sh\0");
        assert!(!is_used(), "it has no variables");
        put("environ", "LD_AUDIT=/run/gds-top-watch-1-2-3/library.so\0");
        assert!(is_used());
    }

    #[test]
    fn nothing_is_swept_where_another_user_could_have_given_the_name() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join("gds-top-x-4194305-7-1");
        let make = |mode: u32| {
            fs::create_dir_all(&left).unwrap();
            fs::write(left.join("thesis"), "x").unwrap();
            fs::set_permissions(&left, Permissions::from_mode(mode)).unwrap();
        };
        let is_private = is_private_group(dir.path());
        for (mode, is_swept) in [(0o777, false), (0o2775, is_private), (0o755, true)] {
            fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            make(0o700);
            sweep(dir.path());
            assert_eq!(left.exists(), !is_swept, "{mode:o}");
        }
        // A user who can write in a directory can move it into a directory such as /tmp.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        for (mode, is_swept) in
            [(0o777, false), (0o2775, is_private), (0o770, is_private), (0o711, true), (0o700, true)]
        {
            make(mode);
            sweep(dir.path());
            assert_eq!(left.exists(), !is_swept, "{mode:o}");
            if left.exists() {
                assert_eq!(fs::metadata(&left).unwrap().mode() & 0o7777, mode);
            }
        }
        make(0o700);
        if std::os::unix::fs::chown(dir.path(), Some(54_321), None).is_ok() {
            sweep(dir.path());
            assert!(left.exists());
        }
    }
}
