//! The checklist of the direct route: completed and open steps, the required rights, and the final proof.

use crate::core::guide::REBUILT_LATER;
use crate::core::{FixPlan, GuideStep, Status, StepState};
use crate::session::State;
use crate::text::quoted_line;
use crate::tui::clicks::Spot;
use crate::tui::keys::bindings::Binding;
use crate::tui::pen::{Pen, Run, wrap};
use crate::tui::theme::Theme;
use crate::tui::widgets::sheet;
use ratatui::style::Style;

/// Maximum width of the sheet in columns.
const WIDEST: u16 = 120;

/// A line that can be selected: a step, or a fix of a step.
pub(super) struct Row<'s> {
    pub(super) step: &'s GuideStep,
    pub(super) plan: Option<&'s FixPlan>,
}

/// The lines that can be selected, in order.
pub(super) fn rows(state: &State) -> Vec<Row<'_>> {
    let mut out = Vec::new();
    for step in state.guide.iter().flat_map(|guide| &guide.steps) {
        out.push(Row { step, plan: None });
        out.extend(step.plans.iter().map(|plan| Row { step, plan: Some(plan) }));
    }
    out
}

/// The index of the first selection: the first fix to apply, or else the first open step. If no direct route is
/// possible, it is the first line, because the reason is above it and none of the fixes leads to the goal.
pub(super) fn first_open(state: &State) -> usize {
    let rows = rows(state);
    let leads = state.verdicts.is_empty() || state.verdicts.iter().any(|verdict| verdict.possible.is_direct());
    if !leads {
        return 0;
    }
    let open = |row: &Row<'_>| matches!(row.step.state, StepState::Open | StepState::Impossible);
    rows.iter()
        .position(|row| open(row) && row.plan.is_some())
        .or_else(|| rows.iter().position(open))
        .unwrap_or_default()
}

/// Draws the checklist with line `at` selected, and with the available keys.
pub(super) fn draw(pen: &mut Pen<'_>, state: &State, at: usize, bindings: &[&Binding], theme: &Theme) {
    let Some(guide) = &state.guide else {
        let lines = [vec![("The checklist appears when all checks are done.".to_owned(), theme.text)]];
        sheet::draw(pen, &[], &lines, &[], 0, WIDEST, theme);
        return;
    };
    let room = WIDEST.min(pen.width().saturating_sub(2)).saturating_sub(8);
    let mut page = Page { lines: Vec::new(), room, selected: 0..0, rows: Vec::new() };
    let [_, why] = guide.head();
    page.put(0, &why, theme.text);
    for open in &guide.open {
        page.lines.push(Vec::new());
        let style = theme.status(if open.verified { Status::Pass } else { Status::Warn });
        for line in open.lines() {
            page.put(line.len() as u16 - line.trim_start().len() as u16, line.trim_start(), style);
        }
    }
    let mut row = 0;
    for (number, step) in guide.steps.iter().enumerate() {
        page.lines.push(Vec::new());
        let status = style(step.state, theme);
        page.head(row == at, |page, mark| {
            let title = format!("{:>2}. {} ({})", number + 1, step.title, step.state.word());
            let text = if step.state == StepState::Done { theme.text } else { theme.strong };
            page.marked(&[(mark, theme.accent), (format!("{} ", step.state.mark()), status)], &title, text);
        });
        row += 1;
        let text = if step.state == StepState::Done { theme.dim } else { theme.text };
        for found in &step.found {
            page.put(7, found, text);
        }
        for plan in &step.plans {
            page.head(row == at, |page, mark| {
                let title = format!("{} ({}; {})", plan.title, plan.who(), plan.how());
                page.marked(
                    &[(format!("   {mark}"), theme.accent), ("→ ".to_owned(), theme.accent)],
                    &title,
                    theme.text,
                );
                page.plan(plan, &guide.shown_plan(plan), theme);
            });
            row += 1;
        }
        for advice in &step.advice {
            page.marked(&[("     → ".to_owned(), theme.accent)], advice, theme.text);
        }
    }
    let (done, all) = (guide.done(), guide.steps.len());
    let title = [
        (format!("To GPUDirect Storage by {}", guide.route), theme.strong),
        (format!("  {done} of {all} steps are done"), theme.dim),
    ];
    // The selected line is visible with as much of its text as fits. If the first line is selected, the top of the
    // text is shown.
    let height = usize::from(pen.height()).saturating_sub(4).max(1);
    let end = page.selected.end.min(page.selected.start + height);
    let scroll = if at == 0 { 0 } else { (end + 1).saturating_sub(height) };
    let count = page.lines.len();
    sheet::draw(pen, &title, &page.lines, &sheet::keys(bindings, theme), scroll, WIDEST, theme);
    sheet::click(pen, count, WIDEST, bindings);
    let mut shown = sheet::page(pen, count, WIDEST);
    let (w, h) = (shown.width(), usize::from(shown.height()));
    let first = scroll.min(count.saturating_sub(h));
    for (row, lines) in page.rows.iter().enumerate() {
        for line in lines.clone().filter(|line| (first..first + h).contains(line)) {
            shown.hit((line - first) as u16, 0, w, Spot::Row(row));
        }
    }
    if (first..first + h).contains(&page.selected.start) && !page.selected.is_empty() {
        shown.restyle(0, (page.selected.start - first) as u16, w.saturating_sub(1), 1, theme.selected);
    }
}

