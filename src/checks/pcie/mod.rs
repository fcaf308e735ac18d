//! Checks of the PCIe topology.

pub(crate) mod topology;
