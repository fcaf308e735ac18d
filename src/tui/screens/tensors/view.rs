//! Screen 3: the overhead of each tensor.
//!
//! ```text
//!  headline: the slowest tensor, the fitted line
//! ╭ Map ───────────────────────────────────────────╮
//! ╭ table ──────────────────────╮╭ size and time ──╮   ⏎ replaces the chart by one tensor
//! ```

use super::state::{Ui, watched_report};
use super::{detail, table, watched};
use crate::analysis::TensorRow;
use crate::core::{Engine, Status};
use crate::present::tensors as sentences;
use crate::session::{Lane, State};
use crate::tui::jobs::tensor_rows::TensorRows;
use crate::tui::pen::{Pen, Run, runs_width, wrap};
use crate::tui::theme::Theme;
use crate::tui::widgets::headline;
use crate::tui::widgets::scatter::{self, Cloud};
use crate::tui::words::{Headline, short_engine};

/// Minimum number of rows for a tall map.
const TALL_MAP: u16 = 38;

/// The run for comparison, with its rows.
pub(super) fn rival<'a>(state: &'a State, ui: &'a Ui<'_>) -> Option<(&'a Lane, &'a TensorRows)> {
    let (id, run) = ui.screen.other()?;
    Some((state.lanes.iter().find(|l| l.id == id)?, run))
}

/// Draws the screen.
pub(super) fn draw(pen: &mut Pen<'_>, state: &State, ui: &Ui<'_>, theme: &Theme) {
    if let Some(report) = watched_report(state) {
        watched::draw(pen, report, ui, theme);
        return;
    }
    let (w, h) = (pen.width(), pen.height());
    let airy = h >= 26;
    let lane = ui.screen.lane.and_then(|id| state.lanes.iter().find(|l| l.id == id));
    let run = lane.and_then(|l| ui.screen.run(l.id));
    let other = rival(state, ui);
    let mut y = u16::from(airy);
    y += headline::draw(&mut pen.part(0, y, w, 3), &headline(state, lane, run, other, w.saturating_sub(6)), theme);
    y += u16::from(airy);
    let (Some(lane), Some(run)) = (lane, run) else { return };
    let Some(model) = state.model_of(lane) else { return };
    let opened = ui.screen.open && ui.screen.detail.is_some();
    if h >= 16 && !(opened && ui.ctx.small) {
        let rows = if h >= TALL_MAP { 6 } else { 4 };
        let of = if matches!(lane.engine, Engine::Workload(_)) { "The pieces" } else { "The model" };
        map(&mut pen.part(0, y, w, rows), of, run, ui, theme);
        y += rows;
    }
    let rest = h.saturating_sub(y);
    let shown = table::Shown { model, lane, run, other };
    if ui.ctx.narrow {
        let mut pane = pen.part(0, y, w, rest);
        if opened {
            detail::draw(&mut pane, &shown, ui, theme);
        } else if ui.screen.scatter {
            cost(&mut pane, &shown, ui, theme);
        } else {
            table::draw(&mut pane, &shown, ui, theme);
        }
        return;
    }
    let left = (w * 7 / 10).min(w.saturating_sub(42));
    table::draw(&mut pen.part(0, y, left, rest), &shown, ui, theme);
    // In a tall pane, the details of one tensor leave space for the chart below them.
    let detail = if !opened {
        0
    } else if rest >= 40 {
        22
    } else {
        rest
    };
    if opened {
        detail::draw(&mut pen.part(left, y, w - left, detail), &shown, ui, theme);
    }
    if detail < rest {
        cost(&mut pen.part(left, y + detail, w - left, rest - detail), &shown, ui, theme);
    }
}

/// The answer in three lines of `room` columns. If it is too long, the fitted line is left out before the slowest
/// tensor.
fn headline(
    state: &State,
    lane: Option<&Lane>,
    run: Option<&TensorRows>,
    other: Option<(&Lane, &TensorRows)>,
    room: u16,
) -> Headline {
    let say = |text: String| Headline { status: Status::Info, text };
    let (Some(lane), Some(run)) = (lane, run) else {
        let text = sentences::nothing(state, lane.is_some());
        return say(text.to_owned());
    };
    let name = |row: &TensorRow| {
        state.model_of(lane).and_then(|m| m.tensors.get(row.tensor as usize)).map(|t| t.name.as_str())
    };
    let [slowest, briefly] = match run.slowest.and_then(|at| Some((at, run.rows.get(at)?))) {
        Some((at, row)) => {
            let theirs = other.and_then(|(lane, run)| Some((lane, run.points.get(at)?.1))).filter(|(_, ns)| *ns > 0);
            sentences::slowest(lane, name(row).unwrap_or_default(), row, theirs)
        }
        None => Default::default(),
    };
    let line = |proof: bool| sentences::overhead(lane, run.cost.as_ref(), proof);
    [true, false]
        .map(|proof| format!("{slowest} {}", line(proof)).trim_start().to_owned())
        .into_iter()
        .find(|text| slowest.is_empty() || wrap(text, room).len() <= 3)
        .map_or_else(|| say(if wrap(&slowest, room).len() <= 3 { slowest } else { briefly }), say)
}

