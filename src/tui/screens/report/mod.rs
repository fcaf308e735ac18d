//! Screen 6: the report.

mod keys;
mod state;
mod view;

pub(crate) use state::Report;

use crate::present::headline;
use crate::session::State;
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
use crate::tui::words::headline_in;

pub(super) fn tables() -> Vec<(Place, Vec<&'static Spec>)> {
    vec![(Place::Screen(ScreenId::Report, 0), specs(keys::TABLE))]
}

impl Screen for Report {
    fn id(&self) -> ScreenId {
        ScreenId::Report
    }

    fn tab(&self, session: &State, ctx: &Context) -> Tab {
        let page = ctx.page(session);
        let has_runs = !page.lanes.is_empty() || page.grid.is_some() || page.watch.is_some();
        Tab { title: ScreenId::Report.title(), about: None, is_empty: page.checks.is_empty() && !has_runs }
    }

    fn page<'s>(&self, session: &'s State, ctx: &Context) -> &'s State {
        ctx.page(session)
    }

    fn enables(&self, row: usize, session: &State, ctx: &Context) -> bool {
        (keys::TABLE[row].when)(&Ui { ctx, screen: self }, ctx.page(session))
    }

    fn act(&mut self, action: Action, _session: &State, _ctx: &mut Context) -> Effect {
        match action {
            Action::Baseline => return Effect { baseline: true, ..Effect::default() },
            _ => self.scroll.act(action),
        }
        Effect::default()
    }

    fn draw(&self, pen: &mut Pen<'_>, session: &State, ctx: &Context, theme: &Theme) {
        view::draw(pen, ctx.page(session), &Ui { ctx, screen: self }, theme);
    }

    fn page_changed(&mut self) {
        self.scroll.set(0);
    }

    fn copied(&self, session: &State, ctx: &Context) -> String {
        headline_in(&headline::race(ctx.page(session), ctx.clock_ns), u16::MAX, 1).text
    }
}
