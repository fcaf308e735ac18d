//! Checks of the PCI bus.

pub(crate) mod topology;
