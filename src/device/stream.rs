//! CUDA streams for copies and for cuFile reads in stream order. Host memory has no streams: its copies and reads are
//! complete when the call returns.

use super::cuda::CudaDevice;
use super::error::DeviceError;
use super::target::Device;
use cudarc::driver::{result, sys};
use cufile_ffi::Notice;
use std::ffi::c_void;
use std::sync::Arc;

/// A separate CUDA stream. Dropping it waits for all of its work and destroys it.
#[derive(Debug)]
pub(super) struct Stream {
    raw: sys::CUstream,
    cuda: Arc<CudaDevice>,
}

// SAFETY: a CUstream is a handle that never changes. The driver accepts it from every thread with the current
// context.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// Opens a stream on a GPU. `None` for host memory.
    pub(super) fn open(device: &Device) -> Result<Option<Self>, DeviceError> {
        let Device::Cuda(cuda) = device else { return Ok(None) };
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(|e| DeviceError::cuda("making a CUDA stream", e))?;
        Ok(Some(Self { raw, cuda: cuda.clone() }))
    }

    pub(super) const fn raw(&self) -> sys::CUstream {
        self.raw
    }

    /// Waits for all work of the stream. `doing` is the operation for the error.
    pub(super) fn synchronize(&self, doing: &str) -> Result<(), DeviceError> {
        // The thread that drops pending work may not have bound the context.
        self.cuda.bind()?;
        // SAFETY: the stream exists until `self` is dropped.
        unsafe { result::stream::synchronize(self.raw) }.map_err(|e| DeviceError::cuda(doing, e))
    }

    /// Calls the notice on a thread of CUDA after the current work of the stream. `cuLaunchHostFunc` is not used,
    /// because it does not call back after failed work and the caller waits for the notice.
    fn notify(&self, notice: Notice) -> Result<(), DeviceError> {
        self.cuda.bind()?;
        let data = Box::into_raw(Box::new(notice));
        // SAFETY: the stream exists until `self` is dropped, and CUDA then finishes its work. `data` is a box whose
        // ownership passes to `passed`.
        let said = unsafe { sys::cuStreamAddCallback(self.raw, Some(passed), data.cast(), 0) };
        said.result().map_err(|e| {
            // SAFETY: the box was created above. CUDA rejected it, so `passed` is not called with it.
            drop(unsafe { Box::from_raw(data) });
            DeviceError::cuda("adding a notice for the end of a transfer to a CUDA stream", e)
        })
    }
}

/// CUDA calls this function once for each `notify`.
///
/// # Safety
/// `data` must be the box that `notify` created.
unsafe extern "C" fn passed(_: sys::CUstream, status: sys::CUresult, data: *mut c_void) {
    // SAFETY: the contract of this function, and it is called once.
    let notice = unsafe { Box::from_raw(data.cast::<Notice>()) };
    notice(match status {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        // Only CUDA has the text of the error, and a callback must not call CUDA.
        other => Err(format!("{other:?}")),
    });
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.cuda.bind().is_ok() {
            // SAFETY: created in `open` and destroyed once. CUDA finishes queued work first.
            let _ = unsafe { result::stream::destroy(self.raw) };
        }
    }
}

/// A stream on which cuFile can queue reads.
#[derive(Debug)]
pub struct IoQueue(Option<Stream>);

impl IoQueue {
    /// Opens a stream on the device.
    ///
    /// # Errors
    /// If CUDA cannot create a stream.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Stream::open(device).map(Self)
    }
}

// SAFETY: `new` creates the stream, it never changes, and only dropping this value destroys it. A null stream is the
// default stream. `synchronize` waits in the driver, which returns success after all work of the stream has ended.
// The driver reports success to `notify` only after that. Without a GPU, a stream has no work.
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
