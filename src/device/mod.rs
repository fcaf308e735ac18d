//! Targets: CUDA memory or host memory, and the pinned staging buffers. The module opens no files.
//!
//! Outside of the FFI crates, this module has all `unsafe` code of the package. Its types cannot be used to access
//! memory that is freed or that the device still reads: a copy or a read takes ownership of its slot and returns it
//! when it has finished.

mod cuda;
pub mod endings;
mod error;
mod extents;
pub mod heap;
mod mapping;
mod memory;
mod perf;
mod scatter;
mod shared;
mod staging;
mod stream;
mod uring;

pub use cuda::{CudaAttributes, CudaDevice, CudaInfo, list_cuda_attributes, list_cuda_devices};
pub use error::DeviceError;
pub use extents::{UnfinishedExtents, unfinished_bytes};
pub use mapping::{FileMapping, resident_bytes};
pub use memory::{DeviceMemory, HostPart, MemoryPart};
pub use perf::{Hit, Probe, Probes};
pub use scatter::Piece;
pub use shared::SharedWords;
pub use staging::{CopyQueue, InFlight, Slot, Staging};
pub use stream::IoQueue;
pub use uring::{Completed, ReadBuffer, ReadRing};

use std::sync::Arc;

/// Where the bytes of a run are stored.
#[derive(Clone, Debug)]
pub enum Device {
    /// A GPU. Its primary context is retained.
    Cuda(Arc<CudaDevice>),
    /// Host memory.
    Host,
}

impl Device {
    /// Makes the device usable on the calling thread, because CUDA contexts are current per thread.
    ///
    /// # Errors
    /// If CUDA reports an error.
    pub fn bind(&self) -> Result<(), DeviceError> {
        match self {
            Self::Cuda(cuda) => cuda.bind(),
            Self::Host => Ok(()),
        }
    }

    /// Waits until all queued work of the device is done.
    ///
    /// # Errors
    /// If CUDA reports an error of earlier work.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        match self {
            Self::Cuda(cuda) => cuda.synchronize(),
            Self::Host => Ok(()),
        }
    }

    /// Whether this is a GPU.
    #[must_use]
    pub const fn is_gpu(&self) -> bool {
        matches!(self, Self::Cuda(_))
    }
}
