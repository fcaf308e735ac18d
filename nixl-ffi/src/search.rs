//! The search for libnixl_capi.
//!
//! The wheel `nixl` only depends on `nixl_cu13` or `nixl_cu12`. Their libraries are in `.nixl_cu13.mesonpy.libs` next
//! to the package and have run paths to the other directories of the wheel, so loading one file by its path is
//! enough. A build from source is installed in `/usr/local/nixl` or `/opt/nvidia/nvda_nixl`.

use cufile_ffi::children;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The environment variable with the file or directory of the NIXL to use. If it is set, no other file is tried.
pub const ENV_NIXL: &str = "GDS_TOP_NIXL";
/// The name of the file.
pub const FILE: &str = "libnixl_capi.so";

/// The candidates in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The paths and names to load.
    pub candidates: Vec<PathBuf>,
    /// Whether the user named the candidates. Otherwise they are loaded only if no other user could have written
    /// them.
    pub named: bool,
    /// Directories that may contain the CUDA and cuFile libraries that the plugins need, if the loader does not find
    /// them.
    pub beside: Vec<PathBuf>,
}

impl Search {
    /// The candidates for this machine.
    #[must_use]
    pub fn system() -> Self {
        Self::from_environment(&|name| std::env::var_os(name).filter(|v| !v.is_empty()), Path::new("/"))
    }

    /// [`Search::system`] with a given environment. Built-in absolute paths are relative to `root`.
    pub fn from_environment(env: &dyn Fn(&str) -> Option<OsString>, root: &Path) -> Self {
        let sites = cufile_ffi::python_folders(env, root);
        let mut beside = Vec::new();
        for site in &sites {
            beside.extend(children(&site.join("nvidia"), "cu").into_iter().map(|package| package.join("lib")));
        }
        for cuda in children(&root.join("usr/local"), "cuda") {
            beside.push(cuda.join("lib64"));
            beside.push(cuda.join("targets/x86_64-linux/lib"));
        }
        beside.retain(|folder| folder.is_dir());
        if let Some(named) = env(ENV_NIXL) {
            let named = PathBuf::from(named);
            let mut candidates = if named.is_dir() { inside(&named) } else { vec![named.clone()] };
            if candidates.is_empty() {
                // If the name is wrong, the error of the loader describes the problem.
                candidates.push(named.join(FILE));
            }
            return Self { candidates, named: true, beside };
        }
        let mut candidates = vec![PathBuf::from(FILE)];
        let system = ["usr/local/nixl", "usr/local", "opt/nvidia/nvda_nixl", "opt/nixl", "usr"].map(|p| root.join(p));
        for folder in sites.iter().chain(&system) {
            for file in inside(folder) {
                if !candidates.contains(&file) {
                    candidates.push(file);
                }
            }
        }
        Self { candidates, named: false, beside }
    }

    /// Why a file is not loaded: the search found it, and another user could have written it. The loader resolves
    /// plain names, so they are not examined.
    pub(crate) fn refused(&self, file: &Path) -> Option<String> {
        if self.named || file == Path::new(FILE) {
            return None;
        }
        let why = cufile_ffi::distrust(file)?;
        Some(format!("not loaded, because {why}; if you trust that file, name it with {ENV_NIXL}"))
    }
}

/// The libraries in a directory of packages, of an unpacked wheel, or of an installation. Those for newer CUDA
/// versions are first.
fn inside(folder: &Path) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    folders.extend(children(folder, ".nixl"));
    for lib in ["lib", "lib64"] {
        folders.push(folder.join(lib));
        folders.extend(["x86_64-linux-gnu", "aarch64-linux-gnu"].map(|triple| folder.join(lib).join(triple)));
    }
    folders.into_iter().map(|folder| folder.join(FILE)).filter(|file| file.is_file()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn place(root: &Path, folder: &str) -> PathBuf {
        let folder = root.join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(FILE);
        std::fs::write(&file, b"").unwrap();
        file
    }

    #[test]
    fn the_variable_excludes_every_other_place_and_may_name_a_file_or_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        place(root, "usr/local/nixl/lib64");
        let wheel = place(root, "site/.nixl_cu13.mesonpy.libs");
        for (named, found) in [
            (wheel.clone(), wheel.clone()),
            (root.join("site"), wheel.clone()),
            (root.join("site/.nixl_cu13.mesonpy.libs"), wheel.clone()),
            (root.join("usr"), root.join("usr").join(FILE)),
        ] {
            let env = |name: &str| (name == ENV_NIXL).then(|| named.clone().into_os_string());
            assert_eq!(Search::from_environment(&env, root).candidates, [found], "{}", named.display());
        }
    }

    #[test]
    fn wheels_on_the_python_path_come_before_the_system_and_newer_cuda_before_older() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let old = place(root, "site/.nixl_cu12.mesonpy.libs");
        let new = place(root, "site/.nixl_cu13.mesonpy.libs");
        let system = place(root, "opt/nvidia/nvda_nixl/lib64");
        std::fs::create_dir_all(root.join("site/nvidia/cu13/lib")).unwrap();
        let env = |name: &str| (name == "PYTHONPATH").then(|| root.join("site").into_os_string());
        let search = Search::from_environment(&env, root);
        assert_eq!(search.candidates, [PathBuf::from(FILE), new, old, system]);
        assert_eq!(search.beside, [root.join("site/nvidia/cu13/lib")]);
    }
}
