//! The open driver, and its queries.

use std::ffi::CString;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::guard::{Descriptors, refuse_endless_open};
use crate::library::Library;
use crate::raw::CUfileDrvProps;

/// Opens and closes race inside the library (spurious 5001, NVIDIA/cuda-python#1022): one at a time in the process.
static OPENING: Mutex<()> = Mutex::new(());

/// The environment variable that names the library's log file, in every version.
pub const ENV_LOGFILE: &str = "CUFILE_LOGFILE_PATH";

/// Options for opening the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Open although [`ENV_LOGFILE`] is not set, so that the library may leave a `cufile.log` in the working directory.
    pub log_in_working_directory: bool,
}

/// Sets [`ENV_LOGFILE`], so that the library writes its log to `file` instead of `cufile.log` in the working directory. For the first lines
/// of a process.
///
/// The environment is the only way that works in every version: the parameters LOG_DIR and ENV_LOGFILE_PATH are taken with success by 1.14
/// to 1.20 and the log still goes to the working directory (seen without a GPU).
///
/// # Safety
/// No other thread runs yet: changing the environment races with every reader of it.
pub unsafe fn set_log_file(file: &Path) {
    // SAFETY: the caller guarantees that the process has one thread.
    unsafe { std::env::set_var(ENV_LOGFILE, file) };
}

/// The open cuFile driver. Cheap to clone; it closes when the last clone, handle, registration, batch and stream is
/// dropped.
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
    /// Registered streams that are in use.
    pub(crate) in_use: usize,
    /// Each entry deregisters and releases one stream that is no longer in use.
    pub(crate) dropped: Vec<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Streams {{ in_use: {}, dropped: {} }}", self.in_use, self.dropped.len())
    }
}

impl Driver {
    /// Opens the driver safely: fails if the library would never return or leave its log in the working directory,
    /// and keeps descriptors 0 and 1. Takes 80 to 530 ms on a GPU machine.
    ///
    /// While it runs, descriptor 1 leads to descriptor 2: other threads must not print results meanwhile. For GPU memory a CUDA
    /// context should exist before (rapidsai/cudf#15293). Do not fork afterwards.
    ///
    /// # Errors
    /// [`Error::Refused`] where libcufile 1.16 or later would spin (no /proc/modules), and without [`ENV_LOGFILE`] (see [`set_log_file`]);
    /// what `cuFileDriverOpen` answered.
    pub fn open(library: &Library, options: &OpenOptions) -> Result<Self, Error> {
        let f = library.need(library.symbols().driver_open, "cuFileDriverOpen")?;
        let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        refuse_endless_open(library)?;
        if !options.log_in_working_directory && std::env::var_os(ENV_LOGFILE).is_none() {
            return Err(Error::Refused(format!(
                "the cuFile driver was not opened: {ENV_LOGFILE} is not set, so libcufile would write cufile.log into the working directory. Set \
                 it at the start of the process"
            )));
        }
        let start = Instant::now();
        let status = {
            let _descriptors = Descriptors::guard();
            // SAFETY: no arguments; opens and closes are serialised by OPENING.
            unsafe { f() }
        };
        library.check("cuFileDriverOpen", status)?;
        Ok(Self {
            inner: Arc::new(Inner { library: library.clone(), opening: start.elapsed(), streams: Mutex::default() }),
        })
    }

    /// Its library.
    pub fn library(&self) -> &Library {
        &self.inner.library
    }

    /// The streams that are registered with it.
    pub(crate) fn streams(&self) -> MutexGuard<'_, Streams> {
        self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The duration of `cuFileDriverOpen`.
    pub fn opening(&self) -> Duration {
        self.inner.opening
    }

    /// The driver's properties. GDS 1.16 answers (5011, 3) without a GPU.
    ///
    /// # Errors
    /// What `cuFileDriverGetProperties` answered.
    pub fn properties(&self) -> Result<CUfileDrvProps, Error> {
        self.library().properties()
    }

    /// Writes the PCIe topology that the library found to `file`, as JSON.
    ///
    /// # Errors
    /// What `cuFileExportPCIeTopology` answered; [`Error::MissingSymbol`] before GDS 1.17.
    pub fn export_pcie_topology(&self, file: &Path) -> Result<(), Error> {
        let library = self.library();
        let f = library.need(library.symbols().export_pcie_topology, "cuFileExportPCIeTopology")?;
        let name = CString::new(file.as_os_str().as_bytes())
            .map_err(|_| Error::OutOfBounds(format!("{} has a NUL byte in its name", file.display())))?;
        // SAFETY: a C string that lives through the call.
        library.check("cuFileExportPCIeTopology", unsafe { f(name.as_ptr()) })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let symbols = self.library.symbols();
        // cufile.h maps the plain name to _v2 by macro; libraries before GDS 1.4 have only the plain one.
        if let Some(close) = symbols.driver_close_v2.or(symbols.driver_close) {
            let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
            let _descriptors = Descriptors::guard();
            // SAFETY: opened once by us and closed once; everything that uses the driver holds a clone, so nothing does any more.
            let _ = unsafe { close() };
        }
    }
}
