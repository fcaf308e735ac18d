//! Screen 2: the engines compared, layers, the storage grid and the plans.

pub(crate) mod charts;
pub(crate) mod grid;
pub(crate) mod lanes;
pub(crate) mod layers;
pub(crate) mod phases;
pub(crate) mod plans;
pub(crate) mod view;
