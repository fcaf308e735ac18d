//! Checks of kernel and platform.

pub(crate) mod arguments;
pub(crate) mod boot_kernel;
pub(crate) mod build_log;
pub(crate) mod crash;
pub(crate) mod excluded;
pub(crate) mod iommu;
pub(crate) mod iommu_fault;
pub(crate) mod next_boot;
pub(crate) mod p2pdma;
pub(crate) mod platform;
pub(crate) mod reboot_pending;
pub(crate) mod refusal;
pub(crate) mod signing;
