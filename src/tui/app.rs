//! The app with all screens: it tracks which screen is shown, dispatches inputs and draws frames. It uses screens
//! only through [`Screen`].

mod palette;
mod player;

use super::clicks::{Clicks, Spot};
use super::commands::Commands;
use super::context::{Context, Ui};
use super::effect::Effect;
use super::jobs::queue::{Job, JobDone, JobQueue, JobResult};
use super::keys::action::Action;
use super::keys::bindings::{Binding, Place};
use super::keys::key::Key;
use super::lane_stats::LaneStats;
use super::pen::{Pen, cut, wrap};
use super::screen::{Screen, Tab};
use super::screen_id::ScreenId;
use super::theme::Theme;
use super::widgets::scroll::Scroll;
use super::{ascii, everywhere, frame, help, layout, screens};
use crate::core::{FixId, FixStage};
use crate::session::{Command, State};
use crossterm::event::{
    Event as Input, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use std::sync::Arc;
use std::time::Duration;

/// All screens and their shared context.
pub(crate) struct App {
    pub(crate) ctx: Context,
    pub(crate) current: ScreenId,
    pub(crate) screens: Vec<Box<dyn Screen>>,
    /// The scroll position of the help, if it is open.
    pub(crate) help: Option<Scroll>,
    /// The command palette, if it is open.
    pub(crate) commands: Option<Commands>,
    /// Jobs for another thread.
    pub(crate) jobs: JobQueue,
    /// The clickable areas of the last frame.
    clicks: Clicks,
    /// Whether `q` was pressed while something was in progress.
    quit_asked: bool,
    /// The page for which derived values were computed.
    page: usize,
}

impl App {
    pub(crate) fn new(first: ScreenId, mut ctx: Context) -> Self {
        if ctx.replay {
            ctx.keys = Arc::new(ctx.keys.for_replay());
        }
        let mut screens = screens::all();
        if ctx.alone {
            ctx.keys = Arc::new(ctx.keys.for_one_screen(first));
            screens.retain(|screen| screen.id() == first);
        }
        Self {
            ctx,
            current: first,
            screens,
            help: None,
            commands: None,
            jobs: JobQueue::default(),
            clicks: Clicks::default(),
            quit_asked: false,
            page: 0,
        }
    }

    fn at(&self) -> usize {
        self.screens.iter().position(|screen| screen.id() == self.current).unwrap_or(0)
    }

    /// Enters the first screen.
    pub(crate) fn start(&mut self) -> Effect {
        let (screen, ctx) = self.screen_mut();
        screen.enter(ctx)
    }

    /// The screen that is shown.
    pub(crate) fn screen(&self) -> &dyn Screen {
        &*self.screens[self.at()]
    }

    /// The current screen, mutable, and the shared context.
    fn screen_mut(&mut self) -> (&mut dyn Screen, &mut Context) {
        let at = self.at();
        (&mut *self.screens[at], &mut self.ctx)
    }

    fn is_covered(&self) -> bool {
        self.help.is_some() || self.commands.is_some() || self.screen().table() > 0
    }

    /// Handles an input and returns the next action of the event loop.
    pub(crate) fn input(&mut self, input: &Input, session: &State) -> Effect {
        let effect = match input {
            Input::Key(key) if key.kind != KeyEventKind::Release => self.key(*key, session),
            Input::Mouse(event) => self.mouse(*event, session),
            Input::Paste(text) if self.ctx.filtering => {
                self.edit_filter(|filter| filter.extend(text.chars().filter(|c| !c.is_control())));
                Effect::default()
            }
            _ => Effect::default(),
        };
        if let Some(text) = &effect.copy {
            self.ctx.notice = Some(format!("copied: {}", cut(text.lines().next().unwrap_or_default(), 60)));
        }
        effect
    }

    fn key(&mut self, key: KeyEvent, session: &State) -> Effect {
        self.ctx.notice = None;
        self.ctx.messages_seen = session.messages.len();
        let asked = std::mem::take(&mut self.quit_asked);
        if self.commands.is_some()
            && let Some(effect) = self.command_key(key, session)
        {
            return effect;
        }
        if self.ctx.filtering && self.filter_key(key) {
            return Effect::default();
        }
        let pressed = Key::pressed(key);
        let bound = || self.bindings(session).find(|row| row.keys.contains(&pressed)).map(|row| row.action);
        match if key.code == KeyCode::Esc { Some(Action::Close) } else { bound() } {
            Some(action) => self.act(action, asked, session),
            None => {
                self.ctx.notice = self.unbound(pressed, session);
                Effect::default()
            }
        }
    }

    /// The tab of a screen.
    fn tab(&self, id: ScreenId, session: &State) -> Tab {
        let screen = self.screens.iter().find(|screen| screen.id() == id);
        let missing = Tab { title: id.title(), about: None, is_empty: true };
        screen.map_or(missing, |screen| screen.tab(session, &self.ctx))
    }

    /// The reason why a key has no effect: it is not available at the moment, it belongs to another screen, or to none.
    fn unbound(&self, key: Key, session: &State) -> Option<String> {
        let table = self.screen().table();
        let rows = || self.ctx.keys.iter().filter(|row| row.keys.contains(&key));
        let here = |row: &&Binding| row.place == Place::Screen(self.current, table) || row.place == Place::Everywhere;
        if let Some(row) = rows().find(here) {
            return Some(format!("{} ({}): not available now", key.shown(), row.help));
        }
        // Enter has another meaning on each screen.
        if key.code == KeyCode::Enter {
            return Some(format!(
                "{} does nothing here; {} lists the keys",
                key.shown(),
                self.ctx.keys.key_of(Action::Help)
            ));
        }
        let elsewhere = rows().find_map(|row| match row.place {
            Place::Screen(screen, 0) if screen != self.current && !self.is_covered() => Some((row, screen)),
            _ => None,
        });
        let Some((row, screen)) = elsewhere else {
            let help = self.ctx.keys.key_of(Action::Help);
            let typed = matches!(key.code, KeyCode::Char(glyph) if glyph.is_ascii_graphic());
            return typed.then(|| format!("{} does nothing here; {help} lists the keys", key.shown()));
        };
        let title = self.tab(screen, session).title;
        Some(format!("{} ({}): only on {title} ({})", key.shown(), row.help, screen.number()))
    }

    /// Handles keys while a filter is typed. Returns whether the filter used the key.
    fn filter_key(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('u') if control => self.edit_filter(String::clear),
            KeyCode::Char(_) if control => return false,
            KeyCode::Char(c) => self.edit_filter(|filter| filter.push(c)),
            KeyCode::Backspace => self.edit_filter(|filter| _ = filter.pop()),
            KeyCode::Enter => self.ctx.filtering = false,
            KeyCode::Esc => {
                self.ctx.filtering = false;
                self.edit_filter(String::clear);
            }
            _ => return false,
        }
        true
    }

    fn edit_filter(&mut self, edit: impl FnOnce(&mut String)) {
        let (screen, _) = self.screen_mut();
        if let Some(filter) = screen.filter_mut() {
            edit(filter);
            screen.filter_changed();
        }
    }

    /// The bindings that have an effect now.
    pub(crate) fn bindings<'a>(&'a self, session: &'a State) -> impl Iterator<Item = &'a Binding> {
        let table = self.screen().table();
        let place = if self.help.is_some() { Place::Help } else { Place::Screen(self.current, table) };
        self.bindings_of(place, self.is_covered(), session)
    }

    /// The bindings of the screen below the help, which the help lists.
    pub(crate) fn bindings_below_help<'a>(&'a self, session: &'a State) -> impl Iterator<Item = &'a Binding> {
        let table = self.screen().table();
        self.bindings_of(Place::Screen(self.current, table), table > 0, session)
    }

    fn bindings_of<'a>(&'a self, place: Place, covered: bool, session: &'a State) -> impl Iterator<Item = &'a Binding> {
        let screen = self.screen();
        let page = screen.page(session, &self.ctx);
        let does_something = move |row: &Binding| match row.place {
            Place::Everywhere => (everywhere::TABLE[row.row].when)(&Ui { ctx: &self.ctx, screen: &covered }, page),
            Place::Help => true,
            Place::Screen(..) => screen.enables(row.row, session, &self.ctx),
        };
        let here = self.ctx.keys.iter().filter(move |row| row.place == place || row.place == Place::Everywhere);
        here.filter(move |row| !row.keys.is_empty() && does_something(row))
    }

    /// Performs the action of a key or a click. `asked` is whether the previous input was a first `q`.
    fn act(&mut self, action: Action, asked: bool, session: &State) -> Effect {
        match action {
            Action::Screen(screen) => return self.show(screen),
            Action::Fix if self.current != ScreenId::Environment => {
                let mut effect = self.show(ScreenId::Environment);
                let (screen, ctx) = self.screen_mut();
                effect.commands.extend(screen.act(action, session, ctx).commands);
                return effect;
            }
            Action::Quit => return self.quit(asked, session),
            Action::Interrupt => return Effect { interrupt: true, ..Command::Quit.into() },
            Action::Suspend => return Effect { suspend: true, ..Effect::default() },
            Action::Redraw => return Effect { repaint: true, ..Effect::default() },
            Action::Export => return Effect { export: true, ..Effect::default() },
            Action::Copy => {
                return Effect { copy: Some(self.screen().copied(session, &self.ctx)), ..Effect::default() };
            }
            Action::Pause => {
                self.ctx.paused = !self.ctx.paused;
                return Command::Pause(self.ctx.paused).into();
            }
            Action::Faster => return self.change_speed(true),
            Action::Slower => return self.change_speed(false),
            Action::SeekBack | Action::SeekForward | Action::PreviousLoad | Action::NextLoad | Action::ShowResult => {
                return self.seek_by(action, session);
            }
            Action::PickSpeed => {
                self.open_commands("speed ", session);
                return Effect::default();
            }
            Action::Loop => {
                self.ctx.loops = !self.ctx.loops;
                self.ctx.notice = Some(
                    if self.ctx.loops { "at its end the replay starts again" } else { "the replay stops at its end" }
                        .to_owned(),
                );
                return Command::Loop(self.ctx.loops).into();
            }
            Action::CancelRace => {
                self.ctx.notice = Some("stopping the race; finished runs are kept".to_owned());
                return Command::CancelRace.into();
            }
            Action::Help => self.help = if self.help.is_some() { None } else { Some(Scroll::default()) },
            Action::Commands => {
                self.open_commands("", session);
                return Effect::default();
            }
            _ => {}
        }
        match &self.help {
            Some(_) if action == Action::Close => self.help = None,
            Some(scroll) => scroll.act(action),
            None if action == Action::Help => {}
            None => {
                self.ctx.filtering |= action == Action::Filter;
                let (screen, ctx) = self.screen_mut();
                return screen.act(action, session, ctx);
            }
        }
        Effect::default()
    }

    /// Switches to a screen, if there is one with this id.
    fn show(&mut self, id: ScreenId) -> Effect {
        if !self.screens.iter().any(|screen| screen.id() == id) {
            return Effect::default();
        }
        (self.help, self.commands) = (None, None);
        self.ctx.filtering = false;
        let (screen, ctx) = self.screen_mut();
        screen.close_sheets();
        if screen.id() == id {
            return Effect::default();
        }
        let mut effect = screen.leave(ctx);
        self.current = id;
        let (screen, ctx) = self.screen_mut();
        effect.commands.extend(screen.enter(ctx).commands);
        effect
    }

    fn quit(&mut self, asked: bool, session: &State) -> Effect {
        let live = self.ctx.is_live();
        let (fixing, racing) = (live && is_fixing(session), live && session.is_measuring());
        if (fixing || racing) && !asked {
            self.quit_asked = true;
            let what = if fixing { "a fix is being applied" } else { "a race is running" };
            let key = self.ctx.keys.key_of(Action::Quit);
            self.ctx.notice = Some(format!("{what}: {key} again stops it and quits"));
            return Effect::default();
        }
        Effect { quit: true, ..Command::Quit.into() }
    }

    /// Handles the mouse. The wheel moves the list or text under the pointer. A click selects an item, and a second
    /// click opens it.
    fn mouse(&mut self, event: MouseEvent, session: &State) -> Effect {
        let at = Position::new(event.column, event.row);
        let hit = self.clicks.at(at);
        let over_chart = !self.is_covered() && matches!(hit, Some((_, Spot::Time { .. })));
        let action = match event.kind {
            MouseEventKind::ScrollUp if over_chart => Action::ZoomIn,
            MouseEventKind::ScrollDown if over_chart => Action::ZoomOut,
            MouseEventKind::ScrollLeft if over_chart => Action::PanBack,
            MouseEventKind::ScrollRight if over_chart => Action::PanForward,
            MouseEventKind::ScrollUp => return self.wheel(Action::Up, hit.map(|(_, spot)| spot), session),
            MouseEventKind::ScrollDown => return self.wheel(Action::Down, hit.map(|(_, spot)| spot), session),
            MouseEventKind::Down(MouseButton::Left) => return self.click(at, hit, session),
            _ => return Effect::default(),
        };
        self.act(action, false, session)
    }

    fn wheel(&mut self, step: Action, under: Option<Spot>, session: &State) -> Effect {
        if let Some(scroll) = &self.help {
            (0..3).for_each(|_| scroll.act(step));
        } else {
            let (screen, ctx) = self.screen_mut();
            screen.wheel(step, under, session, ctx);
        }
        Effect::default()
    }

    fn click(&mut self, at: Position, hit: Option<(Rect, Spot)>, session: &State) -> Effect {
        self.ctx.notice = None;
        let Some((area, spot)) = hit else { return Effect::default() };
        match spot {
            Spot::Screen(screen) => self.show(screen),
            Spot::Key(action) => {
                let asked = std::mem::take(&mut self.quit_asked);
                self.act(action, asked, session)
            }
            Spot::Time { from_us, to_us } => {
                let share = f64::from(at.x.saturating_sub(area.x)) / f64::from(area.width.saturating_sub(1).max(1));
                let at_s = (from_us as f64 + (to_us - from_us) as f64 * share) / 1e6;
                let (screen, ctx) = self.screen_mut();
                screen.put_cursor(at_s, session, ctx);
                Effect::default()
            }
            Spot::Scrub => {
                let share = f64::from(at.x.saturating_sub(area.x)) / f64::from(area.width.saturating_sub(1).max(1));
                let end_ns = self.ctx.timeline.as_ref().map_or(0, |timeline| timeline.end_ns);
                self.seek((end_ns as f64 * share) as u64)
            }
            Spot::Row(_) | Spot::Column(_) | Spot::Pane(_) => {
                let (screen, ctx) = self.screen_mut();
                screen.click(spot, session, ctx)
            }
        }
    }

    /// Computes the derived values of a frame before it is drawn. Long computations are added to [`Self::jobs`].
    pub(crate) fn prepare(&mut self, session: &State) {
        if self.ctx.earlier != session.earlier.len() {
            // A new plan has begun, so its page is shown.
            self.ctx.earlier = session.earlier.len();
            self.ctx.plan = None;
        }
        let page = self.ctx.plan.unwrap_or(self.ctx.earlier);
        if self.page != page {
            self.page = page;
            (self.ctx.stats, self.ctx.entry) = (LaneStats::default(), None);
            self.screens.iter_mut().for_each(|screen| screen.page_changed());
        }
        let (screen, ctx) = self.screen_mut();
        let mut jobs = screen.jobs(session, ctx);
        let page = ctx.page(session);
        for wanted in ctx.stats.wants(page) {
            // The rows are computed from the same spans, so one job is enough for both.
            if !jobs.iter().any(|job| matches!(job, Job::Lane(other) if other.lane == wanted.lane)) {
                jobs.push(Job::Lane(Box::new(wanted)));
            }
        }
        for job in self.jobs.sort(jobs) {
            self.take(job.run());
        }
        self.ctx.stats.conclude(self.ctx.page(session));
        let (screen, ctx) = self.screen_mut();
        screen.prepare(session, ctx);
    }

    /// Passes a job's result to the screen that requested it.
    pub(crate) fn take(&mut self, done: JobDone) {
        self.jobs.back(&done);
        let mut left = match done.result {
            JobResult::Lane(facts) => {
                let lane = facts.lane;
                self.ctx.stats.take(*facts).map(|rows| JobResult::Tensors(lane, Box::new(rows)))
            }
            other => Some(other),
        };
        for screen in &mut self.screens {
            left = left.and_then(|result| screen.take(result));
        }
    }

    /// Advances animations.
    pub(crate) fn tick(&mut self, passed: Duration) {
        self.screen_mut().0.tick(passed);
    }

    /// Sets the size of the terminal.
    pub(crate) fn resize(&mut self, width: u16, height: u16) {
        self.ctx.small = width < layout::WIDE || height < layout::TALL;
        self.ctx.narrow = width < layout::SIDE_BY_SIDE;
    }

    /// Draws a frame.
    pub(crate) fn draw(&mut self, session: &State, theme: &Theme, buffer: &mut Buffer) {
        self.ctx.covered = self.is_covered();
        self.clicks.clear();
        let (area, screen, ctx) = (buffer.area, self.screen(), &self.ctx);
        let page = screen.page(session, ctx);
        let theme = &*theme.among(page.lanes.iter().map(|lane| &lane.engine));
        buffer.set_style(area, theme.ground);
        let mut pen = Pen::new(buffer, area).with_clicks(&self.clicks);
        let (w, h) = (pen.width(), pen.height());
        if w < 40 || h < 10 {
            let lines = wrap(&format!("gds-top needs 40×10, this is {w}×{h}"), w);
            for (y, line) in lines.iter().enumerate().take(usize::from(h)) {
                pen.text(0, y as u16, line, theme.text);
            }
        } else {
            let tabs: Vec<(ScreenId, Tab)> =
                self.screens.iter().map(|screen| (screen.id(), screen.tab(session, ctx))).collect();
            let head = frame::header(&mut pen, page, ctx, (self.current, &tabs), theme);
            let mut body = pen.part(0, head, w, h.saturating_sub(head + 1));
            screen.draw(&mut body, session, ctx, theme);
            if screen.table() > 0 {
                self.clicks.cover();
                body.fade(theme.behind());
                screen.draw_sheet(&mut body, session, ctx, theme);
            }
            if let Some(scroll) = &self.help {
                self.clicks.cover();
                body.fade(theme.behind());
                let bindings: Vec<&Binding> = self.bindings_below_help(session).collect();
                let tab = |id: ScreenId| self.tab(id, session);
                help::draw(&mut body, (self.current, &tab), &bindings, scroll, theme);
            }
            if let Some(palette) = &self.commands {
                self.clicks.cover();
                body.fade(theme.behind());
                palette.draw(&mut body, theme);
            }
            // The footer is drawn last, because some keys are enabled only if their chart was drawn.
            let named = if self.commands.is_some() { Vec::new() } else { self.footer(session) };
            frame::notice(&mut pen.part(0, head, w, h.saturating_sub(head + 1)), session, ctx, theme);
            frame::footer(&mut pen.part(0, h - 1, w, 1), session, ctx, (&named, screen.filter()), theme);
        }
        if theme.ascii {
            ascii::flatten(buffer);
        }
    }

    /// The bindings in the footer, without duplicate actions.
    fn footer<'a>(&'a self, session: &'a State) -> Vec<&'a Binding> {
        let mut named: Vec<&Binding> = Vec::new();
        let mut taken: Vec<Key> = Vec::new();
        for binding in self.bindings(session) {
            // A key of the current screen overrides the same key of all screens.
            let hidden = binding.keys.first().is_some_and(|key| taken.contains(key));
            taken.extend(&binding.keys);
            if !hidden && !binding.short.is_empty() && !named.iter().any(|other| other.action == binding.action) {
                named.push(binding);
            }
        }
        named
    }
}

/// Whether a fix is being applied or verified.
fn is_fixing(session: &State) -> bool {
    let mut newer: Vec<FixId> = Vec::new();
    session.fix_log.iter().rev().any(|line| {
        let is_last = !newer.contains(&line.id);
        newer.push(line.id);
        is_last && matches!(line.stage, FixStage::Applying | FixStage::Verifying)
    })
}
