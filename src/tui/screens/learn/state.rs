//! The state of the Learn screen.

use super::simulation::Simulation;
use super::steps;
use crate::tui::context;
use crate::tui::jobs::lesson::{Lesson, ModelLoads};
use crate::tui::widgets::scroll::Scroll;
use std::sync::Arc;
use std::time::Duration;

pub(super) type Ui<'a> = context::Ui<'a, Learn>;

/// The duration of a step of the lesson.
pub(super) const PLAY: Duration = Duration::from_secs(6);

/// The Learn screen.
#[derive(Debug, Default)]
pub(crate) struct Learn {
    pub(crate) step: usize,
    /// Share of the timeline that was played.
    pub(crate) at: f64,
    pub(crate) paused: bool,
    /// Which slider the keys move.
    pub(crate) slider: usize,
    pub(crate) simulation: Simulation,
    /// Pane shown on small screens.
    pub(crate) pane: usize,
    pub(crate) scroll: Scroll,
    /// The recordings, once they are read.
    pub(crate) lesson: Option<Result<Arc<Lesson>, String>>,
    /// The loads of this session.
    pub(crate) measured: Option<ModelLoads>,
    /// Number of loads that `measured` was made from.
    pub(crate) measured_of: usize,
}

impl Learn {
    /// Whether the timeline moves.
    pub(super) fn is_playing(&self) -> bool {
        !self.paused && self.at < 1.0 && steps::figure(self.step).moves() && matches!(self.lesson, Some(Ok(_)))
    }

    /// Begins a step.
    pub(crate) fn go(&mut self, step: usize) {
        self.step = step.min(steps::STEPS - 1);
        self.at = 0.0;
        self.scroll.set(0);
        self.paused = false;
    }
}
