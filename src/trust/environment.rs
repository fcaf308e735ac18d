//! Keeps files and directories of other users out of the variables from which root loads code and settings, and into which
//! libraries write.

use super::distrust;
use super::left_out::{LeftOutVariable, hand_over};
use super::walk::is_trusted;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Lists of directories in which the dynamic linker and Python look for code. An empty part is the working directory.
const LISTS: [&str; 2] = ["LD_LIBRARY_PATH", USER_BASE];
/// The directory with the packages of the user. The default is `.local` in HOME.
const USER_BASE: &str = "PYTHONUSERBASE";

/// The settings of libcufile. A name without a slash is a file in the working directory. They name a directory for logs.
const SETTINGS: &str = "CUFILE_ENV_PATH_JSON";
/// The log of libcufile, which opens it for writing.
const LOG: &str = "CUFILE_LOGFILE_PATH";

/// Variables of libraries begin with these names. Many of them name code, settings, caches or logs, and new versions
/// have more. So each of them is examined if it contains a path.
const LIBRARIES: [&str; 12] =
    ["CUFILE_", "CUDA_", "NVTX_", "NVIDIA_", "__NVML_", "NCCL_", "NIXL_", "UCX_", "MLX5_", "IBV_", "RDMAV_", "KVIKIO_"];

/// Variables of libraries with these endings contain paths, also without a slash.
const PATHS: [&str; 10] = ["_FILE", "_PATH", "_DIR", "_LOG", "_JSON", "_DEST", "_PIPE", "_HOME", "_ROOT", "_LIBRARY"];

/// Variables of the C library, of OpenSSL and of Python packages with the same effect.
const OTHERS: [&str; 11] = [
    "GCONV_PATH",
    "LOCPATH",
    "NUMBA_CACHE_DIR",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PYTHONPYCACHEPREFIX",
    "SSLKEYLOGFILE",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "TRITON_CACHE_DIR",
];

/// Variables of Python that name a module, a program or a part of a path.
const OF_PYTHON: [&str; 4] = ["BROWSER", "PYTHONBREAKPOINT", "PYTHONPLATLIBDIR", "PYTHONWARNINGS"];
/// Variables by which the caller chooses code. They are not examined, or examined elsewhere.
const CHOSEN: [&str; 6] = ["LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PYTHONHOME", "PYTHONPATH"];

/// The variables that commands of the system keep if root runs them, in addition to PATH. None of them names code.
const KEPT: [&str; 13] = [
    "LANG",
    "TERM",
    // It has no directories of other users, see `leave_out_foreign_paths`.
    "LD_LIBRARY_PATH",
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "no_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
];

/// Directories that commands of the system keep if no other user can change them.
const OWN_FOLDERS: [&str; 2] = ["HOME", "TMPDIR"];

/// Starts the program again without such files and directories, if root runs it and a variable names any. The dynamic linker
/// reads its variable only at the start of a process. The second process and the programs that it
/// starts get none of the values, because a caller could make them up. Returns if there is nothing to leave out. `say` is
/// called with a sentence for each of them, which can contain text of other users, and `prepare` with the command that
/// starts the program again.
///
/// # Errors
/// Returns a sentence if the program cannot be started again.
pub fn leave_out_foreign_paths(say: fn(&str), prepare: fn(&mut Command)) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (mut changed, mut left_out) = (Vec::new(), Vec::new());
    for (name, value) in std::env::vars_os().filter(|(_, value)| !value.is_empty()) {
        let Some((kept, why)) = without_foreign(&name, &value) else { continue };
        let how = if kept.is_empty() { "is not used" } else { "is used only in part" };
        for reason in why {
            let shown = name.display().to_string();
            say(&format!(
                "{shown} {how}, because {reason}; a started program gets it only by 'watch -- env {shown}=VALUE COMMAND'"
            ));
            left_out.push(LeftOutVariable { name: shown, in_part: !kept.is_empty(), reason });
        }
        changed.push((name, kept));
    }
    if changed.is_empty() {
        return Ok(());
    }
    let own = std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
    let mut arguments = std::env::args_os();
    let mut command = Command::new(own);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    for (name, value) in changed {
        if value.is_empty() {
            command.env_remove(name);
        } else {
            command.env(name, value);
        }
    }
    hand_over(&mut command, &left_out);
    prepare(&mut command);
    Err(format!("this program cannot be started again: {}", command.args(arguments).exec()))
}

