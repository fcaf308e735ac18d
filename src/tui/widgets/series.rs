//! The data of a line in a chart.

use ratatui::style::Style;

/// One line of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// It is at the end of the line and before its name.
    pub(crate) marker: char,
    pub(crate) style: Style,
    /// (x, y) by rising x.
    pub(crate) points: Vec<(f64, f64)>,
    /// Two points further apart than this are not joined: nothing was read between them.
    pub(crate) gap: f64,
    /// Belongs to the axis on the right.
    pub(crate) right: bool,
}
