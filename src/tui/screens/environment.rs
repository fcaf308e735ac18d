//! Screen 1: will reads of this path go straight to the GPU?
//!
//! ```text
//!  headline
//!    now    [storage] ──▶ [host memory] ──▶ [GPU]     compat   proven
//!    goal   [storage] ═════════════════════▶ [GPU]    P2PDMA   needs …
//! ╭ Checks ─────────╮╭ one check ─────────────────────╮
//! ```

use crate::domain::units::rate;
use crate::domain::{Finding, Group, Route, Status, Verdict};
use crate::session::{LaneStatus, State};
use crate::tui::app::{Pane, RowKey, UiState};
use crate::tui::mouse::Spot;
use crate::tui::pen::{Pen, Run, cut, width, wrap};
use crate::tui::theme::Theme;
use crate::tui::widgets::path_drawing::{self, Way};
use crate::tui::widgets::sheet::{self, labelled};
use crate::tui::words::{self, route_word};

const GROUPS: [Group; 7] =
    [Group::Gpu, Group::NvidiaFs, Group::Kernel, Group::Storage, Group::Files, Group::Cufile, Group::Limits];

/// How bad a status is; worst wins.
const fn weight(status: Status) -> u8 {
    match status {
        Status::Na => 0,
        Status::Pass => 1,
        Status::Info => 2,
        Status::Warn => 3,
        Status::Fail => 4,
    }
}

fn matches(finding: &Finding, filter: &str) -> bool {
    let filter = filter.to_lowercase();
    filter.is_empty()
        || [&finding.id, &finding.summary, &finding.why].iter().any(|text| text.to_lowercase().contains(&filter))
        || finding.status.word() == filter
        || finding
            .evidence
            .iter()
            .any(|e| e.source.to_lowercase().contains(&filter) || e.text.to_lowercase().contains(&filter))
}

fn members<'s>(state: &'s State, ui: &UiState, group: Group) -> Vec<&'s Finding> {
    state.group(group).filter(|f| matches(f, &ui.environment.filter)).collect()
}

fn worst(findings: &[&Finding]) -> Status {
    findings.iter().map(|f| f.status).max_by_key(|s| weight(*s)).unwrap_or(Status::Na)
}

/// The groups that are open: those in which something wants attention, as many of the others as there is room for, and what the user turned
/// around; a filter opens all.
fn open_groups(state: &State, ui: &UiState) -> Vec<Group> {
    let count = |group: Group| state.group(group).count();
    let troubled = |group: Group| {
        let all: Vec<&Finding> = state.group(group).collect();
        weight(worst(&all)) >= weight(Status::Warn)
    };
    let room = ui.environment.room.get();
    let heads = GROUPS.into_iter().filter(|g| count(*g) > 0).count();
    let mut used = heads + GROUPS.into_iter().filter(|g| troubled(*g)).map(count).sum::<usize>();
    GROUPS
        .into_iter()
        .filter(|group| {
            if !ui.environment.filter.is_empty() {
                return true;
            }
            let mut open = troubled(*group);
            // In a short list the troubled groups stand out better among closed ones.
            if !open && room >= 24 && used + count(*group) <= room {
                used += count(*group);
                open = true;
            }
            open != ui.environment.toggled.contains(group)
        })
        .collect()
}

/// The lines of the list.
pub(crate) fn rows(state: &State, ui: &UiState) -> Vec<RowKey> {
    let mut rows = Vec::new();
    let open = open_groups(state, ui);
    for group in GROUPS {
        let found = members(state, ui, group);
        if found.is_empty() {
            continue;
        }
        rows.push(RowKey::Group(group));
        if open.contains(&group) {
            rows.extend(found.iter().map(|f| RowKey::Check(f.id.clone())));
        }
    }
    rows
}

