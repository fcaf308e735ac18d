//! The state of the System screen.

use crate::session::State;
use crate::tui::context::{self, Context};
use crate::tui::widgets::time_view::TimeView;
use std::cell::Cell;

pub(super) type Ui<'a> = context::Ui<'a, System>;

/// The sort key of the processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProcessSort {
    /// In the order of bytes read, then of GPU memory.
    #[default]
    Activity,
    Storage,
    Calls,
    Memory,
    Gpu,
    Cpu,
    Pid,
}

impl ProcessSort {
    pub(super) const ALL: [Self; 7] =
        [Self::Activity, Self::Storage, Self::Calls, Self::Memory, Self::Gpu, Self::Cpu, Self::Pid];

    /// The next column, and after the last one by activity again.
    pub(super) fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }
}

/// The System screen.
#[derive(Debug, Default)]
pub(crate) struct System {
    /// `None`: the busiest.
    pub(crate) pid: Option<u32>,
    /// The part of the time that the charts show, and the cursor in it, in seconds of the session.
    pub(crate) time: TimeView,
    /// Session time at which the charts were held still, in nanoseconds.
    pub(crate) held_ns: Option<u64>,
    /// Charts were drawn in the last frame: there was room for them.
    pub(crate) charted: Cell<bool>,
    /// More charts than fit: Tab shows the next.
    pub(crate) more: Cell<bool>,
    pub(crate) sort: ProcessSort,
    pub(crate) reversed: bool,
    pub(crate) filter: String,
    /// Only the process is shown.
    pub(crate) open: bool,
    /// Pane shown on small screens.
    pub(crate) pane: usize,
}

/// A session that is over, or a recording of one, of which meters were kept.
pub(super) fn is_past(state: &State, ctx: &Context) -> bool {
    !ctx.is_live() && !ctx.captured && state.system.is_empty() && !state.samples.is_empty()
}
