//! What a key, a click or an action does to the choices, and what it asks of the loop and the session.

use super::app::{Screen, Sheet, UiState};
use super::choices::Pane;
use super::keymap::{self, Action};
use super::mouse;
use super::screens::environment::guide;
use super::screens::race::{charts, layers, plans, view as race};
use super::screens::tensors::runs;
use crate::domain::Needs;
use crate::session::{Command, REAL_TIME, State};
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyEventKind};

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

impl UiState {
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

    /// Checks and fixes would tell on what is being measured, so the session takes them when it has ended.
    fn say_that_it_waits(&mut self, state: &State) {
        if !self.replay && !self.over && state.is_measuring() {
            let stop = self.keys.key_of(Action::CancelRace);
            self.notice = Some(format!("a race is under way: this comes when it has ended ({stop} on Race stops it)"));
        }
    }

    /// Opens what would be undone, for nothing is undone unseen.
    fn find_undo(&mut self, state: &State) {
        if matches!(self.sheet, Some(Sheet::Fix(_))) {
            self.notice = Some("this fix is not applied, so there is nothing of it to undo".to_owned());
        } else if let Some(fix) = self.undo_of_selection(state) {
            let from_guide = self.sheet == Some(Sheet::Guide);
            self.open_sheet(Sheet::Fix(fix.plan.id.clone()));
            self.from_guide = from_guide;
            // What would be undone is looked at from its top, not from the end of what it said when it was applied.
            self.sheet_held = true;
        } else {
            self.notice = Some("no fix of gds-top is applied here, so there is nothing to undo".to_owned());
        }
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
            Action::Undo if !super::sheet_keys::can_undo(state, self) => self.find_undo(state),
            Action::Apply | Action::DryRun | Action::Undo => {
                // What it says now is what one wants to see.
                self.sheet_held = false;
                self.say_that_it_waits(whole);
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
            Action::Recheck => {
                self.say_that_it_waits(whole);
                self.unasked = false;
                effect.commands.push(Command::Recheck);
            }
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
            Action::NextChart => self.race.chart = charts::next(state, self),
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

    fn change_engine(&mut self, state: &State, forward: bool) {
        let count = race::entry_count(state).max(1);
        let at = runs::entry_index(state, self).unwrap_or(0);
        let candidates = runs::entries_with_spans(state);
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
