//! Checks of the disks under a path.

pub(crate) mod nvme;
