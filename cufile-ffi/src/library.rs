//! The loaded library: its search, its functions and its version.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::os::unix::{Library as RawLibrary, RTLD_LOCAL, RTLD_NOW};

use crate::codes;
use crate::error::{CuFileError, Error};
use crate::raw;
use crate::search::{Search, Tried};
use crate::symbols::{SYMBOLS, Symbols};
use crate::version::Version;

/// A loaded libcufile. Cheap to clone. It stays loaded until the process ends: it runs threads, and unloading it
/// would crash them.
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
    /// Loads the libcufile of this machine; see [`Search::system`].
    ///
    /// # Errors
    /// [`Error::NotFound`] with every name tried.
    pub fn find() -> Result<Self, Error> {
        Self::open(&Search::system())
    }

    /// Loads the first candidate of `search` that is a libcufile.
    ///
    /// Loading costs 2 to 15 ms and runs the library's own start-up code; the driver is not opened.
    ///
    /// # Errors
    /// [`Error::NotFound`] with every name tried and the loader's words.
    pub fn open(search: &Search) -> Result<Self, Error> {
        let mut tried = Vec::new();
        for candidate in search.candidates() {
            let name = candidate.to_string_lossy().into_owned();
            // Before loading, because that runs the file's code.
            if let Some(why) = search.refused(Path::new(&candidate)) {
                tried.push(Tried { name, error: Some(why) });
                continue;
            }
            match load(&candidate) {
                Ok(symbols) => {
                    tried.push(Tried { name: name.clone(), error: None });
                    let version = ask_version(&symbols);
                    let path = file_of(&symbols).map(|p| p.canonicalize().unwrap_or(p));
                    return Ok(Self { inner: Arc::new(Inner { symbols, version, name, path, tried }) });
                }
                Err(error) => tried.push(Tried { name, error: Some(error) }),
            }
        }
        Err(Error::NotFound { tried })
    }

    /// The functions that this library has.
    pub fn symbols(&self) -> &Symbols {
        &self.inner.symbols
    }

    /// The version it reports; None before GDS 1.8, which cannot report it.
    pub fn version(&self) -> Option<Version> {
        self.inner.version
    }

    /// The name under which the loader found it.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The real file it was loaded from, links resolved.
    pub fn path(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }

    /// All tried names; the last one is this.
    pub fn tried(&self) -> &[Tried] {
        &self.inner.tried
    }

    /// True from `version` on; false if the library does not report its version.
    pub(crate) fn at_least(&self, version: Version) -> bool {
        self.version().is_some_and(|v| v >= version)
    }

    /// The function, or the error that names the version that has it.
    pub(crate) fn need<T>(&self, symbol: Option<T>, name: &'static str) -> Result<T, Error> {
        symbol.ok_or_else(|| {
            let since = SYMBOLS.iter().find(|s| s.name == name).map_or(Version::new(1, 0), |s| s.since);
            Error::MissingSymbol { symbol: name, since, loaded: self.version() }
        })
    }

    /// A status as a result.
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

    /// A transfer's return value as a result: bytes; -1 with errno, which in practice may be a cuFile code; otherwise minus a cuFile code.
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
                    // Below the base a negated value is an errno.
                    n if n > -(codes::BASE as isize) => (0, i32::try_from(n.unsigned_abs()).ok()),
                    n => (i32::try_from(n.unsigned_abs()).unwrap_or(i32::MAX), None),
                };
                Err(CuFileError { call, err, cu_err: 0, errno, version: self.version() }.into())
            }
        }
    }

    /// The number of times that the driver is open in this process.
    ///
    /// # Errors
    /// [`Error::MissingSymbol`].
    pub fn use_count(&self) -> Result<i64, Error> {
        let f = self.need(self.symbols().use_count, "cuFileUseCount")?;
        // SAFETY: takes nothing and may be called in any state.
        Ok(unsafe { f() })
    }
}

fn load(name: &OsStr) -> Result<Symbols, String> {
    // SAFETY: loading runs the library's constructors. libcufile's constructors do not touch our memory. Another file
    // with this name is as dangerous as any other file on the loader's path; a file that the search found by itself
    // belongs to root or to this user.
    let library = unsafe { RawLibrary::open(Some(name), RTLD_NOW | RTLD_LOCAL) }.map_err(|e| words(&e))?;
    // SAFETY: a library under this name exports these names with cufile.h's types.
    let symbols = unsafe { Symbols::load(&library) };
    // Never unloaded, not even where it turns out to be something else: its constructors may have started threads.
    let _ = library.into_raw();
    if symbols.driver_open.is_none() || symbols.read.is_none() {
        return Err("loaded, but it has no cuFileDriverOpen or no cuFileRead, so it is not libcufile".to_owned());
    }
    Ok(symbols)
}

/// The loader's own words, without our library's prefix.
fn words(error: &libloading::Error) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

fn ask_version(symbols: &Symbols) -> Option<Version> {
    let mut number: c_int = 0;
    // SAFETY: writes one int; works without an open driver in every version.
    let status = unsafe { symbols.get_version?(&raw mut number) };
    (status.err == codes::SUCCESS && number > 0).then_some(Version(number))
}

fn file_of(symbols: &Symbols) -> Option<PathBuf> {
    let address = symbols.read? as *const c_void;
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: `info` is a valid place; dladdr only looks the address up.
    let found = unsafe { libc::dladdr(address, &raw mut info) } != 0 && !info.dli_fname.is_null();
    if !found {
        return None;
    }
    // SAFETY: dladdr succeeded, so the name is a C string that lives as long as the library, which is never unloaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name.to_bytes())))
}