const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws all tensors in file order. Height and colour show the share of overhead.
fn map(pen: &mut Pen<'_>, of: &str, run: &TensorRows, ui: &Ui<'_>, theme: &Theme) {
    let words = if pen.width() < 100 {
        "  overhead: ▁ none █ all"
    } else {
        "  overhead as a share of the time: ▁ none █ all"
    };
    let title = [(format!("{of} in file order"), theme.strong), (words.to_owned(), theme.dim)];
    let mut inside = pen.frame(&title, theme.faint);
    let (columns, count) = (usize::from(inside.width().saturating_sub(2)), run.rows.len());
    let rows = inside.height().saturating_sub(1);
    if columns == 0 || count == 0 || rows == 0 {
        return;
    }
    let selected = ui.screen.tensor().map(|t| t as usize);
    for column in 0..columns {
        let first = column * count / columns;
        let last = ((column + 1) * count / columns).max(first + 1).min(count);
        let overhead: u64 = run.overheads.get(first..last).unwrap_or_default().iter().sum();
        let busy: u64 = run.points.get(first..last).unwrap_or_default().iter().map(|(_, ns)| ns).sum();
        let (overhead, busy) = (overhead as f64, busy as f64);
        let x = column as u16 + 1;
        if busy > 0.0 {
            let share = overhead / busy;
            let style = table::share_style(share, theme);
            // The lowest eighth is always drawn, so that a tensor without overhead is also visible.
            let eighths = ((share * f64::from(rows) * 8.0).round() as u16).clamp(1, rows * 8);
            for row in 0..rows {
                let here = eighths.saturating_sub(row * 8).min(8);
                if here > 0 {
                    inside.cell(x, rows - 1 - row, HEIGHTS[usize::from(here) - 1], style);
                }
            }
        } else {
            inside.cell(x, rows - 1, '·', theme.faint);
        }
        if selected.is_some_and(|at| (first..last).contains(&at)) {
            inside.cell(x, rows, '▴', theme.accent);
        }
    }
}

/// Draws the scatter chart of size and time, with the fitted lines and their crossover.
fn cost(pen: &mut Pen<'_>, shown: &table::Shown<'_>, ui: &Ui<'_>, theme: &Theme) {
    let (lane, run) = (shown.lane, shown.run);
    // Two engines are compared by their part of the wall time. One of them may take longer per tensor but be faster,
    // because it loads several tensors at the same time.
    let together = shown.other.is_some_and(|(_, run)| run.cost.is_some()) && run.cost.is_some();
    let words = if together { "  its part of the clock" } else { "  dots and their fit" };
    let title = [("Size and time".to_owned(), theme.strong), (words.to_owned(), theme.dim)];
    let slots = |run: &TensorRows| run.cost.as_ref().filter(|_| together).map_or(1.0, |cost| cost.parallelism);
    let mut inside = pen.frame(&title, theme.faint);
    let crossing = ui.screen.rival.as_ref().and_then(|(_, crossing)| *crossing);
    let has_legend = inside.height() >= 12;
    let mut y = 0;
    if has_legend {
        for (lane, run) in std::iter::once((lane, run)).chain(shown.other) {
            let line = formula(lane, run, together, theme);
            // The marker shows the engine, so the figures have priority over its name in a narrow pane.
            let named = runs_width(&line) + 2 <= usize::from(inside.width());
            let line: Vec<Run> =
                line.into_iter().enumerate().filter(|(i, _)| named || ![1, 3].contains(i)).map(|(_, r)| r).collect();
            inside.runs(1, y, &line);
            y += 1;
        }
        if let Some((other, _)) = shown.other {
            let text = sentences::crossing(lane, other, crossing, together);
            let room = inside.width().saturating_sub(2);
            for line in wrap(&text, room).iter().take(2) {
                inside.text(1, y, line, if crossing.is_some() { theme.accent } else { theme.dim });
                y += 1;
            }
        }
    }
    let own_line = run.cost.as_ref().map(|cost| |size: u64| cost.fit.tensor_ns(size));
    let other_line =
        shown.other.and_then(|(_, run)| run.cost.as_ref()).map(|cost| |size: u64| cost.fit.tensor_ns(size));
    let mut clouds = Vec::new();
    if let Some((other, run)) = shown.other {
        let line = other_line.as_ref().map(|line| line as &dyn Fn(u64) -> f64);
        let (style, marker) = (theme.lane(&other.engine), theme.marker(&other.engine));
        clouds.push(Cloud { points: &run.cloud, line, style, marker, slots: slots(run) });
    }
    let line = own_line.as_ref().map(|line| line as &dyn Fn(u64) -> f64);
    let (style, marker) = (theme.lane(&lane.engine), theme.marker(&lane.engine));
    clouds.push(Cloud { points: &run.cloud, line, style, marker, slots: slots(run) });
    let mark = crossing.map(|at| (at.bytes, sentences::even(at)));
    let (w, h) = (inside.width(), inside.height());
    scatter::draw(&mut inside.part(0, y, w, h.saturating_sub(y)), &clouds, mark, theme);
}

/// The formula of the fitted line: `t = 2.70 ms + bytes / 7.10 GB/s`. It is for one slot or, with `on_clock`, for all
/// slots together.
fn formula(lane: &Lane, run: &TensorRows, on_clock: bool, theme: &Theme) -> Vec<Run> {
    let [line, slots] = sentences::formula(run.cost.as_ref(), on_clock);
    vec![
        (format!("{} ", theme.marker(&lane.engine)), theme.lane(&lane.engine)),
        (format!("{}  ", short_engine(&lane.engine, 18)), theme.text),
        (line, theme.strong),
        (format!("  {}{slots}", lane.cache), theme.dim),
    ]
}
