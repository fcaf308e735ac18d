//! Terminal sizes at which the layout of screens changes.

/// Minimum number of columns for two panes side by side.
pub(crate) const WIDE: u16 = 80;
/// Minimum number of rows for two panes above each other.
pub(crate) const TALL: u16 = 22;
/// Minimum number of columns for a table with a chart next to it.
pub(crate) const SIDE_BY_SIDE: u16 = 110;
