//! Paths in JSON. File names on Linux are bytes. If a name is not valid UTF-8, replacement characters stand for the
//! invalid bytes.

use serde::Serializer;
use std::path::{Path, PathBuf};

/// Serializes a path as text.
///
/// # Errors
/// If the serializer fails.
pub fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// Serializes an optional path as text.
///
/// # Errors
/// If the serializer fails.
pub fn optional<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => serializer.serialize_some(&path.to_string_lossy()),
        None => serializer.serialize_none(),
    }
}
