//! Screen 6: the report.

pub(crate) mod view;
