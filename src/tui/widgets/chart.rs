//! A chart over time: braille lines, round axes, a ceiling, gaps where data is missing, a cursor with the values at its time.

use crate::domain::units::three_digits;
use crate::tui::pen::{Pen, Run, cut, runs_width, width};
use crate::tui::theme::Theme;
use ratatui::style::Style;

/// One line of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// Stands at the line's end and before its name.
    pub(crate) marker: char,
    pub(crate) style: Style,
    /// (x, y) by rising x.
    pub(crate) points: Vec<(f64, f64)>,
    /// Two points further apart than this are not joined: nothing was read between them.
    pub(crate) gap: f64,
    /// Belongs to the axis on the right.
    pub(crate) right: bool,
}

/// A chart; drawn with [`Chart::draw`].
#[derive(Clone, Debug)]
pub(crate) struct Chart<'a> {
    pub(crate) series: &'a [Series],
    /// First and last x, in seconds.
    pub(crate) x: (f64, f64),
    /// A level that the left axis cannot exceed, with its name.
    pub(crate) ceiling: Option<(f64, String)>,
    /// Cursor in thousandths of the x range.
    pub(crate) cursor: Option<u16>,
    /// What is said when there is nothing to draw.
    pub(crate) empty: &'a str,
}

/// A scale from 0 to `top` in steps of `step`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    top: f64,
    step: f64,
}

impl Scale {
    /// Round steps (1, 2, 2.5 or 5 times a power of ten), at most `most` of them, that reach over `max`.
    fn over(max: f64, most: usize) -> Self {
        if !max.is_finite() || max <= 0.0 {
            return Self { top: 1.0, step: 1.0 };
        }
        let most = most.max(1) as f64;
        let magnitude = 10_f64.powf((max / most).log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0, 20.0]
            .iter()
            .map(|factor| factor * magnitude)
            .find(|step| (max / step - 1e-9).ceil() <= most)
            .unwrap_or(max);
        Self { top: (max / step - 1e-9).ceil().max(1.0) * step, step }
    }

    /// As `over`, with ticks that fall evenly on `rows` rows; `None` where no round step does.
    fn even(max: f64, rows: u16) -> Option<Self> {
        let most = usize::from(rows / 2).clamp(1, 6);
        let fits = |scale: &Self| {
            let steps = (scale.top / scale.step).round() as u16;
            steps > 0 && (rows - 1).is_multiple_of(steps) && (steps > 1 || most < 3)
        };
        (1..=most).rev().map(|n| Self::over(max, n)).find(fits)
    }

    /// The best that can be had on `rows` rows.
    fn on(max: f64, rows: u16) -> Self {
        Self::even(max, rows).unwrap_or_else(|| Self::over(max, usize::from(rows / 2).clamp(1, 5)))
    }

    fn label(self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        let fraction = |digits: i32| (self.step * 10_f64.powi(digits)).fract().abs();
        let digits = (0..4).find(|d| fraction(*d) < 1e-6 || fraction(*d) > 1.0 - 1e-6).unwrap_or(3);
        format!("{value:.*}", digits as usize)
    }

    fn ticks(self) -> impl Iterator<Item = f64> {
        let count = (self.top / self.step).round().clamp(0.0, 20.0) as usize;
        (0..=count).map(move |i| i as f64 * self.step)
    }
}

