//! The loaded library: its functions, and its version, which is taken from the wheel that contains it.

use crate::error::Error;
use crate::raw::Functions;
use crate::search::Search;
use cufile_ffi::Tried;
use libloading::os::unix::{Library as RawLibrary, RTLD_LOCAL, RTLD_NOW};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The CUDA run-time libraries that plugins of the known wheels are linked to, the newest first.
const CUDA_RUNTIMES: [&str; 2] = ["libcudart.so.13", "libcudart.so.12"];

/// A loaded libnixl_capi. Cheap to clone. It stays loaded until the process ends.
#[derive(Clone, Debug)]
pub struct Library {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    functions: Functions,
    path: PathBuf,
    beside: Vec<PathBuf>,
}

impl Library {
    /// Loads the NIXL of this machine; see [`Search::system`].
    ///
    /// # Errors
    /// [`Error::NotFound`] with every name tried.
    pub fn find() -> Result<Self, Error> {
        Self::open(&Search::system())
    }

    /// Loads the first candidate of `search` that is a libnixl_capi and no stub.
    ///
    /// # Errors
    /// [`Error::NotFound`] with every name tried and the loader's words.
    pub fn open(search: &Search) -> Result<Self, Error> {
        let mut tried = Vec::new();
        for candidate in &search.candidates {
            let name = candidate.to_string_lossy().into_owned();
            // Before loading, because that runs the file's code.
            if let Some(why) = search.refused(candidate) {
                tried.push(Tried { name, error: Some(why) });
                continue;
            }
            match load(candidate.as_os_str()) {
                Ok(functions) => {
                    let inner = Inner { functions, path: candidate.clone(), beside: search.beside.clone() };
                    return Ok(Self { inner: Arc::new(inner) });
                }
                Err(error) => tried.push(Tried { name, error: Some(error) }),
            }
        }
        Err(Error::NotFound { tried })
    }

    /// The functions.
    pub(crate) fn functions(&self) -> &Functions {
        &self.inner.functions
    }

    /// The name or path under which it was loaded.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The version of the wheel that contains the library, read from the name of the wheel's metadata folder
    /// (`nixl_cu13-1.5.0.dist-info`). NIXL itself does not report a version. `None` if the library is not in a wheel.
    #[must_use]
    pub fn version(&self) -> Option<String> {
        let libraries = self.inner.path.parent()?;
        let package = libraries.file_name()?.to_str()?.strip_prefix('.')?.strip_suffix(".mesonpy.libs")?;
        let prefix = format!("{package}-");
        std::fs::read_dir(libraries.parent()?).ok()?.flatten().find_map(|entry| {
            let name = entry.file_name();
            Some(name.to_str()?.strip_prefix(&prefix)?.strip_suffix(".dist-info")?.to_owned())
        })
    }

    /// Loads the CUDA run-time library that the GDS plugins are linked to, from the wheels' folders, which the loader
    /// does not search. In a Python process PyTorch has already loaded it. Plugins that are loaded later use it,
    /// because they ask for it by the same name. Returns one sentence if it could not be loaded.
    #[must_use]
    pub fn load_cuda_runtime(&self) -> Option<String> {
        let mut order = CUDA_RUNTIMES;
        if self.inner.path.to_string_lossy().contains("cu12") {
            order.reverse();
        }
        // The one that the wheel is for; the other serves only builds that do not name one.
        let named = self.inner.path.to_string_lossy().contains("cu1");
        let wanted = if named { &order[..1] } else { &order[..] };
        let mut said = Vec::new();
        for soname in wanted {
            let files = self.inner.beside.iter().map(|folder| folder.join(soname)).filter(|file| file.is_file());
            for name in std::iter::once(PathBuf::from(soname)).chain(files) {
                let plain = name.as_os_str() == OsStr::new(soname);
                if let Some(why) = (!plain).then(|| cufile_ffi::distrust(&name)).flatten() {
                    said.push(format!("{} is not loaded, because {why}", name.display()));
                    continue;
                }
                // SAFETY: NVIDIA's CUDA run-time library, by its name; its constructors touch nothing of ours.
                match unsafe { RawLibrary::open(Some(&name), RTLD_NOW | RTLD_LOCAL) } {
                    Ok(library) => {
                        let _ = library.into_raw();
                        return None;
                    }
                    Err(error) => said.push(words(&error)),
                }
            }
        }
        Some(format!(
            "NIXL's GDS plugins need {}, which was not found ({}); install it with 'pip install nvidia-cuda-runtime', or add its folder to LD_LIBRARY_PATH",
            wanted.join(" or "),
            said.join("; ")
        ))
    }
}

fn load(name: &OsStr) -> Result<Functions, String> {
    // SAFETY: loading runs the library's constructors. NIXL's constructors do not touch our memory. Another file with
    // this name is as dangerous as any other file on the loader's path.
    let library = unsafe { RawLibrary::open(Some(name), RTLD_NOW | RTLD_LOCAL) }.map_err(|e| words(&e))?;
    // SAFETY: a library under this name exports these names with wrapper.h's types.
    let functions = unsafe { Functions::load(&library) };
    // Never unloaded, not even where it turns out to be something else: its constructors may have started threads.
    let _ = library.into_raw();
    let functions = functions.map_err(|name| format!("loaded, but it has no {name}"))?;
    // SAFETY: takes nothing and may be called in any state.
    if unsafe { (functions.is_stub)() } {
        return Err("loaded, but it is the stub of a build without NIXL".to_owned());
    }
    Ok(functions)
}

/// The loader's own words, without our library's prefix.
fn words(error: &libloading::Error) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}
