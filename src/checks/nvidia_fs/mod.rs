//! Checks of the kernel module nvidia-fs.

pub(crate) mod build_inputs;
pub(crate) mod connected;
pub(crate) mod dkms;
mod failed_build;
pub(crate) mod load_errors;
pub(crate) mod loaded;
pub(crate) mod nvme_hook;
pub(crate) mod other_driver;
pub(crate) mod run;
pub(crate) mod secure_boot;
pub(crate) mod trouble;
