//! Screen 6: findings and measurements on one page, in the order of the exported report.

use super::state::Ui;
use crate::analysis::SessionEnd;
use crate::core::{Engine, Status};
use crate::present::comparisons::naming;
use crate::present::failures::failed_runs;
use crate::present::table::{COLUMNS, Column, ResultRow};
use crate::present::{advice, calls, comparisons, gaps, grid, headline as answers, machine, verdict, watch, winner};
use crate::session::State;
use crate::text::sanitise_name;
use crate::tui::keys::action::Action;
use crate::tui::pen::{Pen, Run, width, wrap};
use crate::tui::remedy::remedy;
use crate::tui::screens::race::{charts, phases};
use crate::tui::theme::Theme;
use crate::tui::widgets::headline;
use crate::tui::widgets::sheet::{self, labelled_in};
use crate::tui::words::{Headline, headline_in};

type Lines = Vec<Vec<Run>>;

/// Minimum number of columns for a page and charts side by side.
const PICTURES_FROM: u16 = 170;
/// Width in columns of the labels of the machine's facts.
const LABEL: u16 = 11;
/// Number of spaces between two cells.
const GAP: usize = 2;

/// Draws the screen.
pub(super) fn draw(pen: &mut Pen<'_>, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let airy = h >= 26;
    let mut y = u16::from(airy);
    let lines = if airy { 4 } else { 3 };
    let answer = answer_of(state, ui, w.saturating_sub(6), usize::from(lines));
    y += headline::draw(&mut pen.part(0, y, w, lines), &answer, theme);
    y += u16::from(airy);
    let rest = h.saturating_sub(y);
    // If there is space next to the page, it shows the charts of the exported report.
    let pictures = if w >= PICTURES_FROM && !state.lanes.is_empty() { w * 2 / 5 } else { 0 };
    if pictures > 0 {
        // The height is enough for the bars, a legend of up to two lines, and the border.
        let upper = (phases::rows(state, ui.ctx, pictures).max(2) + 2).min(rest / 2);
        let x = w - pictures;
        phases::pane(&mut pen.part(x, y, pictures, upper), state, ui.ctx, theme);
        charts::bandwidth_of_all(&mut pen.part(x, y + upper, pictures, rest - upper), state, ui.ctx, theme);
    }
    let mut pane = pen.part(0, y, w - pictures, rest);
    let mut inside = pane.frame(&[("Report".to_owned(), theme.strong)], theme.faint);
    let room = inside.width().saturating_sub(6);
    let mut lines = Lines::new();
    facts(&mut lines, state, room, theme);
    findings(&mut lines, state, room, theme);
    results(&mut lines, state, room, theme);
    failures(&mut lines, state, room, theme);
    storage(&mut lines, state, room, theme);
    program(&mut lines, state, ui, room, theme);
    list(&mut lines, "Advice", &ui.ctx.stats.advice().iter().map(advice::sentence).collect::<Vec<_>>(), room, theme);
    list(&mut lines, "Notes and gaps", &gaps::gaps(state), room, theme);
    section(&mut lines, "As files", theme);
    let mut words = String::new();
    if ui.ctx.can_export {
        let key = ui.ctx.keys.key_of(Action::Export);
        words = format!(
            "{key} writes this as JSON, Markdown, HTML, CSV and a trace into a new directory below the one that gds-top was started in. Without the screens: "
        );
    }
    let command = match (&state.watch, &state.grid) {
        (Some(report), _) if report.attached.is_some() => "gds-top watch --pid PID --export DIR",
        (Some(_), _) => "gds-top watch --export DIR -- COMMAND",
        (None, Some(_)) if state.lanes.is_empty() => "gds-top bench-io DIR --headless --export DIR",
        _ => "gds-top --headless MODEL --export DIR",
    };
    words.push_str(&format!("{command}, or gds-top report RECORDING --export DIR."));
    lines.extend(wrap(&words, room).into_iter().map(|line| vec![(line, theme.dim)]));
    let (w, h) = (inside.width(), inside.height());
    let last = sheet::text(&mut inside.part(2, 0, w.saturating_sub(2), h), &lines, ui.screen.scroll.at(), theme);
    ui.screen.scroll.drawn(last);
}