fn style(state: StepState, theme: &Theme) -> Style {
    match state {
        StepState::Done => theme.status(Status::Pass),
        StepState::Open => theme.status(Status::Warn),
        StepState::Impossible => theme.status(Status::Fail),
        StepState::Unknown => theme.dim,
    }
}

/// The text of the checklist, and the positions of the lines that can be selected.
struct Page {
    lines: Vec<Vec<Run>>,
    room: u16,
    selected: std::ops::Range<usize>,
    /// The text lines of each row.
    rows: Vec<std::ops::Range<usize>>,
}

impl Page {
    fn put(&mut self, indent: u16, text: &str, style: Style) {
        for line in wrap(text, self.room.saturating_sub(indent)) {
            self.lines.push(vec![(format!("{:1$}{line}", "", usize::from(indent)), style)]);
        }
    }

    /// Adds marks with text wrapped next to them.
    fn marked(&mut self, signs: &[Run], text: &str, style: Style) {
        let indent: usize = signs.iter().map(|(sign, _)| sign.chars().count()).sum();
        for (n, line) in wrap(text, self.room.saturating_sub(indent as u16)).into_iter().enumerate() {
            let mut runs = if n == 0 { signs.to_vec() } else { vec![(" ".repeat(indent), style)] };
            runs.push((line, style));
            self.lines.push(runs);
        }
    }

    /// Adds a line that can be selected. It gets the selection mark, and its position is stored.
    fn head(&mut self, is_selected: bool, draw: impl FnOnce(&mut Self, String)) {
        let start = self.lines.len();
        draw(self, if is_selected { "▸ " } else { "  " }.to_owned());
        if is_selected {
            self.selected = start..self.lines.len();
        }
        self.rows.push(start..self.lines.len());
    }

    /// Adds a plan with the changes of `shown`.
    fn plan(&mut self, plan: &FixPlan, shown: &FixPlan, theme: &Theme) {
        for change in &shown.changes {
            match change {
                crate::core::Change::Run { argv } => {
                    let line = quoted_line(argv);
                    self.put(9, &format!("$ {line}"), theme.accent);
                }
                crate::core::Change::WriteFile { path, before, after, .. } => {
                    let verb = if before.is_some() { "edits" } else { "writes" };
                    self.put(9, &format!("{verb} {}", path.display()), theme.accent);
                    let old: Vec<&str> = before.as_deref().unwrap_or_default().lines().collect();
                    for line in after.lines().filter(|line| !old.contains(line)) {
                        self.put(9, &format!("+{line}"), theme.added);
                    }
                }
            }
        }
        if shown.changes.len() < plan.changes.len() {
            self.put(9, REBUILT_LATER, theme.dim);
        }
        if let Some(obstacle) = &plan.obstacle {
            self.put(9, &format!("but {obstacle}"), theme.status(Status::Warn));
        }
        self.put(9, &format!("verify: {}", plan.verify), theme.dim);
    }
}
