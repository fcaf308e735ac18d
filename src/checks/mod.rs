//! Checks the machine, and derives one verdict for each (path, GPU) pair. It changes nothing on the machine.

mod advice;
mod classes;
mod container;
mod context;
mod cufile;
pub mod cufile_json;
mod filesystem;
mod gpu;
mod guest;
mod image_host;
mod judged;
mod kernel;
mod logs;
pub mod matrix;
mod nvidia_fs;
pub mod page;
mod pcie;
mod report;
mod round;
pub mod serving;
mod storage;
mod verdict;

pub(crate) use advice::how_to_fix;
pub(crate) use container::bring::{
    Lack, enroot_variables, group_option, has_compute, has_selinux, is_cut_off, is_denied, is_rootless, other_command,
    runtime_command,
};
pub(crate) use container::lxc;
pub(crate) use container::surroundings::is_confined;
pub(crate) use cufile::config::transport_key;
pub use cufile::cuda_causes;
pub use kernel::build_log::build_line;
pub use kernel::next_boot::before_reboot;
pub(crate) use kernel::next_boot::{build as modules_of_next_boot, keep as restart_of_kernel};
pub use logs::driver_lines::{DriverLine, driver_line};
pub use logs::signatures as log_signatures;
pub use logs::xid;
pub(crate) use pcie::topology::nearest_gpu;
pub use report::Report;
pub use round::run;
pub use verdict::commands::fix_line;
pub(crate) use verdict::elsewhere::{disk_for_model, disks_in_use, free_folder, loss_of_local_disks, place_for_model};
pub use verdict::proof::{Trial, with_counts, with_trial};

use crate::core::Machine;
use crate::machine::{self, PathFacts, Root};

/// Describes the machine, the storage below `paths`, and the keys of its cufile.json. It waits for NVML and libcufile.
#[must_use]
pub fn machine(root: &Root, paths: &[PathFacts]) -> Machine {
    let storage = machine::storage(root, paths);
    let (cufile_settings, cufile_defaults) = cufile_json::settings(root);
    Machine { storage, cufile_settings, cufile_defaults, ..machine::machine(root) }
}
