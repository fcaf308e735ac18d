//! What the person at the keyboard has chosen: screen, selection, folds, filter, sheet. Everything else is `State`.

use super::choices::{EnvironmentUi, LearnUi, PLAY, RaceUi, SystemUi};
pub(crate) use super::choices::{Pane, RowKey};
use super::derived::Derived;
use super::keymap::{self, Action};
use super::keys::Keymap;
use super::lesson::Seeds;
use super::mouse::{self, Hit};
use super::screens::{Limits, answer, environment, guide, layers, plans, race};
use super::study::{Answer, Desk, Question};
use super::tensor_view::{self, TensorsUi};
use crate::domain::{FixPlan, Needs};
use crate::session::{Command, REAL_TIME, State};
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyEventKind};
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

/// What an input led to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) commands: Vec<Command>,
    pub(crate) quit: bool,
    pub(crate) interrupt: bool,
    pub(crate) suspend: bool,
    pub(crate) repaint: bool,
    /// For the clipboard of the terminal.
    pub(crate) copy: Option<String>,
    pub(crate) export: bool,
    pub(crate) baseline: bool,
    /// Lend the terminal to sudo first; then these commands are sent.
    pub(crate) lend: Vec<Command>,
}

impl Effect {
    /// A command about a fix: at once, or after sudo knows the user.
    fn of_fix(&mut self, asks_sudo: bool, command: Option<Command>) {
        if asks_sudo { self.lend.extend(command) } else { self.commands.extend(command) }
    }
}

