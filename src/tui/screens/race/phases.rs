//! The phases of each lane: stacked bars on one scale of time, in the pane of the lanes or in a separate one.

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

/// Rows that the phases take below the lanes of a pane of `w` columns: a heading, the bars, a legend. They are kept from the start of a race, so
/// that the panes below do not move when a load ends.
pub(crate) fn rows(state: &State, ctx: &Context, w: u16) -> u16 {
    let Some(shown) = Shown::of(state, ctx) else { return 0 };
    // A session that is over has all of its phases.
    if (ctx.over || state.ended.is_some()) && shown.timed().is_empty() {
        return 0;
    }
    let every: usize = PHASES.into_iter().map(|phase| title(phase).len() + 4).sum();
    let legend = every.div_ceil(usize::from(w.saturating_sub(8)).max(20)).min(3);
    (shown.group.rows.len() + 2 + legend) as u16
}

/// The group whose phases are shown.
pub(super) fn shown_group<'s>(state: &'s State, ctx: &Context) -> Option<RowGroup<'s>> {
    Shown::of(state, ctx).map(|shown| shown.group)
}

/// Only the group of the selected entry, because times of a cold and a hot cache need different scales.
struct Shown<'s> {
    group: RowGroup<'s>,
    /// The selected entry in it.
    selected: usize,
    /// Of several groups.
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

    /// Entries whose phases are known, with their number and their typical run.
    fn timed(&self) -> Vec<(usize, &EngineRow<'s>, &'s RunResult)> {
        let entries = self.group.rows.iter().enumerate();
        entries
            .filter_map(|(number, e)| Some((number, e, e.typical()?.result.as_deref()?)))
            .filter(|(_, _, result)| result.phases.total_ns() > 0)
            .collect()
    }
}

/// Draws the bars below the lanes under a heading, on the axis of the lanes.
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
    // Next to a chart, the names leave half of the pane to the bars.
    let name = (longest_name(state, w) + 5).min((w / 2).max(11));
    let airy = u16::from(usize::from(h) >= shown.timed().len() + 3);
    bars_of(&mut inside.part(0, airy, w, h.saturating_sub(airy)), &shown, name, None, theme);
}

/// Stacked bars on one scale of time, so that a bar's length is its time and its parts are the reasons, and below them the
/// legend of the colours. If not all fit, those around the selected lane. `axis` is that of the lanes above.
fn bars_of(pen: &mut Pen<'_>, shown: &Shown<'_>, name: u16, axis: Option<Axis>, theme: &Theme) {
    let timed = shown.timed();
    let (w, h) = (pen.width(), pen.height());
    let Some(slowest) = timed.iter().map(|(_, _, r)| r.wall_ns.max(r.phases.total_ns())).max() else { return };
    let (from, columns, scale) = match axis.filter(|axis| axis.scale_ns > 0) {
        Some(axis) => (axis.zero, axis.columns, axis.scale_ns),
        None => (name, w.saturating_sub(name + 2), slowest),
    };
    let times: Vec<PhaseTimes> = timed.iter().map(|(_, _, r)| r.phases).collect();
    let items: Vec<Vec<Run>> = bars::phase_legend(&times, theme).chunks(2).map(<[Run]>::to_vec).collect();
    let legend = legend(&items, w.saturating_sub(4));
    // A bar without its legend cannot be read, so the legend keeps its lines and the bars scroll.
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

/// The legend in lines of `room` columns.
fn legend(items: &[Vec<Run>], room: u16) -> Vec<Vec<Run>> {
    let mut lines: Vec<Vec<Run>> = vec![Vec::new()];
    for item in items {
        if let Some(last) = lines.last_mut() {
            // The gap behind the last word may be cut.
            if last.is_empty() || runs_width(last) + runs_width(item) <= usize::from(room) + 2 {
                last.extend_from_slice(item);
                continue;
            }
        }
        lines.push(item.to_vec());
    }
    lines
}

/// The greatest phases in words, for bars too short to hold them.
fn greatest(times: &PhaseTimes, most: usize, theme: &Theme) -> Vec<Run> {
    let shares = split(times, times.total_ns()).into_iter().filter(|(_, share)| *share >= 0.005);
    shares.take(most).map(|phase| (format!("{}  ", share(phase)), theme.dim)).collect()
}
