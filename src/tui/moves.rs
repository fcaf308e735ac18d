//! Moving about: panes, cursors, sliders, selections, by keys or the wheel.

use super::app::{Screen, Sheet, UiState};
use super::choices::{Pane, RowKey};
use super::keymap::Action;
use super::screens::environment::{checks, guide};
use super::screens::learn::lesson::Simulation;
use super::screens::race::{charts, grid, plans, view as race};
use super::screens::system::{time, view as system};
use super::widgets::time_view::TimeView;
use crate::session::State;

impl UiState {
    pub(super) fn move_slider(&mut self, up: bool) {
        let simulation = &mut self.learn.simulation;
        let (at, all) = if self.learn.slider == 0 {
            (&mut simulation.size, Simulation::SIZES.len())
        } else {
            (&mut simulation.cost, Simulation::COSTS.len())
        };
        *at = if up { (*at + 1).min(all - 1) } else { at.saturating_sub(1) };
    }

    pub(super) fn next_pane(&mut self, state: &State) {
        match self.screen {
            Screen::Environment => {
                self.environment.pane = if self.environment.pane == Pane::List { Pane::Detail } else { Pane::List };
            }
            Screen::Race => self.race.pane = (self.race.pane + 1) % race::panes(state, self),
            Screen::Tensors => self.tensors.scatter = !self.tensors.scatter,
            Screen::System => self.system.pane = (self.system.pane + 1) % 12,
            Screen::Learn if self.small || self.narrow => self.learn.pane = (self.learn.pane + 1) % 3,
            Screen::Learn => self.learn.slider = 1 - self.learn.slider.min(1),
            Screen::Report => {}
        }
    }

    /// The time of the charts on the screen, and what is shown of it.
    pub(super) fn time_view(&mut self, state: &State) -> Option<((f64, f64), &mut TimeView)> {
        match self.screen {
            Screen::Race => Some((charts::whole(state, self), &mut self.race.time)),
            Screen::System => Some((time::whole(state, self), &mut self.system.time)),
            _ => None,
        }
    }

    /// Moves what the charts show or the cursor in them.
    pub(super) fn move_in_time(&mut self, action: Action, state: &State) {
        if self.sheet.is_some() {
            return;
        }
        let Some((whole, time)) = self.time_view(state) else { return };
        match action {
            Action::Left => time.step(whole, false),
            Action::Right => time.step(whole, true),
            Action::PanBack => time.pan(whole, false),
            Action::PanForward => time.pan(whole, true),
            Action::ZoomIn => time.zoom_in(whole),
            Action::ZoomOut => time.zoom_out(whole),
            _ => time.zoom_all(),
        }
    }

    pub(super) fn open(&mut self, state: &State) {
        if self.screen == Screen::System {
            self.system.pid = system::selected(state, self).map(|p| p.pid);
            self.system.open = !self.system.open && self.system.pid.is_some();
            return;
        }
        if self.screen == Screen::Tensors {
            self.tensors.open = !self.tensors.open;
            return;
        }
        match checks::selected_row(state, self) {
            Some(RowKey::Group(group)) => {
                if !self.environment.toggled.remove(&group) {
                    self.environment.toggled.insert(group);
                }
                self.environment.selected = Some(RowKey::Group(group));
            }
            Some(RowKey::Check(_)) => self.environment.pane = Pane::Detail,
            None => {}
        }
    }

    /// In the list of checks, as in any tree: right opens and goes in, left goes back and closes.
    pub(super) fn sideways(&mut self, inwards: bool, state: &State) {
        let row = checks::selected_row(state, self);
        match (inwards, self.environment.pane, row) {
            (true, Pane::List, Some(RowKey::Group(group))) if !checks::is_open(state, self, group) => {
                self.open(state);
            }
            (true, Pane::List, Some(RowKey::Check(_))) => self.environment.pane = Pane::Detail,
            (false, Pane::Detail, _) => self.environment.pane = Pane::List,
            (false, Pane::List, Some(RowKey::Group(group))) if checks::is_open(state, self, group) => {
                self.open(state);
            }
            (false, Pane::List, Some(RowKey::Check(id))) => {
                let group = state.checks.iter().find(|finding| finding.id == id).map(|finding| finding.group);
                self.environment.selected = group.map(RowKey::Group);
                self.environment.detail_scroll = 0;
            }
            _ => {}
        }
    }

