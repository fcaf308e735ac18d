//! The interface of a screen to the event loop and `App`.

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
    /// The name of the content.
    pub(crate) title: &'static str,
    /// There is nothing to show.
    pub(crate) is_empty: bool,
}

/// A screen with its state, keys, update and view. `session` is all that is known; a screen of measurements shows a page of it.
pub(crate) trait Screen: Any {
    fn id(&self) -> ScreenId;

    /// The tab of the screen: named after its content, and whether it has any.
    fn tab(&self, _session: &State, _ctx: &Context) -> Tab {
        Tab { title: self.id().title(), is_empty: false }
    }

    /// The page of the session that the screen shows.
    fn page<'s>(&self, session: &'s State, _ctx: &Context) -> &'s State {
        session
    }

    /// The table of keys that is in use: 0 is the screen's own, the others are those of its sheets.
    fn table(&self) -> usize {
        0
    }

    /// Whether a row of the table in use does something now.
    fn enables(&self, row: usize, session: &State, ctx: &Context) -> bool;

    /// Carries out the action of a key.
    fn act(&mut self, action: Action, session: &State, ctx: &mut Context) -> Effect;

    /// Takes a click on something that the screen drew.
    fn click(&mut self, _spot: Spot, _session: &State, _ctx: &mut Context) -> Effect {
        Effect::default()
    }

    /// Takes a click into a chart, at a time on the clock of the charts.
    fn put_cursor(&mut self, _at_s: f64, _session: &State, _ctx: &Context) {}

    /// Takes a step of the wheel, up or down, over what is under the pointer. Texts and long tables move by three lines.
    fn wheel(&mut self, step: Action, _under: Option<Spot>, session: &State, ctx: &mut Context) {
        for _ in 0..3 {
            self.act(step, session, ctx);
        }
    }

    fn draw(&self, pen: &mut Pen<'_>, session: &State, ctx: &Context, theme: &Theme);

    /// Draws the sheet that is over the screen.
    fn draw_sheet(&self, _pen: &mut Pen<'_>, _session: &State, _ctx: &Context, _theme: &Theme) {}

    /// The screen is shown from now on; another one was before.
    fn enter(&mut self, _ctx: &Context) -> Effect {
        Effect::default()
    }

    /// Another screen is shown from now on.
    fn leave(&mut self, _ctx: &Context) -> Effect {
        Effect::default()
    }

    /// The tab of a screen was chosen, of this one or another: its sheets close.
    fn close_sheets(&mut self) {}

    /// The jobs whose results the screen needs.
    fn jobs(&mut self, _session: &State, _ctx: &Context) -> Vec<Job> {
        Vec::new()
    }

    /// Takes a result, or returns one for another screen.
    fn take(&mut self, result: JobResult) -> Option<JobResult> {
        Some(result)
    }

    /// Brings up to date what follows from choices and results, before a frame is drawn.
    fn prepare(&mut self, _session: &State, _ctx: &Context) {}

    /// Other runs are shown from now on, so what was chosen among the runs before means nothing.
    fn page_changed(&mut self) {}

    /// Advances animations.
    fn tick(&mut self, _passed: Duration) {}

    /// Whether the screen changes without events.
    fn plays(&self) -> bool {
        false
    }

    /// The text that filters what is shown.
    fn filter(&self) -> &str {
        ""
    }

    /// The same to be edited; `None` if nothing can be filtered.
    fn filter_mut(&mut self) -> Option<&mut String> {
        None
    }

    /// The filter was edited.
    fn filter_changed(&mut self) {}

    /// Things of the screen that match a query of the command palette: a kind, a label and the thing.
    fn matches(&self, _query: &str, _session: &State, _ctx: &Context) -> Vec<(&'static str, String, Jump)> {
        Vec::new()
    }

    /// Shows a thing of the screen.
    fn jump(&mut self, _jump: &Jump, _session: &State, _ctx: &mut Context) {}

    /// The answer of the screen and the selected line, for the clipboard.
    fn copied(&self, session: &State, ctx: &Context) -> String;
}