impl Chart<'_> {
    /// Draws into the whole pen: a legend line, the plot, a line of x labels.
    pub(crate) fn draw(&self, pen: &mut Pen<'_>, theme: &Theme) {
        let (w, h) = (pen.width(), pen.height());
        if w < 12 || h < 3 {
            return;
        }
        let max = |right: bool| {
            let values = self.series.iter().filter(|s| s.right == right).flat_map(|s| s.points.iter().map(|p| p.1));
            values.filter(|v| v.is_finite()).fold(f64::NEG_INFINITY, f64::max)
        };
        let (left_max, right_max) = (max(false), max(true));
        if left_max == f64::NEG_INFINITY && right_max == f64::NEG_INFINITY {
            for (i, line) in crate::tui::pen::wrap(self.empty, w.saturating_sub(4)).iter().enumerate() {
                let at = (w.saturating_sub(width(line) as u16)) / 2;
                pen.text(at, h / 2 + i as u16, line, theme.dim);
            }
            return;
        }
        let legend = u16::from(h >= 5);
        let rows = h - 1 - legend;
        // A ceiling far above everything would press the lines flat; then it is only named.
        let near = self.ceiling.as_ref().filter(|(level, _)| *level <= left_max.max(0.0) * 2.5);
        let left_max = near.map_or(left_max, |(level, _)| left_max.max(*level)).max(0.0);
        // A row left empty at the top is a small price for ticks that are evenly apart.
        let spare = rows > 4 && Scale::even(left_max, rows).is_none() && Scale::even(left_max, rows - 1).is_some();
        let (top, rows) = if spare { (legend + 1, rows - 1) } else { (legend, rows) };
        let left = Scale::on(left_max, rows);
        let right = (right_max > f64::NEG_INFINITY).then(|| Scale::on(right_max.max(0.0), rows));
        let label_width = |scale: Scale| scale.ticks().map(|t| width(&scale.label(t))).max().unwrap_or(1) as u16;
        let left_width = label_width(left) + 1;
        let right_width = right.map_or(0, |scale| label_width(scale) + 1);
        let columns = w.saturating_sub(left_width + right_width + 1);
        if columns < 4 || rows < 1 {
            return;
        }
        axis(&mut pen.part(0, top, left_width + 1, rows), left, left_width, theme);
        if let Some(scale) = right {
            let mut side = pen.part(left_width + 1 + columns, top, right_width, rows);
            for tick in scale.ticks() {
                side.text(1, row_of(tick, scale, rows), &scale.label(tick), theme.dim);
            }
        }
        self.x_axis(&mut pen.part(left_width + 1, h - 1, columns, 1), theme);
        let mut plot = pen.part(left_width + 1, top, columns, rows);
        if let Some((level, name)) = near {
            let y = row_of(*level, left, rows);
            for column in 0..columns {
                plot.cell(column, y, '┄', theme.faint);
            }
            let label = format!(" {} ", cut(name, columns.saturating_sub(4)));
            plot.right(columns.saturating_sub(1), y, &label, theme.dim);
        }
        if self.x.0 < 0.0 && self.x.1 > 0.0 {
            // The clock's zero, where a lane's set-up ends.
            let zero = (-self.x.0 / (self.x.1 - self.x.0) * f64::from(columns - 1)).round() as u16;
            for y in 0..rows {
                plot.cell(zero, y, '┊', theme.faint);
            }
        }
        if let Some(at) = self.cursor {
            let column = (u32::from(at.min(1000)) * u32::from(columns - 1) / 1000) as u16;
            for y in 0..rows {
                plot.cell(column, y, '│', theme.accent);
            }
        }
        let mut canvas = Canvas::new(columns, rows);
        for (index, series) in self.series.iter().enumerate() {
            let scale = if series.right { right.unwrap_or(left) } else { left };
            canvas.line(series, index, self.x, scale.top);
        }
        canvas.put(&mut plot, self.series);
        if legend == 1 {
            let far = self.ceiling.as_ref().filter(|_| near.is_none());
            self.legend(&mut pen.part(0, 0, w, 1), far, theme);
        }
    }

    fn x_axis(&self, pen: &mut Pen<'_>, theme: &Theme) {
        let (from, to) = self.x;
        let length = to - from;
        if !(length > 0.0 && length.is_finite()) {
            return;
        }
        let most = usize::from(pen.width() / 10).clamp(1, 8);
        let scale = Scale::over(length, most);
        let mut free_from = 0_u16;
        let first = (from / scale.step).ceil() as i64;
        for i in first..first + 20 {
            let value = i as f64 * scale.step;
            if value > to + length * 1e-9 {
                break;
            }
            let text = if value.abs() < scale.step * 1e-6 { "0 s".to_owned() } else { scale.label(value) };
            let column = ((value - from) / length * f64::from(pen.width() - 1)).round() as u16;
            let start = column.saturating_sub((width(&text) as u16).saturating_sub(1) / 2);
            let start = start.min(pen.width().saturating_sub(width(&text) as u16));
            if start >= free_from {
                free_from = pen.text(start, 0, &text, theme.dim) + 1;
            }
        }
    }

    /// Names and, at the cursor's time or at the end, values.
    fn legend(&self, pen: &mut Pen<'_>, far: Option<&(f64, String)>, theme: &Theme) {
        let (from, to) = self.x;
        let time = self.cursor.map(|at| from + (to - from) * f64::from(at.min(1000)) / 1000.0);
        let mut runs: Vec<Run> = Vec::new();
        if let Some(time) = time {
            runs.push((format!(" at {} s  ", three_digits(time)), theme.accent));
        } else {
            runs.push((" ".to_owned(), theme.dim));
        }
        // The last drawn lies on top and matters most, so it is named first; names that find no room leave their marker.
        let drawn: Vec<&Series> = self.series.iter().filter(|s| !s.points.is_empty()).rev().collect();
        for (i, series) in drawn.iter().enumerate() {
            let value = match time {
                Some(time) => format!("{} ", series.at(time).map_or_else(|| "–".to_owned(), three_digits)),
                None => String::new(),
            };
            let markers_after = (drawn.len() - i - 1) * 3;
            let room = usize::from(pen.width()).saturating_sub(runs_width(&runs) + markers_after + 3);
            runs.push((format!("{} ", series.marker), series.style));
            if width(&series.name) + 2 + width(&value) <= room {
                runs.push((format!("{} ", series.name), theme.dim));
            }
            if width(&value) <= room {
                runs.push((value, theme.text));
            }
            runs.push((" ".to_owned(), theme.dim));
        }
        if let Some((level, name)) = far {
            let note = format!("↑ {name} {}", three_digits(*level));
            if runs_width(&runs) + width(&note) < usize::from(pen.width()) {
                pen.right(pen.width(), 0, &note, theme.dim);
            }
        }
        pen.runs(0, 0, &runs);
    }
}

