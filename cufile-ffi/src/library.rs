//! The loaded library: finding it, its functions and its version.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::os::unix::{Library as RawLibrary, RTLD_LOCAL, RTLD_NOW};

use crate::codes;
use crate::error::{CuFileError, Error};
use crate::raw;
use crate::search::{Search, Tried};
use crate::symbols::{SYMBOLS, Symbols};
use crate::version::Version;

/// A loaded libcufile. It is cheap to clone. It stays loaded until the process ends, because it runs threads that
/// would crash if it were unloaded.
#[derive(Clone, Debug)]
pub struct Library {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    symbols: Symbols,
    version: Option<Version>,
    name: String,
    path: Option<PathBuf>,
    tried: Vec<Tried>,
}

impl Library {
    /// Loads the libcufile of this machine, see [`Search::system`].
    ///
    /// # Errors
    /// [`Error::NotFound`] with every name that was tried.
    pub fn find() -> Result<Self, Error> {
        Self::open(&Search::system())
    }

    /// Loads the first candidate of `search` that is a libcufile.
    ///
    /// Loading takes 2 to 15 ms and runs the library's initialisation code. The driver is not opened.
    ///
    /// # Errors
    /// [`Error::NotFound`] with every name that was tried and the error of the loader.
    pub fn open(search: &Search) -> Result<Self, Error> {
        let mut tried = Vec::new();
        for candidate in search.candidates() {
            let name = candidate.to_string_lossy().into_owned();
            // This is checked before loading, because loading runs the code of the file.
            if let Some(why) = search.refused(Path::new(&candidate)) {
                tried.push(Tried { name, error: Some(why) });
                continue;
            }
            match load(&candidate) {
                Ok((symbols, path)) => {
                    tried.push(Tried { name: name.clone(), error: None });
                    let version = ask_version(&symbols);
                    let path = path.map(|p| p.canonicalize().unwrap_or(p));
                    return Ok(Self { inner: Arc::new(Inner { symbols, version, name, path, tried }) });
                }
                Err(error) => tried.push(Tried { name, error: Some(error) }),
            }
        }
        Err(Error::NotFound { tried })
    }

    /// The functions of this library.
    pub fn symbols(&self) -> &Symbols {
        &self.inner.symbols
    }

    /// The version of the library. `None` before GDS 1.8, which does not report it.
    pub fn version(&self) -> Option<Version> {
        self.inner.version
    }

    /// The name under which the loader found it.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The real path of the loaded file, with all links resolved.
    pub fn path(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }

    /// All names that were tried. The last one is this library.
    pub fn tried(&self) -> &[Tried] {
        &self.inner.tried
    }

    /// Whether the library has at least this version. False if it does not report its version.
    pub(crate) fn at_least(&self, version: Version) -> bool {
        self.version().is_some_and(|v| v >= version)
    }

    /// The function, or an error with the version that has it.
    pub(crate) fn need<T>(&self, symbol: Option<T>, name: &'static str) -> Result<T, Error> {
        symbol.ok_or_else(|| {
            let since = SYMBOLS.iter().find(|s| s.name == name).map_or(Version::new(1, 0), |s| s.since);
            Error::MissingSymbol { symbol: name, since, loaded: self.version() }
        })
    }

    /// Converts a status to a result.
    pub(crate) fn check(&self, call: &'static str, status: raw::CUfileError) -> Result<(), Error> {
        match status {
            raw::CUfileError { err: codes::SUCCESS, .. } => Ok(()),
            raw::CUfileError { err, cu_err } => {
                // Some versions set cu_err only with code 5011.
                let cu_err = if err == codes::CUDA_DRIVER_ERROR { cu_err } else { 0 };
                Err(CuFileError { call, err, cu_err, errno: None, version: self.version() }.into())
            }
        }
    }

