//! Finds libcufile without loading it, for callers that only need its file and version.

use crate::search::{Search, Tried, cached};
use crate::version::Version;
use std::path::{Path, PathBuf};

/// The directories that the loader searches last.
const LAST: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// The result of a search that loads nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// The library that the loader would load, and its version.
    Found {
        /// The real file, links resolved.
        path: PathBuf,
        /// The version of its file name or its package.
        version: Version,
    },
    /// No file is there; all names of the search.
    Nowhere(Vec<Tried>),
    /// A file is there, but only the library itself reports its version.
    Unknown,
}

/// The libcufile that [`crate::Library::find`] would load.
#[must_use]
pub fn locate() -> Located {
    let named = std::env::var_os("LD_LIBRARY_PATH").filter(|value| !value.is_empty());
    let named: Vec<PathBuf> = named.map(|value| std::env::split_paths(&value).collect()).unwrap_or_default();
    let cached = cached();
    located(&Search::with_cached(cached.clone()), &named, &cached, &LAST.map(PathBuf::from))
}

/// `named`: the directories of LD_LIBRARY_PATH; `cached`: the files of the loader's cache; `last`: the loader's directories.
fn located(search: &Search, named: &[PathBuf], cached: &[PathBuf], last: &[PathBuf]) -> Located {
    let mut tried = Vec::new();
    for candidate in search.candidates() {
        let name = candidate.to_string_lossy().into_owned();
        let found = if name.contains('/') {
            let file = PathBuf::from(&candidate);
            if let Some(why) = search.refused(&file) {
                tried.push(Tried { name, error: Some(why) });
                continue;
            }
            Some(file).filter(|file| file.is_file())
        } else {
            // The order of the loader: its variable, its cache, its directories.
            let inside =
                |folders: &[PathBuf]| folders.iter().map(|folder| folder.join(&name)).find(|file| file.is_file());
            let in_cache = || cached.iter().find(|file| file.file_name() == Some(candidate.as_os_str())).cloned();
            inside(named).or_else(in_cache).or_else(|| inside(last))
        };
        match found {
            Some(file) => return known(&file).unwrap_or(Located::Unknown),
            None => tried.push(Tried { name, error: Some("no such file in the loader's directories".to_owned()) }),
        }
    }
    Located::Nowhere(tried)
}

/// The version of a libcufile according to the name of its file or the package that contains it. `None` if only the
/// library itself reports it.
#[must_use]
pub fn version_of_file(file: &Path) -> Option<Version> {
    match known(file)? {
        Located::Found { version, .. } => Some(version),
        Located::Nowhere(_) | Located::Unknown => None,
    }
}

/// The real file and its version: that of its name (`libcufile.so.1.16.1`), or of the wheel that contains it
/// (`nvidia_cufile-1.16.1.26.dist-info` next to the directory `nvidia`).
fn known(file: &Path) -> Option<Located> {
    let path = file.canonicalize().ok()?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    let of_name = name.strip_prefix("libcufile.so.").and_then(version);
    let version = of_name.or_else(|| {
        let site = path.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "nvidia"))?.parent()?;
        let wheels = std::fs::read_dir(site).ok()?.flatten().filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let (package, rest) = name.strip_suffix(".dist-info")?.split_once('-')?;
            matches!(package, "nvidia_cufile" | "nvidia_cufile_cu12" | "nvidia_cufile_cu13").then(|| version(rest))?
        });
        let mut versions: Vec<Version> = wheels.collect();
        // Wheels for two releases of CUDA can be in one directory; then only the library reports its version.
        versions.dedup();
        if let [one] = versions.as_slice() { Some(*one) } else { None }
    })?;
    Some(Located::Found { path, version })
}

/// Major and minor number, as the library reports them: `1.16` of `1.16.1.26`.
fn version(text: &str) -> Option<Version> {
    let mut parts = text.split('.').map(|part| part.parse::<i32>().ok());
    let (major, minor) = (parts.next()??, parts.next()??);
    // The soname libcufile.so.0 alone has no version.
    (major > 0 && (0..100).contains(&minor)).then(|| Version::new(major, minor))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn file(path: &Path) -> PathBuf {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
        path.canonicalize().unwrap()
    }

    fn plain() -> Search {
        Search { names: vec!["libcufile.so.0".to_owned(), "libcufile.so".to_owned()], ..Search::default() }
    }

    #[test]
    fn the_version_is_that_of_the_file_name_or_of_the_wheel() {
        let dir = tempfile::tempdir().unwrap();
        let real = file(&dir.path().join("lib/libcufile.so.1.16.1"));
        let link = dir.path().join("lib/libcufile.so.0");
        std::os::unix::fs::symlink("libcufile.so.1.16.1", &link).unwrap();
        assert_eq!(known(&link), Some(Located::Found { path: real, version: Version::new(1, 16) }));

        let wheel = file(&dir.path().join("site-packages/nvidia/cu13/lib/libcufile.so.0"));
        assert_eq!(known(&wheel), None);
        std::fs::create_dir(dir.path().join("site-packages/nvidia_cufile-1.20.0.107.dist-info")).unwrap();
        assert_eq!(known(&wheel), Some(Located::Found { path: wheel.clone(), version: Version::new(1, 20) }));
        std::fs::create_dir(dir.path().join("site-packages/nvidia_cufile_cu12-1.14.1.1.dist-info")).unwrap();
        assert_eq!(known(&wheel), None, "two wheels");
    }

    #[test]
    fn the_order_is_that_of_the_loader() {
        let dir = tempfile::tempdir().unwrap();
        let place = |folder: &str, minor: u32| file(&dir.path().join(folder).join(format!("libcufile.so.1.{minor}.0")));
        let link = |folder: &str, minor: u32| {
            let link = dir.path().join(folder).join("libcufile.so.0");
            std::os::unix::fs::symlink(format!("libcufile.so.1.{minor}.0"), &link).unwrap();
            link
        };
        let folders = ["named", "cached", "last"].map(|folder| dir.path().join(folder));
        let found = |path: PathBuf, minor: i32| Located::Found { path, version: Version::new(1, minor) };
        let ask = |named: bool, cached: &[PathBuf]| {
            let named: &[PathBuf] = if named { &folders[..1] } else { &[] };
            located(&plain(), named, cached, &folders[2..])
        };
        assert!(matches!(ask(true, &[]), Located::Nowhere(tried) if tried.len() == 2));
        let last = place("last", 14);
        link("last", 14);
        assert_eq!(ask(true, &[]), found(last, 14));
        let cached = place("cached", 15);
        let in_cache = [link("cached", 15)];
        assert_eq!(ask(true, &in_cache), found(cached, 15));
        let named = place("named", 16);
        link("named", 16);
        assert_eq!(ask(true, &in_cache), found(named, 16));
    }

    #[test]
    fn a_named_file_that_does_not_exist_is_nowhere() {
        let search = Search::only("/no/such/libcufile.so.0");
        assert!(matches!(located(&search, &[], &[], &[]), Located::Nowhere(_)));
    }
}
