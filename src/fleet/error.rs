//! The reason why there is no fleet report.

use std::path::PathBuf;

/// The reason why there is no fleet report.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A path that was named cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// A folder without reports.
    #[error("{} has no .json or .jsonl file; pass the folder with the nodes' reports", folder.display())]
    Empty {
        /// The folder.
        folder: PathBuf,
    },
    /// A report of a newer program.
    #[error("{source_name} has schema_version {found}; this program reads versions up to {known}. Update gds-top")]
    Newer {
        /// The file.
        source_name: String,
        /// Its version.
        found: u64,
        /// The newest version that is read.
        known: u64,
    },
    /// Reports of several versions.
    #[error(
        "{source_name} has schema_version {found}, other reports have {first}; write all reports with one version of gds-top"
    )]
    Mixed {
        /// The file.
        source_name: String,
        /// Its version.
        found: u64,
        /// The version of the first report.
        first: u64,
    },
    /// No source has a report.
    #[error("no report was read; {source_name}: {why}")]
    Nothing {
        /// The first source.
        source_name: String,
        /// The error in it.
        why: String,
    },
}
