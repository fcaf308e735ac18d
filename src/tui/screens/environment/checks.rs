//! The checks on screen 1: the list with its groups, and the details of the selected check.

use super::fix::needs_words;
use super::selection::{members, next_fix, open_groups, rows, selected_finding, selected_row, worst};
use super::state::{Pane, RowKey, Ui, finding_of};
use crate::core::{Finding, Group, Status};
use crate::present::finding::{FindingView, Part};
use crate::session::State;
use crate::tui::clicks::Spot;
use crate::tui::keys::action::Action;
use crate::tui::pen::{Pen, Run, cut, runs_width, width, wrap};
use crate::tui::remedy::plan_for;
use crate::tui::theme::Theme;
use crate::tui::widgets::sheet::{self, labelled};

fn border(ui: &Ui<'_>, pane: Pane, theme: &Theme) -> ratatui::style::Style {
    if ui.screen.pane == pane && !ui.ctx.covered { theme.dim } else { theme.faint }
}

pub(super) fn list(pen: &mut Pen<'_>, state: &State, ui: &Ui<'_>, alone: bool, theme: &Theme) {
    under_pointer(pen, Pane::List);
    let mut title: Vec<Run> = vec![("Checks".to_owned(), theme.strong)];
    // The worst counts are first. If not all fit, the least important ones are left out.
    let room = usize::from(pen.width()).saturating_sub(12 + width(&ui.screen.filter));
    for status in [Status::Fail, Status::Warn, Status::Info, Status::Pass, Status::Na] {
        let count = state.checks.iter().filter(|f| f.status == status).count();
        if count > 0 && runs_width(&title) < room {
            // For n/a the word is used, because its mark is a dash that is hardly visible in the border.
            let mark = if status == Status::Na { status.word().to_owned() } else { status.mark().to_string() };
            title.push((format!("  {count} {mark}"), theme.status(status)));
        }
    }
    let filter = &ui.screen.filter;
    if !filter.is_empty() {
        title.push((format!("  /{filter}"), theme.accent));
    }
    let mut inside = pen.frame(&title, border(ui, Pane::List, theme));
    let (w, h) = (inside.width(), usize::from(inside.height()));
    ui.screen.room.set(h);
    let rows = rows(state, ui);
    let open = open_groups(state, ui);
    ui.screen.drawn.replace(rows.clone());
    if rows.is_empty() {
        let text = if state.checks.is_empty() {
            "The first results will appear soon."
        } else {
            "No check contains this text."
        };
        inside.text(1, 0, text, theme.dim);
        return;
    }
    let selected = selected_row(state, ui);
    let at = rows.iter().position(|row| Some(row) == selected.as_ref()).unwrap_or(0);
    // The selection keeps a distance of two lines from the edges, so that the next lines are visible.
    let first = at.saturating_sub(h.saturating_sub(3)).min(rows.len().saturating_sub(h));
    for (y, row) in rows.iter().skip(first).take(h).enumerate() {
        let y = y as u16;
        inside.hit(y, 0, w, Spot::Row(first + usize::from(y)));
        match row {
            RowKey::Group(group) => {
                let open = open.contains(group);
                group_row(&mut inside, y, &members(state, ui, *group), (*group, open), theme);
            }
            RowKey::Check(_) => {
                if let Some(finding) = finding_of(state, row) {
                    check_row(&mut inside, y, finding, alone, theme);
                }
            }
        }
        if first + usize::from(y) == at {
            inside.restyle(0, y, w, 1, theme.selected);
            if !theme.mono {
                inside.cell(0, y, '▌', theme.accent.patch(theme.selected));
            }
        }
    }
    sheet::scrollbar(&mut inside, rows.len(), first, theme);
}

fn group_row(pen: &mut Pen<'_>, y: u16, found: &[&Finding], (group, open): (Group, bool), theme: &Theme) {
    let worst = worst(found);
    let passed = found.iter().filter(|f| f.status == Status::Pass).count();
    let judged = found.iter().filter(|f| f.status != Status::Na).count();
    let fold = if open { "▾" } else { "▸" };
    pen.text(1, y, fold, theme.dim);
    let count =
        if judged == 0 { format!("{} n/a", worst.mark()) } else { format!("{} {passed}/{judged}", worst.mark()) };
    let room = pen.width().saturating_sub(width(&count) as u16 + 6);
    pen.fit(3, y, room, group.title(), theme.strong);
    pen.right(pen.width().saturating_sub(2), y, &count, theme.status(worst));
}

/// Draws a check in the list. `alone` is whether no pane shows the details; then the summary is more important than
/// the name.
fn check_row(pen: &mut Pen<'_>, y: u16, finding: &Finding, alone: bool, theme: &Theme) {
    pen.cell(3, y, finding.status.mark(), theme.status(finding.status));
    let name = if finding.status.weight() >= Status::Warn.weight() { theme.text } else { theme.dim };
    let room = pen.width().saturating_sub(7);
    if alone && width(finding.id.as_str()) + 2 + width(&finding.summary) > usize::from(room) {
        pen.fit(5, y, room, &finding.summary, name);
        return;
    }
    let end = pen.fit(5, y, room, finding.id.as_str(), name);
    let left = pen.width().saturating_sub(end + 4);
    if usize::from(left) >= width(&finding.summary).min(20) {
        pen.fit(end + 2, y, left, &finding.summary, theme.dim);
    }
}

/// Makes the complete pane react to the wheel and to clicks.
fn under_pointer(pen: &Pen<'_>, pane: Pane) {
    (0..pen.height()).for_each(|y| pen.hit(y, 0, pen.width(), Spot::Pane(pane as usize)));
}

