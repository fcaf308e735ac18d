//! Screen 4: processes, disks and GPUs of this machine.

mod charts;
mod keys;
mod order;
mod past;
mod process;
mod state;
mod time;
mod view;

#[cfg(test)]
pub(crate) use {order::order, time::full_range};

pub(crate) use state::System;

use crate::present::top;
use crate::session::{Command, State};
use crate::tui::clicks::Spot;
use crate::tui::context::{Context, Ui};
use crate::tui::effect::Effect;
use crate::tui::keys::action::Action;
use crate::tui::keys::bindings::Place;
use crate::tui::keys::spec::Spec;
use crate::tui::keys::table::specs;
use crate::tui::pen::Pen;
use crate::tui::screen::{Screen, Tab};
use crate::tui::screen_id::ScreenId;
use crate::tui::theme::Theme;
use order::selected;
use state::ProcessSort;

/// A multiple of the number of panes in each layout.
const PANES: usize = 12;

pub(super) fn tables() -> Vec<(Place, Vec<&'static Spec>)> {
    vec![(Place::Screen(ScreenId::System, 0), specs(keys::TABLE))]
}

impl Screen for System {
    fn id(&self) -> ScreenId {
        ScreenId::System
    }

    fn tab(&self, session: &State, ctx: &Context) -> Tab {
        let never = ctx.captured || ctx.replay || ctx.over;
        Tab {
            title: ScreenId::System.title(),
            about: None,
            is_empty: never && session.system.is_empty() && !state::is_past(session, ctx),
        }
    }

    fn enables(&self, row: usize, session: &State, ctx: &Context) -> bool {
        (keys::TABLE[row].when)(&Ui { ctx, screen: self }, session)
    }

    fn act(&mut self, action: Action, session: &State, ctx: &mut Context) -> Effect {
        match action {
            Action::NextPane => self.pane = (self.pane + 1) % PANES,
            Action::Open => {
                self.pid = selected(session, &Ui { ctx, screen: self }).map(|p| p.pid);
                self.open = !self.open && self.pid.is_some();
            }
            Action::Sort => self.sort = self.sort.next(),
            Action::Reverse => self.reversed = !self.reversed,
            Action::Hold => self.held_ns = if self.held_ns.is_some() { None } else { Some(ctx.clock_ns) },
            Action::Left
            | Action::Right
            | Action::PanBack
            | Action::PanForward
            | Action::ZoomIn
            | Action::ZoomOut
            | Action::ZoomAll => {
                let full_range = time::full_range(session, &Ui { ctx, screen: self });
                self.time.act(action, full_range);
            }
            Action::Close => self.close(),
            _ => self.move_selection(action, session, ctx),
        }
        Effect::default()
    }

    fn click(&mut self, spot: Spot, session: &State, ctx: &mut Context) -> Effect {
        match spot {
            Spot::Row(pid) => {
                let pid = u32::try_from(pid).ok();
                if std::mem::replace(&mut self.pid, pid) == pid {
                    return self.act(Action::Open, session, ctx);
                }
            }
            Spot::Column(column) => {
                let sort = ProcessSort::ALL.get(column).copied().unwrap_or_default();
                self.reversed = self.sort == sort && !self.reversed;
                self.sort = sort;
            }
            _ => {}
        }
        Effect::default()
    }

    fn put_cursor(&mut self, at_s: f64, session: &State, ctx: &Context) {
        let full_range = time::full_range(session, &Ui { ctx, screen: self });
        self.time.put(full_range, at_s);
    }

    fn draw(&self, pen: &mut Pen<'_>, session: &State, ctx: &Context, theme: &Theme) {
        view::draw(pen, session, &Ui { ctx, screen: self }, theme);
    }

    /// The machine is only sampled while the screen is shown.
    fn enter(&mut self, ctx: &Context) -> Effect {
        watch(ctx, true)
    }

    fn leave(&mut self, ctx: &Context) -> Effect {
        watch(ctx, false)
    }

    fn filter(&self) -> &str {
        &self.filter
    }

    fn filter_mut(&mut self) -> Option<&mut String> {
        Some(&mut self.filter)
    }

    fn copied(&self, session: &State, ctx: &Context) -> String {
        let process = selected(session, &Ui { ctx, screen: self });
        process.map_or_else(String::new, |p| format!("{}\t{}\t{}", p.pid, p.command, top::evidence(p)))
    }
}

fn watch(ctx: &Context, on: bool) -> Effect {
    if ctx.is_live() && !ctx.captured { Command::WatchSystem(on).into() } else { Effect::default() }
}

impl System {
    fn move_selection(&mut self, action: Action, session: &State, ctx: &Context) {
        let Some((_, sample)) = session.system.back() else { return };
        let ui = Ui { ctx, screen: &*self };
        let pids: Vec<u32> = order::order(sample, &ui).iter().map(|p| p.pid).collect();
        let now = selected(session, &ui).map(|p| p.pid);
        let at = pids.iter().position(|pid| Some(*pid) == now).unwrap_or(0);
        if let Some(next) = action.moved(at, pids.len().saturating_sub(1)) {
            self.pid = pids.get(next).copied();
        }
    }

    /// Closes the topmost item: the cursor, the process or the filter.
    fn close(&mut self) {
        if self.time.cursor.take().is_none() && !std::mem::take(&mut self.open) {
            self.filter.clear();
        }
    }
}