/// The part of a variable that names nothing of another user, and the reasons why the rest is left out. `None` if
/// nothing is left out.
fn without_foreign(name: &OsStr, value: &OsStr) -> Option<(OsString, Vec<String>)> {
    let is = |names: &[&str]| names.iter().any(|known| name == OsStr::new(known));
    if is(&LISTS) {
        let mut below = if name == USER_BASE { foreign_packages } else { |_: &Path| None };
        let (kept, left_out) = trusted(value, &mut below);
        return (!left_out.is_empty()).then_some((kept, left_out));
    }
    let why = if name == SETTINGS {
        foreign(Path::new(value))
    } else if name == LOG {
        foreign_to_write(Path::new(value))
    } else if is(&OTHERS) || LIBRARIES.iter().any(|begin| name.as_bytes().starts_with(begin.as_bytes())) {
        let is_path = is(&OTHERS) || PATHS.iter().any(|end| name.as_bytes().ends_with(end.as_bytes()));
        let parts = value.as_bytes().split(|byte| b":;,=".contains(byte));
        let parts = parts.filter(|part| part.contains(&b'/') || (is_path && !part.is_empty()));
        parts.map(|part| Path::new(OsStr::from_bytes(part))).find_map(foreign_to_write)
    } else {
        None
    };
    why.map(|why| (OsString::new(), vec![why]))
}

/// A command of the system. Such commands start other programs and read settings that variables name. So root gives
/// them only known variables, a PATH without directories of other users, and / as the working directory.
#[must_use]
pub fn system_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some(path) = own_path() {
        let own = |name: &&str| std::env::var_os(name).is_some_and(|folder| foreign(Path::new(&folder)).is_none());
        let kept = KEPT.into_iter().chain(OWN_FOLDERS.into_iter().filter(own));
        // Interpreters also search the working directory.
        command.current_dir("/").env_clear().env("PATH", path);
        command.envs(kept.filter_map(|name| Some((name, std::env::var_os(name)?))));
    }
    command.env("LC_ALL", "C");
    command
}

/// A PATH without directories of other users. The directories of the system are added, and relative parts are left out.
fn path_of_root(path: &OsStr) -> OsString {
    let parts =
        path.as_bytes().split(|byte| *byte == b':').chain(super::SYSTEM_FOLDERS.as_bytes().split(|b| *b == b':'));
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in parts.filter(|part| part.starts_with(b"/")) {
        if !kept.contains(&part) && foreign(Path::new(OsStr::from_bytes(part))).is_none() {
            kept.push(part);
        }
    }
    OsString::from_vec(kept.join(&b':'))
}

/// The PATH for scripts and interpreters that root starts: `python3` can be a script that starts `bash`. `None` if
/// another user runs the program. Such a user keeps PATH as it is.
#[must_use]
pub fn own_path() -> Option<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    rustix::process::geteuid().is_root().then(|| path_of_root(&path))
}

/// Removes from a child the variables of [`foreign_variables`].
pub fn without_foreign_variables(command: &mut Command) -> &mut Command {
    for name in foreign_variables() {
        command.env_remove(name);
    }
    command
}