/// The selected line: the user's, or by itself the worst check (what has a fix first).
pub(crate) fn selected_row(state: &State, ui: &UiState) -> Option<RowKey> {
    let rows = rows(state, ui);
    if let Some(chosen) = &ui.environment.selected
        && rows.contains(chosen)
    {
        return Some(chosen.clone());
    }
    let check = |row: &RowKey| match row {
        RowKey::Check(id) => state.checks.iter().find(|f| f.id == *id),
        RowKey::Group(_) => None,
    };
    // `max_by_key` keeps the last of equals, so the list is read backwards to get the first.
    let best = rows.iter().rev().filter_map(|row| Some((row, check(row)?)));
    let best = best.max_by_key(|(_, f)| (weight(f.status), f.fix.is_some(), f.cause.is_none()));
    best.filter(|(_, f)| weight(f.status) > 2).map(|(row, _)| row.clone()).or_else(|| rows.first().cloned())
}

/// The selected check.
pub(crate) fn selected_finding<'s>(state: &'s State, ui: &UiState) -> Option<&'s Finding> {
    match selected_row(state, ui)? {
        RowKey::Check(id) => state.checks.iter().find(|f| f.id == id),
        RowKey::Group(_) => None,
    }
}

fn verdict<'s>(state: &'s State, ui: &UiState) -> Option<&'s Verdict> {
    state.verdicts.get(ui.environment.verdict.min(state.verdicts.len().saturating_sub(1)))
}

/// Draws the screen; returns how far the detail scrolls.
pub(crate) fn draw(pen: &mut Pen<'_>, state: &State, ui: &UiState, theme: &Theme) -> usize {
    let (w, h) = (pen.width(), pen.height());
    let airy = h >= 24;
    let mut y = u16::from(airy);
    let verdict = verdict(state, ui);
    y += headline(&mut pen.part(0, y, w, 3), &words::environment(state, verdict, ui.over), theme);
    if let Some(verdict) = verdict {
        if h >= 14 {
            y += u16::from(airy);
            let step = if h >= 30 { 2 } else { 1 };
            y += ways(&mut pen.part(0, y, w, 3), state, ui, verdict, step, theme);
        }
        y += u16::from(airy);
    } else {
        y += 1;
    }
    let rest = h.saturating_sub(y);
    if w < super::WIDE {
        let mut pane = pen.part(0, y, w, rest);
        return match ui.environment.pane {
            Pane::List => {
                list(&mut pane, state, ui, theme);
                0
            }
            Pane::Detail => detail(&mut pane, state, ui, theme),
        };
    }
    let left = (w * 2 / 5).clamp(36, 64);
    list(&mut pen.part(0, y, left, rest), state, ui, theme);
    let troubles = troubles(state, w.saturating_sub(left + 6), theme);
    let below = if rest >= 36 && troubles.len() > 1 { (troubles.len() as u16 + 3).min(rest / 2) } else { 0 };
    if below > 0 {
        let mut pane = pen.part(left, y + rest - below, w - left, below);
        let mut inside = pane.frame(&[("What stands in the way".to_owned(), theme.strong)], theme.faint);
        let (w, h) = (inside.width(), inside.height());
        sheet::text(&mut inside.part(2, 0, w.saturating_sub(3), h), &troubles, 0, theme);
    }
    detail(&mut pen.part(left, y, w - left, rest - below), state, ui, theme)
}