impl Series {
    /// The value nearest in time, unless nothing was read near there.
    fn at(&self, time: f64) -> Option<f64> {
        let nearest = self.points.iter().min_by(|a, b| (a.0 - time).abs().total_cmp(&(b.0 - time).abs()))?;
        ((nearest.0 - time).abs() <= self.gap).then_some(nearest.1)
    }
}

fn row_of(value: f64, scale: Scale, rows: u16) -> u16 {
    let last = f64::from(rows.saturating_sub(1));
    (last - (value / scale.top).clamp(0.0, 1.0) * last).round() as u16
}

fn axis(pen: &mut Pen<'_>, scale: Scale, label_width: u16, theme: &Theme) {
    let rows = pen.height();
    for y in 0..rows {
        pen.cell(label_width, y, '│', theme.faint);
    }
    for tick in scale.ticks() {
        let y = row_of(tick, scale, rows);
        pen.right(label_width, y, &scale.label(tick), theme.dim);
        pen.cell(label_width, y, '┤', theme.faint);
    }
}

/// Dots, two by four in a cell (Unicode braille patterns).
pub(crate) struct Canvas {
    columns: u16,
    rows: u16,
    dots: Vec<u8>,
    owner: Vec<Option<usize>>,
    ends: Vec<(u16, u16, usize)>,
}

impl Canvas {
    pub(crate) fn new(columns: u16, rows: u16) -> Self {
        let cells = usize::from(columns) * usize::from(rows);
        Self { columns, rows, dots: vec![0; cells], owner: vec![None; cells], ends: Vec::new() }
    }

    pub(crate) fn dot(&mut self, x: i64, y: i64, owner: usize) {
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        let (column, row) = (x / 2, y / 4);
        if column < usize::from(self.columns) && row < usize::from(self.rows) {
            let cell = row * usize::from(self.columns) + column;
            self.dots[cell] |= BITS[y % 4][x % 2];
            self.owner[cell] = Some(owner);
        }
    }

    fn line(&mut self, series: &Series, owner: usize, x: (f64, f64), top: f64) {
        let (wide, high) = (f64::from(self.columns) * 2.0 - 1.0, f64::from(self.rows) * 4.0 - 1.0);
        let length = if x.1 > x.0 { x.1 - x.0 } else { 1.0 };
        let place = |(px, py): (f64, f64)| {
            (((px - x.0) / length * wide).round(), (high - (py / top).clamp(0.0, 1.0) * high).round())
        };
        let mut before: Option<((f64, f64), (f64, f64))> = None;
        for point in decimate(&series.points, x, self.columns) {
            if !point.0.is_finite() || !point.1.is_finite() || point.0 < x.0 - length || point.0 > x.1 + length {
                before = None;
                continue;
            }
            let here = place(point);
            match before {
                Some((last, from)) if point.0 - last.0 <= series.gap => {
                    let steps = (here.0 - from.0).abs().max((here.1 - from.1).abs()).clamp(1.0, 20_000.0);
                    for step in 0..=steps as u32 {
                        let t = f64::from(step) / steps;
                        let at = (from.0 + (here.0 - from.0) * t, from.1 + (here.1 - from.1) * t);
                        self.dot(at.0.round() as i64, at.1.round() as i64, owner);
                    }
                }
                _ => self.dot(here.0 as i64, here.1 as i64, owner),
            }
            before = Some((point, here));
        }
        if let Some((_, (px, py))) = before
            && px >= 0.0
        {
            let end = ((px / 2.0) as u16, (py / 4.0) as u16, owner);
            self.ends.push((end.0.min(self.columns.saturating_sub(1)), end.1, owner));
        }
    }

