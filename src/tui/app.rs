//! What the person at the keyboard has chosen: screen, selection, folds, filter, sheet. Everything else is `State`.

use super::choices::{EnvironmentUi, LearnUi, PLAY, RaceUi, SystemUi};
pub(crate) use super::choices::{Pane, RowKey};
use super::derived::Derived;
use super::keys::Keymap;
use super::mouse::Hit;
use super::screens::Limits;
use super::screens::environment::{answer, checks, guide, view as environment};
use super::screens::learn::lesson::Seeds;
use super::screens::tensors::runs::{self, TensorsUi};
use super::study::{Answer, Desk, Question};
use crate::domain::{AppliedFix, FixPlan};
use crate::session::State;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// A screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Screen {
    /// Will reads go straight to the GPU?
    #[default]
    Environment,
    /// Which way of loading is fastest here, and why?
    Race,
    /// What does each tensor cost?
    Tensors,
    /// Who is using GPUs and storage right now?
    System,
    /// Why can GDS be slower on a small model?
    Learn,
    /// What was found and measured, as it is exported.
    Report,
}

impl Screen {
    /// The screens of this version, in the order of their keys.
    pub const ALL: [Self; 6] = [Self::Environment, Self::Race, Self::Tensors, Self::System, Self::Learn, Self::Report];

    /// The title on the tab.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Environment => "Environment",
            Self::Race => "Race",
            Self::Tensors => "Tensors",
            Self::System => "System",
            Self::Learn => "Learn",
            Self::Report => "Report",
        }
    }

    /// The title where there is little room.
    #[must_use]
    pub const fn short_title(self) -> &'static str {
        match self {
            Self::Environment => "Env",
            other => other.title(),
        }
    }

    /// The key of the tab.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Environment => 1,
            Self::Race => 2,
            Self::Tensors => 3,
            Self::System => 4,
            Self::Learn => 5,
            Self::Report => 6,
        }
    }
}

/// What lies over the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sheet {
    /// The keys.
    Help,
    /// A fix, by the id of its plan.
    Fix(String),
    /// The way to a direct route, step by step.
    Guide,
    /// What else can be run, and what ran.
    Plans,
}

/// All choices.
#[derive(Clone, Debug, Default)]
pub(crate) struct UiState {
    pub(crate) screen: Screen,
    pub(crate) environment: EnvironmentUi,
    pub(crate) race: RaceUi,
    pub(crate) tensors: TensorsUi,
    pub(crate) system: SystemUi,
    pub(crate) learn: LearnUi,
    /// Where the last frame can be clicked.
    pub(crate) hits: RefCell<Vec<Hit>>,
    /// The report can be written from here.
    pub(crate) can_export: bool,
    /// The filter of the screen is being typed.
    pub(crate) filtering: bool,
    pub(crate) sheet: Option<Sheet>,
    pub(crate) sheet_scroll: usize,
    /// The sheet was scrolled by hand, so that it does not follow what it says.
    pub(crate) sheet_held: bool,
    /// How far the sheet of the last frame could be scrolled.
    pub(crate) sheet_last: usize,
    /// The selected line of the checklist: a step or a fix.
    pub(crate) guide_at: usize,
    /// The selected line of the plans.
    pub(crate) plan_at: usize,
    /// The open fix was chosen in the checklist, and closing it leads back there.
    pub(crate) from_guide: bool,
    /// Fixes for root are applied by sudo, which may ask for a password.
    pub(crate) needs_sudo: bool,
    pub(crate) report_scroll: usize,
    /// A replay, not a live session.
    pub(crate) replay: bool,
    /// The session examines the machine only when it is asked to, and was not yet.
    pub(crate) unasked: bool,
    /// A folder stands for the machine, so nothing runs on it.
    pub(crate) captured: bool,
    pub(crate) paused: bool,
    /// Speed of a replay in sixteenths of real time; 0 is as fast as possible.
    pub(crate) speed: u32,
    /// The feed closed: the session is over, the screens stay.
    pub(crate) over: bool,
    /// Session time now, in nanoseconds; runs on between events while a live lane runs.
    pub(crate) clock_ns: u64,
    /// Frames drawn while something moved, for the spinner.
    pub(crate) beat: u64,
    /// The terminal has room for one pane only (told by the last size).
    pub(crate) small: bool,
    /// Too narrow for a table with a picture beside it (told by the last size).
    pub(crate) narrow: bool,
    /// Messages of the session that have had their time in the footer.
    pub(crate) messages_seen: usize,
    /// A line for the user, until the next key.
    pub(crate) notice: Option<String>,
    /// `q` was pressed while work is under way.
    pub(crate) quit_asked: bool,
    /// What is drawn from spans, computed once a lane.
    pub(crate) derived: Derived,
    /// What is to be found out before the screens are whole.
    pub(crate) desk: Desk,
    /// Pictures a second while something moves, where that was chosen.
    pub(crate) frames_per_second: Option<u32>,
    /// The keys in use.
    pub(crate) keys: Arc<Keymap>,
}

/// A plan that was offered for a finding, or one of the checklist; of a fix that is applied, what it did.
pub(crate) fn plan_of<'s>(state: &'s State, id: &str) -> Option<&'s FixPlan> {
    let applied = state.applied.iter().find(|fix| fix.plan.id == id);
    if let Some(fix) = applied.filter(|fix| fix.stands) {
        return Some(&fix.plan);
    }
    let steps = state.guide.iter().flat_map(|guide| &guide.steps).flat_map(|step| &step.plans);
    state.plans.iter().chain(steps).find(|plan| plan.id == id).or(applied.map(|fix| &fix.plan))
}

