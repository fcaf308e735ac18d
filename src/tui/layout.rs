//! Sizes of the terminal at which screens change their layout.

/// Columns from which two panes are side by side.
pub(crate) const WIDE: u16 = 80;
/// Rows from which panes are above each other.
pub(crate) const TALL: u16 = 22;
/// Columns from which a table has a picture at its side.
pub(crate) const SIDE_BY_SIDE: u16 = 110;
