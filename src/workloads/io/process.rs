//! The process in which a grid runs. It reads an order from standard input and writes one line of JSON per event.

use super::cell;
use super::order::GridOrder;
use crate::core::CellResult;
use crate::engines::cufile::CuFile;
use crate::engines::{open_device, process};
use crate::trust;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;

/// The messages of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "grid")]
#[allow(clippy::large_enum_variant, reason = "messages are moved, not stored")]
pub enum GridMessage {
    /// A cell has started.
    Started {
        /// Number of the cell.
        cell: u32,
    },
    /// A cell has ended.
    Done {
        /// Its measurements.
        result: CellResult,
    },
    /// Nothing can be measured.
    Failed {
        /// A sentence with the reason.
        why: String,
    },
}

/// Runs the process and returns its exit status.
#[must_use]
pub fn run_grid() -> u8 {
    process(measure)
}

fn measure(order: &GridOrder, mut out: File) {
    let mut say = |message: &GridMessage| {
        let Ok(mut line) = serde_json::to_vec(message) else { return };
        line.push(b'\n');
        // If this fails, the session has ended and this process will be killed.
        let _ = out.write_all(&line);
    };
    let device = match open_device(&order.target) {
        Ok(device) => device,
        Err(error) => return say(&GridMessage::Failed { why: error.to_string() }),
    };
    let wanted = order.cells.iter().any(|(_, key)| key.transfer.uses_cufile());
    let cufile = if wanted {
        CuFile::open_for(order.libcufile.as_deref(), &order.target).map_err(|e| e.to_string())
    } else {
        Err("cuFile was not requested".to_owned())
    };
    // The directory is entered after the libraries are loaded, because their paths may be relative to the user's working
    // directory.
    let (folder, id) = &order.folder;
    if let Err(why) = trust::enter(folder, *id) {
        return say(&GridMessage::Failed { why: format!("{} cannot be used: {why}", folder.display()) });
    }
    for (number, key) in &order.cells {
        say(&GridMessage::Started { cell: *number });
        let result = cell::measure(order, key, &device, cufile.as_ref().map_err(String::as_str));
        say(&GridMessage::Done { result });
    }
}