/// The answer: the winners, or else the storage, or else the verdict. It also shows what the session did.
fn answer_of(state: &State, ui: &Ui<'_>, room: u16, lines: usize) -> Headline {
    let verdict = || state.verdicts.first().map(verdict::answer);
    let mut all = match (&state.grid, &state.watch) {
        (Some(grid), _) if state.lanes.is_empty() => grid::answers(grid).into_iter().take(1).collect(),
        (_, Some(_)) => calls::answers(state, ui.ctx.over),
        _ if !state.lanes.is_empty() => answers::race(state, ui.ctx.clock_ns),
        _ => verdict().into_iter().collect(),
    };
    let status = answers::worst(&all);
    if state.watch.is_none() {
        all.push(answers::extent(state));
    }
    Headline { status, ..headline_in(&all, room, lines) }
}

fn section(lines: &mut Lines, name: &str, theme: &Theme) {
    if !lines.is_empty() {
        lines.push(Vec::new());
    }
    lines.push(vec![(name.to_owned(), theme.accent)]);
}

fn facts(lines: &mut Lines, state: &State, room: u16, theme: &Theme) {
    let facts = machine::facts(state);
    if !facts.is_empty() {
        section(lines, "Machine", theme);
    }
    for (label, text) in facts {
        lines.extend(labelled_in(LABEL, label, &sanitise_name(&text), room, theme.dim, theme.text));
    }
}

/// Adds a text with the mark of its status before the first line.
fn marked(lines: &mut Lines, status: Status, text: &str, room: u16, theme: &Theme) {
    for (i, line) in wrap(text, room.saturating_sub(2)).into_iter().enumerate() {
        let mark = if i == 0 { status.mark() } else { ' ' };
        lines.push(vec![(format!("{mark} "), theme.status(status)), (line, theme.text)]);
    }
}

fn findings(lines: &mut Lines, state: &State, room: u16, theme: &Theme) {
    if state.verdicts.is_empty() && state.checks.is_empty() {
        return;
    }
    section(lines, "Route", theme);
    for verdict in &state.verdicts {
        let answer = verdict::answer(verdict);
        marked(lines, answer.status, &answer.text(), room, theme);
        if let Some(proof) = verdict::proof(verdict) {
            let label = if verdict.proven { "proof: " } else { "no proof: " };
            let proof = wrap(&format!("{label}{proof}"), room.saturating_sub(2));
            lines.extend(proof.into_iter().map(|line| vec![("  ".to_owned(), theme.dim), (line, theme.dim)]));
        }
    }
    let mut wrong: Vec<_> = state.checks.iter().filter(|f| matches!(f.status, Status::Warn | Status::Fail)).collect();
    // Failures are before warnings, and causes before consequences.
    wrong.sort_by_key(|f| (f.status != Status::Fail, f.cause.is_some()));
    for finding in wrong {
        marked(lines, finding.status, &format!("{}: {}", finding.id, finding.summary), room, theme);
        let remedy = remedy(state, finding);
        for (i, line) in wrap(remedy.unwrap_or_default(), room.saturating_sub(4)).into_iter().enumerate() {
            let arrow = if i == 0 { "  → " } else { "    " };
            lines.push(vec![(arrow.to_owned(), theme.accent), (line, theme.dim)]);
        }
    }
}

/// Adds the results table of each group with as many columns as fit.
fn results(lines: &mut Lines, state: &State, room: u16, theme: &Theme) {
    let comparisons = comparisons(state);
    let naming = naming(&comparisons);
    for comparison in &comparisons {
        section(lines, &comparison.title(), theme);
        if let Some(answer) = winner::answer(&comparison.group, naming) {
            marked(lines, answer.status, &answer.text(), room, theme);
        }
        let rows = comparison.rows();
        let columns = columns(&rows, usize::from(room));
        let head = columns.iter().map(|(column, width)| aligned(column.title, *width, column.right));
        lines.push(vec![("  ".to_owned(), theme.dim), (head.collect(), theme.dim)]);
        for row in &rows {
            let engine: &Engine = &row.ranked.engine;
            let mut line: Vec<Run> = vec![(format!("{} ", theme.marker(engine)), theme.lane(engine))];
            for (column, width) in &columns {
                let style = column.status.map_or(theme.text, |status| theme.status(status(row)));
                line.push((aligned(&column.marked(row), *width, column.right), style));
            }
            lines.push(line);
        }
    }
}

