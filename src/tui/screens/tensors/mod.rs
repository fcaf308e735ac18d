//! Screen 3: the tensors of a run.

mod detail;
mod keys;
mod order;
mod runs;
mod state;
mod table;
mod view;
mod watched;
mod watched_order;

pub(crate) use state::Tensors;
use state::watched_report;

use crate::core::Engine;
use crate::core::units::{bytes, duration};
use crate::present::watch;
use crate::session::State;
use crate::tui::clicks::Spot;
use crate::tui::commands::{Jump, MOST, rank};
use crate::tui::context::{Context, Ui};
use crate::tui::effect::Effect;
use crate::tui::jobs::queue::{Job, JobResult};
use crate::tui::jobs::tensor_rows::Sort;
use crate::tui::keys::action::Action;
use crate::tui::keys::bindings::Place;
use crate::tui::keys::spec::Spec;
use crate::tui::keys::table::specs;
use crate::tui::pen::Pen;
use crate::tui::screen::{Screen, Tab};
use crate::tui::screen_id::ScreenId;
use crate::tui::selection::entry_count;
use crate::tui::theme::Theme;

pub(super) fn tables() -> Vec<(Place, Vec<&'static Spec>)> {
    vec![(Place::Screen(ScreenId::Tensors, 0), specs(keys::TABLE))]
}

impl Screen for Tensors {
    fn id(&self) -> ScreenId {
        ScreenId::Tensors
    }

    fn tab(&self, session: &State, ctx: &Context) -> Tab {
        let page = ctx.page(session);
        // A workload writes and reads pieces of a cache instead of tensors.
        let cache = page.lanes.iter().any(|lane| matches!(lane.engine, Engine::Workload(_)));
        let title = if cache { "Pieces" } else { ScreenId::Tensors.title() };
        let (about, is_empty) = match watched_report(page) {
            Some(report) => (Some("tensors that the program read"), watch::tensor_count(report) == 0),
            None if cache => (Some("overhead of each piece"), page.lanes.iter().all(|lane| lane.spans.is_empty())),
            None => (None, page.lanes.iter().all(|lane| lane.spans.is_empty())),
        };
        Tab { title, about, is_empty }
    }

