//! The search for libcufile: the names for the loader, in order.
//!
//! A runtime or wheel installation has only `libcufile.so.0`. The development package contains `libcufile.so`. Wheels
//! install the file in directories that the loader does not search: `nvidia/cu13/lib` (CUDA 13) or
//! `nvidia/cufile/lib` (CUDA 12) in site-packages. Variables such as HOME can point to directories of another user
//! (sudo can keep them), so a file that is found there is examined before it is loaded.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable with the path of the libcufile to use. If it is set, no other file is tried.
pub const ENV_LIBCUFILE: &str = "GDS_TOP_LIBCUFILE";

/// The name that every installation has.
pub const SONAME: &str = "libcufile.so.0";

/// A name that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The name for the loader: a plain name or a path.
    pub name: String,
    /// The error of the loader, or the reason why the loader was not called. `None` if the library was loaded.
    pub error: Option<String>,
}

/// The names and files that the search tries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The only file to try, if it is set.
    pub explicit: Option<PathBuf>,
    /// Plain names for the loader, which applies its own rules (LD_LIBRARY_PATH, ld.so.cache, …).
    pub names: Vec<String>,
    /// Files to try after the names, in order.
    pub files: Vec<PathBuf>,
}

impl Search {
    /// Tries only this file.
    pub fn only(path: impl Into<PathBuf>) -> Self {
        Self { explicit: Some(path.into()), ..Self::default() }
    }

    /// The candidates for this machine. If [`ENV_LIBCUFILE`] is set, it is the only one. Otherwise: the names for the
    /// loader, the loader's cache, CUDA directories, Python environments and conda. Only existing files are listed.
    pub fn system() -> Self {
        Self::from_environment(&|name| std::env::var_os(name).filter(|v| !v.is_empty()), Path::new("/"))
    }

    /// [`Search::system`] with a given environment. Built-in absolute paths are relative to `root`.
    pub fn from_environment(env: &dyn Fn(&str) -> Option<OsString>, root: &Path) -> Self {
        Self::with_cache(env, root, if root == Path::new("/") { cached() } else { Vec::new() })
    }

    /// [`Search::system`] with files of the loader's cache that the caller has read.
    pub(crate) fn with_cached(in_cache: Vec<PathBuf>) -> Self {
        Self::with_cache(&|name| std::env::var_os(name).filter(|v| !v.is_empty()), Path::new("/"), in_cache)
    }

    fn with_cache(env: &dyn Fn(&str) -> Option<OsString>, root: &Path, in_cache: Vec<PathBuf>) -> Self {
        if let Some(path) = env(ENV_LIBCUFILE) {
            return Self::only(path);
        }
        let mut folders = Vec::new();
        for name in ["CUDA_HOME", "CUDA_PATH"] {
            if let Some(home) = env(name) {
                cuda_folders(Path::new(&home), &mut folders);
            }
        }
        for home in children(&root.join("usr/local"), "cuda") {
            cuda_folders(&home, &mut folders);
        }
        for folder in python_folders(env, root) {
            wheel_folders(&folder, &mut folders);
        }
        if let Some(prefix) = env("CONDA_PREFIX") {
            folders.push(Path::new(&prefix).join("lib"));
            folders.extend(TARGETS.iter().map(|target| Path::new(&prefix).join("targets").join(target).join("lib")));
        }
        for package in children(&root.join("opt"), "") {
            folders.push(package.join("lib"));
            folders.push(package.join("lib64"));
            for python in children(&package.join("lib"), "python3") {
                wheel_folders(&python.join("site-packages"), &mut folders);
            }
        }
        let mut files = in_cache;
        for folder in folders {
            files.extend([SONAME, "libcufile.so"].map(|name| folder.join(name)).into_iter().filter(|f| f.is_file()));
        }
        // If a file has two names, it is tried once, under the first name.
        let mut seen = Vec::new();
        files.retain(|f| {
            let real = f.canonicalize().unwrap_or_else(|_| f.clone());
            let new = !seen.contains(&real);
            if new {
                seen.push(real);
            }
            new
        });
        Self { explicit: None, names: vec![SONAME.to_owned(), "libcufile.so".to_owned()], files }
    }

    /// Why a candidate is not loaded: the search found it, and another user could have written it. A file that the
    /// user named and names that the loader resolves are not examined.
    pub(crate) fn refused(&self, candidate: &Path) -> Option<String> {
        if self.explicit.is_some() || !self.files.iter().any(|file| file == candidate) {
            return None;
        }
        let why = crate::distrust(candidate)?;
        Some(format!("not loaded, because {why}; if you trust that file, name it with {ENV_LIBCUFILE}"))
    }

    /// The names to load in order.
    pub fn candidates(&self) -> Vec<OsString> {
        match &self.explicit {
            Some(path) => vec![path.clone().into_os_string()],
            None => self
                .names
                .iter()
                .map(OsString::from)
                .chain(self.files.iter().map(|f| f.clone().into_os_string()))
                .collect(),
        }
    }
}