    pub(super) fn step(&mut self, action: Action, state: &State) {
        let moved = |at: usize, last: usize| match action {
            Action::Up => at.saturating_sub(1),
            Action::Down => at.saturating_add(1).min(last),
            Action::PageUp => at.saturating_sub(10),
            Action::PageDown => at.saturating_add(10).min(last),
            Action::First => 0,
            _ => last,
        };
        // The end of a text is known where it is drawn; see `hold_to`.
        const TEXT_END: usize = usize::MAX;
        if self.sheet == Some(Sheet::Guide) {
            self.guide_at = moved(self.guide_at, guide::rows(state).len().saturating_sub(1));
        } else if self.sheet == Some(Sheet::Plans) {
            self.plan_at = moved(self.plan_at, plans::rows(state).len().saturating_sub(1));
        } else if self.sheet.is_some() {
            // What follows its end is scrolled from there, and follows it again once it is back.
            let follows = !self.sheet_held
                && matches!(&self.sheet, Some(Sheet::Fix(id)) if state.fix_log.iter().any(|l| l.id == *id));
            self.sheet_scroll = moved(if follows { self.sheet_last } else { self.sheet_scroll }, TEXT_END);
            self.sheet_held = self.sheet_scroll < self.sheet_last;
        } else if self.screen == Screen::Report {
            self.report_scroll = moved(self.report_scroll, TEXT_END);
        } else if self.screen == Screen::System {
            if let Some((_, sample)) = state.system.back() {
                let pids: Vec<u32> = system::order(sample, self).iter().map(|p| p.pid).collect();
                let now = system::selected(state, self).map(|p| p.pid);
                let at = pids.iter().position(|pid| Some(*pid) == now).unwrap_or(0);
                self.system.pid = pids.get(moved(at, pids.len().saturating_sub(1))).copied();
            }
        } else if self.screen == Screen::Learn {
            // Where the words have the screen to themselves the arrows scroll them; beside the sliders they choose one.
            let words_alone = (self.small || self.narrow) && self.learn.pane.is_multiple_of(3);
            match action {
                Action::Up | Action::Down if !words_alone => self.learn.slider = usize::from(action == Action::Down),
                _ => self.learn.scroll = moved(self.learn.scroll, TEXT_END),
            }
        } else if self.screen == Screen::Tensors {
            self.tensors.at = moved(self.tensors.at, self.tensors.order.len().saturating_sub(1));
        } else if self.screen == Screen::Race
            && state.lanes.is_empty()
            && let Some(measured) = &state.grid
        {
            let (cells, row) = (grid::cursor_order(measured).len(), grid::columns(measured));
            let at = grid::selected(measured, self).unwrap_or(0);
            self.race.selected = Some(match action {
                Action::Up => at.checked_sub(row).unwrap_or(at),
                Action::Down if at + row < cells => at + row,
                Action::Down => at,
                Action::Left => at.saturating_sub(1),
                Action::Right => (at + 1).min(cells.saturating_sub(1)),
                _ => moved(at, cells.saturating_sub(1)),
            });
        } else if self.screen == Screen::Race {
            let count = race::entry_count(state);
            if count > 0 {
                let at = race::selected_entry(state, self).unwrap_or(0);
                self.race.selected = Some(moved(at, count - 1));
            }
        } else if self.environment.pane == Pane::Detail {
            self.environment.detail_scroll = moved(self.environment.detail_scroll, TEXT_END);
        } else {
            let rows = checks::rows(state, self);
            if let Some(last) = rows.len().checked_sub(1) {
                let now = checks::selected_row(state, self);
                let at = rows.iter().position(|row| Some(row) == now.as_ref()).unwrap_or(0);
                self.environment.selected = rows.get(moved(at, last)).cloned();
                self.environment.detail_scroll = 0;
            }
        }
    }
}
