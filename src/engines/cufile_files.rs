//! Opens the files of a model for cuFile, with `O_DIRECT` if the file system supports it, and explains why a file
//! could not be registered.

use super::context::EngineContext;
use super::error::{LoadError, explain};
use super::files;
use crate::core::{ModelInfo, Note};
use cufile_ffi::Error;
use std::fs::File;
use std::path::Path;

/// Opens the files of a model. `O_DIRECT` is used if it is wanted and the file system supports it. libcufile accepts
/// files without it since GDS 1.7.
pub(super) fn open_for_cufile(
    context: &EngineContext<'_>,
    odirect: bool,
    notes: &mut Vec<Note>,
) -> Result<Vec<File>, LoadError> {
    match files::open_shards(context.model(), odirect) {
        Err(LoadError::NoDirect { path, source }) => {
            notes.push(Note::WithoutOdirect { path: path.display().to_string(), error: source.to_string() });
            files::open_shards(context.model(), false)
        }
        other => other,
    }
}

/// The error for a file that could not be registered. If the file was replaced, that is a better reason than the code
/// of the library.
pub(super) fn not_registered(model: &ModelInfo, path: &Path, error: &Error) -> LoadError {
    let changed = files::check_lengths(model).err();
    changed.unwrap_or_else(|| explain(&format!("registering {} with cuFile", path.display()), error))
}
