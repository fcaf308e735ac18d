//! Checks of container, user and limits.

pub(crate) mod limits;
pub(crate) mod rdma;
pub(crate) mod surroundings;