/// The variables that children of root do not get: those that name a file or directory which another user could have
/// written, and those by which Python runs other code. CUDA, Python and its packages load code from such places. Without
/// HOME, most of them use the home directory of root. The caller chooses the variables that name code for the dynamic
/// linker, the shell and Python. Children of other users do not get a HOME of another user.
#[must_use]
pub fn foreign_variables() -> Vec<OsString> {
    if !rustix::process::geteuid().is_root() {
        return if has_foreign_home() { vec![OsString::from("HOME")] } else { Vec::new() };
    }
    let is_foreign = |name: &OsStr, value: &OsStr| {
        let is = |names: &[&str]| names.iter().any(|known| name == OsStr::new(known));
        if is(&OF_PYTHON) || (name == "HOME" && has_foreign_home()) {
            return true;
        }
        let is_chosen = name == "HOME" || is(&CHOSEN) || name.as_bytes().starts_with(b"GDS_TOP_");
        let mut parts = value.as_bytes().split(|byte| b":;,=".contains(byte));
        !is_chosen
            && parts.any(|part| {
                [&b"/"[..], b"./", b"../", b"~"].iter().any(|begin| part.starts_with(begin))
                    && foreign_to_write(Path::new(OsStr::from_bytes(part))).is_some()
            })
    };
    std::env::vars_os().filter(|(name, value)| is_foreign(name, value)).map(|(name, _)| name).collect()
}

/// Whether the directory in HOME belongs to another user, or root runs the program and another user can change it. sudo and
/// containers can keep that variable. Python imports modules from there.
#[must_use]
pub fn has_foreign_home() -> bool {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let is_foreign = |home: &Path| match rustix::process::geteuid().is_root() {
        true => foreign(home).is_some(),
        false => home.metadata().is_ok_and(|meta| !is_trusted(meta.uid())),
    };
    home.is_some_and(|home| is_foreign(Path::new(&home)))
}

/// Examines the libraries that the variables of this program name.
///
/// # Errors
/// Returns a sentence if one is not a regular file. The dynamic linker would wait for the writer of a FIFO, and every
/// later use of the linker would wait too.
pub fn examine_named_libraries() -> Result<(), String> {
    for name in ["GDS_TOP_LIBCUFILE", "GDS_TOP_NVML", "GDS_TOP_NIXL"] {
        let value = std::env::var_os(name).unwrap_or_default();
        // A missing file is reported where the library is needed. A directory cannot be loaded.
        let kind = std::fs::metadata(&value).map(|meta| meta.file_type());
        if kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir()) {
            return Err(format!("{name} names {}, which is not a regular file", Path::new(&value).display()));
        }
    }
    Ok(())
}

/// The directories of a list that no other user can change, and the reasons why the others are left out. `below` examines
/// what is in a directory.
fn trusted(list: &OsStr, below: &mut dyn FnMut(&Path) -> Option<String>) -> (OsString, Vec<String>) {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut left_out = Vec::new();
    // The dynamic linker also accepts semicolons.
    for part in list.as_bytes().split(|byte| matches!(byte, b':' | b';')) {
        let folder = if part.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(part)) };
        // The dynamic linker replaces words such as $LIB.
        let is_text = !part.contains(&b'$');
        match (!is_text)
            .then(|| format!("{} has a word that the dynamic linker replaces", folder.display()))
            .or_else(|| foreign(folder))
            .or_else(|| foreign_library(folder))
            .or_else(|| foreign_for_processor(folder, DEEPEST))
            .or_else(|| below(folder))
        {
            None => kept.push(part),
            Some(why) => left_out.push(why),
        }
    }
    (OsString::from_vec(kept.join(&b':')), left_out)
}

/// Maximum number of entries of a directory that are examined for libraries of others. Toolkits have about 1000.
const MOST_LIBRARIES: usize = 20_000;

/// The reason why another user could have written a library in this directory, or could create the target of its link.
fn foreign_library(folder: &Path) -> Option<String> {
    let entries = std::fs::read_dir(folder).ok()?.take(MOST_LIBRARIES).flatten();
    let mut libraries = entries.filter(|entry| entry.file_name().as_bytes().windows(3).any(|part| part == b".so"));
    libraries.find_map(|entry| {
        let path = entry.path();
        match std::fs::metadata(&path) {
            Ok(_) => distrust(&path),
            Err(_) => foreign(&folder.join(std::fs::read_link(&path).ok()?)),
        }
    })
}

