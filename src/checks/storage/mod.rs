//! Checks of the disks under a path.

mod format;
pub(crate) mod health;
pub(crate) mod namespaces;
pub(crate) mod nvme;
pub(crate) mod raid;
pub(crate) mod smart;
mod software;
pub(crate) mod virtual_disk;
