//! Derives a verdict for each path and GPU from the results of the checks.

pub(crate) mod merge;
pub(crate) mod pairs;
pub(crate) mod proof;
pub(crate) mod sentences;
pub(crate) mod settle;
