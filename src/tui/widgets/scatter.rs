//! A scatter chart of size and time with logarithmic axes, fitted lines, and the size at which two lines cross.

use super::canvas::{Canvas, column_at, dot_at};
use crate::core::units::bytes;
use crate::tui::pen::{Pen, width};
use crate::tui::theme::Theme;
use ratatui::style::Style;

/// The points of one run and the line through them.
pub(crate) struct Cloud<'a> {
    /// Points of (bytes, nanoseconds).
    pub(crate) points: &'a [(u64, u64)],
    /// The time in nanoseconds for a size, if a line was fitted.
    pub(crate) line: Option<&'a dyn Fn(u64) -> f64>,
    pub(crate) style: Style,
    /// The marker on the line, because two clouds cannot be distinguished by colour alone.
    pub(crate) marker: char,
    /// Number of slots that worked at the same time. Times are divided by it, so that all clouds are in wall time.
    /// With 1, the time of one slot is shown.
    pub(crate) slots: f64,
}

impl Cloud<'_> {
    fn times(&self) -> impl Iterator<Item = (u64, u64)> + Clone + '_ {
        self.points
            .iter()
            .map(|(size, ns)| (*size, (*ns as f64 / self.slots) as u64))
            .filter(|(b, ns)| *b > 0 && *ns > 0)
    }
}

/// Maximum number of points that are drawn per cloud. Further points would cover the same dots.
const MOST: usize = 20_000;

/// Draws the clouds, with the last one on top. `mark` is a size with a label.
pub(crate) fn draw(pen: &mut Pen<'_>, clouds: &[Cloud<'_>], mark: Option<(u64, String)>, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let points = || clouds.iter().flat_map(Cloud::times);
    let x = range(points().map(|p| p.0), 2.0);
    let y = range(points().map(|p| p.1), 10.0);
    let (Some(x), Some(y)) = (x, y) else {
        pen.text(2, h / 2, "No tensor of this run was timed by itself.", theme.dim);
        return;
    };
    if w < 20 || h < 5 {
        return;
    }
    let label = 8;
    let (columns, rows) = (w - label - 1, h - 1);
    for row in 0..rows {
        pen.cell(label, row, '│', theme.faint);
    }
    let decades = (y.1 - y.0).round().max(1.0);
    for i in 0..=decades as u16 {
        let row = (f64::from(rows - 1) * (1.0 - f64::from(i) / decades)).round() as u16;
        pen.right(label, row, &decade(y.0 as u32 + u32::from(i)), theme.dim);
        pen.cell(label, row, '┤', theme.faint);
    }
    let steps = (x.1 - x.0).round().max(1.0);
    let every = (steps / f64::from((columns / 10).max(1))).ceil().max(1.0);
    let mut free = 0;
    for i in (0..=steps as u32).step_by(every as usize) {
        let text = bytes(2_f64.powf(x.0 + f64::from(i)) as u64);
        let column = column_at(f64::from(i) / steps, columns);
        let start =
            (label + 1 + column).saturating_sub(width(&text) as u16 / 2).min(w.saturating_sub(width(&text) as u16));
        if start >= free {
            free = pen.text(start, h - 1, &text, theme.dim) + 1;
        }
    }
    let mut plot = pen.part(label + 1, 0, columns, rows);
    let share = |size: f64| (size.log2() - x.0) / (x.1 - x.0);
    let place_y = |ns: f64| (1.0 - (ns.log10() - y.0) / (y.1 - y.0)) * (f64::from(rows) * 4.0 - 1.0);
    if let Some((size, words)) = mark {
        let at = share(size as f64);
        if (0.0..=1.0).contains(&at) {
            let column = column_at(at, columns);
            for row in 0..rows {
                plot.cell(column, row, '┊', theme.accent);
            }
            let start = column.saturating_add(2);
            let room = columns.saturating_sub(start);
            if usize::from(room) > width(&words) {
                plot.text(start, 0, &words, theme.accent);
            } else {
                plot.right(column.saturating_sub(1), 0, &words, theme.accent);
            }
        }
    }
    // The lines are drawn below the points. If the points are coarse, the lines are fine, so that both can be
    // distinguished without colour.
    let mut canvas = Canvas::new(columns, rows).with(theme.markers);
    for (owner, cloud) in clouds.iter().enumerate() {
        let Some(line) = cloud.line else { continue };
        for dot in (0..u32::from(columns) * 2).step_by(2) {
            let size = 2_f64.powf(x.0 + f64::from(dot) / dot_at(1.0, columns) * (x.1 - x.0));
            let ns = line(size as u64) / cloud.slots;
            if ns > 0.0 && ns.is_finite() {
                canvas.dot(i64::from(dot), place_y(ns).round() as i64, clouds.len() + owner);
            }
        }
    }
    for (owner, cloud) in clouds.iter().enumerate() {
        let stride = cloud.points.len().div_ceil(MOST).max(1);
        for (size, ns) in cloud.times().step_by(stride) {
            let (dot_x, dot_y) =
                (dot_at(share(size as f64), columns).round() as i64, place_y(ns as f64).round() as i64);
            for (right, down) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                canvas.dot(dot_x + right, dot_y + down, owner);
            }
        }
    }
    let mut styles: Vec<Style> = clouds.iter().map(|c| c.style).collect();
    styles.extend(clouds.iter().map(|_| theme.dim));
    canvas.put_dots(&mut plot, &styles);
    // The labels are near the left end, where the lines have the largest distance.
    let column = (columns / 6).max(1);
    for cloud in clouds {
        let Some(line) = cloud.line else { continue };
        let size = 2_f64.powf(x.0 + f64::from(column * 2) / dot_at(1.0, columns) * (x.1 - x.0));
        let ns = line(size as u64) / cloud.slots;
        let dot = place_y(ns).round();
        if ns > 0.0 && (0.0..f64::from(rows) * 4.0).contains(&dot) {
            plot.cell(column, dot as u16 / 4, cloud.marker, cloud.style);
        }
    }
}

/// A power of ten as the label of an axis: `10 ms`. `duration` would show it with a decimal place.
fn decade(power: u32) -> String {
    let unit = ["ns", "µs", "ms", "s"][(power / 3).min(3) as usize];
    format!("{} {unit}", 10_u64.pow(power - (power / 3).min(3) * 3))
}

/// The integer powers of `base` around the values.
fn range(values: impl Iterator<Item = u64> + Clone, base: f64) -> Option<(f64, f64)> {
    let (low, high) = (values.clone().min()? as f64, values.max()? as f64);
    let (low, high) = (low.log(base).floor(), high.log(base).ceil());
    Some((low, high.max(low + 1.0)))
}