impl UiState {
    /// Holds scrolling back at the ends that the last frame found.
    pub(crate) fn hold_to(&mut self, limits: Limits) {
        self.sheet_last = limits.sheet_scroll;
        self.sheet_scroll = self.sheet_scroll.min(limits.sheet_scroll);
        self.environment.detail_scroll = self.environment.detail_scroll.min(limits.detail_scroll);
        self.report_scroll = self.report_scroll.min(limits.report_scroll);
        self.learn.scroll = self.learn.scroll.min(limits.learn_scroll);
    }

    /// The plan of the open fix sheet.
    pub(crate) fn sheet_plan<'s>(&self, state: &'s State) -> Option<&'s FixPlan> {
        match &self.sheet {
            Some(Sheet::Fix(id)) => plan_of(state, id),
            Some(Sheet::Guide) => guide::rows(state).get(self.guide_at).and_then(|row| row.plan),
            _ => None,
        }
    }

    /// What the screen shows: the session, or on the screens of measurements the plan before it that was chosen.
    pub(crate) fn seen<'s>(&self, state: &'s State) -> &'s State {
        match self.screen {
            Screen::Race | Screen::Tensors | Screen::Report => {
                self.race.shown.and_then(|number| state.earlier.get(number)).map_or(state, |page| page)
            }
            _ => state,
        }
    }

    /// Shows what ran: by its number among the earlier plans, or the newest.
    pub(super) fn show_plan(&mut self, number: Option<usize>) {
        self.race.shown = number;
        self.race.forget();
        self.tensors.at = 0;
        self.report_scroll = 0;
    }

    /// The plan that mends the selected check; where it needs none, the first step towards the goal.
    pub(crate) fn fix_of_selection<'s>(&self, state: &'s State) -> Option<&'s FixPlan> {
        let own = checks::selected_finding(state, self).and_then(|finding| answer::plan_for(state, finding));
        own.or_else(|| answer::first_plan(state, environment::verdict(state, self)?))
    }

    /// The applied fix that undoing means here: that of the selected check, line of the checklist or group, else the one that was applied last.
    pub(crate) fn undo_of_selection<'s>(&self, state: &'s State) -> Option<&'s AppliedFix> {
        let newest = |suits: &dyn Fn(&AppliedFix) -> bool| state.applied.iter().rev().find(|fix| suits(fix));
        let chosen = match (&self.sheet, checks::selected_row(state, self)) {
            (Some(Sheet::Guide), _) => self.sheet_plan(state).and_then(|plan| newest(&|fix| fix.plan.id == plan.id)),
            (_, Some(RowKey::Check(id))) => {
                let named = state.checks.iter().find(|finding| finding.id == id).and_then(|f| f.fix.as_deref());
                newest(&|fix| fix.plan.check == id || named == Some(fix.plan.id.as_str()))
            }
            (_, Some(RowKey::Group(group))) => {
                newest(&|fix| state.group(group).any(|finding| finding.id == fix.plan.check))
            }
            _ => None,
        };
        chosen.or_else(|| newest(&|_| true))
    }

    /// What must be computed before a frame can be drawn.
    pub(crate) fn prepare(&mut self, state: &State) {
        if self.race.earlier != state.earlier.len() {
            // A plan began: its page is shown, and the choices made on the page before mean nothing there.
            self.race.earlier = state.earlier.len();
            self.show_plan(None);
        }
        if self.race.page != self.race.shown.map_or(self.race.earlier, |at| at) {
            self.race.page = self.race.shown.map_or(self.race.earlier, |at| at);
            self.derived = Derived::default();
        }
        let state = self.seen(state);
        let mut questions = if self.screen == Screen::Tensors { runs::questions(self, state) } else { Vec::new() };
        let whole = |q: &Question, lane| matches!(q, Question::Lane(study) if study.lane == lane);
        for study in self.derived.wants(state) {
            // Rows are made from the same spans: one look is enough.
            if !questions.iter().any(|question| whole(question, study.lane)) {
                questions.push(Question::Lane(Box::new(study)));
            }
        }
        if self.screen == Screen::Learn && !self.replay {
            let finished = state.lanes.iter().filter(|lane| lane.ended_ns.is_some()).count();
            if finished != self.learn.here_of && state.running_lane().is_none() {
                self.learn.here_of = finished;
                let name = state.model.as_ref().map(|model| model.name.clone()).unwrap_or_default();
                questions.extend(Seeds::of(&name, state).map(Question::Here));
            }
        }
        for question in self.desk.sort(questions) {
            self.take(question.answer());
        }
        self.derived.conclude(state);
        if self.screen == Screen::Tensors {
            runs::prepare(self, state);
        }
    }

    /// Takes in what was found out.
    pub(crate) fn take(&mut self, answer: Answer) {
        self.desk.back(&answer);
        match answer {
            Answer::Lane(studied) => {
                let lane = studied.lane;
                if let Some(run) = self.derived.take(*studied) {
                    self.tensors.take(lane, run);
                }
            }
            Answer::Names(names) => self.tensors.take_names(*names),
            Answer::Here(told) => self.learn.here = told,
        }
    }

    /// Lets time pass on what plays by itself.
    pub(crate) fn tick(&mut self, passed: Duration) {
        if self.screen == Screen::Learn && self.learn.plays() {
            self.learn.at = (self.learn.at + passed.as_secs_f64() / PLAY.as_secs_f64()).min(1.0);
        }
    }

    /// Whether the lesson's recordings are wanted and not there yet.
    pub(crate) fn wants_lesson(&self) -> bool {
        self.screen == Screen::Learn && self.learn.lesson.is_none()
    }
}
