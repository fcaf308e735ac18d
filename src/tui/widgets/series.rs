//! The data of a line in a chart.

use ratatui::style::Style;

/// One line of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// The marker at the end of the line and before its name.
    pub(crate) marker: char,
    pub(crate) style: Style,
    /// Points (x, y) with increasing x.
    pub(crate) points: Vec<(f64, f64)>,
    /// Maximum distance in x between two joined points. A larger distance means that readings are missing.
    pub(crate) gap: f64,
    /// Whether the line belongs to the right axis.
    pub(crate) right: bool,
}
