//! Errors of devices: the operation, and the error of CUDA or the kernel.

use cudarc::driver::DriverError;
use std::fmt;

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceError {
    /// The operation, as text after "while": `allocating 14.2 GiB on the GPU`.
    pub doing: String,
    /// The message of CUDA or the kernel.
    pub said: String,
    /// The CUDA result code. `None` if the error is not from CUDA.
    pub cuda_code: Option<u32>,
    /// The error number. `None` if the error is not from the kernel.
    pub errno: Option<i32>,
    /// The advice for the user. `None` if there is none.
    pub advice: Option<&'static str>,
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.doing, self.said)?;
        if let Some(code) = self.cuda_code {
            write!(f, " (CUDA error {code})")?;
        }
        match self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for DeviceError {}

impl DeviceError {
    pub(super) fn cuda(doing: impl Into<String>, error: DriverError) -> Self {
        let name = error.error_name().map_or_else(|_| "unknown error".to_owned(), |n| n.to_string_lossy().into_owned());
        let said = match error.error_string() {
            Ok(text) => format!("{name}, {}", text.to_string_lossy()),
            Err(_) => name,
        };
        Self { doing: doing.into(), said, cuda_code: Some(error.0 as u32), errno: None, advice: None }
    }

    pub(super) fn system(doing: impl Into<String>, error: impl fmt::Display) -> Self {
        Self { doing: doing.into(), said: error.to_string(), cuda_code: None, errno: None, advice: None }
    }

    /// The error of a system call.
    pub(super) fn io(doing: impl Into<String>, error: &std::io::Error) -> Self {
        Self { errno: error.raw_os_error(), ..Self::system(doing, error) }
    }

    /// The error of a memory mapping. It has advice if there is too little memory.
    pub(super) fn mapping(doing: impl Into<String>, error: &std::io::Error) -> Self {
        let no_room = error.raw_os_error() == Some(libc::ENOMEM);
        let advice = "free memory, or raise this process' limit of address space (ulimit -v)";
        Self { advice: no_room.then_some(advice), ..Self::io(doing, error) }
    }

    /// Adds the advice if CUDA reports too little memory.
    pub(super) fn if_out_of_memory(mut self, advice: &'static str) -> Self {
        if self.cuda_code == Some(2) {
            self.advice = Some(advice);
        }
        self
    }
}
