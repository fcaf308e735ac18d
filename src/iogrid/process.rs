//! The process in which a grid runs: an order on standard input, a line of JSON for each thing that happens.

use super::cell;
use super::order::GridOrder;
use crate::device::{CudaDevice, Device};
use crate::domain::{CellResult, Target};
use crate::engines::claim_stdout;
use crate::engines::cufile::CuFile;
use crate::trust;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::sync::Arc;

/// The messages of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "grid")]
#[allow(clippy::large_enum_variant, reason = "messages are moved, not stored")]
pub enum GridMessage {
    /// A cell begins.
    Started {
        /// Its number.
        cell: u32,
    },
    /// A cell ended.
    Done {
        /// The measurements.
        result: CellResult,
    },
    /// Nothing can be measured.
    Failed {
        /// Why, in a sentence.
        why: String,
    },
}

/// Runs the process and returns its exit status.
#[must_use]
pub fn run_grid() -> u8 {
    let mut out = match claim_stdout() {
        Ok(out) => out,
        Err(error) => {
            eprintln!("gds-top: the measurement cannot claim its output: {error}");
            return 2;
        }
    };
    let mut text = String::new();
    let order: GridOrder = match std::io::stdin().read_to_string(&mut text).map(|_| serde_json::from_str(&text)) {
        Ok(Ok(order)) => order,
        Ok(Err(error)) => {
            eprintln!("gds-top: the order of the measurement is malformed: {error}");
            return 2;
        }
        Err(error) => {
            eprintln!("gds-top: the order of the measurement cannot be read: {error}");
            return 2;
        }
    };
    let mut say = |message: &GridMessage| {
        let Ok(mut line) = serde_json::to_vec(message) else { return };
        line.push(b'\n');
        // A session that is gone takes this process with it.
        let _ = out.write_all(&line);
    };
    let device = match &order.target {
        Target::Gpu { ordinal, uuid, .. } => match CudaDevice::open(*ordinal, uuid.as_deref()) {
            Ok(cuda) => Device::Cuda(Arc::new(cuda)),
            Err(error) => {
                say(&GridMessage::Failed { why: error.to_string() });
                return 0;
            }
        },
        Target::Host => Device::Host,
    };
    let wanted = order.cells.iter().any(|(_, key)| key.transfer.uses_cufile());
    let cufile = if wanted {
        CuFile::open_for(order.libcufile.as_deref(), &order.target).map_err(|e| e.to_string())
    } else {
        Err("cuFile was not asked for".to_owned())
    };
    // After the libraries: their paths may be relative to the folder in which the user works.
    let (folder, id) = &order.folder;
    if let Err(why) = trust::enter(folder, *id) {
        say(&GridMessage::Failed { why: format!("{} cannot be used: {why}", folder.display()) });
        return 0;
    }
    for (number, key) in &order.cells {
        say(&GridMessage::Started { cell: *number });
        let result = cell::measure(&order, key, &device, cufile.as_ref().map_err(String::as_str));
        say(&GridMessage::Done { result });
    }
    0
}
