//! The state of the Race screen.

use crate::tui::context;
use crate::tui::widgets::time_view::TimeView;
use std::cell::Cell;

pub(super) type Ui<'a> = context::Ui<'a, Race>;

/// The Race screen.
#[derive(Debug, Default)]
pub(crate) struct Race {
    /// The chart that is shown if only one fits.
    pub(crate) chart: usize,
    /// The part of the time that the charts show, and the cursor in it.
    pub(crate) time: TimeView,
    /// Session time at which the charts were held still, in nanoseconds.
    pub(crate) held_ns: Option<u64>,
    /// Pane shown on small screens.
    pub(crate) pane: usize,
    /// One chart fills the screen.
    pub(crate) expanded: bool,
    /// The cell of the storage grid under the cursor; `None`: the one that runs, else the fastest.
    pub(crate) cell: Option<usize>,
    /// The layer under the cursor; `None`: the one that was waited for longest.
    pub(crate) layer: Option<usize>,
    /// The charts are shown where the layers of a read would be.
    pub(crate) charts: bool,
    /// The last frame had room for charts over time.
    pub(crate) charted: Cell<bool>,
    /// There were more than it had room for.
    pub(crate) more: Cell<bool>,
    /// The selected line of the engines that cannot run.
    pub(crate) refused: Option<usize>,
    /// The selected line of the plans, if they are open.
    pub(crate) plans: Option<usize>,
}

impl Race {
    /// Drops what was chosen among the runs of another plan.
    pub(super) fn forget(&mut self) {
        let (chart, pane, charts, plans) = (self.chart, self.pane, self.charts, self.plans);
        *self = Self { chart, pane, charts, plans, ..Self::default() };
    }
}
