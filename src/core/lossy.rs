//! Paths in JSON. Names on Linux are bytes; in a name that is not UTF-8, replacement characters are written for the
//! invalid bytes.

use serde::Serializer;
use std::path::{Path, PathBuf};

/// A path as text.
///
/// # Errors
/// The serializer's.
pub fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// The same for a path that may be absent.
///
/// # Errors
/// The serializer's.
pub fn optional<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => serializer.serialize_some(&path.to_string_lossy()),
        None => serializer.serialize_none(),
    }
}