/// The entries of `folder` whose names start with `prefix`, in reverse order, so that the newest CUDA and Python
/// versions are first. It is empty if the directory cannot be listed.
pub fn children(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> =
        entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(prefix)).map(|e| e.path()).collect();
    found.sort_by(|a, b| b.cmp(a));
    found
}

/// The names of the platforms in CUDA: x86-64, and Arm servers.
const TARGETS: [&str; 2] = ["x86_64-linux", "sbsa-linux"];

fn cuda_folders(home: &Path, folders: &mut Vec<PathBuf>) {
    folders.extend(TARGETS.iter().map(|target| home.join("targets").join(target).join("lib")));
    folders.push(home.join("lib64"));
}

fn wheel_folders(site: &Path, folders: &mut Vec<PathBuf>) {
    let nvidia = site.join("nvidia");
    folders.extend(children(&nvidia, "cu").into_iter().map(|package| package.join("lib")));
}

/// The directories with Python packages: those of PYTHONPATH, of the virtual environment, of `python3` in PATH, of
/// the user, of the system, and of pyenv. Built-in paths are relative to `root`.
pub fn python_folders(env: &dyn Fn(&str) -> Option<OsString>, root: &Path) -> Vec<PathBuf> {
    let mut prefixes = Vec::new();
    prefixes.extend(env("VIRTUAL_ENV").map(PathBuf::from));
    if let Some(path) = env("PATH") {
        for folder in std::env::split_paths(&path) {
            let python = folder.join("python3");
            if !python.is_file() {
                continue;
            }
            // The python3 of a virtual environment is a link to another directory. The prefix of the link is used
            // first, then that of its target.
            prefixes.extend(folder.parent().map(Path::to_path_buf));
            if let Ok(real) = python.canonicalize() {
                prefixes.extend(real.parent().and_then(Path::parent).map(Path::to_path_buf));
            }
        }
    }
    if let Some(home) = env("HOME") {
        prefixes.push(Path::new(&home).join(".local"));
        prefixes.extend(children(&Path::new(&home).join(".pyenv/versions"), ""));
    }
    prefixes.push(root.join("usr/local"));
    prefixes.push(root.join("usr"));
    let mut folders: Vec<PathBuf> = env("PYTHONPATH").iter().flat_map(std::env::split_paths).collect();
    folders.retain(|folder| folder.is_absolute());
    // Several prefixes share a directory: /usr/local/lib is that of /usr/local and the local one of /usr.
    let mut listed: Vec<PathBuf> = Vec::new();
    for lib in prefixes.iter().flat_map(|prefix| ["lib", "lib64", "local/lib"].map(|lib| prefix.join(lib))) {
        if listed.contains(&lib) {
            continue;
        }
        for python in children(&lib, "python3") {
            folders.push(python.join("site-packages"));
            folders.push(python.join("dist-packages"));
        }
        listed.push(lib);
    }
    folders
}

/// The entries of the loader's cache for libcufile, including older copies. The cache file is read directly, because
/// `ldconfig -p` takes several milliseconds.
pub(crate) fn cached() -> Vec<PathBuf> {
    if let Some(entries) = std::fs::read("/etc/ld.so.cache").ok().and_then(|bytes| cached_libraries(&bytes)) {
        let named = entries.into_iter().filter(|(name, _)| name.starts_with("libcufile.so"));
        return named.map(|(_, path)| PathBuf::from(path)).filter(|path| path.is_file()).collect();
    }
    for program in ["/sbin/ldconfig", "/usr/sbin/ldconfig"] {
        let Ok(out) = Command::new(program).arg("-p").stdin(std::process::Stdio::null()).output() else {
            continue;
        };
        return parse_ldconfig(&String::from_utf8_lossy(&out.stdout));
    }
    Vec::new()
}

/// Names and paths of the libraries in the loader's cache (`dl-cache.h` of glibc): after the magic text the number of entries, then entries of 24 bytes
/// with the offsets of name and path. An older table may come first. `None` for another format.
#[must_use]
pub fn cached_libraries(bytes: &[u8]) -> Option<Vec<(String, String)>> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER: usize = 48;
    const ENTRY: usize = 24;
    let start = bytes.windows(MAGIC.len()).position(|window| window == MAGIC)?;
    let cache = bytes.get(start..)?;
    let number = |at: usize| -> Option<usize> {
        let bytes: [u8; 4] = cache.get(at..at.checked_add(4)?)?.try_into().ok()?;
        usize::try_from(u32::from_ne_bytes(bytes)).ok()
    };
    let text = |at: usize| -> Option<String> {
        let rest = cache.get(at..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        String::from_utf8(rest[..end].to_vec()).ok()
    };
    let count = number(MAGIC.len())?.min(cache.len() / ENTRY);
    let entry = |at: usize| Some((text(number(at + 4)?)?, text(number(at + 8)?)?));
    (0..count).map(|index| entry(HEADER + index * ENTRY)).collect()
}

