//! Streams: the one that copies run on, and the one on which cuFile puts reads in stream order. Host memory has none: copies and reads are done
//! in the call.

use super::Device;
use super::cuda::CudaDevice;
use super::error::DeviceError;
use cudarc::driver::{result, sys};
use cufile_ffi::Notice;
use std::ffi::c_void;
use std::sync::Arc;

/// A separate CUDA stream. It is destroyed when dropped, after all its work has ended.
#[derive(Debug)]
pub(super) struct Stream {
    raw: sys::CUstream,
    cuda: Arc<CudaDevice>,
}

// SAFETY: a CUstream is a handle that the driver takes from any thread that has the context current; it never changes.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// Opens a stream on a GPU; `None` for host memory.
    pub(super) fn open(device: &Device) -> Result<Option<Self>, DeviceError> {
        let Device::Cuda(cuda) = device else { return Ok(None) };
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(|e| DeviceError::cuda("making a CUDA stream", e))?;
        Ok(Some(Self { raw, cuda: cuda.clone() }))
    }

    pub(super) const fn raw(&self) -> sys::CUstream {
        self.raw
    }

    /// Waits for everything on it; `doing` is for the error.
    pub(super) fn synchronize(&self, doing: &str) -> Result<(), DeviceError> {
        // It may be waited for on a thread that has not bound the context, when what runs on it is dropped.
        self.cuda.bind()?;
        // SAFETY: the stream lives until `self` is dropped.
        unsafe { result::stream::synchronize(self.raw) }.map_err(|e| DeviceError::cuda(doing, e))
    }

    /// Calls the notice on a thread of CUDA after the present work of the stream. `cuLaunchHostFunc` is not used
    /// because it does not call after failed work, and a caller waits for the notice.
    fn notify(&self, notice: Notice) -> Result<(), DeviceError> {
        self.cuda.bind()?;
        let data = Box::into_raw(Box::new(notice));
        // SAFETY: the stream lives until `self` is dropped, which lets CUDA finish what is on it; `data` is a box that `passed` takes over.
        let said = unsafe { sys::cuStreamAddCallback(self.raw, Some(passed), data.cast(), 0) };
        said.result().map_err(|e| {
            // SAFETY: made above, and refused: `passed` is not called with it.
            drop(unsafe { Box::from_raw(data) });
            DeviceError::cuda("adding a notice for the end of a transfer to a CUDA stream", e)
        })
    }
}

/// The function that CUDA calls once for each `notify`.
///
/// # Safety
/// `data` is the box that `notify` made.
unsafe extern "C" fn passed(_: sys::CUstream, status: sys::CUresult, data: *mut c_void) {
    // SAFETY: by the contract of this function, and called once.
    let notice = unsafe { Box::from_raw(data.cast::<Notice>()) };
    notice(match status {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        // Only CUDA has the error's text, and CUDA must not be called here.
        other => Err(format!("{other:?}")),
    });
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.cuda.bind().is_ok() {
            // SAFETY: created in `open`, destroyed once; CUDA finishes queued work first.
            let _ = unsafe { result::stream::destroy(self.raw) };
        }
    }
}

/// A stream that cuFile may put reads on.
#[derive(Debug)]
pub struct IoQueue(Option<Stream>);

impl IoQueue {
    /// Opens a stream on the device.
    ///
    /// # Errors
    /// When CUDA cannot make one.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Stream::open(device).map(Self)
    }
}

// SAFETY: the stream is created in `new`, never changes, and is destroyed when this is dropped only; null is the
// default stream. `synchronize` asks the driver, which returns success once all work of the stream has ended, and the
// driver reports success to `notify` only then; without a GPU a stream never gets work.
unsafe impl cufile_ffi::IoStream for IoQueue {
    fn raw(&self) -> cufile_ffi::raw::CUstream {
        self.0.as_ref().map_or(std::ptr::null_mut(), |stream| stream.raw().cast())
    }

    fn synchronize(&self) -> Result<(), String> {
        let Some(stream) = &self.0 else { return Ok(()) };
        stream.synchronize("waiting for a CUDA stream").map_err(|e| e.to_string())
    }

    fn notify(&self, notice: Notice) -> Result<(), String> {
        let Some(stream) = &self.0 else {
            notice(Ok(()));
            return Ok(());
        };
        stream.notify(notice).map_err(|e| e.to_string())
    }
}
