//! The state of the Learn screen.

use super::simulation::Simulation;
use crate::present::lesson::{Lesson, ModelLoads};
use crate::present::lesson_steps as steps;
use crate::tui::context;
use crate::tui::widgets::scroll::Scroll;
use std::sync::Arc;
use std::time::Duration;

pub(super) type Ui<'a> = context::Ui<'a, Learn>;

/// Duration of the animation of a step.
pub(super) const PLAY: Duration = Duration::from_secs(6);

/// The Learn screen.
#[derive(Debug, Default)]
pub(crate) struct Learn {
    pub(crate) step: usize,
    /// The part of the animation that was played, from 0 to 1.
    pub(crate) at: f64,
    pub(crate) paused: bool,
    /// The index of the slider that the keys move.
    pub(crate) slider: usize,
    pub(crate) simulation: Simulation,
    /// The pane that small screens show.
    pub(crate) pane: usize,
    pub(crate) scroll: Scroll,
    /// The lesson, after its recordings were read.
    pub(crate) lesson: Option<Result<Arc<Lesson>, String>>,
    /// The loads of this session.
    pub(crate) measured: Option<ModelLoads>,
    /// The number of loads from which `measured` was computed.
    pub(crate) measured_of: usize,
}

impl Learn {
    /// Whether the animation is playing.
    pub(super) fn is_playing(&self) -> bool {
        !self.paused && self.at < 1.0 && steps::figure(self.step).moves() && matches!(self.lesson, Some(Ok(_)))
    }

    /// Goes to a step and starts its animation.
    pub(crate) fn go(&mut self, step: usize) {
        self.step = step.min(steps::STEPS - 1);
        self.at = 0.0;
        self.scroll.set(0);
        self.paused = false;
    }
}
