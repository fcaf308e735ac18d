//! The plans of the Race screen: everything that can be run here, with the question and the files of each plan, and
//! the earlier runs of this session.

use crate::core::{RacePlan, Status};
use crate::session::State;
use crate::tui::context::Context;
use crate::tui::keys::bindings::Binding;
use crate::tui::pen::{Pen, Run, wrap};
use crate::tui::theme::Theme;
use crate::tui::widgets::sheet;

/// Maximum width of the sheet in columns.
const WIDEST: u16 = 104;

/// A line that can be selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row<'s> {
    /// A plan that can be run.
    Offer(&'s RacePlan),
    /// A plan that ran: its index among the earlier plans, or `None` for the newest.
    Ran(Option<usize>),
}

/// The lines in order: first the plans that can be run, then the plans that ran, with the newest first.
pub(super) fn rows(state: &State) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = state.race_plans.iter().map(Row::Offer).collect();
    if !state.earlier.is_empty() || rows.is_empty() {
        rows.push(Row::Ran(None));
        rows.extend((0..state.earlier.len()).rev().map(|number| Row::Ran(Some(number))));
    }
    rows
}

/// A sentence with the reason why the plan cannot run now; `None` if it can.
pub(super) fn obstacle(state: &State, ctx: &Context, plan: &RacePlan) -> Option<String> {
    if !ctx.is_live() {
        return Some("nothing more can be run in this session".to_owned());
    }
    if state.is_measuring() {
        return Some("something is being measured; c stops it".to_owned());
    }
    plan.obstacle.clone()
}

/// Draws the list with line `at` selected, and with the available keys.
pub(super) fn draw(pen: &mut Pen<'_>, state: &State, ctx: &Context, at: usize, bindings: &[&Binding], theme: &Theme) {
    let rows = rows(state);
    let at = at.min(rows.len().saturating_sub(1));
    let room = WIDEST.min(pen.width().saturating_sub(2)).saturating_sub(8);
    let mut lines: Vec<Vec<Run>> = Vec::new();
    let mut selected = 0..1;
    let mut earlier_ran = false;
    for (number, row) in rows.iter().enumerate() {
        let mark = if number == at { "▸ " } else { "  " };
        let name_style = if number == at { theme.accent } else { theme.strong };
        match row {
            Row::Offer(plan) => {
                let from = lines.len();
                lines.push(vec![(mark.to_owned(), theme.accent), (plan.title.clone(), name_style)]);
                indented(&mut lines, &plan.answers, room, theme.text);
                // Enter means consent to the files that the plan writes, so they are listed before it.
                match obstacle(state, ctx, plan) {
                    Some(why) => indented(&mut lines, &format!("– {why}"), room, theme.status(Status::Na)),
                    None => {
                        let writes = plan.writes.as_deref().unwrap_or("writes nothing");
                        indented(&mut lines, writes, room, theme.dim);
                    }
                }
                if number == at {
                    selected = from..lines.len();
                }
            }
            Row::Ran(which) => {
                if !earlier_ran {
                    earlier_ran = true;
                    if number > 0 {
                        lines.push(Vec::new());
                    }
                    lines.push(vec![("In this session".to_owned(), theme.dim)]);
                }
                let page = which.and_then(|n| state.earlier.get(n)).map_or(state, |page| page);
                let mut runs = vec![(mark.to_owned(), theme.accent), (page.race_title(), name_style)];
                runs.push((format!("  {}", how_far(page)), theme.dim));
                if *which == ctx.plan {
                    runs.push(("  shown".to_owned(), theme.accent));
                }
                if number == at {
                    selected = lines.len()..lines.len() + 1;
                }
                lines.push(runs);
            }
        }
    }
    let title = [("Plans of this screen".to_owned(), theme.strong)];
    let height = usize::from(pen.height()).saturating_sub(4).max(1);
    let scroll = if at == 0 { 0 } else { (selected.end + 1).saturating_sub(height) };
    sheet::draw(pen, &title, &lines, &sheet::keys(bindings, theme), scroll, WIDEST, theme);
}

fn indented(lines: &mut Vec<Vec<Run>>, text: &str, room: u16, style: ratatui::style::Style) {
    lines.extend(wrap(text, room.saturating_sub(4)).into_iter().map(|line| vec![(format!("    {line}"), style)]));
}

fn how_far(page: &State) -> String {
    if let Some(grid) = &page.grid {
        return format!("{} of {} cells", grid.done(), grid.plan.cells.len());
    }
    let ended = page.lanes.iter().filter(|lane| lane.ended_ns.is_some()).count();
    format!("{ended} of {} runs", page.lanes.len())
}
