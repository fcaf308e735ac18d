//! The installer of a libcufile, and the command that updates it.

use super::root::Root;
use super::summary::container;
use crate::text::quoted;

/// The installer of a libcufile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryOwner {
    /// A package of the system or NVIDIA's installer.
    System,
    /// A Python package, with the interpreter of its environment. Frameworks load this copy by an RPATH, which
    /// LD_LIBRARY_PATH does not override (pytorch, .ci/manywheel/build_common.sh).
    Wheel(String),
    /// A conda environment, by its directory.
    Conda(String),
}

/// The installer of the libcufile at `path`.
#[must_use]
pub fn library_owner(root: &Root, path: &str) -> LibraryOwner {
    let packages = ["/site-packages/nvidia/", "/dist-packages/nvidia/"].into_iter().find_map(|part| path.find(part));
    if let Some(packages) = packages {
        let (prefix, version) = path[..packages].rsplit_once("/lib/").unwrap_or(("", "python3"));
        let version = version.split('/').next().unwrap_or("python3");
        // These directories belong to the interpreter of the system.
        let is_of_system = matches!(prefix, "" | "/usr" | "/usr/local") || prefix.ends_with("/.local");
        return LibraryOwner::Wheel(if is_of_system { version.to_owned() } else { format!("{prefix}/bin/python3") });
    }
    let prefix = ["/targets/", "/lib/"].into_iter().find_map(|part| path.split_once(part)).map(|(prefix, _)| prefix);
    let is_conda = |prefix: &&str| prefix.contains("conda") || root.exists(format!("{prefix}/conda-meta"));
    prefix.filter(is_conda).map_or(LibraryOwner::System, |prefix| LibraryOwner::Conda(prefix.to_owned()))
}

/// The Python package that contains libcufile for a major CUDA version.
#[must_use]
pub const fn cufile_wheel(major: u32) -> Option<&'static str> {
    match major {
        13.. => Some("nvidia-cufile"),
        12 => Some("nvidia-cufile-cu12"),
        _ => None,
    }
}

/// A command of pip, without its packages, in the environment of a libcufile: `install --upgrade`. `None` if the library is
/// not in a Python package. Only root writes the directories of the system, and pip refuses them if a file marks them (PEP 668).
#[must_use]
pub fn library_pip(root: &Root, path: &str, verb: &str) -> Option<String> {
    let LibraryOwner::Wheel(python) = library_owner(root, path) else { return None };
    let is_of_system = !python.contains('/');
    let needs_root = is_of_system && !path.contains("/.local/") && container(root).is_none();
    let is_marked = is_of_system && root.exists(format!("/usr/lib/{python}/EXTERNALLY-MANAGED"));
    Some(format!(
        "{}{} -m pip {verb}{}",
        if needs_root { "sudo " } else { "" },
        quoted(&python),
        if is_marked { " --break-system-packages" } else { "" }
    ))
}

/// The command that updates a library of a Python or conda environment to a release of CUDA `major` with P2PDMA, or to
/// any release of it. `None` for other libraries.
#[must_use]
pub fn library_update(root: &Root, path: &str, major: u32) -> Option<String> {
    // 1.15 is the first release of CUDA 13.
    let range = if major >= 13 { ">=1.15" } else { ">=1.13,<1.15" };
    match library_owner(root, path) {
        LibraryOwner::System => None,
        LibraryOwner::Wheel(_) => {
            let wheel = cufile_wheel(major)?;
            Some(format!("{} '{wheel}{range}'", library_pip(root, path, "install --upgrade")?))
        }
        LibraryOwner::Conda(prefix) => {
            Some(format!("conda install -p {} -c conda-forge 'libcufile{range}'", quoted(&prefix)))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_library_is_updated_by_what_installed_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("srv/env/conda-meta")).unwrap();
        std::fs::create_dir_all(folder.path().join("usr/lib/python3.12/EXTERNALLY-MANAGED")).unwrap();
        let root = Root::tree(folder.path()).unwrap();
        for (path, major, wanted) in [
            (
                "/usr/local/lib/python3.10/dist-packages/nvidia/cufile/lib/libcufile.so.0",
                12,
                Some("sudo python3.10 -m pip install --upgrade 'nvidia-cufile-cu12>=1.13,<1.15'"),
            ),
            (
                "/usr/local/lib/python3.12/dist-packages/nvidia/cufile/lib/libcufile.so.0",
                12,
                Some(
                    "sudo python3.12 -m pip install --upgrade --break-system-packages 'nvidia-cufile-cu12>=1.13,<1.15'",
                ),
            ),
            (
                "/opt/venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcufile.so.0",
                13,
                Some("/opt/venv/bin/python3 -m pip install --upgrade 'nvidia-cufile>=1.15'"),
            ),
            (
                "/home/me/.local/lib/python3.11/site-packages/nvidia/cufile/lib/libcufile.so.0",
                12,
                Some("python3.11 -m pip install --upgrade 'nvidia-cufile-cu12>=1.13,<1.15'"),
            ),
            (
                "/opt/conda/envs/rapids/lib/libcufile.so.0",
                12,
                Some("conda install -p /opt/conda/envs/rapids -c conda-forge 'libcufile>=1.13,<1.15'"),
            ),
            (
                "/srv/env/targets/x86_64-linux/lib/libcufile.so.0",
                13,
                Some("conda install -p /srv/env -c conda-forge 'libcufile>=1.15'"),
            ),
            ("/usr/local/cuda-12.8/targets/x86_64-linux/lib/libcufile.so.0", 12, None),
            ("/usr/lib/x86_64-linux-gnu/libcufile.so.0", 12, None),
        ] {
            assert_eq!(library_update(&root, path, major).as_deref(), wanted, "{path}");
        }
    }
}
