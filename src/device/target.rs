//! The target of bytes: a GPU or host memory.

use super::cuda::CudaDevice;
use super::error::DeviceError;
use std::sync::Arc;

/// The memory for the bytes of a run.
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
