//! The loaded library: its functions, and the version of the wheel that contains it.

use crate::error::Error;
use crate::raw::Functions;
use crate::search::Search;
use cufile_ffi::Tried;
use libloading::os::unix::{Library as RawLibrary, RTLD_LOCAL, RTLD_NOW};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The CUDA run-time libraries that the plugins of the known wheels are linked to, the newest first.
const CUDA_RUNTIMES: [&str; 2] = ["libcudart.so.13", "libcudart.so.12"];

/// A loaded libnixl_capi. It is cheap to clone. It stays loaded until the process ends.
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
    /// Loads the NIXL of this machine, see [`Search::system`].
    ///
    /// # Errors
    /// [`Error::NotFound`] with every name that was tried.
    pub fn find() -> Result<Self, Error> {
        Self::open(&Search::system())
    }

    /// Loads the first candidate of `search` that is a libnixl_capi and not a stub.
    ///
    /// # Errors
    /// [`Error::NotFound`] with every name that was tried and the error of the loader.
    pub fn open(search: &Search) -> Result<Self, Error> {
        let mut tried = Vec::new();
        for candidate in &search.candidates {
            let name = candidate.to_string_lossy().into_owned();
            // This is checked before loading, because loading runs the code of the file.
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

    /// The functions of the library.
    pub(crate) fn functions(&self) -> &Functions {
        &self.inner.functions
    }

    /// The name or path under which it was loaded.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The version of the wheel that contains the library, from the name of the wheel's metadata directory
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

    /// Loads the CUDA run-time library that the GDS plugins are linked to. It is in the directories of the wheels,
    /// which the loader does not search. In a Python process, PyTorch has already loaded it. Plugins that are loaded
    /// later find it by its name. Returns a sentence if it could not be loaded.
    #[must_use]
    pub fn load_cuda_runtime(&self) -> Option<String> {
        let mut order = CUDA_RUNTIMES;
        if self.inner.path.to_string_lossy().contains("cu12") {
            order.reverse();
        }
        // The wheel determines the version. The other version is only for builds that do not name one.
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
                // SAFETY: this loads NVIDIA's CUDA run-time library by its name. Its constructors do not access our
                // memory.
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
            "NIXL's GDS plugins need {}, which was not found ({}); install it with 'pip install nvidia-cuda-runtime', or add its directory to LD_LIBRARY_PATH",
            wanted.join(" or "),
            said.join("; ")
        ))
    }
}

fn load(name: &OsStr) -> Result<Functions, String> {
    // SAFETY: loading runs the constructors of the library. Those of NIXL do not access our memory. Any other file
    // with this name is as dangerous as any file on the loader's path.
    let library = unsafe { RawLibrary::open(Some(name), RTLD_NOW | RTLD_LOCAL) }.map_err(|e| words(&e))?;
    // SAFETY: a library with this name exports these functions with the types in wrapper.h.
    let functions = unsafe { Functions::load(&library) };
    // The library is never unloaded, even if it is not NIXL, because its constructors may have started threads.
    let _ = library.into_raw();
    let functions = functions.map_err(|name| format!("loaded, but it has no {name}"))?;
    // SAFETY: the function has no arguments and can be called in any state.
    if unsafe { (functions.is_stub)() } {
        return Err("loaded, but it is the stub of a build without NIXL".to_owned());
    }
    Ok(functions)
}

/// The error of the loader without the prefix of libloading.
fn words(error: &libloading::Error) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}
