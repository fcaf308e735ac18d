//! Checks of container, user and limits.

pub(crate) mod bring;
pub(crate) mod dynamic_routing;
pub(crate) mod limits;
pub(crate) mod lxc;
pub(crate) mod of_host;
mod ports;
pub(crate) mod rdma;
pub(crate) mod surroundings;