/// The columns that fit, with their widths. If not all fit, the columns that a terminal shows have priority.
fn columns(rows: &[ResultRow<'_>], room: usize) -> Vec<(&'static Column, usize)> {
    let needs = |column: &Column| {
        let cells = rows.iter().map(|row| width(&column.marked(row)));
        cells.chain([width(column.title)]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = COLUMNS.iter().map(needs).collect();
    let mut order: Vec<usize> = (0..COLUMNS.len()).collect();
    order.sort_by_key(|at| COLUMNS[*at].detail);
    let mut left = room.saturating_sub(2);
    let mut shown: Vec<usize> = Vec::new();
    for at in order {
        if let Some(rest) = left.checked_sub(widths[at] + GAP) {
            left = rest;
            shown.push(at);
        }
    }
    shown.sort_unstable();
    shown.into_iter().map(|at| (&COLUMNS[at], widths[at])).collect()
}

fn aligned(text: &str, columns: usize, right: bool) -> String {
    let space = " ".repeat(columns.saturating_sub(width(text)));
    let gap = " ".repeat(GAP);
    if right { format!("{space}{text}{gap}") } else { format!("{text}{space}{gap}") }
}

fn failures(lines: &mut Lines, state: &State, room: u16, theme: &Theme) {
    let failed = failed_runs(state);
    if !failed.is_empty() {
        section(lines, "Runs that failed", theme);
    }
    for run in failed {
        marked(lines, Status::Fail, &run.sentence, room, theme);
        for line in run.stderr_tail.iter().flat_map(|line| wrap(line, room.saturating_sub(4))) {
            lines.push(vec![("    ".to_owned(), theme.dim), (line, theme.dim)]);
        }
    }
}

/// Adds the results of the storage grid. The complete figures are on its screen and in the exported report.
fn storage(lines: &mut Lines, state: &State, room: u16, theme: &Theme) {
    let Some(measured) = &state.grid else { return };
    section(lines, "Storage", theme);
    lines.extend(wrap(&grid::place(measured), room).into_iter().map(|line| vec![(line, theme.dim)]));
    for answer in grid::answers(measured) {
        marked(lines, answer.status, &answer.text(), room, theme);
    }
    for failure in grid::failures(measured) {
        marked(lines, Status::Fail, &failure, room, theme);
    }
}

/// Adds the facts of a watched program and the advice about it. Its calls and files are on its screen and in the
/// exported report.
fn program(lines: &mut Lines, state: &State, ui: &Ui<'_>, room: u16, theme: &Theme) {
    let Some(report) = state.watch.as_deref() else { return };
    section(lines, "Program", theme);
    let facts = watch::facts(report, SessionEnd::of(state.ended, ui.ctx.over));
    let label_width = facts.iter().map(|(label, _)| width(label) as u16 + 1).max().unwrap_or(0).max(LABEL + 1);
    for (label, text) in facts {
        lines.extend(labelled_in(label_width, label, &sanitise_name(&text), room, theme.dim, theme.text));
    }
    let advice: Vec<String> =
        watch::advice(report).into_iter().map(|(_, text, proof)| format!("{text} ({proof}.)")).collect();
    list(lines, "Advice", &advice, room, theme);
}

/// Adds sentences below a title. If there are no sentences, nothing is added.
fn list(lines: &mut Lines, title: &str, sentences: &[String], room: u16, theme: &Theme) {
    if !sentences.is_empty() {
        section(lines, title, theme);
    }
    for text in sentences {
        let mark = |i: usize| if i == 0 { "• ".to_owned() } else { "  ".to_owned() };
        let wrapped = wrap(text, room.saturating_sub(2)).into_iter().enumerate();
        lines.extend(wrapped.map(|(i, line)| vec![(mark(i), theme.dim), (line, theme.text)]));
    }
}