pub(super) fn detail(pen: &mut Pen<'_>, state: &State, ui: &Ui<'_>, theme: &Theme) {
    under_pointer(pen, Pane::Detail);
    let border = border(ui, Pane::Detail, theme);
    let room = pen.width().saturating_sub(6);
    let (title, lines) = match (selected_row(state, ui), selected_finding(state, ui)) {
        (_, Some(finding)) => check(finding, state, ui, room, theme),
        (Some(RowKey::Group(group)), _) => {
            (vec![(group.title().to_owned(), theme.strong)], group_lines(&members(state, ui, group), room, theme))
        }
        _ => (vec![("Details".to_owned(), theme.dim)], Vec::new()),
    };
    let mut inside = pen.frame(&title, border);
    let (w, h) = (inside.width(), inside.height());
    let top = u16::from(h >= 10);
    let mut page = inside.part(2, top, w.saturating_sub(2), h - top);
    ui.screen.detail.drawn(sheet::text(&mut page, &lines, ui.screen.detail.at(), theme));
}

/// The title and text of a check. The title contains the blocked routes if all of them fit.
fn check(finding: &Finding, state: &State, ui: &Ui<'_>, room: u16, theme: &Theme) -> (Vec<Run>, Vec<Vec<Run>>) {
    let mut view = FindingView::of(finding);
    let separator = || (" ── ".to_owned(), theme.faint);
    let mut title =
        vec![(finding.id.to_string(), theme.strong), separator(), (view.result.clone(), theme.status(finding.status))];
    let fits = |routes: &Part| runs_width(&title) + width(&routes.text) + 12 <= usize::from(room);
    if let Some(routes) = view.blocks.take_if(|routes| fits(routes)) {
        title.extend([separator(), (format!("blocks {}", routes.text), theme.text)]);
    }
    (title, check_lines(finding, &view, (state, ui), room, theme))
}

/// The text of a check: the problem, the fix, the reason and the evidence.
fn check_lines(
    finding: &Finding,
    view: &FindingView<'_>,
    (state, ui): (&State, &Ui<'_>),
    room: u16,
    theme: &Theme,
) -> Vec<Vec<Run>> {
    let mut lines: Vec<Vec<Run>> =
        wrap(&finding.summary, room).into_iter().map(|line| vec![(line, theme.strong)]).collect();
    lines.push(Vec::new());
    let add = |lines: &mut Vec<Vec<Run>>, part: &Part| {
        lines.extend(labelled(part.label, &part.text, room, theme.dim, theme.text));
        lines.push(Vec::new());
    };
    view.cause.iter().for_each(|part| add(&mut lines, part));
    let plan = plan_for(state, finding);
    if let Some(plan) = plan {
        let fixed = finding.status == Status::Pass;
        let applied = state.applied.iter().any(|fix| fix.in_effect && fix.plan.id == plan.id);
        let is_past = ui.ctx.replay || ui.ctx.over;
        let undoes = if is_past { " shows what was changed" } else { " shows the changes and undoes them" };
        let (label, words) = match (fixed, applied) {
            (true, _) => ("Fixed", undoes),
            (false, true) => ("Applied", undoes),
            _ => ("Fix", " shows what it would change"),
        };
        lines.extend(labelled(label, &plan.title, room, theme.dim, theme.text));
        if !fixed && !applied {
            lines.extend(labelled("", &needs_words(plan), room, theme.dim, theme.dim));
        }
        let open = ui.ctx.keys.key_of(Action::Open);
        let key = match ui.screen.pane {
            _ if applied && !is_past => Some(ui.ctx.keys.key_of(Action::Undo)),
            _ if next_fix(state, ui).is_some_and(|next| next.id == plan.id) => Some(ui.ctx.keys.key_of(Action::Fix)),
            // The first key goes to the details, the second one opens the fix.
            Pane::List => Some(format!("{open} {open}")),
            Pane::Detail => Some(open),
            // On the road the key opens the fix of the selected station.
            Pane::Road => None,
        };
        if let Some(key) = key {
            lines.push(vec![("        ".to_owned(), theme.dim), (key, theme.accent), (words.to_owned(), theme.dim)]);
        }
        if view.advice.is_none() {
            lines.push(Vec::new());
        }
    }
    for part in [&view.advice, &view.why, &view.blocks].into_iter().flatten() {
        add(&mut lines, part);
    }
    for (i, evidence) in view.evidence.iter().enumerate() {
        let label = if i == 0 { view.found } else { "" };
        let first = evidence.text.lines().count() <= 1;
        let complete = format!("{}  ({})", evidence.text.trim_end(), evidence.source);
        if first && width(&complete) + 8 <= usize::from(room) {
            lines.push(vec![
                (format!("{label:<8}"), theme.dim),
                (evidence.text.trim_end().to_owned(), theme.text),
                (format!("  ({})", evidence.source), theme.dim),
            ]);
        } else {
            lines.extend(labelled(label, &evidence.text, room, theme.dim, theme.text));
            lines.extend(labelled("", &format!("({})", evidence.source), room, theme.dim, theme.dim));
        }
    }
    while lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    lines
}

fn group_lines(found: &[&Finding], room: u16, theme: &Theme) -> Vec<Vec<Run>> {
    let mut lines = Vec::new();
    for finding in found {
        for (i, line) in wrap(&finding.summary, room.saturating_sub(3)).into_iter().enumerate() {
            let mark = if i == 0 { format!("{}  ", finding.status.mark()) } else { "   ".to_owned() };
            let style = if finding.status.weight() >= Status::Warn.weight() { theme.text } else { theme.dim };
            lines.push(vec![(mark, theme.status(finding.status)), (cut(&line, room), style)]);
        }
    }
    lines
}