    /// The lines, in the styles of their series.
    fn put(&self, pen: &mut Pen<'_>, series: &[Series]) {
        let styles: Vec<Style> = series.iter().map(|s| s.style).collect();
        self.put_dots(pen, &styles);
        for (x, y, owner) in &self.ends {
            if let Some(series) = series.get(*owner) {
                pen.cell(*x, *y, series.marker, series.style);
            }
        }
    }

    /// The dots, in the styles of their owners.
    pub(crate) fn put_dots(&self, pen: &mut Pen<'_>, styles: &[Style]) {
        for (cell, dots) in self.dots.iter().enumerate().filter(|(_, dots)| **dots > 0) {
            let (x, y) = (cell % usize::from(self.columns), cell / usize::from(self.columns));
            let style = self.owner[cell].and_then(|owner| styles.get(owner)).copied().unwrap_or_default();
            pen.cell(x as u16, y as u16, char::from_u32(0x2800 + u32::from(*dots)).unwrap_or(' '), style);
        }
    }
}

/// At most two points a dot column (least and greatest), in their order, so that no peak is lost and no frame pays for ten thousand points.
fn decimate(points: &[(f64, f64)], x: (f64, f64), columns: u16) -> Vec<(f64, f64)> {
    let buckets = usize::from(columns) * 2;
    if points.len() <= buckets * 2 || x.1 <= x.0 {
        return points.to_vec();
    }
    let bucket = |p: &(f64, f64)| ((p.0 - x.0) / (x.1 - x.0) * buckets as f64).floor();
    let mut out = Vec::with_capacity(buckets * 2);
    let mut rest = points;
    while let Some(first) = rest.first() {
        let here = bucket(first);
        let end = rest.iter().position(|p| bucket(p) != here).unwrap_or(rest.len()).max(1);
        let (group, after) = rest.split_at(end);
        let order = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        if let (Some(low), Some(high)) = (group.iter().min_by(order), group.iter().max_by(order)) {
            let (one, two) = if low.0 <= high.0 { (low, high) } else { (high, low) };
            out.push(*one);
            if one != two {
                out.push(*two);
            }
        }
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_round_and_reach_over_the_data() {
        for (max, most, top, step) in [
            (49.1, 5, 50.0, 10.0),
            (3.9, 4, 4.0, 1.0),
            (0.31, 3, 0.4, 0.2),
            (1.0, 2, 1.0, 0.5),
            (101.0, 1, 200.0, 200.0),
            (0.0, 5, 1.0, 1.0),
        ] {
            let scale = Scale::over(max, most);
            assert!((scale.top - top).abs() < 1e-9 && (scale.step - step).abs() < 1e-9, "{max}: {scale:?}");
        }
        assert_eq!(Scale { top: 5.0, step: 2.5 }.label(2.5), "2.5");
        assert_eq!(Scale { top: 50.0, step: 10.0 }.label(50.0), "50");
    }

    #[test]
    fn decimation_keeps_the_peaks() {
        let points: Vec<(f64, f64)> =
            (0..10_000).map(|i| (f64::from(i), if i == 5_432 { 99.0 } else { f64::from(i % 7) })).collect();
        let kept = decimate(&points, (0.0, 10_000.0), 50);
        assert!(kept.len() <= 200 + 2, "{}", kept.len());
        assert!(kept.iter().any(|p| p.1 == 99.0));
        assert!(kept.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }

    #[test]
    fn a_value_is_only_read_where_there_was_one() {
        let series = Series {
            name: String::new(),
            marker: 'x',
            style: Style::new(),
            points: vec![(0.0, 1.0), (10.0, 2.0)],
            gap: 1.0,
            right: false,
        };
        assert_eq!(series.at(0.4), Some(1.0));
        assert_eq!(series.at(5.0), None);
    }
}