/// The paths of libcufile in the output of `ldconfig -p`. Its lines have the form `name (libc6,x86-64) => /path`.
fn parse_ldconfig(text: &str) -> Vec<PathBuf> {
    text.lines()
        .filter_map(|line| line.trim().split_once(" => "))
        .filter(|(name, _)| name.starts_with("libcufile.so"))
        .map(|(_, path)| PathBuf::from(path))
        .filter(|path| path.is_file())
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn place(root: &Path, folder: &str) -> PathBuf {
        let folder = root.join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(SONAME);
        std::fs::write(&file, b"").unwrap();
        file
    }

    #[test]
    fn python_directories_are_listed_once() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("usr/local/lib/python3.11")).unwrap();
        let packages = root.path().join("usr/local/lib/python3.11");
        assert_eq!(
            python_folders(&|_| None, root.path()),
            [packages.join("site-packages"), packages.join("dist-packages")]
        );
    }

    #[test]
    fn entries_of_the_loaders_cache_are_read_and_damage_is_no_crash() {
        let strings = b"libcufile.so.0\0/usr/lib/libcufile.so.0\0";
        let offset = 48 + 24;
        let mut cache = b"ld.so-1.7.0\0\0\0\0\0glibc-ld.so.cache1.1".to_vec();
        cache.extend(1_u32.to_ne_bytes());
        cache.extend(vec![0; 48 - 24]);
        cache.extend(3_u32.to_ne_bytes());
        cache.extend(u32::try_from(offset).unwrap().to_ne_bytes());
        cache.extend(u32::try_from(offset + 15).unwrap().to_ne_bytes());
        cache.extend(vec![0; 12]);
        cache.extend(strings);
        let found = cached_libraries(&cache).unwrap();
        assert_eq!(found, [("libcufile.so.0".to_owned(), "/usr/lib/libcufile.so.0".to_owned())]);
        for length in 0..cache.len() {
            let _ = cached_libraries(&cache[..length]);
        }
        assert_eq!(cached_libraries(b"something else"), None);
    }

    #[test]
    fn the_variable_excludes_every_other_place() {
        let env = |name: &str| (name == ENV_LIBCUFILE).then(|| OsString::from("/x/libcufile.so.0"));
        let search = Search::from_environment(&env, Path::new("/nonexistent"));
        assert_eq!(search.candidates(), ["/x/libcufile.so.0"]);
    }

    #[test]
    fn toolkits_wheels_conda_and_opt_are_searched_after_the_loaders_names() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let venv_new = place(root, "venv/lib/python3.12/site-packages/nvidia/cu13/lib");
        let venv_old = place(root, "venv/lib/python3.12/site-packages/nvidia/cufile/lib");
        let cuda = place(root, "usr/local/cuda-13.0/targets/x86_64-linux/lib");
        let home = place(root, "cuda-home/lib64");
        let user = place(root, "me/.local/lib/python3.11/site-packages/nvidia/cufile/lib");
        let system = place(root, "usr/lib/python3/dist-packages/nvidia/cu13/lib");
        let conda = place(root, "conda/lib");
        let opt = place(root, "opt/tool/lib");
        let env = |name: &str| match name {
            "VIRTUAL_ENV" => Some(root.join("venv").into_os_string()),
            "CUDA_HOME" => Some(root.join("cuda-home").into_os_string()),
            "HOME" => Some(root.join("me").into_os_string()),
            "CONDA_PREFIX" => Some(root.join("conda").into_os_string()),
            _ => None,
        };
        let search = Search::from_environment(&env, root);
        assert_eq!(search.names, ["libcufile.so.0", "libcufile.so"]);
        assert_eq!(search.files, [home, cuda, venv_old, venv_new, user, system, conda, opt]);
    }

    #[test]
    fn python_on_the_path_leads_to_its_packages_and_a_link_to_the_real_ones() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let real = place(root, "py/lib/python3.12/site-packages/nvidia/cu13/lib");
        let own = place(root, "env/lib/python3.12/site-packages/nvidia/cu13/lib");
        std::fs::create_dir_all(root.join("py/bin")).unwrap();
        std::fs::create_dir_all(root.join("env/bin")).unwrap();
        std::fs::write(root.join("py/bin/python3"), b"").unwrap();
        std::os::unix::fs::symlink(root.join("py/bin/python3"), root.join("env/bin/python3")).unwrap();
        let env = |name: &str| (name == "PATH").then(|| root.join("env/bin").into_os_string());
        assert_eq!(Search::from_environment(&env, root).files, [own, real]);
    }

    #[test]
    fn ldconfig_lines_give_existing_files_of_libcufile_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = place(dir.path(), "lib");
        let text = format!(
            "12 libs found in cache\n\tlibcufile_rdma.so.1 (libc6,x86-64) => {0}\n\tlibcufile.so.0 (libc6,x86-64) => {0}\n\tlibcufile.so (libc6) => /gone\n",
            file.display()
        );
        assert_eq!(parse_ldconfig(&text), [file]);
    }
}
