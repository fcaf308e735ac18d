//! The order of a grid process.

use crate::core::{CellKey, Target};
use crate::trust::FolderId;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The order that a grid process reads from its standard input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GridOrder {
    /// Where bytes land.
    pub target: Target,
    /// The folder that the measurement made, and its identity: another folder that has taken its place is not used.
    pub folder: (PathBuf, FolderId),
    /// The file that is only read, in that folder.
    pub read_path: PathBuf,
    /// The file that is only written, in that folder.
    pub write_path: PathBuf,
    /// Bytes of each.
    pub file_bytes: u64,
    /// How long a cell runs, in nanoseconds.
    pub cell_ns: u64,
    /// Seed of the files' content.
    pub seed: u64,
    /// The libcufile to use; searched where absent.
    pub libcufile: Option<PathBuf>,
    /// Numbers and keys of the cells to measure.
    pub cells: Vec<(u32, CellKey)>,
}
