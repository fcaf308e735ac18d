//! The open driver and its properties.

use std::ffi::CString;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::guard::{Descriptors, refuse_endless_open, refuse_foreign_settings};
use crate::library::Library;
use crate::raw::CUfileDrvProps;

/// Simultaneous opens and closes conflict inside the library (spurious 5001, NVIDIA/cuda-python#1022), so only one is
/// active in the process at a time.
static OPENING: Mutex<()> = Mutex::new(());

/// The environment variable with the path of the library's log file, in every version.
pub const ENV_LOGFILE: &str = "CUFILE_LOGFILE_PATH";

/// Options for opening the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Whether to open the driver even if [`ENV_LOGFILE`] is not set. The library can then write a `cufile.log` to
    /// the working directory.
    pub log_in_working_directory: bool,
}

/// Sets [`ENV_LOGFILE`], so that the library writes its log to `file` and not to `cufile.log` in the working
/// directory. Call it at the start of the process.
///
/// Only the environment variable works in every version. 1.14 to 1.20 accept the parameters LOG_DIR and
/// ENV_LOGFILE_PATH, but still write the log to the working directory (seen without a GPU).
///
/// # Safety
/// No other thread may run, because changing the environment races with every reader of it.
pub unsafe fn set_log_file(file: &Path) {
    // SAFETY: the caller guarantees that the process has a single thread.
    unsafe { std::env::set_var(ENV_LOGFILE, file) };
}

/// The open cuFile driver. It is cheap to clone. It closes when the last clone, handle, registration, batch and
/// stream is dropped.
#[derive(Clone, Debug)]
pub struct Driver {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    library: Library,
    opening: Duration,
    streams: Mutex<Streams>,
}

/// The registered streams of a driver.
#[derive(Default)]
pub(crate) struct Streams {
    /// The number of registered streams in use.
    pub(crate) in_use: usize,
    /// Each entry deregisters and releases one stream that is not in use any more.
    pub(crate) dropped: Vec<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Streams {{ in_use: {}, dropped: {} }}", self.in_use, self.dropped.len())
    }
}

impl Driver {
    /// Opens the driver. It fails if the library would never return or would write its log to the working directory,
    /// and it preserves descriptors 0 and 1. It takes 80 to 530 ms on a GPU machine.
    ///
    /// During the call, descriptor 1 refers to descriptor 2, so other threads must not print results. For GPU memory,
    /// a CUDA context should exist before the call (rapidsai/cudf#15293). Do not fork after it.
    ///
    /// # Errors
    /// [`Error::Refused`] if libcufile 1.16 or later would loop forever (no /proc/modules), if another
    /// user could have written the settings that root reads, or if [`ENV_LOGFILE`] is not set (see [`set_log_file`]).
    /// Otherwise the error of `cuFileDriverOpen`.
    pub fn open(library: &Library, options: &OpenOptions) -> Result<Self, Error> {
        let f = library.need(library.symbols().driver_open, "cuFileDriverOpen")?;
        let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        refuse_endless_open(library)?;
        refuse_foreign_settings()?;
        if !options.log_in_working_directory && std::env::var_os(ENV_LOGFILE).is_none() {
            return Err(Error::Refused(format!(
                "the cuFile driver was not opened: {ENV_LOGFILE} is not set, so libcufile would write cufile.log into the working directory. Set \
                 it at the start of the process"
            )));
        }
        let start = Instant::now();
        let status = {
            let _descriptors = Descriptors::guard();
            // SAFETY: the function has no arguments. OPENING serialises opens and closes.
            unsafe { f() }
        };
        library.check("cuFileDriverOpen", status)?;
        Ok(Self {
            inner: Arc::new(Inner { library: library.clone(), opening: start.elapsed(), streams: Mutex::default() }),
        })
    }

    /// The library of the driver.
    pub fn library(&self) -> &Library {
        &self.inner.library
    }

    /// The streams that are registered with the driver.
    pub(crate) fn streams(&self) -> MutexGuard<'_, Streams> {
        self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The duration of `cuFileDriverOpen`.
    pub fn opening(&self) -> Duration {
        self.inner.opening
    }

    /// The properties of the driver. Without a GPU, GDS 1.16 returns the error (5011, 3).
    ///
    /// # Errors
    /// The error of `cuFileDriverGetProperties`.
    pub fn properties(&self) -> Result<CUfileDrvProps, Error> {
        self.library().properties()
    }

    /// Writes the PCIe topology that the library found to `file` as JSON.
    ///
    /// # Errors
    /// The error of `cuFileExportPCIeTopology`, or [`Error::MissingSymbol`] before GDS 1.17.
    pub fn export_pcie_topology(&self, file: &Path) -> Result<(), Error> {
        let library = self.library();
        let f = library.need(library.symbols().export_pcie_topology, "cuFileExportPCIeTopology")?;
        let name = CString::new(file.as_os_str().as_bytes())
            .map_err(|_| Error::OutOfBounds(format!("{} has a NUL byte in its name", file.display())))?;
        // SAFETY: the argument is a C string that exists during the call.
        library.check("cuFileExportPCIeTopology", unsafe { f(name.as_ptr()) })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let symbols = self.library.symbols();
        // A macro in cufile.h maps the plain name to _v2. Libraries before GDS 1.4 have only the plain name.
        if let Some(close) = symbols.driver_close_v2.or(symbols.driver_close) {
            let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
            let _descriptors = Descriptors::guard();
            // SAFETY: the driver was opened once here and is closed once. Everything that uses the driver holds a
            // clone, so it is not in use.
            let _ = unsafe { close() };
        }
    }
}
