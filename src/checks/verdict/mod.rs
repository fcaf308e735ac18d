//! Derives a verdict for each (path, GPU) pair from the results of the checks.

pub(crate) mod commands;
pub(crate) mod elsewhere;
pub(crate) mod merge;
pub(crate) mod pairs;
pub(crate) mod proof;
pub(crate) mod sentences;
pub(crate) mod settle;
