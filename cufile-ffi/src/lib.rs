//! Safe bindings to NVIDIA libcufile, the library of GPUDirect Storage, for GDS 1.0 to 1.20. The library is loaded at
//! run time.
//!
//! - [`Library`] finds and loads libcufile. Its error lists every name that was tried. A file that the search found
//!   is not loaded if another user could have written it ([`distrust`]). Every function is optional: if the loaded
//!   version does not have it, the result is [`Error::MissingSymbol`] with the version that has it.
//! - [`Driver`] opens the driver and avoids known faults of the library: it loops forever if `/proc/modules` cannot
//!   be opened (rejected here), prints to standard output, can close descriptor 0, and writes `cufile.log` to the
//!   working directory.
//! - [`FileHandle`], [`BufferRegistration`], [`Batch`] and [`AsyncIo`] keep the objects that they need and release
//!   them in the right order.
//! - [`IoMemory`] is the memory of a transfer. Implement it for GPU allocations. [`HostMemory`] works without a GPU.
//! - Codes are integers ([`codes::describe`] returns their names by version). Errors contain the cuFile code, the
//!   CUDA code and errno.
//!
//! Nothing panics, and the library is never unloaded.
//!
//! ```no_run
//! use std::sync::Arc;
//! use cufile_ffi::{Driver, FileHandle, HostMemory, Library, OpenOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // SAFETY: this is the start of the process, and there are no other threads.
//! unsafe { cufile_ffi::set_log_file(&std::env::temp_dir().join("cufile.log")) };
//! let library = Library::find()?;
//! let driver = Driver::open(&library, &OpenOptions::default())?;
//! let file = FileHandle::register(&driver, std::fs::File::open("model.safetensors")?)?;
//! let memory = Arc::new(HostMemory::new(1 << 20)?);
//! let slab = driver.register(&memory, 0, 1 << 20, 0)?;
//! let bytes = file.read_at(&slab, 0, 1 << 20, 4096)?;
//! # let _ = bytes; Ok(()) }
//! ```

pub mod codes;
pub mod raw;
pub mod stats;
pub mod symbols;
pub mod values;

mod batch;
mod driver;
mod error;
mod guard;
mod handle;
mod library;
mod located;
mod memory;
mod params;
mod search;
mod stream;
mod trust;
mod version;

pub use batch::{Batch, BatchEntry, BatchResult, COMPAT_IN_FLIGHT, Route};
pub use driver::{Driver, ENV_LOGFILE, OpenOptions, set_log_file};
pub use error::{CuFileError, Error};
pub use handle::{Direction, FileHandle};
pub use library::Library;
pub use located::{Located, locate, version_of_file};
pub use memory::{BufferRegistration, HostMemory, IoMemory};
pub use params::{SLAB_CLASSES, Slab};
pub use search::{ENV_LIBCUFILE, SONAME, Search, Tried, cached_libraries, children, python_folders};
pub use stream::{AsyncIo, IoStream, Notice, StreamIo};
pub use trust::{distrust, distrust_place, foreign_settings, is_writable_by_group, private_group, unmapped_owner};
pub use version::Version;
