//! Bars: progress in eighths of a column, and stacked phases with a common time scale.

use crate::core::{PHASES, Phase, PhaseTimes, units};
use crate::present::phases::title;
use crate::tui::pen::{Pen, Run, runs_width, width};
use crate::tui::theme::Theme;
use ratatui::style::Style;

const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Draws a bar that fills `share` (0 to 1) of `columns`. `rest` is the remaining part. A bar of '█' ends at an eighth
/// of a column.
pub(crate) fn bar(
    pen: &mut Pen<'_>,
    x: u16,
    y: u16,
    columns: u16,
    share: f64,
    fill: (char, Style),
    rest: (char, Style),
) {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let eighths = (share * f64::from(columns) * 8.0).round() as u32;
    let (full, part) = ((eighths / 8) as u16, (eighths % 8) as usize);
    for column in 0..columns {
        if column < full {
            pen.cell(x + column, y, fill.0, fill.1);
        } else if column == full && part > 0 && fill.0 == '█' {
            pen.cell(x + column, y, EIGHTHS[part], fill.1);
        } else if column == full && full == 0 && share > 0.0 && fill.0 != '▒' {
            // A share above zero always has a visible part.
            pen.cell(x + column, y, if fill.0 == '█' { EIGHTHS[1] } else { '▖' }, fill.1);
        } else {
            pen.cell(x + column, y, rest.0, rest.1);
        }
    }
}

/// Draws the phases of a run as one bar. `scale_ns` is the time that fills all `columns`. Returns whether the name of
/// the largest phase fits.
pub(crate) fn phases(
    pen: &mut Pen<'_>,
    x: u16,
    y: u16,
    columns: u16,
    times: &PhaseTimes,
    scale_ns: u64,
    theme: &Theme,
) -> bool {
    let total = times.total_ns();
    if total == 0 || scale_ns == 0 {
        return true;
    }
    let greatest = times.iter().max_by_key(|(_, ns)| *ns).map(|(phase, _)| phase);
    let mut named = false;
    let mut sum = 0_u64;
    let column_of = |ns: u64| (ns as f64 / scale_ns as f64 * f64::from(columns)).round().min(f64::from(columns)) as u16;
    for (phase, ns) in times.iter() {
        let start = column_of(sum);
        sum = sum.saturating_add(ns);
        let end = column_of(sum);
        let (style, fill) = theme.phase(phase);
        for column in start..end {
            pen.cell(x + column, y, fill, style);
        }
        let percent = units::percent(ns as f64 / total as f64);
        let room = usize::from(end.saturating_sub(start));
        let long = format!(" {} {percent} ", title(phase));
        let fits = width(&long) <= room;
        named |= fits && Some(phase) == greatest;
        let label = if fits { long } else { format!(" {percent} ") };
        if width(&label) <= room {
            pen.text(x + start, y, &label, theme.on(style));
        }
    }
    named
}

/// For each of `columns`: the phase with the largest part of it. `scale_ns` is the time that fills all columns.
fn by_column(times: &PhaseTimes, scale_ns: u64, columns: u16) -> Vec<Phase> {
    let mut fills = Vec::new();
    let mut sum = 0_u64;
    for (phase, ns) in times.iter().filter(|_| scale_ns > 0) {
        sum = sum.saturating_add(ns);
        let end = (sum as f64 / scale_ns as f64 * f64::from(columns)).round().min(f64::from(columns));
        while fills.len() < end as usize {
            fills.push(phase);
        }
    }
    fills
}

/// Draws the phases as a bar with the full width and without text.
pub(crate) fn fills(pen: &mut Pen<'_>, times: &PhaseTimes, scale_ns: u64, theme: &Theme) {
    for (x, phase) in by_column(times, scale_ns, pen.width()).into_iter().enumerate() {
        let (style, fill) = theme.phase(phase);
        pen.cell(x as u16, 0, fill, style);
    }
}

/// Draws two bars in one row with a common scale: one in the upper half of the cells, the other in the lower half. It
/// needs colour.
pub(crate) fn pair(pen: &mut Pen<'_>, upper: &PhaseTimes, lower: &PhaseTimes, scale_ns: u64, theme: &Theme) {
    let columns = pen.width();
    let (upper, lower) = (by_column(upper, scale_ns, columns), by_column(lower, scale_ns, columns));
    for x in 0..usize::from(columns) {
        let colour = |phase: &Phase| theme.phase(*phase).0;
        let (glyph, style) = match (upper.get(x).map(colour), lower.get(x).map(colour)) {
            (Some(above), Some(below)) => ('▀', below.fg.map_or(above, |fg| above.bg(fg))),
            (Some(above), None) => ('▀', above),
            (None, Some(below)) => ('▄', below),
            (None, None) => continue,
        };
        pen.cell(x as u16, 0, glyph, style);
    }
}

/// The legend of the phases that are visible in bars of about `room` columns, as lines of this width.
pub(crate) fn phase_legend(times: &[PhaseTimes], room: u16, theme: &Theme) -> Vec<Vec<Run>> {
    let mut lines: Vec<Vec<Run>> = vec![Vec::new()];
    for phase in in_legend(times, room) {
        let (style, fill) = theme.phase(phase);
        let item = [(fill.to_string(), style), (format!(" {}  ", title(phase)), theme.dim)];
        match lines.last_mut() {
            // The space after the last word may be cut.
            Some(last) if last.is_empty() || runs_width(last) + runs_width(&item) <= usize::from(room) + 2 => {
                last.extend(item);
            }
            _ => lines.push(item.to_vec()),
        }
    }
    lines
}

/// The phases in the legend of bars with this number of columns, in order: those that fill at least half a column of
/// any of the bars.
fn in_legend(times: &[PhaseTimes], columns: u16) -> impl Iterator<Item = Phase> + '_ {
    let halves = 2 * u64::from(columns);
    PHASES
        .into_iter()
        .filter(move |phase| times.iter().any(|t| t.get(*phase).saturating_mul(halves) >= t.total_ns().max(1)))
}
