//! A stream for cuFile's reads in stream order: a CUDA stream, or none for host memory, where the library does the read in the call.

use super::Device;
use super::cuda::CudaDevice;
use super::error::DeviceError;
use cudarc::driver::{result, sys};
use std::sync::Arc;

/// A stream that cuFile may put reads on. Destroyed when dropped, after everything on it has ended.
#[derive(Debug)]
pub struct IoQueue {
    stream: Option<(sys::CUstream, Arc<CudaDevice>)>,
}

// SAFETY: a CUstream is a handle that the driver takes from any thread that has the context current; it never changes.
unsafe impl Send for IoQueue {}
// SAFETY: as above.
unsafe impl Sync for IoQueue {}

impl IoQueue {
    /// Opens a stream on the device.
    ///
    /// # Errors
    /// When CUDA cannot make one.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        let stream = match device {
            Device::Cuda(cuda) => {
                let stream = result::stream::create(result::stream::StreamKind::NonBlocking)
                    .map_err(|e| DeviceError::cuda("making a CUDA stream", e))?;
                Some((stream, cuda.clone()))
            }
            Device::Host => None,
        };
        Ok(Self { stream })
    }
}

// SAFETY: the stream is created in `new`, never changes, and is destroyed in `drop` only; null is the default stream. `synchronize` asks the driver,
// which returns success once all work of the stream has ended; without a GPU nothing is ever put on a stream.
unsafe impl cufile_ffi::IoStream for IoQueue {
    fn raw(&self) -> cufile_ffi::raw::CUstream {
        self.stream.as_ref().map_or(std::ptr::null_mut(), |(stream, _)| stream.cast())
    }

    fn synchronize(&self) -> Result<(), String> {
        let Some((stream, cuda)) = &self.stream else { return Ok(()) };
        // A read may be waited for on a thread that has not bound the context, when it is dropped.
        cuda.bind().map_err(|e| e.to_string())?;
        // SAFETY: the stream lives until `self` is dropped.
        unsafe { result::stream::synchronize(*stream) }
            .map_err(|e| DeviceError::cuda("waiting for a CUDA stream", e).to_string())
    }
}

impl Drop for IoQueue {
    fn drop(&mut self) {
        if let Some((stream, cuda)) = &self.stream
            && cuda.bind().is_ok()
        {
            // SAFETY: created in `new`, destroyed once; CUDA finishes queued work first.
            let _ = unsafe { result::stream::destroy(*stream) };
        }
    }
}
