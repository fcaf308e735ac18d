//! The state of the Report screen.

use crate::tui::context;
use crate::tui::widgets::scroll::Scroll;

pub(super) type Ui<'a> = context::Ui<'a, Report>;

/// The Report screen.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) scroll: Scroll,
}
