//! Reads a report.json that another user may have written.

use crate::text::json_values;
use crate::trust::read_regular;
use std::path::Path;

/// Maximum size of a report in bytes. The report of a large model has a few MiB.
const MOST_BYTES: u64 = 256 << 20;
/// Maximum number of JSON values of a report, because a short text can become much more memory.
const MOST_VALUES: u64 = 20_000_000;

/// The text of a report.
///
/// # Errors
/// A sentence if the file cannot be read, is not a regular file, or is above a limit.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let text = read_regular(path, MOST_BYTES).map_err(|error| format!("reading {} failed: {error}", path.display()))?;
    if json_values(&text) > MOST_VALUES {
        return Err(format!("{} is not a report of gds-top: it has more than {MOST_VALUES} values", path.display()));
    }
    Ok(text)
}
