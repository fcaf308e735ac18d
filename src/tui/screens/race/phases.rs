//! The phases of each run as stacked bars with a common time scale. They are in the pane of the runs or in a separate
//! pane.

use super::axis::Axis;
use super::names::{entry_marker, longest_name};
use crate::core::{PHASES, PhaseTimes, RunResult};
use crate::present::phases::{share, split, title};
use crate::present::{EngineRow, RowGroup, row_groups};
use crate::session::State;
use crate::tui::context::Context;
use crate::tui::pen::{Pen, Run, runs_width};
use crate::tui::selection::selected_entry;
use crate::tui::theme::Theme;
use crate::tui::widgets::{bars, sheet};
use crate::tui::words::row_name;

/// Number of rows that the phases need below the runs in a pane of `w` columns: a heading, the bars and a legend. The
/// rows are reserved from the start of a race, so that the panes below do not move when a load ends.
pub(crate) fn rows(state: &State, ctx: &Context, w: u16) -> u16 {
    let Some(shown) = Shown::of(state, ctx) else { return 0 };
    // If the session has ended, no more phases will arrive.
    if (ctx.over || state.ended.is_some()) && shown.timed().is_empty() {
        return 0;
    }
    let every: usize = PHASES.into_iter().map(|phase| title(phase).len() + 4).sum();
    let legend = every.div_ceil(usize::from(w.saturating_sub(8)).max(20)).min(3);
    (shown.group.rows.len() + 2 + legend) as u16
}

/// Only the group of the selected entry, because the phases of a hot load would be too short next to those of a cold one.
struct Shown<'s> {
    group: RowGroup<'s>,
    /// The index of the selected entry in the group.
    selected: usize,
    /// Whether there are several groups.
    several: bool,
}

impl<'s> Shown<'s> {
    fn of(state: &'s State, ctx: &Context) -> Option<Self> {
        let at = selected_entry(state, ctx)?;
        let all = row_groups(state);
        let several = all.len() > 1;
        let mut before = 0;
        for group in all {
            let next = before + group.rows.len();
            if at < next {
                return Some(Self { group, selected: at - before, several });
            }
            before = next;
        }
        None
    }

    /// The entries with known phases: their number and their run with the median time.
    fn timed(&self) -> Vec<(usize, &EngineRow<'s>, &'s RunResult)> {
        let entries = self.group.rows.iter().enumerate();
        entries
            .filter_map(|(number, e)| Some((number, e, e.typical()?.result.as_deref()?)))
            .filter(|(_, _, result)| result.phases.total_ns() > 0)
            .collect()
    }
}

/// Draws the bars with a heading below the runs, on the axis of the runs.
pub(super) fn below(pen: &mut Pen<'_>, state: &State, ctx: &Context, (name, axis): (u16, Axis), theme: &Theme) {
    let Some(shown) = Shown::of(state, ctx) else { return };
    let group = if shown.several { format!(", {} cache", shown.group.cache) } else { String::new() };
    pen.text(name, 1, &format!("where the time went{group}"), theme.faint_text());
    let (w, h) = (pen.width(), pen.height());
    bars_of(&mut pen.part(0, 2, w, h.saturating_sub(2)), &shown, name, Some(axis), theme);
}

/// The phases in a separate pane.
pub(crate) fn pane(pen: &mut Pen<'_>, state: &State, ctx: &Context, theme: &Theme) {
    let mut head = vec![("Where the time went".to_owned(), theme.strong)];
    let shown = Shown::of(state, ctx);
    if let Some(shown) = shown.as_ref().filter(|shown| shown.several) {
        head.push((format!(" ─ {}", shown.group.cache), theme.dim));
    }
    let mut inside = pen.frame(&head, theme.faint);
    let Some(shown) = shown.filter(|shown| !shown.timed().is_empty()) else {
        let words = format!("{} No load has finished yet.", if ctx.over { '–' } else { ctx.spinner() });
        inside.text(2, 1, &words, theme.dim);
        return;
    };
    let (w, h) = (inside.width(), inside.height());
    // Next to a chart, the names use at most half of the pane.
    let name = (longest_name(state, w) + 5).min((w / 2).max(11));
    let airy = u16::from(usize::from(h) >= shown.timed().len() + 3);
    bars_of(&mut inside.part(0, airy, w, h.saturating_sub(airy)), &shown, name, None, theme);
}

/// Draws stacked bars with a common time scale, and the legend below them. The length of a bar is the time, and its
/// parts are the phases. If not all bars fit, those around the selected run are drawn. `axis` is the axis of the runs
/// above.
fn bars_of(pen: &mut Pen<'_>, shown: &Shown<'_>, name: u16, axis: Option<Axis>, theme: &Theme) {
    let timed = shown.timed();
    let (w, h) = (pen.width(), pen.height());
    let Some(slowest) = timed.iter().map(|(_, _, r)| r.wall_ns.max(r.phases.total_ns())).max() else { return };
    let (from, columns, scale) = match axis.filter(|axis| axis.scale_ns > 0) {
        Some(axis) => (axis.zero, axis.columns, axis.scale_ns),
        None => (name, w.saturating_sub(name + 2), slowest),
    };
    let times: Vec<PhaseTimes> = timed.iter().map(|(_, _, r)| r.phases).collect();
    let legend = bars::phase_legend(&times, w.saturating_sub(4), theme);
    // A bar cannot be read without the legend, so the legend keeps its lines and the bars scroll.
    let lines = legend.len().min(usize::from(h).saturating_sub(1));
    let room = usize::from(h) - lines.min(usize::from(h));
    let selected = timed.iter().position(|(number, _, _)| *number == shown.selected).unwrap_or(0);
    let first = (selected + 1).saturating_sub(room).min(timed.len().saturating_sub(room));
    let scrolls = timed.len() > room;
    for (y, (_, entry, result)) in timed.iter().skip(first).take(room).enumerate() {
        let y = y as u16;
        pen.cell(2, y, entry_marker(entry, theme), theme.lane(entry.engine));
        pen.text(4, y, &row_name(entry, name.saturating_sub(5)), theme.text);
        if bars::phases(pen, from, y, columns, &result.phases, scale, theme) {
            continue;
        }
        let end = (result.phases.total_ns() as f64 / scale as f64 * f64::from(columns)).ceil();
        let end = end.min(f64::from(columns)) as u16 + from + 1;
        for runs in (1..=3).rev().map(|most| greatest(&result.phases, most, theme)) {
            if runs_width(&runs) as u16 + end < w {
                pen.runs(end + 1, y, &runs);
                break;
            }
        }
    }
    if scrolls {
        sheet::scrollbar(&mut pen.part(0, 0, w, room as u16), timed.len(), first, theme);
    }
    for (y, line) in legend.iter().take(lines).enumerate() {
        pen.runs(4, (timed.len().min(room) + y) as u16, line);
    }
}

/// The largest phases as text, for bars that are too short for labels.
fn greatest(times: &PhaseTimes, most: usize, theme: &Theme) -> Vec<Run> {
    let shares = split(times, times.total_ns()).into_iter().filter(|(_, share)| *share >= 0.005);
    shares.take(most).map(|phase| (format!("{}  ", share(phase)), theme.dim)).collect()
}