    fn page<'s>(&self, session: &'s State, ctx: &Context) -> &'s State {
        ctx.page(session)
    }

    fn enables(&self, row: usize, session: &State, ctx: &Context) -> bool {
        (keys::TABLE[row].when)(&Ui { ctx, screen: self }, ctx.page(session))
    }

    fn act(&mut self, action: Action, session: &State, ctx: &mut Context) -> Effect {
        match action {
            Action::Open | Action::Sort | Action::Reverse if watched_report(ctx.page(session)).is_some() => {
                match action {
                    Action::Sort => self.watched.sort_by_next(),
                    Action::Reverse => self.reversed = !self.reversed,
                    // The row of a tensor has all that is known about it.
                    _ => return Effect::default(),
                }
                self.at = 0;
            }
            Action::NextPane => self.scatter = !self.scatter,
            Action::Open => self.open = !self.open,
            Action::NextEngine => change_engine(ctx.page(session), ctx, true),
            Action::PreviousEngine => change_engine(ctx.page(session), ctx, false),
            Action::Sort => self.sort = self.sort.next(self.rival.is_some()),
            Action::Reverse => self.reversed = !self.reversed,
            Action::Compare => self.against = self.against.wrapping_add(1),
            Action::Close if self.open => self.open = false,
            Action::Close => self.filter.clear(),
            _ => {
                let is_watched = watched_report(ctx.page(session)).is_some();
                let count = if is_watched { self.watched.order.len() } else { self.order.len() };
                self.at = action.moved(self.at, count.saturating_sub(1)).unwrap_or(self.at);
            }
        }
        Effect::default()
    }

    fn click(&mut self, spot: Spot, session: &State, ctx: &mut Context) -> Effect {
        match spot {
            Spot::Row(line) if std::mem::replace(&mut self.at, line) == line => {
                return self.act(Action::Open, session, ctx);
            }
            Spot::Column(column) if watched_report(ctx.page(session)).is_some() => {
                self.reversed = self.watched.sort == column && !self.reversed;
                (self.watched.sort, self.at) = (column, 0);
            }
            Spot::Column(column) => {
                // A second click on the same heading reverses the order, as in other tables.
                let sort = Sort::ALL.get(column).copied().unwrap_or_default();
                self.reversed = self.sort == sort && !self.reversed;
                self.sort = sort;
            }
            _ => {}
        }
        Effect::default()
    }

    fn draw(&self, pen: &mut Pen<'_>, session: &State, ctx: &Context, theme: &Theme) {
        view::draw(pen, ctx.page(session), &Ui { ctx, screen: self }, theme);
    }

    fn jobs(&mut self, session: &State, ctx: &Context) -> Vec<Job> {
        runs::jobs(self, ctx, ctx.page(session))
    }

    fn take(&mut self, result: JobResult) -> Option<JobResult> {
        match result {
            JobResult::Tensors(lane, rows) => self.take_rows(lane, *rows),
            JobResult::Names(names) => self.take_names(*names),
            other => return Some(other),
        }
        None
    }

    fn prepare(&mut self, session: &State, ctx: &Context) {
        let page = ctx.page(session);
        match watched_report(page) {
            Some(report) => {
                self.watched.prepare(report, &self.filter, self.reversed);
                self.at = self.at.min(self.watched.order.len().saturating_sub(1));
            }
            None => runs::prepare(self, ctx, page),
        }
    }

    fn page_changed(&mut self) {
        self.at = 0;
    }

    fn filter(&self) -> &str {
        &self.filter
    }

    fn filter_mut(&mut self) -> Option<&mut String> {
        Some(&mut self.filter)
    }

    fn filter_changed(&mut self) {
        self.at = 0;
    }

    fn matches(&self, query: &str, session: &State, ctx: &Context) -> Vec<(&'static str, String, Jump)> {
        // At least two letters are required, because a model may have a hundred thousand names and most contain any
        // single letter.
        let Some(model) = ctx.page(session).model.as_ref().filter(|_| query.trim().len() >= 2) else {
            return Vec::new();
        };
        let names = model.tensors.iter().map(|tensor| &tensor.name);
        let mut found: Vec<(usize, &String)> = names.filter_map(|name| Some((rank(query, name)?, name))).collect();
        found.sort_by_key(|(rank, _)| *rank);
        found.into_iter().take(MOST).map(|(_, name)| ("tensor", name.clone(), Jump::Tensor(name.clone()))).collect()
    }

    fn jump(&mut self, jump: &Jump, _session: &State, _ctx: &mut Context) {
        if let Jump::Tensor(name) = jump {
            self.filter.clone_from(name);
            (self.at, self.open) = (0, true);
        }
    }

    fn copied(&self, session: &State, ctx: &Context) -> String {
        let page = ctx.page(session);
        if let Some(report) = watched_report(page) {
            let selected = self.watched.tensor(report, self.at);
            return selected.map(|(file, tensor)| watch::tensor_cells(file, tensor).join("\t")).unwrap_or_default();
        }
        let line = || {
            let lane = page.lanes.iter().find(|lane| Some(lane.id) == self.lane)?;
            let row = self.run(lane.id)?.rows.get(self.tensor()? as usize)?;
            let tensor = page.model_of(lane)?.tensors.get(row.tensor as usize)?;
            Some(format!("{}\t{}\t{}", tensor.name, bytes(row.bytes), duration(row.busy_ns())))
        };
        line().unwrap_or_default()
    }
}

/// Selects the next or previous engine with a timeline.
fn change_engine(page: &State, ctx: &mut Context, forward: bool) {
    let count = entry_count(page).max(1);
    let at = runs::entry_index(page, ctx).unwrap_or(0);
    let candidates = runs::entries_with_spans(page);
    let next = if forward {
        candidates.iter().find(|i| **i > at).or(candidates.first())
    } else {
        candidates.iter().rev().find(|i| **i < at).or(candidates.last())
    };
    ctx.entry = next.map(|i| (*i).min(count - 1)).or(ctx.entry);
}
