//! What the checks read on this machine, as one redacted archive or folder.

use super::args::OutputArgs;
use super::outcome::{BAD_CALL, fail};
use std::path::{Path, PathBuf};

/// Runs the command.
pub(super) fn run(_file: &Path, _paths: &[PathBuf], _output: &OutputArgs) -> u8 {
    fail(BAD_CALL, "not yet")
}
