//! Screen 1: the checks, and the sheets of fixes.

mod answer;
mod checks;
mod commands;
mod fix;
mod guide;
mod keys;
mod road;
mod selection;
mod state;
mod view;

#[cfg(test)]
pub(crate) use selection::is_open;

pub(crate) use state::{Environment, FixSheet, Pane, RowKey};

use crate::core::{Finding, Needs};
use crate::present::verdict::unblocked;
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
use crate::tui::remedy::plan_for;
use crate::tui::screen::{Screen, Tab};
use crate::tui::screen_id::ScreenId;
use crate::tui::theme::Theme;
use crate::tui::words;

use selection::{next_fix, selected_finding, selected_row, sheet_plan, undo_of_selection};

/// The key tables of the screen, of a fix and of the checklist.
const TABLES: [&[Row<Environment>]; 3] = [keys::TABLE, keys::FIX, keys::GUIDE];
const FIX_TABLE: usize = 1;
const GUIDE_TABLE: usize = 2;

pub(super) fn tables() -> Vec<(Place, Vec<&'static Spec>)> {
    TABLES.iter().enumerate().map(|(n, table)| (Place::Screen(ScreenId::Environment, n), specs(table))).collect()
}

impl Screen for Environment {
    fn id(&self) -> ScreenId {
        ScreenId::Environment
    }

    fn tab(&self, session: &State, ctx: &Context) -> Tab {
        Tab { title: ScreenId::Environment.title(), about: None, is_empty: words::unchecked(session, ctx) }
    }

    fn table(&self) -> usize {
        match (&self.fix, self.guide) {
            (Some(_), _) => FIX_TABLE,
            (None, Some(_)) => GUIDE_TABLE,
            (None, None) => 0,
        }
    }

    fn enables(&self, row: usize, session: &State, ctx: &Context) -> bool {
        (TABLES[self.table()][row].when)(&Ui { ctx, screen: self }, session)
    }

    fn act(&mut self, action: Action, session: &State, ctx: &mut Context) -> Effect {
        let plan = sheet_plan(session, &Ui { ctx, screen: self });
        let consent = plan.filter(|_| action == Action::Apply).map(|plan| Command::ApplyFix(plan.id, plan.digest()));
        let (id, asks_sudo) =
            (plan.map(|plan| plan.id), ctx.needs_sudo && plan.is_some_and(|plan| plan.needs != Needs::User));
        match action {
            Action::Apply => return self.change(consent, asks_sudo, session, ctx),
            Action::Undo if !keys::can_undo(&Ui { ctx, screen: self }, session) => self.find_undo(session, ctx),
            Action::Undo => return self.change(id.map(Command::UndoFix), asks_sudo, session, ctx),
            Action::DryRun => return self.change(id.map(Command::DryRunFix), false, session, ctx),
            Action::CopyCommands => return Effect { copy: Some(self.commands(session, ctx)), ..Effect::default() },
            Action::Recheck => {
                announce_reboot(session, ctx);
                ctx.unasked = false;
                return Command::Recheck.into();
            }
            Action::Fix => {
                if let Some(plan) = next_fix(session, &Ui { ctx, screen: self }) {
                    self.open_fix(plan.id);
                }
            }
            Action::Open if self.guide.is_some() => {
                if let Some(id) = id {
                    self.open_fix(id);
                }
            }
            Action::Guide => self.guide = Some(guide::first_open(session)),
            Action::Open => self.open(session, ctx),
            Action::Left | Action::Right => self.sideways(action == Action::Right, session, ctx),
            Action::NextPane => self.next_pane(session, ctx),
            Action::NextVerdict => self.verdict = (self.verdict + 1) % session.verdicts.len().max(1),
            Action::Filter => self.pane = Pane::List,
            Action::Close => self.close(),
            _ => self.scroll(action, session, ctx),
        }
        Effect::default()
    }

    fn click(&mut self, spot: Spot, session: &State, ctx: &mut Context) -> Effect {
        match spot {
            Spot::Row(line) if self.guide.is_some() => {
                let again = self.guide.replace(line) == Some(line);
                return if again { self.act(Action::Open, session, ctx) } else { Effect::default() };
            }
            Spot::Row(line) => {
                let Some(row) = self.drawn.borrow().get(line).cloned() else { return Effect::default() };
                let again = self.selected.as_ref() == Some(&row) || matches!(row, RowKey::Group(_));
                self.select(Some(row));
                self.pane = Pane::List;
                if again {
                    return self.act(Action::Open, session, ctx);
                }
            }
            Spot::Pane(pane) => self.pane = pane_of(pane),
            Spot::Column(hop) if hop >= road::FIRST_SPOT => {
                (self.pane, self.hop) = (Pane::Road, hop - road::FIRST_SPOT);
                self.open_hop(session, ctx);
            }
            _ => {}
        }
        Effect::default()
    }

