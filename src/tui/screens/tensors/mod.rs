//! Screen 3: the tensors of a run.

pub(crate) mod detail;
pub(crate) mod order;
pub(crate) mod runs;
pub(crate) mod table;
pub(crate) mod view;
