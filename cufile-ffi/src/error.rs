//! Errors: the results of cuFile with all of their codes, and calls that this crate rejects. Each error is a
//! sentence.

use std::fmt;
use std::time::Duration;

use crate::codes::{self, describe};
use crate::search::Tried;
use crate::values::BATCH_STATUS;
use crate::version::Version;

/// A call for which the library returned an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuFileError {
    /// The function: `cuFileRead`.
    pub call: &'static str,
    /// The cuFile code as a positive number. 0 if there is only a system error (see `errno`).
    pub err: i32,
    /// The `CUresult`. 0 if the error is not from CUDA.
    pub cu_err: i32,
    /// The system error of a transfer that returned -1.
    pub errno: Option<i32>,
    /// The version of the library, which determines the name of the code.
    pub version: Option<Version>,
}

impl CuFileError {
    /// The name of the code in cufile.h. `None` if cufile.h has no such code.
    pub fn name(&self) -> Option<&'static str> {
        if self.err == 0 { None } else { describe(self.err, self.version).map(|d| d.name) }
    }

    /// The meaning of the code in a sentence. `None` if cufile.h has no such code.
    pub fn meaning(&self) -> Option<&'static str> {
        if self.err == 0 { None } else { describe(self.err, self.version).map(|d| d.meaning) }
    }
}

impl fmt::Display for CuFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed", self.call)?;
        if self.err < 0 {
            // libcufile 1.14 returns a negative errno for some errors in cufile.json.
            return write!(f, " with {}: {}", self.err, std::io::Error::from_raw_os_error(self.err.saturating_neg()));
        }
        if self.err != 0 {
            match describe(self.err, self.version) {
                Some(d) => write!(f, " with {} ({}): {}", self.err, d.name, d.meaning)?,
                None => write!(f, " with {}, a code that cufile.h does not have", self.err)?,
            }
        }
        if self.cu_err != 0 {
            write!(f, " (CUDA error {})", self.cu_err)?;
        }
        match self.errno {
            Some(0) if self.err == 0 => {
                write!(f, " without a reason (it returned -1 with errno 0)")
            }
            Some(n) if n > 0 && n < codes::BASE => {
                write!(f, ": {}", std::io::Error::from_raw_os_error(n))
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for CuFileError {}

/// All errors of this crate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No libcufile could be loaded.
    NotFound {
        /// All names that were tried, with the error of the loader.
        tried: Vec<Tried>,
    },
    /// The loaded library does not have the function.
    MissingSymbol {
        /// The function.
        symbol: &'static str,
        /// The first GDS version that has it.
        since: Version,
        /// The version of the loaded library. `None` if it does not report one.
        loaded: Option<Version>,
    },
    /// The library returned an error.
    Call(CuFileError),
    /// A transfer would exceed its memory, or a number is outside of the range of its type in cufile.h.
    OutOfBounds(String),
    /// The call was not made, because it would fail or block on this machine. The sentence contains the reason.
    Refused(String),
    /// A batch was not complete within its time limit.
    Timeout {
        /// The operation.
        call: &'static str,
        /// The time limit.
        waited: Duration,
        /// The number of entries that are still active.
        outstanding: usize,
    },
    /// An entry of a batch ended but is not complete.
    Ended {
        /// The status bits, see [`crate::values::BATCH_STATUS`].
        status: u32,
    },
    /// The library returned an impossible value (more bytes than requested, an unknown cookie).
    Nonsense(String),
    /// A system call of this crate failed.
    System {
        /// The operation.
        what: String,
        /// The error number.
        errno: i32,
    },
}

impl Error {
    /// The error of cuFile. `None` for other errors.
    pub fn cufile(&self) -> Option<&CuFileError> {
        match self {
            Self::Call(e) => Some(e),
            _ => None,
        }
    }

    /// The cuFile code. `None` if the error is not from the library.
    pub fn code(&self) -> Option<i32> {
        self.cufile().map(|e| e.err)
    }

    pub(crate) fn last_os(what: impl Into<String>) -> Self {
        Self::System { what: what.into(), errno: std::io::Error::last_os_error().raw_os_error().unwrap_or(0) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { tried } => {
                write!(f, "libcufile could not be loaded")?;
                for (i, t) in tried.iter().enumerate() {
                    let words = t.error.as_deref().unwrap_or("loaded");
                    // The message of the loader starts with the name, which is removed here.
                    let words = words.strip_prefix(t.name.as_str()).and_then(|w| w.strip_prefix(": ")).unwrap_or(words);
                    write!(f, "{} {}: {words}", if i == 0 { ";" } else { "," }, t.name)?;
                }
                write!(
                    f,
                    ". Install libcufile (its CUDA package, or pip install nvidia-cufile), or set {} to its file",
                    crate::ENV_LIBCUFILE
                )
            }
            Self::MissingSymbol { symbol, since, loaded } => {
                write!(f, "{symbol} is not in this libcufile; GDS {since} has it first, ")?;
                match loaded {
                    Some(v) => write!(f, "the loaded library is {v}"),
                    None => write!(f, "the loaded library does not report its version"),
                }
            }
            Self::Call(e) => e.fmt(f),
            Self::OutOfBounds(s) | Self::Refused(s) | Self::Nonsense(s) => f.write_str(s),
            Self::Timeout { call, waited, outstanding } => {
                write!(
                    f,
                    "{call} was not complete after {} ms; {outstanding} transfers are still running",
                    waited.as_millis()
                )
            }
            Self::Ended { status } => {
                match BATCH_STATUS.iter().filter(|n| status & n.value != 0).map(|n| n.name).collect::<Vec<_>>() {
                    names if names.is_empty() => {
                        write!(f, "the entry ended with status {status:#x}, which cufile.h does not have")
                    }
                    names => write!(f, "the library ended the entry as {}", names.join(" and ")),
                }
            }
            Self::System { what, errno } => {
                write!(f, "{what}: {}", std::io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl std::error::Error for Error {}

impl From<CuFileError> for Error {
    fn from(e: CuFileError) -> Self {
        Self::Call(e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(err: i32, cu_err: i32, errno: Option<i32>) -> String {
        CuFileError { call: "cuFileRead", err, cu_err, errno, version: Some(Version::new(1, 20)) }.to_string()
    }

    #[test]
    fn an_error_tells_every_code_it_has() {
        assert!(call(5011, 100, None).ends_with("a call of the CUDA driver failed (CUDA error 100)"));
        assert_eq!(call(0, 0, Some(5)), "cuFileRead failed: Input/output error (os error 5)");
        assert_eq!(call(0, 0, Some(0)), "cuFileRead failed without a reason (it returned -1 with errno 0)");
        assert!(call(5999, 0, None).contains("5999, a code that cufile.h does not have"));
        assert!(call(-22, 0, None).contains("Invalid argument"));
    }

    #[test]
    fn a_missing_function_names_the_version_that_has_it() {
        let e = Error::MissingSymbol {
            symbol: "cuFileReadv",
            since: Version::new(1, 19),
            loaded: Some(Version::new(1, 14)),
        };
        assert_eq!(
            e.to_string(),
            "cuFileReadv is not in this libcufile; GDS 1.19 has it first, the loaded library is 1.14"
        );
    }
}