    fn wheel(&mut self, step: Action, under: Option<Spot>, session: &State, ctx: &mut Context) {
        let kept = self.pane;
        // The wheel moves the pane under the pointer, even if another pane has the focus.
        match under {
            Some(Spot::Pane(pane)) => self.pane = pane_of(pane),
            Some(Spot::Row(_)) => self.pane = Pane::List,
            _ => {}
        }
        for _ in 0..if self.table() == GUIDE_TABLE { 1 } else { 3 } {
            self.act(step, session, ctx);
        }
        self.pane = kept;
    }

    fn draw(&self, pen: &mut Pen<'_>, session: &State, ctx: &Context, theme: &Theme) {
        view::draw(pen, session, &Ui { ctx, screen: self }, theme);
    }

    fn draw_sheet(&self, pen: &mut Pen<'_>, session: &State, ctx: &Context, theme: &Theme) {
        let ui = Ui { ctx, screen: self };
        let place = Place::Screen(ScreenId::Environment, self.table());
        let enabled = ctx.keys.of(place).filter(|b| !b.short.is_empty() && self.enables(b.row, session, ctx));
        let in_border = |action| match action {
            Action::Up | Action::Down => false,
            Action::Undo => self.fix.is_some(),
            _ => true,
        };
        let named: Vec<&Binding> = enabled.filter(|b| in_border(b.action)).collect();
        match (&self.fix, self.guide) {
            (Some(sheet), _) => fix::draw(pen, session, &ui, sheet, &named, theme),
            (None, Some(at)) => guide::draw(pen, session, at, &named, theme),
            (None, None) => {}
        }
    }

    fn matches(&self, query: &str, session: &State, _ctx: &Context) -> Vec<(&'static str, String, Jump)> {
        let label = |finding: &Finding| format!("{}: {}", finding.id, finding.summary);
        let found = session.checks.iter().filter(|finding| !query.is_empty() && rank(query, &label(finding)).is_some());
        found.map(|finding| ("check", label(finding), Jump::Check(finding.id))).collect()
    }

    fn jump(&mut self, jump: &Jump, session: &State, ctx: &mut Context) {
        let Jump::Check(id) = jump else { return };
        self.filter.clear();
        let group = session.checks.iter().find(|finding| finding.id == *id).map(|finding| finding.group);
        if let Some(group) = group.filter(|group| !selection::is_open(session, &Ui { ctx, screen: self }, *group))
            && !self.toggled.remove(&group)
        {
            self.toggled.insert(group);
        }
        self.select(Some(RowKey::Check(*id)));
        self.pane = Pane::List;
    }

    fn close_sheets(&mut self) {
        (self.fix, self.guide) = (None, None);
    }

    fn filter(&self) -> &str {
        &self.filter
    }

    fn filter_mut(&mut self) -> Option<&mut String> {
        Some(&mut self.filter)
    }

    fn filter_changed(&mut self) {
        self.select(None);
    }

    fn copied(&self, session: &State, ctx: &Context) -> String {
        let mut lines = vec![words::environment(session, self.verdict(session), ctx).text];
        if let Some(finding) = selected_finding(session, &Ui { ctx, screen: self }) {
            lines.push(format!("{}: {}: {}", finding.id, finding.status.word(), finding.summary));
        }
        lines.join("\n")
    }
}

const fn pane_of(number: usize) -> Pane {
    if number == Pane::Detail as usize { Pane::Detail } else { Pane::List }
}

/// Shows a message that checks and fixes wait for the end of the race, because they would disturb the measurement.
fn announce_reboot(session: &State, ctx: &mut Context) {
    if ctx.is_live() && session.is_measuring() {
        let stop = ctx.keys.key_of(Action::CancelRace);
        ctx.notice = Some(format!("a race is running: this starts when it has ended ({stop} on Race stops it)"));
    }
}

impl Environment {
    /// Sends a command for the fix in the open sheet, after sudo has authenticated the user if that is needed.
    fn change(&mut self, command: Option<Command>, asks_sudo: bool, session: &State, ctx: &mut Context) -> Effect {
        // The output of the command is shown from now on.
        if let Some(sheet) = &mut self.fix {
            sheet.held = false;
        }
        announce_reboot(session, ctx);
        let commands = command.into_iter().collect();
        if asks_sudo {
            Effect { lend: commands, ..Effect::default() }
        } else {
            Effect { commands, ..Effect::default() }
        }
    }

    /// Opens the sheet of the fix that would be undone, because the user must see a preview first.
    fn find_undo(&mut self, session: &State, ctx: &mut Context) {
        if self.fix.is_some() {
            ctx.notice = Some("this fix is not applied, so it cannot be undone".to_owned());
        } else if let Some(fix) = undo_of_selection(session, &Ui { ctx, screen: self }) {
            // The sheet shows the start of the changes to undo, and not the end of the output.
            self.fix = Some(FixSheet { held: true, ..FixSheet::new(fix.plan.id) });
        } else {
            ctx.notice = Some("no fix of gds-top is applied here, so there is nothing to undo".to_owned());
        }
    }