/// Directories with libraries for particular processors, in which the dynamic linker searches before the directory itself.
/// Before 2.37, glibc searches the others too, and each of them below each other one.
const FOR_PROCESSORS: [&str; 8] =
    ["glibc-hwcaps", "tls", "x86_64", "haswell", "xeon_phi", "avx512_1", "aarch64", "atomics"];

/// The deepest of these directories, such as `tls/haswell/avx512_1/x86_64`.
const DEEPEST: u32 = 4;

/// The same for the directories with libraries for particular processors.
fn foreign_for_processor(folder: &Path, depth: u32) -> Option<String> {
    let deeper = depth.checked_sub(1)?;
    let in_hwcaps = std::fs::read_dir(folder.join(FOR_PROCESSORS[0])).into_iter().flatten().take(MOST_LIBRARIES);
    let folders = FOR_PROCESSORS.iter().map(|name| folder.join(name)).filter(|path| path.is_dir());
    folders.chain(in_hwcaps.flatten().map(|entry| entry.path())).find_map(|path| {
        foreign(&path).or_else(|| foreign_library(&path)).or_else(|| foreign_for_processor(&path, deeper))
    })
}

/// Maximum number of files of Python packages that are examined. PyTorch has about 20 000.
const MOST_PACKAGES: usize = 200_000;

/// The reason why another user could have written a Python module in `base`, the directory with the packages of a user.
fn foreign_packages(base: &Path) -> Option<String> {
    let lib = base.join("lib");
    let mut left = MOST_PACKAGES;
    lib.symlink_metadata().ok()?;
    foreign(&lib).or_else(|| foreign_below(&lib, &mut left))
}

/// The reason why another user could have written an entry below a directory.
fn foreign_below(folder: &Path, left: &mut usize) -> Option<String> {
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        let Some(fewer) = left.checked_sub(1) else {
            return Some(format!("{} has more than {MOST_PACKAGES} files", folder.display()));
        };
        *left = fewer;
        let Ok(meta) = entry.metadata() else { continue };
        let why = if meta.is_symlink() {
            foreign(&path)
        } else if !is_trusted(meta.uid()) {
            Some(format!("{} belongs to another user (uid {})", path.display(), meta.uid()))
        } else {
            is_open(&path, &meta).then(|| format!("other users can write {}", path.display()))
        };
        let why = why.or_else(|| meta.is_dir().then(|| foreign_below(&path, left)).flatten());
        if why.is_some() {
            return why;
        }
    }
    None
}

/// Whether root runs the program and another user could have written a Python package in HOME.
#[must_use]
pub fn has_foreign_packages() -> bool {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    rustix::process::geteuid().is_root()
        && home.is_some_and(|home| foreign_packages(&Path::new(&home).join(".local")).is_some())
}

/// The reason why root must not run the commands that a file names: another user could have written it, or can create
/// entries of its directory. `None` for other users: they choose their files.
#[must_use]
pub fn foreign_commands(file: &Path) -> Option<String> {
    rustix::process::geteuid().is_root().then(|| foreign_to_write(file)).flatten()
}

/// Whether this process is root and another user could have written the file, or could create it.
#[must_use]
pub fn is_of_others(file: &Path) -> bool {
    rustix::process::geteuid().is_root() && foreign(file).is_some()
}

/// The reason why another user could have written this file, could create it, or could create files in this directory.
/// `None` if only root and the effective user can.
fn foreign(path: &Path) -> Option<String> {
    // A missing file could be created by a user who can change the nearest directory above it.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let existing = absolute.ancestors().find(|above| above.symlink_metadata().is_ok()).unwrap_or(&absolute);
    distrust(existing).or_else(|| open_to_others(existing))
}

/// The reason why root must not write this file: [`foreign`], or other users can create entries in its directory. There, the
/// file could be a hard link that another user made to a file of root.
fn foreign_to_write(path: &Path) -> Option<String> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    foreign(path).or_else(|| absolute.parent().filter(|_| !path.is_dir()).and_then(open_to_others))
}