/// Failures and warnings with what mends them, the worst first; what another one causes is left to that one.
fn troubles(state: &State, room: u16, theme: &Theme) -> Vec<Vec<Run>> {
    let mut found: Vec<&Finding> =
        state.checks.iter().filter(|f| weight(f.status) >= weight(Status::Warn) && f.cause.is_none()).collect();
    found.sort_by_key(|f| std::cmp::Reverse(weight(f.status)));
    let mut lines = Vec::new();
    for finding in found {
        for (i, line) in wrap(&finding.summary, room.saturating_sub(2)).into_iter().enumerate() {
            let mark = if i == 0 { finding.status.mark() } else { ' ' };
            lines.push(vec![(format!("{mark} "), theme.status(finding.status)), (line, theme.text)]);
        }
        let plan = finding.fix.as_ref().and_then(|id| state.plans.iter().find(|plan| plan.id == *id));
        let remedy = plan.map(|plan| plan.title.clone()).or_else(|| finding.advice.clone());
        if let Some(remedy) = remedy {
            lines.extend(wrap(&remedy, room.saturating_sub(4)).into_iter().enumerate().map(|(i, line)| {
                let arrow = if i == 0 { "  → " } else { "    " };
                vec![(arrow.to_owned(), theme.accent), (line, theme.dim)]
            }));
        }
    }
    lines
}

/// The answer, its mark first; returns the rows taken.
pub(crate) fn headline(pen: &mut Pen<'_>, headline: &words::Headline, theme: &Theme) -> u16 {
    let lines = wrap(&headline.text, pen.width().saturating_sub(6));
    let shown = lines.len().min(usize::from(pen.height())).max(1);
    pen.text(1, 0, &headline.status.mark().to_string(), theme.status(headline.status));
    for (y, line) in lines.iter().take(shown).enumerate() {
        let more = y + 1 == shown && lines.len() > shown;
        let line = if more { format!("{line} …") } else { line.clone() };
        pen.text(3, y as u16, &line, theme.strong);
    }
    shown as u16
}

/// The way of a byte now and at best; returns the rows taken.
fn ways(pen: &mut Pen<'_>, state: &State, ui: &UiState, verdict: &Verdict, step: u16, theme: &Theme) -> u16 {
    let gpu = verdict.gpu.is_some() || state.machine.as_ref().is_some_and(|m| !m.gpus.is_empty());
    let indent = if pen.width() >= 100 { 3 } else { 1 };
    let start = indent + 6;
    let after = start + path_drawing::COLUMNS + 3;
    pen.text(indent, 0, "now", theme.dim);
    path_drawing::draw(pen, start, 0, &Way { route: verdict.route, gpu }, theme);
    let status = match verdict.route {
        Route::None if gpu => Status::Fail,
        Route::None => Status::Na,
        Route::Compat => Status::Warn,
        _ => Status::Pass,
    };
    let mut now: Vec<Run> = Vec::new();
    if gpu {
        now.push((format!("{:<9} ", route_word(verdict.route)), theme.status(status)));
        now.push((if verdict.proven { "proven" } else { "not proven" }.to_owned(), theme.dim));
    } else {
        now.push(("no GPU here".to_owned(), theme.dim));
    }
    if let Some(measured) = measured(state) {
        now.push((format!(", measured {}", rate(measured)), theme.dim));
    }
    if state.verdicts.len() > 1 {
        let number = ui.environment.verdict.min(state.verdicts.len() - 1) + 1;
        now.push((format!("   path {number} of {}", state.verdicts.len()), theme.dim));
    }
    // The badge in the frame says the same; half a word helps nobody.
    let wordy = after + 10 <= pen.width();
    let room = pen.width().saturating_sub(after);
    if wordy {
        let mut x = after;
        for (text, style) in &now {
            x = pen.fit(x, 0, (after + room).saturating_sub(x + 1), text, *style);
        }
    }
    if !gpu || verdict.possible == verdict.route {
        return 1;
    }
    pen.text(indent, step, "goal", theme.dim);
    path_drawing::draw(pen, start, step, &Way { route: verdict.possible, gpu }, theme);
    let mut goal: Vec<Run> = vec![(format!("{:<9} ", route_word(verdict.possible)), theme.status(Status::Pass))];
    if !verdict.blockers.is_empty() {
        goal.push((format!("needs {}", verdict.blockers.join(", ")), theme.dim));
    }
    let flat: String = goal.iter().skip(1).map(|(text, _)| text.as_str()).collect();
    if wordy {
        pen.runs(after, step, &goal[..1]);
    }
    pen.fit(after + 10, step, room.saturating_sub(11), &flat, theme.dim);
    step + 1
}

