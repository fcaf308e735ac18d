//! Screen 2: the engines compared, the layers of a read, the storage grid and the plans.

mod axis;
pub(crate) mod charts;
mod grid;
mod keys;
mod lanes;
mod layers;
mod names;
pub(crate) mod phases;
mod plans;
mod state;
mod view;

#[cfg(test)]
pub(crate) use layers::LAYERS_PANE;
pub(crate) use state::Race;

use crate::core::Engine;
use crate::present::engine_rows::unavailable;
use crate::present::headline;
use crate::session::{Command, State};
use crate::tui::clicks::Spot;
use crate::tui::commands::{Jump, rank};
use crate::tui::context::{Context, Ui};
use crate::tui::effect::Effect;
use crate::tui::keys::action::Action;
use crate::tui::keys::bindings::{Binding, Place};
use crate::tui::keys::spec::Spec;
use crate::tui::keys::table::{Row, specs};
use crate::tui::pen::Pen;
use crate::tui::screen::{Screen, Tab};
use crate::tui::screen_id::ScreenId;
use crate::tui::screens::calls;
use crate::tui::selection::{entry_count, selected_entry};
use crate::tui::theme::Theme;
use crate::tui::words::headline_in;

/// The key tables of the screen and of the plans.
const TABLES: [&[Row<Race>]; 2] = [keys::TABLE, keys::PLANS];
const PLANS_TABLE: usize = 1;

pub(super) fn tables() -> Vec<(Place, Vec<&'static Spec>)> {
    TABLES.iter().enumerate().map(|(n, table)| (Place::Screen(ScreenId::Race, n), specs(table))).collect()
}

/// Whether the page contains only a storage grid.
fn shows_grid(page: &State) -> bool {
    page.grid.is_some() && page.lanes.is_empty()
}

impl Screen for Race {
    fn id(&self) -> ScreenId {
        ScreenId::Race
    }

    fn tab(&self, session: &State, ctx: &Context) -> Tab {
        let page = ctx.page(session);
        // For a watched program, the screen shows its calls instead of the race.
        let is_watched = super::calls::is_shown(page);
        let (title, about) = match page.lanes.first().map(|lane| &lane.engine) {
            _ if is_watched => ("Calls", Some("rates, latencies, threads and files of the program")),
            _ if shows_grid(page) => ("I/O grid", Some("rates and latencies of the storage")),
            Some(Engine::Workload(_)) => ("KV cache", Some("systems compared by time, bandwidth and memory")),
            _ => (ScreenId::Race.title(), None),
        };
        // With plans, the screen starts runs.
        let has_content = !page.lanes.is_empty() || page.grid.is_some() || !session.race_plans.is_empty() || is_watched;
        Tab { title, about, is_empty: !has_content }
    }

    fn page<'s>(&self, session: &'s State, ctx: &Context) -> &'s State {
        ctx.page(session)
    }

    fn table(&self) -> usize {
        if self.plans.is_some() { PLANS_TABLE } else { 0 }
    }

    fn enables(&self, row: usize, session: &State, ctx: &Context) -> bool {
        // The plans belong to the session and not to the shown page.
        let state = if self.plans.is_some() { session } else { ctx.page(session) };
        (TABLES[self.table()][row].when)(&Ui { ctx, screen: self }, state)
    }

    fn act(&mut self, action: Action, session: &State, ctx: &mut Context) -> Effect {
        let page = ctx.page(session);
        match action {
            Action::Close => self.close(),
            Action::RunPlan | Action::ShowPlan => return self.run_plan(session, ctx),
            _ if self.plans.is_some() => {
                let last = plans::rows(session).len().saturating_sub(1);
                self.plans = self.plans.and_then(|at| action.moved(at, last)).or(self.plans);
            }
            Action::Plans => self.plans = Some(0),
            Action::RaceAgain => return run_again(page).into(),
            Action::OlderPlan => {
                let at = ctx.plan.unwrap_or(session.earlier.len());
                ctx.plan = Some(at.saturating_sub(1)).filter(|_| !session.earlier.is_empty());
            }
            Action::NewerPlan => ctx.plan = ctx.plan.map(|at| at + 1).filter(|at| *at < session.earlier.len()),
            Action::NextPane => self.pane = (self.pane + 1) % layers::panes(page, &Ui { ctx, screen: self }),
            Action::NextChart => self.chart = charts::next(page, &Ui { ctx, screen: self }),
            Action::Layers => self.charts = !self.charts,
            Action::Expand => self.expanded = !self.expanded,
            Action::Hold => self.held_ns = if self.held_ns.is_some() { None } else { Some(ctx.clock_ns) },
            Action::Left | Action::Right if shows_grid(page) => self.move_selection(action, page, ctx),
            Action::Left | Action::Right if keys::on_layers(&Ui { ctx, screen: self }, page) => {
                self.layer = layers::step(&Ui { ctx, screen: self }, page, action == Action::Right).or(self.layer);
            }
            Action::Left
            | Action::Right
            | Action::PanBack
            | Action::PanForward
            | Action::ZoomIn
            | Action::ZoomOut
            | Action::ZoomAll => {
                let full_range = charts::full_range(page, &Ui { ctx, screen: self });
                self.time.act(action, full_range);
            }
            _ => self.move_selection(action, page, ctx),
        }
        Effect::default()
    }

    fn click(&mut self, spot: Spot, session: &State, ctx: &mut Context) -> Effect {
        if let Spot::Row(number) = spot {
            let page = ctx.page(session);
            if shows_grid(page) {
                self.cell = Some(number);
            } else {
                self.select(number, page, ctx);
            }
        }
        Effect::default()
    }

    fn put_cursor(&mut self, at_s: f64, session: &State, ctx: &Context) {
        let full_range = charts::full_range(ctx.page(session), &Ui { ctx, screen: self });
        self.time.put(full_range, at_s);
    }

    fn wheel(&mut self, step: Action, _under: Option<Spot>, session: &State, ctx: &mut Context) {
        // A short list moves by one line.
        for _ in 0..if self.plans.is_some() { 3 } else { 1 } {
            self.act(step, session, ctx);
        }
    }

    fn draw(&self, pen: &mut Pen<'_>, session: &State, ctx: &Context, theme: &Theme) {
        let page = ctx.page(session);
        match page.grid.as_ref().filter(|_| shows_grid(page)) {
            Some(measured) => grid::draw(pen, page, measured, self.cell, theme),
            None if calls::is_shown(page) => calls::draw(pen, page, ctx.over, theme),
            None => view::draw(pen, page, &Ui { ctx, screen: self }, theme),
        }
    }

    fn draw_sheet(&self, pen: &mut Pen<'_>, session: &State, ctx: &Context, theme: &Theme) {
        let Some(at) = self.plans else { return };
        let enabled = ctx.keys.of(Place::Screen(ScreenId::Race, PLANS_TABLE));
        let enabled = enabled.filter(|b| !b.short.is_empty() && self.enables(b.row, session, ctx));
        let named: Vec<&Binding> = enabled.filter(|b| !matches!(b.action, Action::Up | Action::Down)).collect();
        plans::draw(pen, session, ctx, at, &named, theme);
    }

    fn matches(&self, query: &str, session: &State, _ctx: &Context) -> Vec<(&'static str, String, Jump)> {
        let plans = plans::rows(session).into_iter().enumerate().filter_map(|(number, row)| match row {
            plans::Row::Offer(plan) => Some(("run", plan.title.clone(), Jump::Plan(number))),
            plans::Row::Ran(_) => None,
        });
        plans.filter(|(_, title, _)| rank(query, &format!("{title} run")).is_some()).collect()
    }

    fn jump(&mut self, jump: &Jump, _session: &State, _ctx: &mut Context) {
        if let Jump::Plan(number) = jump {
            self.plans = Some(*number);
        }
    }

    fn close_sheets(&mut self) {
        self.plans = None;
    }

    fn page_changed(&mut self) {
        self.forget();
    }

    fn copied(&self, session: &State, ctx: &Context) -> String {
        let page = ctx.page(session);
        match page.grid.as_ref().filter(|_| shows_grid(page)) {
            Some(measured) => grid::copied(measured, self.cell).join("\n"),
            None if calls::is_shown(page) => calls::copied(page, ctx.over),
            None => headline_in(&headline::race(page, ctx.clock_ns), u16::MAX, 1).text,
        }
    }
}

