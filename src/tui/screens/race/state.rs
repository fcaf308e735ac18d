//! The state of the Race screen.

use crate::tui::context;
use crate::tui::widgets::time_view::TimeView;
use std::cell::Cell;

pub(super) type Ui<'a> = context::Ui<'a, Race>;

/// The Race screen.
#[derive(Debug, Default)]
pub(crate) struct Race {
    /// The number of the chart that is shown if only one fits.
    pub(crate) chart: usize,
    /// The time range of the charts and their cursor.
    pub(crate) time: TimeView,
    /// Session time in nanoseconds at which the charts were put on hold.
    pub(crate) held_ns: Option<u64>,
    /// The pane that small screens show.
    pub(crate) pane: usize,
    /// Whether one chart fills the screen.
    pub(crate) expanded: bool,
    /// The cell of the storage grid that the user selected. `None`: the running cell, or else the fastest one.
    pub(crate) cell: Option<usize>,
    /// The layer that the user selected. `None`: the one with the longest waiting time.
    pub(crate) layer: Option<usize>,
    /// Whether charts are shown instead of the layers of a read.
    pub(crate) charts: bool,
    /// Whether the last frame showed charts over time.
    pub(crate) charted: Cell<bool>,
    /// Whether there were more charts than the last frame could show.
    pub(crate) more: Cell<bool>,
    /// The selected line among the engines that cannot run.
    pub(crate) refused: Option<usize>,
    /// The selected line of the plans, if they are open.
    pub(crate) plans: Option<usize>,
}

impl Race {
    /// Resets the choices that belong to the runs of another plan.
    pub(super) fn forget(&mut self) {
        let (chart, pane, charts, plans) = (self.chart, self.pane, self.charts, self.plans);
        *self = Self { chart, pane, charts, plans, ..Self::default() };
    }
}
