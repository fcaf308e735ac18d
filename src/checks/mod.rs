//! Checks the machine, and derives one verdict for each (path, GPU) pair. It changes nothing on the machine.

mod classes;
mod container;
mod context;
mod cufile;
pub mod cufile_json;
mod filesystem;
mod gpu;
mod judged;
mod kernel;
mod logs;
pub mod matrix;
mod nvidia_fs;
mod pcie;
mod report;
mod round;
pub mod serving;
pub mod spec;
mod storage;
mod verdict;

pub use logs::signatures as log_signatures;
pub use report::Report;
pub use round::run;
pub use spec::{CheckId, CheckSpec, Scope};
pub use verdict::proof::{Trial, with_counts, with_trial};

use crate::core::Machine;
use crate::machine::{self, Root};

/// Describes the machine, the storage below the examined paths, and the keys of its cufile.json. It waits for NVML
/// and libcufile, so call it after the checks.
#[must_use]
pub fn machine(root: &Root, report: &Report) -> Machine {
    let storage = machine::storage(root, &report.paths);
    Machine { storage, cufile_settings: cufile_json::settings(root), ..machine::machine(root) }
}