/// The command that repeats the measurement on this page.
fn run_again(page: &State) -> Command {
    match (&page.race_plan, page.grid.is_some()) {
        (Some((name, _)), _) => Command::RunPlan(name.clone()),
        (None, true) => Command::RunPlan("io grid".to_owned()),
        (None, false) => Command::Race(None),
    }
}

impl Race {
    /// Runs the selected plan, or shows its earlier runs.
    fn run_plan(&mut self, session: &State, ctx: &mut Context) -> Effect {
        let rows = plans::rows(session);
        let mut effect = Effect::default();
        match self.plans.and_then(|at| rows.get(at)) {
            Some(plans::Row::Offer(plan)) => match plans::obstacle(session, ctx, plan) {
                Some(why) => ctx.notice = Some(format!("{}: {why}", plan.title)),
                None => {
                    effect.commands.push(Command::RunPlan(plan.name.clone()));
                    (self.plans, ctx.plan) = (None, None);
                }
            },
            Some(plans::Row::Ran(number)) => (self.plans, ctx.plan) = (None, *number),
            None => {}
        }
        effect
    }

    /// Moves the selected entry, or the cursor in the storage grid.
    fn move_selection(&mut self, action: Action, page: &State, ctx: &mut Context) {
        if let Some(measured) = page.grid.as_ref().filter(|_| shows_grid(page)) {
            let (cells, row) = (grid::cursor_order(measured).len(), grid::columns(measured));
            let at = grid::selected(measured, self.cell).unwrap_or(0);
            self.cell = match action {
                Action::Up => Some(at.checked_sub(row).unwrap_or(at)),
                Action::Down => Some(if at + row < cells { at + row } else { at }),
                Action::Left => Some(at.saturating_sub(1)),
                Action::Right => Some((at + 1).min(cells.saturating_sub(1))),
                _ => action.moved(at, cells.saturating_sub(1)).or(self.cell),
            };
        } else if let Some(last) = (entry_count(page) + unavailable(page).len()).checked_sub(1) {
            let at = match self.refused {
                Some(number) => entry_count(page) + number,
                None => selected_entry(page, ctx).unwrap_or(0),
            };
            if let Some(next) = action.moved(at, last) {
                self.select(next, page, ctx);
            }
        }
    }

    /// Selects an entry, or an engine that cannot run. For such an engine the complete reason is shown.
    fn select(&mut self, number: usize, page: &State, ctx: &mut Context) {
        self.refused = number.checked_sub(entry_count(page));
        match self.refused.and_then(|at| unavailable(page).into_iter().nth(at)) {
            Some((engines, why)) => ctx.notice = Some(format!("{}: {why}", engines.join(", "))),
            None => ctx.entry = Some(number),
        }
    }

    /// Closes the topmost item: the plans, the expanded chart or the cursor.
    fn close(&mut self) {
        if self.plans.take().is_none() && !std::mem::take(&mut self.expanded) {
            self.time.cursor = None;
        }
    }
}
