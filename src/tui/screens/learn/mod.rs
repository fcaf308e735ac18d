//! Screen 5: the lesson.

pub(crate) mod figure;
mod keys;
mod simulation;
mod state;
mod view;

#[cfg(test)]
pub(crate) use crate::present::lesson_steps::{STEPS, step};

pub(crate) use state::Learn;

use crate::present::headline;
use crate::present::lesson::ModelLoadsJob;
use crate::session::{Command, State};
use crate::tui::context::{Context, Ui};
use crate::tui::effect::Effect;
use crate::tui::jobs::queue::{Job, JobResult};
use crate::tui::keys::action::Action;
use crate::tui::keys::bindings::Place;
use crate::tui::keys::spec::Spec;
use crate::tui::keys::table::specs;
use crate::tui::pen::Pen;
use crate::tui::screen::Screen;
use crate::tui::screen_id::ScreenId;
use crate::tui::theme::Theme;
use crate::tui::words::headline_in;
use simulation::Simulation;
use std::time::Duration;

pub(super) fn tables() -> Vec<(Place, Vec<&'static Spec>)> {
    vec![(Place::Screen(ScreenId::Learn, 0), specs(keys::TABLE))]
}

impl Screen for Learn {
    fn id(&self) -> ScreenId {
        ScreenId::Learn
    }

    fn enables(&self, row: usize, session: &State, ctx: &Context) -> bool {
        (keys::TABLE[row].when)(&Ui { ctx, screen: self }, session)
    }

    fn act(&mut self, action: Action, _session: &State, ctx: &mut Context) -> Effect {
        let one_pane = ctx.small || ctx.narrow;
        match action {
            Action::NextPane if one_pane => self.pane = (self.pane + 1) % 3,
            Action::NextPane => self.slider = 1 - self.slider.min(1),
            Action::NextStep => self.go(self.step + 1),
            Action::PreviousStep => self.go(self.step.saturating_sub(1)),
            Action::Play if self.at >= 1.0 => self.go(self.step),
            Action::Play => self.paused = !self.paused,
            Action::SliderUp => self.move_slider(true),
            Action::SliderDown => self.move_slider(false),
            Action::Measure => return Command::Race(None).into(),
            // If the text fills the screen, the arrow keys scroll it. Otherwise they select a slider.
            Action::Up | Action::Down if !(one_pane && self.pane.is_multiple_of(3)) => {
                self.slider = usize::from(action == Action::Down);
            }
            _ => self.scroll.act(action),
        }
        Effect::default()
    }

    fn draw(&self, pen: &mut Pen<'_>, session: &State, ctx: &Context, theme: &Theme) {
        view::draw(pen, session, &Ui { ctx, screen: self }, theme);
    }

    fn jobs(&mut self, session: &State, ctx: &Context) -> Vec<Job> {
        let mut jobs = Vec::new();
        if self.lesson.is_none() {
            jobs.push(Job::Lesson);
        }
        let finished = session.lanes.iter().filter(|lane| lane.ended_ns.is_some()).count();
        if !ctx.replay && finished != self.measured_of && session.running_lane().is_none() {
            self.measured_of = finished;
            let name = session.model.as_ref().map(|model| model.name.clone()).unwrap_or_default();
            jobs.extend(ModelLoadsJob::of(&name, session).map(Job::Measured));
        }
        jobs
    }

    fn take(&mut self, result: JobResult) -> Option<JobResult> {
        match result {
            JobResult::Measured(measured) => self.measured = measured,
            JobResult::Lesson(lesson) => self.lesson = Some(lesson),
            other => return Some(other),
        }
        None
    }

    fn tick(&mut self, passed: Duration) {
        if self.is_playing() {
            self.at = (self.at + passed.as_secs_f64() / state::PLAY.as_secs_f64()).min(1.0);
        }
    }

    fn plays(&self) -> bool {
        self.is_playing()
    }

    fn copied(&self, session: &State, ctx: &Context) -> String {
        headline_in(&headline::race(session, ctx.clock_ns), u16::MAX, 1).text
    }
}

impl Learn {
    fn move_slider(&mut self, up: bool) {
        let simulation = &mut self.simulation;
        let (at, all) = if self.slider == 0 {
            (&mut simulation.size, Simulation::SIZES.len())
        } else {
            (&mut simulation.cost, Simulation::COSTS.len())
        };
        *at = if up { (*at + 1).min(all - 1) } else { at.saturating_sub(1) };
    }
}