/// The best rate of a cuFile load of this session.
fn measured(state: &State) -> Option<f64> {
    let results = state.lanes.iter().filter(|l| l.status == LaneStatus::Done && l.engine.opens_cufile());
    results.filter_map(|l| l.result.as_deref()).map(|r| r.bytes_per_s).filter(|r| r.is_finite()).reduce(f64::max)
}

fn border(ui: &UiState, pane: Pane, theme: &Theme) -> ratatui::style::Style {
    if ui.environment.pane == pane && ui.sheet.is_none() { theme.dim } else { theme.faint }
}

fn list(pen: &mut Pen<'_>, state: &State, ui: &UiState, theme: &Theme) {
    let mut title: Vec<Run> = vec![("Checks".to_owned(), theme.strong)];
    for status in [Status::Pass, Status::Info, Status::Warn, Status::Fail, Status::Na] {
        let count = state.checks.iter().filter(|f| f.status == status).count();
        if count > 0 {
            // The dash of n/a would drown in the border.
            let mark = if status == Status::Na { status.word().to_owned() } else { status.mark().to_string() };
            title.push((format!("  {count} {mark}"), theme.status(status)));
        }
    }
    let filter = &ui.environment.filter;
    if !filter.is_empty() {
        title.push((format!("  /{filter}"), theme.accent));
    }
    let mut inside = pen.frame(&title, border(ui, Pane::List, theme));
    let (w, h) = (inside.width(), usize::from(inside.height()));
    ui.environment.room.set(h);
    let rows = rows(state, ui);
    let open = open_groups(state, ui);
    if rows.is_empty() {
        let text = if state.checks.is_empty() && words::unchecked(state, ui.over) {
            "Nothing was checked in this session."
        } else if state.checks.is_empty() {
            "The first answers are on their way."
        } else {
            "No check contains this text."
        };
        inside.text(1, 0, text, theme.dim);
        return;
    }
    let selected = selected_row(state, ui);
    let at = rows.iter().position(|row| Some(row) == selected.as_ref()).unwrap_or(0);
    // The selection stays two lines away from the edges, so that one sees where one goes.
    let first = at.saturating_sub(h.saturating_sub(3)).min(rows.len().saturating_sub(h));
    for (y, row) in rows.iter().skip(first).take(h).enumerate() {
        let y = y as u16;
        inside.hit(ui, y, 0, w, Spot::Check(row.clone()));
        match row {
            RowKey::Group(group) => {
                let open = open.contains(group);
                group_row(&mut inside, y, &members(state, ui, *group), (*group, open), theme);
            }
            RowKey::Check(id) => {
                if let Some(finding) = state.checks.iter().find(|f| f.id == *id) {
                    check_row(&mut inside, y, finding, theme);
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

fn check_row(pen: &mut Pen<'_>, y: u16, finding: &Finding, theme: &Theme) {
    pen.cell(3, y, finding.status.mark(), theme.status(finding.status));
    let name = if weight(finding.status) >= weight(Status::Warn) { theme.text } else { theme.dim };
    let room = pen.width().saturating_sub(7);
    let end = pen.fit(5, y, room, &finding.id, name);
    let left = pen.width().saturating_sub(end + 4);
    if left >= 12 {
        pen.fit(end + 2, y, left, &finding.summary, if theme.mono { theme.dim } else { theme.faint_text() });
    }
}

fn detail(pen: &mut Pen<'_>, state: &State, ui: &UiState, theme: &Theme) -> usize {
    let border = border(ui, Pane::Detail, theme);
    let room = pen.width().saturating_sub(6);
    let (title, lines) = match (selected_row(state, ui), selected_finding(state, ui)) {
        (_, Some(finding)) => (check_title(finding, theme), check_lines(finding, state, room, theme)),
        (Some(RowKey::Group(group)), _) => {
            (vec![(group.title().to_owned(), theme.strong)], group_lines(&members(state, ui, group), room, theme))
        }
        _ => (vec![("Details".to_owned(), theme.dim)], Vec::new()),
    };
    let mut inside = pen.frame(&title, border);
    let (w, h) = (inside.width(), inside.height());
    let top = u16::from(h >= 10);
    let mut page = inside.part(2, top, w.saturating_sub(2), h - top);
    sheet::text(&mut page, &lines, ui.environment.detail_scroll, theme)
}

fn check_title(finding: &Finding, theme: &Theme) -> Vec<Run> {
    let mark = format!("{} {}", finding.status.mark(), finding.status.word());
    let mut title = vec![
        (finding.id.clone(), theme.strong),
        (" ── ".to_owned(), theme.faint),
        (mark, theme.status(finding.status)),
    ];
    if finding.status == Status::Fail && !finding.blocks.is_empty() {
        let routes: Vec<&str> = finding.blocks.iter().map(|r| route_word(*r)).collect();
        title.push((" ── ".to_owned(), theme.faint));
        title.push((format!("blocks {}", routes.join(", ")), theme.text));
    }
    title
}

fn check_lines(finding: &Finding, state: &State, room: u16, theme: &Theme) -> Vec<Vec<Run>> {
    let mut lines: Vec<Vec<Run>> =
        wrap(&finding.summary, room).into_iter().map(|line| vec![(line, theme.strong)]).collect();
    lines.push(Vec::new());
    for (i, evidence) in finding.evidence.iter().enumerate() {
        let label = if i == 0 { "Found" } else { "" };
        let first = evidence.text.lines().count() <= 1;
        let whole = format!("{}  ({})", evidence.text.trim_end(), evidence.source);
        if first && width(&whole) + 8 <= usize::from(room) {
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
    if !finding.evidence.is_empty() {
        lines.push(Vec::new());
    }
    if !finding.why.is_empty() {
        lines.extend(labelled("Why", &finding.why, room, theme.dim, theme.text));
        lines.push(Vec::new());
    }
    if let Some(cause) = &finding.cause {
        lines.extend(labelled("Cause", &format!("comes from {cause}; mend that first"), room, theme.dim, theme.text));
        lines.push(Vec::new());
    }
    let plan = finding.fix.as_ref().and_then(|id| state.plans.iter().find(|p| p.id == *id));
    let plan = plan.or_else(|| state.plans.iter().find(|p| p.check == finding.id));
    if let Some(plan) = plan {
        lines.extend(labelled("Fix", &plan.title, room, theme.dim, theme.text));
        lines.extend(labelled("", super::fix::needs_words(plan), room, theme.dim, theme.dim));
        lines.push(vec![
            ("        ".to_owned(), theme.dim),
            ("f".to_owned(), theme.accent),
            (" shows what it would change".to_owned(), theme.dim),
        ]);
    }
    if let Some(advice) = &finding.advice {
        lines.extend(labelled(if plan.is_some() { "Or" } else { "Fix" }, advice, room, theme.dim, theme.text));
    }
    while lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    lines
}

fn group_lines(found: &[&Finding], room: u16, theme: &Theme) -> Vec<Vec<Run>> {
    let mut ordered: Vec<&&Finding> = found.iter().collect();
    ordered.sort_by_key(|f| std::cmp::Reverse(weight(f.status)));
    let mut lines = Vec::new();
    for finding in ordered {
        for (i, line) in wrap(&finding.summary, room.saturating_sub(3)).into_iter().enumerate() {
            let mark = if i == 0 { format!("{}  ", finding.status.mark()) } else { "   ".to_owned() };
            let style = if weight(finding.status) > 2 { theme.text } else { theme.dim };
            lines.push(vec![(mark, theme.status(finding.status)), (cut(&line, room), style)]);
        }
    }
    lines
}
