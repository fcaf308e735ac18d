//! From the conclusions of the checks to a verdict for each path and GPU.

pub(crate) mod merge;
pub(crate) mod pairs;
pub(crate) mod proof;
pub(crate) mod sentences;
pub(crate) mod settle;
