//! Targets of bytes: CUDA memory or host memory, and the pinned staging between. It opens no files.
//!
//! All `unsafe` of the package outside `cufile-ffi` lives here, behind types whose safe use cannot touch memory that is gone or that the
//! device still reads: a slot that is being copied or filled is moved into the operation and comes back when it has finished.

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

/// The place where a run's bytes land.
#[derive(Clone, Debug)]
pub enum Device {
    /// A GPU with its primary context retained.
    Cuda(Arc<CudaDevice>),
    /// Host memory.
    Host,
}

impl Device {
    /// Makes the device usable on the calling thread (CUDA contexts are current by thread).
    ///
    /// # Errors
    /// When CUDA refuses.
    pub fn bind(&self) -> Result<(), DeviceError> {
        match self {
            Self::Cuda(cuda) => cuda.bind(),
            Self::Host => Ok(()),
        }
    }

    /// Waits until all work queued on the device is done.
    ///
    /// # Errors
    /// When CUDA reports an error of earlier work.
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
