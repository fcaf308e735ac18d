//! The errors of a fleet report.

use std::path::PathBuf;

/// Why there is no fleet report.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A path that the user named cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// A directory has no reports.
    #[error("{} has no .json or .jsonl file; pass the directory with the nodes' reports", folder.display())]
    Empty {
        /// The directory.
        folder: PathBuf,
    },
    /// A report has a version that this program cannot read.
    #[error("{source_name} has schema_version {found}; this program reads versions up to {known}. Update gds-top")]
    Newer {
        /// The path of the file.
        source_name: String,
        /// The version of the report, as JSON.
        found: String,
        /// The newest supported version.
        known: u64,
    },
    /// The reports have different versions.
    #[error(
        "{source_name} has schema_version {found}, other reports have {first}; write all reports with one version of gds-top"
    )]
    Mixed {
        /// The path of the file.
        source_name: String,
        /// The version of the report.
        found: u64,
        /// The version of the first report.
        first: u64,
    },
    /// The sources have too many reports.
    #[error("there are more than {most} reports; pass the reports of one part of the fleet at a time")]
    TooMany {
        /// The maximum number.
        most: usize,
    },
    /// None of the sources contains a report.
    #[error("no report was read; {source_name}: {why}")]
    Nothing {
        /// The first source.
        source_name: String,
        /// The error in it.
        why: String,
    },
}