    /// Converts the result of a transfer: the number of bytes, -1 with errno (which can be a cuFile code in
    /// practice), or a negative cuFile code.
    ///
    /// `errno` must have been read right after the call.
    pub(crate) fn check_bytes(
        &self,
        call: &'static str,
        returned: isize,
        errno: c_int,
        asked: usize,
    ) -> Result<usize, Error> {
        match usize::try_from(returned) {
            Ok(n) if n <= asked => Ok(n),
            Ok(n) => Err(Error::Nonsense(format!("{call} reports {n} bytes, but {asked} were requested"))),
            Err(_) => {
                let (err, errno) = match returned {
                    -1 if errno >= codes::BASE => (errno, Some(errno)),
                    -1 => (0, Some(errno)),
                    // Negated values below the base are errno values.
                    n if n > -(codes::BASE as isize) => (0, i32::try_from(n.unsigned_abs()).ok()),
                    n => (i32::try_from(n.unsigned_abs()).unwrap_or(i32::MAX), None),
                };
                Err(CuFileError { call, err, cu_err: 0, errno, version: self.version() }.into())
            }
        }
    }

    /// How many times the driver is open in this process.
    ///
    /// # Errors
    /// [`Error::MissingSymbol`] if the library does not have this function.
    pub fn use_count(&self) -> Result<i64, Error> {
        let f = self.need(self.symbols().use_count, "cuFileUseCount")?;
        // SAFETY: the function has no arguments and can be called in any state.
        Ok(unsafe { f() })
    }
}

/// The functions of the library and the path of its file.
fn load(name: &OsStr) -> Result<(Symbols, Option<PathBuf>), String> {
    // SAFETY: loading runs the constructors of the library. Those of libcufile do not access our memory. Any other
    // file with this name is as dangerous as any file on the loader's path. A file that the search found belongs to
    // root or to this user.
    let library = unsafe { RawLibrary::open(Some(name), RTLD_NOW | RTLD_LOCAL) }.map_err(|e| words(&e))?;
    // SAFETY: a library with this name exports these functions with the types in cufile.h.
    let symbols = unsafe { Symbols::load(&library) };
    // The library is never unloaded, even if it is not libcufile, because its constructors may have started threads.
    let handle = library.into_raw();
    if symbols.driver_open.is_none() || symbols.read.is_none() {
        return Err("loaded, but it has no cuFileDriverOpen or no cuFileRead, so it is not libcufile".to_owned());
    }
    Ok((symbols, file_of(handle)))
}

/// The error of the loader without the prefix of libloading.
fn words(error: &libloading::Error) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

fn ask_version(symbols: &Symbols) -> Option<Version> {
    let mut number: c_int = 0;
    // SAFETY: the call writes one int. It works without an open driver in every version.
    let status = unsafe { symbols.get_version?(&raw mut number) };
    (status.err == codes::SUCCESS && number > 0).then_some(Version(number))
}

/// The start of `struct link_map` in link.h.
#[repr(C)]
struct LinkMap {
    _base: usize,
    name: *const c_char,
}

/// The path of a library that is never unloaded. dladdr does not have it: an audit library such as that of
/// `gds-top watch` can put its own functions in the place of those of the library.
fn file_of(handle: *mut c_void) -> Option<PathBuf> {
    let mut map: *const LinkMap = std::ptr::null();
    // SAFETY: `handle` is that of a loaded library, and the request writes one pointer to `map`.
    let found = unsafe { libc::dlinfo(handle, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) } == 0 && !map.is_null();
    if !found {
        return None;
    }
    // SAFETY: dlinfo succeeded, so `map` is the entry of the library, which exists as long as it is loaded.
    let name = unsafe { (*map).name };
    if name.is_null() {
        return None;
    }
    // SAFETY: the name of an entry is a C string. It exists as long as the library, which is never unloaded.
    let name = unsafe { CStr::from_ptr(name) };
    Some(PathBuf::from(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name.to_bytes())))
}
