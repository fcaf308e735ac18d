//! The interface between a screen and the rest of the program.

use super::clicks::Spot;
use super::commands::Jump;
use super::context::Context;
use super::effect::Effect;
use super::jobs::queue::{Job, JobResult};
use super::keys::action::Action;
use super::pen::Pen;
use super::screen_id::ScreenId;
use super::theme::Theme;
use crate::session::State;
use std::any::Any;
use std::time::Duration;

/// The tab of a screen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tab {
    /// The title, which describes the content.
    pub(crate) title: &'static str,
    /// The content in a few words for the help. `None` if it is that of the screen's key.
    pub(crate) about: Option<&'static str>,
    /// Whether the screen has no content.
    pub(crate) is_empty: bool,
}

/// A screen with its state, keys, update and view. `session` is the complete state; a measurement screen shows one
/// page of it.
pub(crate) trait Screen: Any {
    fn id(&self) -> ScreenId;

    /// The tab of the screen: its title, and whether the screen has content.
    fn tab(&self, _session: &State, _ctx: &Context) -> Tab {
        Tab { title: self.id().title(), about: None, is_empty: false }
    }

    /// The page of the session that the screen shows.
    fn page<'s>(&self, session: &'s State, _ctx: &Context) -> &'s State {
        session
    }

    /// The index of the current key table: 0 for the screen, others for its sheets.
    fn table(&self) -> usize {
        0
    }

    /// Whether a row of the current key table is available now.
    fn enables(&self, row: usize, session: &State, ctx: &Context) -> bool;

    /// Performs the action of a key.
    fn act(&mut self, action: Action, session: &State, ctx: &mut Context) -> Effect;

    /// Handles a click on an area that the screen drew.
    fn click(&mut self, _spot: Spot, _session: &State, _ctx: &mut Context) -> Effect {
        Effect::default()
    }

    /// Handles a click into a chart. `at_s` is the time on the axis in seconds.
    fn put_cursor(&mut self, _at_s: f64, _session: &State, _ctx: &Context) {}

    /// Handles a step of the wheel, up or down, over the area under the pointer. Texts and long tables move by three
    /// lines.
    fn wheel(&mut self, step: Action, _under: Option<Spot>, session: &State, ctx: &mut Context) {
        for _ in 0..3 {
            self.act(step, session, ctx);
        }
    }

    fn draw(&self, pen: &mut Pen<'_>, session: &State, ctx: &Context, theme: &Theme);

    /// Draws the sheet that covers the screen.
    fn draw_sheet(&self, _pen: &mut Pen<'_>, _session: &State, _ctx: &Context, _theme: &Theme) {}

    /// Called when the screen becomes the current one.
    fn enter(&mut self, _ctx: &Context) -> Effect {
        Effect::default()
    }

    /// Called when another screen becomes the current one.
    fn leave(&mut self, _ctx: &Context) -> Effect {
        Effect::default()
    }

    /// Closes the sheets of the screen, because the user selected a tab.
    fn close_sheets(&mut self) {}

    /// The jobs whose results the screen needs.
    fn jobs(&mut self, _session: &State, _ctx: &Context) -> Vec<Job> {
        Vec::new()
    }

    /// Stores a result, or returns it if it is for another screen.
    fn take(&mut self, result: JobResult) -> Option<JobResult> {
        Some(result)
    }

    /// Updates values that depend on choices and results, before a frame is drawn.
    fn prepare(&mut self, _session: &State, _ctx: &Context) {}

    /// Called when other runs are shown. Choices among the previous runs are then invalid.
    fn page_changed(&mut self) {}

    /// Advances animations.
    fn tick(&mut self, _passed: Duration) {}

    /// Whether the screen changes without events.
    fn plays(&self) -> bool {
        false
    }

    /// The text of the filter.
    fn filter(&self) -> &str {
        ""
    }

    /// The text of the filter for editing; `None` if the screen has no filter.
    fn filter_mut(&mut self) -> Option<&mut String> {
        None
    }

    /// Called after the filter was edited.
    fn filter_changed(&mut self) {}

    /// Items of the screen that match a query of the command palette: kind, label and item.
    fn matches(&self, _query: &str, _session: &State, _ctx: &Context) -> Vec<(&'static str, String, Jump)> {
        Vec::new()
    }

    /// Shows an item of the screen.
    fn jump(&mut self, _jump: &Jump, _session: &State, _ctx: &mut Context) {}

    /// The answer of the screen and the selected line, for the clipboard.
    fn copied(&self, session: &State, ctx: &Context) -> String;
}
