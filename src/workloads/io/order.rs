//! The order of a grid process.

use crate::core::{CellKey, Target};
use crate::trust::FileId;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The order that a grid process reads from its standard input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GridOrder {
    /// Target of the bytes.
    pub target: Target,
    /// The directory of the measurement and its identity. If another directory has its name now, that directory is not used.
    pub folder: (PathBuf, FileId),
    /// The file in that directory that is only read.
    pub read_path: PathBuf,
    /// The file in that directory that is only written.
    pub write_path: PathBuf,
    /// Size of each file in bytes.
    pub file_bytes: u64,
    /// Duration of a cell in nanoseconds.
    pub cell_ns: u64,
    /// Seed of the files' content.
    pub seed: u64,
    /// The path of the libcufile to use. `None`: it is searched for.
    pub libcufile: Option<PathBuf>,
    /// The cells to measure, with their numbers.
    pub cells: Vec<(u32, CellKey)>,
}
