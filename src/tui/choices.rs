//! What the user has chosen on each screen.

use super::screens::learn::lesson::{Lesson, Simulation, Told};
use super::screens::learn::steps;
use super::widgets::time_view::TimeView;
use crate::domain::Group;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A part of a screen that takes the arrows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pane {
    #[default]
    List,
    Detail,
}

/// A line of the check list, by what it shows and not by its number, so that the list may grow under the selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowKey {
    Group(Group),
    Check(String),
}

/// Choices on the Environment screen.
#[derive(Clone, Debug, Default)]
pub(crate) struct EnvironmentUi {
    /// `None`: the line that deserves it most.
    pub(crate) selected: Option<RowKey>,
    /// Groups that are not as they would be by themselves.
    pub(crate) toggled: BTreeSet<Group>,
    pub(crate) filter: String,
    pub(crate) pane: Pane,
    pub(crate) detail_scroll: usize,
    pub(crate) verdict: usize,
    /// Lines of the list in the last frame: where there is room, groups are open by themselves.
    pub(crate) room: Cell<usize>,
}

/// Choices on the Race screen.
#[derive(Clone, Debug, Default)]
pub(crate) struct RaceUi {
    /// Which entry; `None`: the running one, else the fastest.
    pub(crate) selected: Option<usize>,
    /// Which chart, where there is room for one.
    pub(crate) chart: usize,
    /// The part of the time that the charts show, and the cursor in it.
    pub(crate) time: TimeView,
    /// Session time at which the charts were held still, in nanoseconds.
    pub(crate) held_ns: Option<u64>,
    /// Pane shown on small screens.
    pub(crate) pane: usize,
    /// One chart has the whole screen.
    pub(crate) expanded: bool,
    /// The plan that is shown, by its number among the earlier ones; `None`: the newest.
    pub(crate) shown: Option<usize>,
    /// Plans that ran before the newest, as of the last frame.
    pub(crate) earlier: usize,
    /// The page for which things were computed.
    pub(crate) page: usize,
    /// The layer under the cursor; `None`: the one that was waited for longest.
    pub(crate) layer: Option<usize>,
    /// The charts are shown where the layers of a read would be.
    pub(crate) charts: bool,
    /// The last frame had room for charts over time.
    pub(crate) charted: Cell<bool>,
    /// There were more than it had room for.
    pub(crate) more: Cell<bool>,
}

impl RaceUi {
    /// Drops what was chosen on another page.
    pub(crate) fn forget(&mut self) {
        let (chart, pane, charts) = (self.chart, self.pane, self.charts);
        let (shown, earlier, page) = (self.shown, self.earlier, self.page);
        *self = Self { chart, pane, charts, shown, earlier, page, ..Self::default() };
    }
}

/// What the processes of the System screen are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProcessSort {
    /// What reads most, then by GPU memory.
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
    const ALL: [Self; 7] = [Self::Activity, Self::Storage, Self::Calls, Self::Memory, Self::Gpu, Self::Cpu, Self::Pid];

    /// The next column, and after the last one by activity again.
    pub(crate) fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }
}

/// Choices on the System screen.
#[derive(Clone, Debug, Default)]
pub(crate) struct SystemUi {
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
    /// The process alone is shown.
    pub(crate) open: bool,
    /// Pane shown on small screens.
    pub(crate) pane: usize,
}

/// Choices on the Learn screen.
#[derive(Clone, Debug, Default)]
pub(crate) struct LearnUi {
    pub(crate) step: usize,
    /// Share of the timeline that was played.
    pub(crate) at: f64,
    pub(crate) paused: bool,
    /// Which slider the keys move.
    pub(crate) slider: usize,
    pub(crate) simulation: Simulation,
    /// Pane shown on small screens.
    pub(crate) pane: usize,
    /// Lines of the words above those that are shown.
    pub(crate) scroll: usize,
    /// The recordings, once they are read.
    pub(crate) lesson: Option<Result<Arc<Lesson>, String>>,
    /// What was measured in this session.
    pub(crate) here: Option<Told>,
    /// Loads that `here` was made from.
    pub(crate) here_of: usize,
}

/// How long a step of the lesson plays.
pub(crate) const PLAY: Duration = Duration::from_secs(6);

impl LearnUi {
    /// Whether the timeline moves.
    pub(crate) fn plays(&self) -> bool {
        !self.paused && self.at < 1.0 && steps::figure(self.step).moves() && matches!(self.lesson, Some(Ok(_)))
    }

    /// Begins a step.
    pub(crate) fn go(&mut self, step: usize) {
        self.step = step.min(steps::STEPS - 1);
        self.at = 0.0;
        self.scroll = 0;
        self.paused = false;
    }
}
