//! The errors of this crate. Each is a sentence.

use crate::search::ENV_NIXL;
use cufile_ffi::Tried;
use std::fmt;

/// An error while NIXL is searched for or used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// No libnixl_capi was found.
    NotFound {
        /// All names that were tried, with the error of the loader.
        tried: Vec<Tried>,
    },
    /// A call returned an error.
    Refused {
        /// The function.
        call: &'static str,
        /// The object of the call.
        what: String,
        /// The status, a negative number.
        status: i32,
    },
    /// A range exceeds the memory, or a name contains a zero byte.
    Invalid(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { tried } => {
                write!(
                    f,
                    "NIXL was not found: install it with 'pip install nixl', or set {ENV_NIXL} to its file or directory"
                )?;
                let one = |t: &Tried| {
                    let words = t.error.as_deref()?;
                    // The message of the loader starts with the name, which is removed here.
                    let words = words.strip_prefix(t.name.as_str()).and_then(|w| w.strip_prefix(": ")).unwrap_or(words);
                    Some(format!("{}: {words}", t.name))
                };
                let failed: Vec<String> = tried.iter().filter_map(one).collect();
                if failed.is_empty() { Ok(()) } else { write!(f, " (tried {})", failed.join("; ")) }
            }
            Self::Refused { call, what, status } => {
                write!(f, "{call} of {what} failed with {status} ({})", describe(*status))
            }
            Self::Invalid(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

/// The status in words (`nixl_capi_status_t`).
fn describe(status: i32) -> &'static str {
    match status {
        -1 => "invalid parameter",
        -2 => "the back end failed; its message is on standard error",
        -3 => "invalid state",
        -4 => "an exception inside NIXL",
        -5 => "no telemetry",
        -6 => "not found, or no back end supports the request",
        _ => "a status that NIXL 1.5 does not know",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_missing_library_occurs_once() {
        let name = crate::search::FILE;
        let error = Some(format!("{name}: cannot open shared object file"));
        let text = Error::NotFound { tried: vec![Tried { name: name.to_owned(), error }] }.to_string();
        assert_eq!(text.matches(name).count(), 1, "{text}");
        let error = Some("not loaded".to_owned());
        let text = Error::NotFound { tried: vec![Tried { name: "/a.so".to_owned(), error }] }.to_string();
        assert!(text.contains("/a.so: not loaded"), "{text}");
    }
}
