//! The state of the System screen.

use crate::session::State;
use crate::tui::context::{self, Context};
use crate::tui::widgets::time_view::TimeView;
use std::cell::Cell;

pub(super) type Ui<'a> = context::Ui<'a, System>;

/// The sort key of the processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProcessSort {
    /// By read rate, then by GPU memory.
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

    /// The next sort key. After the last column it is the activity again.
    pub(super) fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }
}

/// The System screen.
#[derive(Debug, Default)]
pub(crate) struct System {
    /// The selected process. `None`: the busiest one is selected.
    pub(crate) pid: Option<u32>,
    /// The time range of the charts and their cursor, in seconds of the session.
    pub(crate) time: TimeView,
    /// Session time in nanoseconds at which the charts were put on hold.
    pub(crate) held_ns: Option<u64>,
    /// Whether the last frame contained charts.
    pub(crate) charted: Cell<bool>,
    /// Whether there are more charts than fit. Tab shows the next one.
    pub(crate) more: Cell<bool>,
    pub(crate) sort: ProcessSort,
    pub(crate) reversed: bool,
    pub(crate) filter: String,
    /// Whether only the selected process is shown.
    pub(crate) open: bool,
    /// The pane that small screens show.
    pub(crate) pane: usize,
}

/// Whether the screen shows the past: the session has ended, or it is a recording, and it contains meters. A watched
/// program has none of disks and GPUs.
pub(super) fn is_past(state: &State, ctx: &Context) -> bool {
    let has_meters = !state.samples.is_empty() && state.watch.is_none();
    !ctx.is_live() && !ctx.captured && state.system.is_empty() && has_meters
}