/// A plan that was offered for a finding, or one of the checklist.
pub(crate) fn plan_of<'s>(state: &'s State, id: &str) -> Option<&'s FixPlan> {
    let steps = state.guide.iter().flat_map(|guide| &guide.steps).flat_map(|step| &step.plans);
    state.plans.iter().chain(steps).find(|plan| plan.id == id)
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
    fn show_plan(&mut self, number: Option<usize>) {
        self.race.shown = number;
        self.race.forget();
        self.tensors.at = 0;
        self.report_scroll = 0;
    }

    fn run_plan(&mut self, state: &State) -> Effect {
        let mut effect = Effect::default();
        match plans::rows(state).get(self.plan_at) {
            Some(plans::Row::Offer(plan)) => match plans::obstacle(state, self, plan) {
                Some(why) => self.notice = Some(format!("{}: {why}", plan.title)),
                None => {
                    effect.commands.push(Command::RunPlan(plan.name.clone()));
                    self.sheet = None;
                    self.show_plan(None);
                }
            },
            Some(plans::Row::Ran(number)) => {
                self.sheet = None;
                self.show_plan(*number);
            }
            None => {}
        }
        effect
    }

    /// The plan that mends the selected check; where it needs none, the first step towards the goal.
    pub(crate) fn fix_of_selection<'s>(&self, state: &'s State) -> Option<&'s FixPlan> {
        let own = environment::selected_finding(state, self).and_then(|finding| answer::plan_for(state, finding));
        own.or_else(|| answer::first_plan(state, environment::verdict(state, self)?))
    }

    /// Takes an input; the answer says what the loop must do.
    pub(crate) fn input(&mut self, input: &Input, state: &State) -> Effect {
        match input {
            Input::Key(key) if key.kind != KeyEventKind::Release => self.key(*key, state),
            Input::Mouse(event) => mouse::input(self, *event, state),
            Input::Paste(text) if self.filtering => {
                self.filter_mut().extend(text.chars().filter(|c| !c.is_control()));
                Effect::default()
            }
            _ => Effect::default(),
        }
    }

    fn key(&mut self, key: KeyEvent, state: &State) -> Effect {
        self.notice = None;
        self.messages_seen = state.messages.len();
        let asked = std::mem::take(&mut self.quit_asked);
        #[cfg(debug_assertions)]
        if key.code == KeyCode::Char('P') && std::env::var_os("GDS_TOP_TEST_PANIC").is_some() {
            // For the test that a panic leaves the terminal whole; not in a release.
            #[allow(clippy::panic, reason = "the panic is what is tested")]
            {
                panic!("asked for by a test");
            }
        }
        if self.filtering && self.filter_key(key) {
            return Effect::default();
        }
        if key.code == KeyCode::Esc {
            self.escape();
            return Effect::default();
        }
        let seen = if self.sheet == Some(Sheet::Plans) { state } else { self.seen(state) };
        match keymap::action(key, seen, self) {
            Some(Action::Quit) => self.quit(asked, state),
            Some(action) => self.act(action, state),
            None => Effect::default(),
        }
    }

    /// Opens a sheet at its top.
    fn open_sheet(&mut self, sheet: Sheet) {
        self.sheet = Some(sheet);
        self.sheet_scroll = 0;
        self.sheet_held = false;
    }

    fn escape(&mut self) {
        if let Some(closed) = self.sheet.take() {
            (self.sheet_scroll, self.sheet_held) = (0, false);
            if matches!(closed, Sheet::Fix(_)) && std::mem::take(&mut self.from_guide) {
                self.sheet = Some(Sheet::Guide);
            }
        } else if self.race.expanded && self.screen == Screen::Race {
            self.race.expanded = false;
        } else if self.system.time.cursor.is_some() && self.screen == Screen::System {
            self.system.time.cursor = None;
        } else if self.screen == Screen::System {
            if !std::mem::take(&mut self.system.open) {
                self.system.filter.clear();
            }
        } else if self.race.time.cursor.is_some() && self.screen == Screen::Race {
            self.race.time.cursor = None;
        } else if self.screen == Screen::Tensors && self.tensors.open {
            self.tensors.open = false;
        } else if self.screen == Screen::Tensors {
            self.tensors.filter.clear();
        } else if self.screen == Screen::Environment {
            if self.environment.pane == Pane::Detail {
                self.environment.pane = Pane::List;
            } else {
                self.environment.filter.clear();
            }
        }
    }

    /// Does what a label of a key says that was clicked.
    pub(crate) fn press(&mut self, action: Action, state: &State) -> Effect {
        let asked = std::mem::take(&mut self.quit_asked);
        if action == Action::Quit { self.quit(asked, state) } else { self.act(action, state) }
    }

    fn quit(&mut self, asked: bool, state: &State) -> Effect {
        let fixing = super::sheet_keys::fix_busy(state, self);
        let racing = !self.replay && state.is_measuring();
        if (fixing || racing) && !asked && !self.over {
            self.quit_asked = true;
            let what = if fixing { "a fix is being applied" } else { "a race is under way" };
            self.notice = Some(format!("{what}: {} again stops it and quits", self.keys.key_of(Action::Quit)));
            return Effect::default();
        }
        Effect { commands: vec![Command::Quit], quit: true, ..Effect::default() }
    }

    /// Does what a key or a click stands for.
    pub(crate) fn act(&mut self, action: Action, state: &State) -> Effect {
        let whole = state;
        let state = if self.sheet == Some(Sheet::Plans) { whole } else { self.seen(whole) };
        let mut effect = Effect::default();
        let plan = self.sheet_plan(state);
        let asks_sudo = self.needs_sudo && plan.is_some_and(|plan| plan.needs != Needs::User);
        let plan = plan.map(|plan| plan.id.clone());
        match action {
            Action::Screen(screen) => {
                let live = !self.replay && !self.over && !self.captured;
                if live && (screen == Screen::System) != (self.screen == Screen::System) {
                    effect.commands.push(Command::WatchSystem(screen == Screen::System));
                }
                self.screen = screen;
                self.sheet = None;
                self.filtering = false;
            }
            Action::Help => {
                if self.sheet == Some(Sheet::Help) {
                    self.sheet = None
                } else {
                    self.open_sheet(Sheet::Help)
                }
            }
            Action::Fix => {
                if let Some(plan) = self.fix_of_selection(state) {
                    self.open_sheet(Sheet::Fix(plan.id.clone()));
                    self.from_guide = false;
                }
            }
            Action::Apply | Action::DryRun | Action::Undo => {
                // What it says now is what one wants to see.
                self.sheet_held = false;
                match action {
                    Action::Apply => effect.of_fix(asks_sudo, plan.map(Command::ApplyFix)),
                    Action::Undo => effect.of_fix(asks_sudo, plan.map(Command::UndoFix)),
                    _ => effect.commands.extend(plan.map(Command::DryRunFix)),
                }
            }
            Action::Guide => {
                self.open_sheet(Sheet::Guide);
                self.guide_at = guide::first_open(state);
            }
            Action::Recheck => effect.commands.push(Command::Recheck),
            Action::RaceAgain => effect.commands.push(match (&state.race_plan, state.grid.is_some()) {
                (Some((name, _)), _) => Command::RunPlan(name.clone()),
                (None, true) => Command::RunPlan("io grid".to_owned()),
                (None, false) => Command::Race(None),
            }),
            Action::Plans => {
                self.open_sheet(Sheet::Plans);
                self.plan_at = 0;
            }
            Action::RunPlan | Action::ShowPlan => return self.run_plan(whole),
            Action::OlderPlan => {
                let at = self.race.shown.unwrap_or(whole.earlier.len());
                self.show_plan(Some(at.saturating_sub(1)).filter(|_| !whole.earlier.is_empty()));
            }
            Action::NewerPlan => {
                let next = self.race.shown.map(|at| at + 1).filter(|at| *at < whole.earlier.len());
                self.show_plan(next);
            }
            Action::CancelRace => {
                self.notice = Some("stopping the race; what was measured stays".to_owned());
                effect.commands.push(Command::CancelRace);
            }
            Action::Pause => {
                self.paused = !self.paused;
                effect.commands.push(Command::Pause(self.paused));
            }
            Action::Faster => effect.commands.push(self.change_speed(true)),
            Action::Slower => effect.commands.push(self.change_speed(false)),
            Action::Filter => {
                self.filtering = true;
                self.environment.pane = Pane::List;
            }
            Action::NextVerdict => {
                self.environment.verdict = (self.environment.verdict + 1) % state.verdicts.len().max(1)
            }
            Action::NextPane => self.next_pane(state),
            Action::NextChart => self.race.chart = (self.race.chart + 1) % 3,
            Action::NextEngine => self.change_engine(state, true),
            Action::PreviousEngine => self.change_engine(state, false),
            Action::Sort if self.screen == Screen::System => self.system.sort = self.system.sort.next(),
            Action::Reverse if self.screen == Screen::System => self.system.reversed = !self.system.reversed,
            Action::Sort => self.tensors.sort = self.tensors.sort.next(self.tensors.rival.is_some()),
            Action::Reverse => self.tensors.reversed = !self.tensors.reversed,
            Action::Left | Action::Right if state.grid.is_some() && state.lanes.is_empty() => self.step(action, state),
            Action::Left | Action::Right if super::plan_keys::on_layers(state, self) => {
                layers::step(self, state, action == Action::Right);
            }
            Action::Layers => self.race.charts = !self.race.charts,
            Action::Left | Action::Right if self.screen == Screen::Environment => {
                self.sideways(action == Action::Right, state);
            }
            Action::Left | Action::Right | Action::PanBack | Action::PanForward => self.move_in_time(action, state),
            Action::ZoomIn | Action::ZoomOut | Action::ZoomAll => self.move_in_time(action, state),
            Action::Compare => self.tensors.against = self.tensors.against.wrapping_add(1),
            Action::Hold => {
                let now_ns = self.clock_ns;
                let held =
                    if self.screen == Screen::System { &mut self.system.held_ns } else { &mut self.race.held_ns };
                *held = if held.is_some() { None } else { Some(now_ns) };
            }
            Action::Expand => self.race.expanded = !self.race.expanded,
            Action::NextStep => self.learn.go(self.learn.step + 1),
            Action::PreviousStep => self.learn.go(self.learn.step.saturating_sub(1)),
            Action::Play => {
                if self.learn.at >= 1.0 {
                    self.learn.go(self.learn.step);
                } else {
                    self.learn.paused = !self.learn.paused;
                }
            }
            Action::SliderUp => self.move_slider(true),
            Action::SliderDown => self.move_slider(false),
            Action::Measure => effect.commands.push(Command::Race(None)),
            Action::Copy | Action::CopyCommands => {
                let text = super::copy::text(state, self);
                self.notice = Some(format!("copied: {}", super::pen::cut(text.lines().next().unwrap_or_default(), 60)));
                effect.copy = Some(text);
            }
            Action::Export => effect.export = true,
            Action::Baseline => effect.baseline = true,
            Action::Up | Action::Down | Action::PageUp | Action::PageDown | Action::First | Action::Last => {
                self.step(action, state);
            }
            Action::Open if self.sheet == Some(Sheet::Guide) => {
                if let Some(id) = plan {
                    self.open_sheet(Sheet::Fix(id));
                    self.from_guide = true;
                }
            }
            Action::Open => self.open(state),
            Action::Redraw => effect.repaint = true,
            Action::Suspend => effect.suspend = true,
            Action::Interrupt => {
                effect.interrupt = true;
                effect.commands.push(Command::Quit);
            }
            Action::Close => self.escape(),
            Action::Quit => {}
        }
        effect
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
        let mut questions =
            if self.screen == Screen::Tensors { tensor_view::questions(self, state) } else { Vec::new() };
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
            tensor_view::prepare(self, state);
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

    fn change_engine(&mut self, state: &State, forward: bool) {
        let count = race::entry_count(state).max(1);
        let at = tensor_view::entry_index(state, self).unwrap_or(0);
        let candidates = tensor_view::entries_with_spans(state);
        let next = if forward {
            candidates.iter().find(|i| **i > at).or(candidates.first())
        } else {
            candidates.iter().rev().find(|i| **i < at).or(candidates.last())
        };
        self.race.selected = next.map(|i| (*i).min(count - 1)).or(self.race.selected);
    }

    fn change_speed(&mut self, faster: bool) -> Command {
        // From a sixteenth of real time to sixteen times.
        let speed = if self.speed == 0 { REAL_TIME } else { self.speed };
        self.speed = if faster { speed.saturating_mul(2).min(REAL_TIME * 16) } else { (speed / 2).max(1) };
        Command::Speed(self.speed)
    }
}