    /// The commands of the open fix, or of the selected line in the checklist.
    fn commands(&self, session: &State, ctx: &Context) -> String {
        match sheet_plan(session, &Ui { ctx, screen: self }) {
            Some(plan) => {
                // In a container, the commands of a plan that gds-top only shows are for the host.
                let is_of_host = !plan.applies() && session.machine.as_ref().is_some_and(|m| m.container.is_some());
                commands::commands(plan, &session.checks, is_of_host || !ctx.is_root_without_sudo)
            }
            None => {
                self.guide.and_then(|at| Some(guide::rows(session).get(at)?.step.advice.join("\n"))).unwrap_or_default()
            }
        }
    }

    /// Moves the focus: the list, the details and, if something blocks the direct route, the road.
    fn next_pane(&mut self, session: &State, ctx: &Context) {
        let hops = road::shown(session, &Ui { ctx, screen: self });
        self.pane = match self.pane {
            Pane::List => Pane::Detail,
            Pane::Detail if !hops.is_empty() => {
                self.hop = road::first_blocked(&hops).unwrap_or(0);
                Pane::Road
            }
            Pane::Detail | Pane::Road => Pane::List,
        };
    }

    /// Opens the fix of the selected station. If there is none, selects the check that blocks the station.
    fn open_hop(&mut self, session: &State, ctx: &mut Context) {
        let hops = road::shown(session, &Ui { ctx, screen: self });
        let Some(hop) = hops.get(self.hop) else { return };
        let plan = hop.open.iter().find_map(|finding| plan_for(session, finding));
        match (plan, hop.open.first()) {
            (Some(plan), _) => self.open_fix(plan.id),
            (None, Some(finding)) => {
                let id = finding.id;
                self.jump(&Jump::Check(id), session, ctx);
                self.pane = Pane::Detail;
            }
            (None, None) => ctx.notice = Some(unblocked(hop.name)),
        }
    }

    fn open(&mut self, session: &State, ctx: &mut Context) {
        if self.pane == Pane::Road {
            return self.open_hop(session, ctx);
        }
        if self.pane == Pane::Detail {
            let finding = selected_finding(session, &Ui { ctx, screen: self });
            if let Some(plan) = finding.and_then(|finding| plan_for(session, finding)) {
                self.open_fix(plan.id);
            }
            return;
        }
        match selected_row(session, &Ui { ctx, screen: self }) {
            Some(RowKey::Group(group)) => {
                if !self.toggled.remove(&group) {
                    self.toggled.insert(group);
                }
                self.selected = Some(RowKey::Group(group));
            }
            Some(RowKey::Check(_)) => self.pane = Pane::Detail,
            None => {}
        }
    }

    /// Handles left and right in the list of checks, as in a tree: right opens or enters an item, left leaves or
    /// closes it.
    fn sideways(&mut self, inwards: bool, session: &State, ctx: &mut Context) {
        let row = selected_row(session, &Ui { ctx, screen: self });
        let is_open = |group| selection::is_open(session, &Ui { ctx, screen: self }, group);
        if self.pane == Pane::Road {
            let last = road::shown(session, &Ui { ctx, screen: self }).len().saturating_sub(1);
            self.hop = if inwards { (self.hop + 1).min(last) } else { self.hop.saturating_sub(1) };
            return;
        }
        match (inwards, self.pane, row) {
            (true, Pane::List, Some(RowKey::Group(group))) if !is_open(group) => self.open(session, ctx),
            (true, Pane::List, Some(RowKey::Check(_))) => self.pane = Pane::Detail,
            (false, Pane::Detail, _) => self.pane = Pane::List,
            (false, Pane::List, Some(RowKey::Group(group))) if is_open(group) => self.open(session, ctx),
            (false, Pane::List, Some(RowKey::Check(id))) => {
                let group = session.checks.iter().find(|finding| finding.id == id).map(|finding| finding.group);
                self.select(group.map(RowKey::Group));
            }
            _ => {}
        }
    }

    /// Moves the selection, or scrolls the text that has the focus.
    fn scroll(&mut self, action: Action, session: &State, ctx: &Context) {
        if let Some(sheet) = &mut self.fix {
            let has_output = session.fix_log.iter().any(|line| line.id == sheet.id);
            sheet.scroll(action, has_output);
        } else if let Some(at) = self.guide {
            let last = guide::rows(session).len().saturating_sub(1);
            self.guide = action.moved(at, last).or(self.guide);
        } else if self.pane == Pane::Road && action == Action::Down {
            self.pane = Pane::List;
        } else if self.pane == Pane::Detail {
            self.detail.act(action);
        } else {
            let ui = Ui { ctx, screen: &*self };
            let rows = selection::rows(session, &ui);
            let now = selected_row(session, &ui);
            let at = rows.iter().position(|row| Some(row) == now.as_ref()).unwrap_or(0);
            if let Some(next) = action.moved(at, rows.len().saturating_sub(1)).and_then(|next| rows.get(next)) {
                self.select(Some(next.clone()));
            }
        }
    }

    /// Closes the topmost item: a fix, the checklist, the details or the filter.
    fn close(&mut self) {
        if self.fix.take().is_none() && self.guide.take().is_none() {
            if self.pane == Pane::Detail {
                self.pane = Pane::List;
            } else {
                self.filter.clear();
            }
        }
    }
}