/// The reason why another user could create an entry of this directory. The sticky bit protects only the entries that
/// exist, and code and settings are searched by name. The group of root has no other members.
fn open_to_others(folder: &Path) -> Option<String> {
    let meta = folder.metadata().ok().filter(std::fs::Metadata::is_dir)?;
    is_open(folder, &meta).then(|| format!("other users can create files in {}", folder.display()))
}

/// Whether another user has write permission.
fn is_open(path: &Path, meta: &std::fs::Metadata) -> bool {
    meta.mode() & 0o002 != 0 || (meta.mode() & 0o020 != 0 && cufile_ffi::is_writable_by_group(path, meta.gid()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    fn trusted(list: &OsStr) -> (OsString, Vec<String>) {
        super::trusted(list, &mut |_| None)
    }

    #[test]
    fn folders_that_others_can_change_are_left_out_of_a_list() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        let list = format!("/usr/lib:{}:{}/later;/usr/nowhere/lib", open.display(), open.display());
        let (kept, left_out) = trusted(OsStr::new(&list));
        assert_eq!(kept, "/usr/lib:/usr/nowhere/lib");
        assert_eq!(left_out.len(), 2, "{left_out:?}");
        // With the permissions of /tmp, existing directories are safe, but every user can create files and missing directories.
        fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
        let own = open.join("own");
        fs::create_dir(&own).unwrap();
        fs::set_permissions(&own, Permissions::from_mode(0o755)).unwrap();
        let list = format!("{0}/own:{0}/later:{0}", open.display());
        assert_eq!(trusted(OsStr::new(&list)).0, own.as_os_str());
        // A library that all users can write, and a link to one that all users can create.
        let library = own.join("libx.so.1");
        for name in ["libx.so.1", "data"] {
            fs::write(own.join(name), "").unwrap();
            fs::set_permissions(own.join(name), Permissions::from_mode(0o666)).unwrap();
        }
        assert!(trusted(own.as_os_str()).1[0].contains("libx.so.1 can be written by all users"));
        fs::set_permissions(&library, Permissions::from_mode(0o644)).unwrap();
        assert!(trusted(own.as_os_str()).1.is_empty());
        std::os::unix::fs::symlink("../later", own.join("liby.so")).unwrap();
        assert!(!trusted(own.as_os_str()).1.is_empty());
    }

    #[test]
    fn folder_that_a_group_can_write_is_open_to_others() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o2775)).unwrap();
        let is_of_root = fs::metadata(dir.path()).unwrap().gid() == 0;
        assert_eq!(open_to_others(dir.path()).is_none(), is_of_root);
        // Root can give the directory to a group.
        if std::os::unix::fs::chown(dir.path(), None, Some(54_377)).is_ok() {
            assert!(foreign(dir.path()).is_some());
        }
    }

    #[test]
    fn a_folder_whose_name_the_dynamic_linker_changes_is_left_out() {
        for list in ["/usr/$LIB", "/usr/${PLATFORM}/lib", "$ORIGIN"] {
            let (kept, left_out) = trusted(OsStr::new(&format!("/usr/lib:{list}")));
            assert_eq!((kept.to_str(), left_out.len()), (Some("/usr/lib"), 1), "{list}");
        }
    }

    #[test]
    fn a_folder_whose_libraries_for_a_processor_others_can_change_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("lib");
        fs::create_dir_all(&folder).unwrap();
        for below in ["glibc-hwcaps/x86-64-v2", "tls/haswell/avx512_1/x86_64", "x86_64/x86_64", "atomics"] {
            let folders: Vec<std::path::PathBuf> =
                folder.join(below).ancestors().take_while(|path| **path != folder).map(Path::to_owned).collect();
            fs::create_dir_all(folder.join(below)).unwrap();
            for path in folders.iter().chain([&folder]) {
                fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
            }
            assert_eq!(trusted(folder.as_os_str()).0, folder.as_os_str());
            for path in folders {
                fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
                let (kept, left_out) = trusted(folder.as_os_str());
                assert!(kept.is_empty() && left_out.len() == 1, "{}: {left_out:?}", path.display());
                fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            }
        }
    }

    #[test]
    fn packages_of_python_that_others_can_write_are_found_at_any_depth() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("base");
        assert_eq!(foreign_packages(&base), None);
        let site = base.join("lib/python3.12/site-packages");
        let package = site.join("package/inner");
        fs::create_dir_all(&package).unwrap();
        for file in [site.join("usercustomize.py"), package.join("module.py")] {
            fs::write(file, "").unwrap();
        }
        let all = [
            base.join("lib"),
            base.join("lib/python3.12"),
            site.clone(),
            site.join("usercustomize.py"),
            site.join("package"),
            package.clone(),
            package.join("module.py"),
        ];
        all.iter().for_each(|path| fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap());
        fs::set_permissions(&base, Permissions::from_mode(0o755)).unwrap();
        let left_out = || without_foreign(OsStr::new(USER_BASE), base.as_os_str());
        assert_eq!(left_out(), None);
        for path in &all {
            fs::set_permissions(path, Permissions::from_mode(0o757)).unwrap();
            let (kept, why) = left_out().unwrap();
            let shown = path.display().to_string();
            assert!(kept.is_empty() && why.len() == 1 && why[0].contains(&shown), "{shown}: {why:?}");
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        // A link to a module that all users can create.
        fs::set_permissions(&package, Permissions::from_mode(0o755)).unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
        std::os::unix::fs::symlink(&open, site.join("link")).unwrap();
        assert!(foreign_packages(&base).unwrap().contains("other users can create files in"));
        assert!(foreign_below(&package, &mut 0).unwrap().contains("has more than"));
    }

    #[test]
    fn variables_that_name_files_of_others_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let (open, own) = (dir.path().join("open"), dir.path().join("own"));
        for (folder, mode) in [(&open, 0o1777), (&own, 0o755)] {
            fs::create_dir(folder).unwrap();
            fs::set_permissions(folder, Permissions::from_mode(mode)).unwrap();
            fs::write(folder.join("file"), "").unwrap();
            fs::set_permissions(folder.join("file"), Permissions::from_mode(0o644)).unwrap();
        }
        fs::write(own.join("of-all"), "").unwrap();
        fs::set_permissions(own.join("of-all"), Permissions::from_mode(0o666)).unwrap();
        let is_kept = |name: &str, value: String| without_foreign(OsStr::new(name), OsStr::new(&value)).is_none();
        let (open, own) = (open.display(), own.display());
        for name in [
            "CUFILE_ENV_PATH_JSON",
            "CUFILE_LOGFILE_PATH",
            "CUDA_CACHE_PATH",
            "UCX_LOG_FILE",
            "LOCPATH",
            "OPENSSL_CONF",
        ] {
            assert!(is_kept(name, format!("{own}/file")) && is_kept(name, format!("{own}/later")), "{name}");
            // In a directory like /tmp, the file can be a hard link to a file of root. Root only reads the settings.
            assert_eq!(is_kept(name, format!("{open}/file")), name == "CUFILE_ENV_PATH_JSON", "{name}");
            // Another user can create a missing file in a directory like /tmp.
            assert!(!is_kept(name, format!("{open}/later")) && !is_kept(name, format!("{own}/of-all")), "{name}");
        }
        assert!(!is_kept("UCX_LOG_FILE", format!("file:{open}/later")));
        assert!(!is_kept("NIXL_PLUGIN_DIR", format!("{own};{open}/later")));
        assert!(
            is_kept("CUFILE_LOGGING_LEVEL", "DEBUG".to_owned()) && is_kept("CUDA_VISIBLE_DEVICES", "0,1".to_owned())
        );
        assert!(is_kept("MODEL", format!("{open}/later")), "a variable of a watched program");
    }

    #[test]
    fn the_path_of_root_has_only_absolute_folders_that_no_other_user_can_change() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        let path = path_of_root(OsStr::new(&format!("{}:.::bin:/usr/bin:{}/later", open.display(), open.display())));
        assert_eq!(path, "/usr/bin:/usr/sbin:/sbin:/bin");
    }
}
