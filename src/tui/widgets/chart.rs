//! The chart over time: lines, axes with round steps, ceilings, events, gaps for missing data, and a cursor with the
//! values at its time.

use super::canvas::{Canvas, column_at};
use super::series::Series;
use crate::core::units::three_digits;
use crate::tui::pen::{Pen, Run, cut, runs_width, width};
use crate::tui::theme::Theme;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// A chart over time, which [`Chart::draw`] draws.
#[derive(Clone, Debug)]
pub(crate) struct Chart<'a> {
    pub(crate) series: &'a [Series],
    /// The first and last x in seconds.
    pub(crate) x: (f64, f64),
    /// A level that the left axis does not exceed, with its name.
    pub(crate) ceiling: Option<(f64, String)>,
    /// The time of the cursor in seconds. It is not drawn outside `x`.
    pub(crate) cursor: Option<f64>,
    /// The text of a chart without data.
    pub(crate) empty: &'a str,
}

/// Optional parts of a chart, in addition to its lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    /// Further levels of the left axis, with their names.
    pub(crate) ceilings: Vec<(f64, String)>,
    /// Times of events in seconds, each with a word.
    pub(crate) events: Vec<(f64, String)>,
    /// Minimum number of columns before the plot, so that it has the same left edge as another pane.
    pub(crate) margin: u16,
}

/// Minimum width of a truncated name in columns.
const LEAST_NAME: usize = 6;

/// A scale from 0 to `top` with steps of `step`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    top: f64,
    step: f64,
}

impl Scale {
    /// A scale with at most `most` round steps (1, 2, 2.5 or 5 times a power of ten) that extends beyond `max`.
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

    /// Like `over`, but with ticks at equal distances in `rows` rows. `None` if no round step allows this.
    fn even(max: f64, rows: u16) -> Option<Self> {
        // If there are few rows, each row can have a tick. Otherwise the top would be far above the data.
        let most = if rows < 6 { usize::from(rows.saturating_sub(1)).max(1) } else { usize::from(rows / 2).min(6) };
        let fits = |scale: &Self| {
            let steps = (scale.top / scale.step).round() as u16;
            // A scale that leaves half of the plot empty is rejected, even if its ticks have equal distances.
            let tight = scale.top <= max.max(0.0) * 1.5 || most < 3;
            steps > 0 && (rows - 1).is_multiple_of(steps) && (steps > 1 || most < 3) && (tight || max <= 0.0)
        };
        (1..=most).rev().map(|n| Self::over(max, n)).find(fits)
    }

    /// The best scale for `rows` rows.
    fn on(max: f64, rows: u16) -> Self {
        Self::even(max, rows).unwrap_or_else(|| Self::over(max, usize::from(rows / 2).clamp(1, 5)))
    }

    fn label(self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        let fraction = |digits: i32| (self.step * 10_f64.powi(digits)).fract().abs();
        let digits = (0..9).find(|d| fraction(*d) < 1e-6 || fraction(*d) > 1.0 - 1e-6).unwrap_or(9);
        format!("{value:.*}", digits as usize)
    }

    fn ticks(self) -> impl Iterator<Item = f64> {
        let count = (self.top / self.step).round().clamp(0.0, 20.0) as usize;
        (0..=count).map(move |i| i as f64 * self.step)
    }
}

impl Chart<'_> {
    /// Draws a legend, the plot and the x labels. Returns the area of the plot.
    pub(crate) fn draw(&self, pen: &mut Pen<'_>, theme: &Theme) -> Option<Rect> {
        self.draw_with(pen, theme, &Extras::default())
    }

    /// Like `draw`, with further ceilings and with events.
    pub(crate) fn draw_with(&self, pen: &mut Pen<'_>, theme: &Theme, extras: &Extras) -> Option<Rect> {
        let (w, h) = (pen.width(), pen.height());
        if w < 12 || h < 3 {
            return None;
        }
        let max = |right: bool| {
            let points = || self.series.iter().filter(|s| s.right == right).flat_map(|s| &s.points);
            let most = |values: &mut dyn Iterator<Item = f64>| {
                values.filter(|v| v.is_finite()).fold(f64::NEG_INFINITY, f64::max)
            };
            // The axis fits the visible data or, if there is none, all data.
            let shown = most(&mut points().filter(|p| p.0 >= self.x.0 && p.0 <= self.x.1).map(|p| p.1));
            if shown > f64::NEG_INFINITY { shown } else { most(&mut points().map(|p| p.1)) }
        };
        let (left_max, right_max) = (max(false), max(true));
        if left_max == f64::NEG_INFINITY && right_max == f64::NEG_INFINITY {
            for (i, line) in crate::tui::pen::wrap(self.empty, w.saturating_sub(4)).iter().enumerate() {
                let at = (w.saturating_sub(width(line) as u16)) / 2;
                pen.text(at, h / 2 + i as u16, line, theme.dim);
            }
            return None;
        }
        let legend = u16::from(h >= 5);
        let rows = h - 1 - legend;
        // A ceiling far above the data would flatten the lines, so only its name is shown.
        let levels = || self.ceiling.iter().chain(&extras.ceilings).filter(|(level, _)| level.is_finite());
        let is_near = |level: f64| level > 0.0 && level <= left_max.max(0.0) * 2.5;
        let left_max = levels().map(|(level, _)| *level).filter(|l| is_near(*l)).fold(left_max, f64::max).max(0.0);
        let near: Vec<&(f64, String)> = levels().filter(|(level, _)| *level > 0.0 && *level <= left_max).collect();
        let spare = spare_rows(left_max, rows);
        let (top, rows) = (legend + spare, rows - spare);
        let left = Scale::on(left_max, rows);
        let right = (right_max > f64::NEG_INFINITY).then(|| Scale::on(right_max.max(0.0), rows));
        let label_width = |scale: Scale| scale.ticks().map(|t| width(&scale.label(t))).max().unwrap_or(1) as u16;
        let left_width = (label_width(left) + 1).max(extras.margin.saturating_sub(1));
        let right_width = right.map_or(0, |scale| label_width(scale) + 1);
        let columns = w.saturating_sub(left_width + right_width + 1);
        if columns < 4 || rows < 1 {
            return None;
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
        if self.x.0 < 0.0 && self.x.1 > 0.0 {
            // A vertical line marks the start of the clock, which is the end of a run's set-up.
            self.upright(&mut plot, 0.0, '┊', theme.faint);
        }
        let mut words: Vec<(u16, &String)> = Vec::new();
        for (at, word) in &extras.events {
            if let Some(column) = self.upright(&mut plot, *at, '┊', theme.dim) {
                words.push((column, word));
            }
        }
        if let Some(at) = self.cursor {
            self.upright(&mut plot, at, '│', theme.accent);
        }
        for (level, _) in &near {
            let y = row_of(*level, left, rows);
            for column in 0..columns {
                plot.cell(column, y, '┄', theme.faint);
            }
        }
        let mut canvas = Canvas::new(columns, rows).with(theme.markers);
        for (index, series) in self.series.iter().enumerate() {
            let scale = if series.right { right.unwrap_or(left) } else { left };
            canvas.line(series, index, self.x, scale.top);
        }
        canvas.put(&mut plot, self.series);
        // Names are placed where no line is.
        for (level, name) in near {
            let y = row_of(*level, left, rows);
            let label = format!(" {} ", cut(name, columns.saturating_sub(4)));
            let free = columns.saturating_sub(width(&label) as u16 + 1);
            let rows_by_nearness = [Some(y), y.checked_sub(1), Some(y + 1).filter(|y| *y < rows)];
            let mut places = rows_by_nearness.into_iter().flatten().flat_map(|y| (0..=free).rev().map(move |x| (x, y)));
            let (x, y) = places.find(|(x, y)| is_free(&plot, *x, *y, &label)).unwrap_or((free, y));
            plot.text(x, y, &label, theme.dim);
        }
        for (column, word) in words {
            let long = width(word) as u16;
            let beside = [column + 1, column.saturating_sub(long + u16::from(column > long))];
            let places = (0..rows).rev().flat_map(|y| beside.map(|x| (x, y)));
            let mut fitting = places.filter(|(x, _)| x + long <= columns && (*x > column || x + long <= column));
            if let Some((x, y)) = fitting.find(|(x, y)| is_free(&plot, *x, *y, word)) {
                plot.text(x, y, word, theme.dim);
            }
        }
        if legend == 1 {
            let far = levels().find(|(level, _)| *level > left_max);
            self.legend(&mut pen.part(0, 0, w, 1), far, theme);
        }
        Some(Rect { x: left_width + 1, y: top, width: columns, height: rows })
    }

    /// Draws a vertical line at a time. Returns its column if the time is visible.
    fn upright(&self, plot: &mut Pen<'_>, at: f64, glyph: char, style: Style) -> Option<u16> {
        let share = (at - self.x.0) / (self.x.1 - self.x.0);
        if !(-1e-9..=1.0 + 1e-9).contains(&share) {
            return None;
        }
        let column = column_at(share, plot.width());
        for y in 0..plot.height() {
            plot.cell(column, y, glyph, style);
        }
        Some(column)
    }

    fn x_axis(&self, pen: &mut Pen<'_>, theme: &Theme) {
        let (from, to) = self.x;
        let length = to - from;
        if !(length > 0.0 && length.is_finite()) {
            return;
        }
        // The labels use a suitable unit, so that fractions of a second have no leading zeros.
        let (unit, factor) = time_unit(length);
        let (from, to, length) = (from * factor, to * factor, length * factor);
        let most = usize::from(pen.width() / 10).clamp(1, 8);
        let scale = Scale::over(length, most);
        let has_zero = from <= length * 1e-9 && to >= -length * 1e-9;
        let mut free_from = 0_u16;
        let first = (from / scale.step).ceil() as i64;
        for i in first..first + 20 {
            let value = i as f64 * scale.step;
            if value > to + length * 1e-9 {
                break;
            }
            // The unit is shown once: at zero or, if zero is not visible, at the first label.
            let zero = value.abs() < scale.step * 1e-6;
            let number = if zero { "0".to_owned() } else { scale.label(value) };
            // The number is centred at its time, without the unit.
            let half = (width(&number) as u16).saturating_sub(1) / 2;
            let text = if if has_zero { zero } else { i == first } { format!("{number} {unit}") } else { number };
            let column = column_at((value - from) / length, pen.width());
            let start = column.saturating_sub(half);
            let start = start.min(pen.width().saturating_sub(width(&text) as u16));
            if start >= free_from {
                free_from = pen.text(start, 0, &text, theme.dim) + 1;
            }
        }
    }

    /// Draws the names and the values at the time of the cursor, or else the last values.
    fn legend(&self, pen: &mut Pen<'_>, far: Option<&(f64, String)>, theme: &Theme) {
        let time = self.cursor;
        let mut runs: Vec<Run> = Vec::new();
        if let Some(time) = time {
            let (unit, factor) = time_unit(self.x.1 - self.x.0);
            runs.push((format!(" at {} {unit}  ", three_digits(time * factor)), theme.accent));
        } else {
            runs.push((" ".to_owned(), theme.dim));
        }
        // The last line is drawn on top and is the most important one, so it is named first. With a cursor, a name
        // that does not fit is left out, but its marker and value are drawn.
        let mut drawn: Vec<&Series> = self.series.iter().filter(|s| !s.points.is_empty()).rev().collect();
        // Series with a value at the cursor are first.
        drawn.sort_by_key(|series| time.is_some_and(|time| series.at(time).is_none()));
        let value = |series: &Series| match time {
            Some(time) => format!("{} ", series.at(time).map_or_else(|| "–".to_owned(), three_digits)),
            None => String::new(),
        };
        // Long names are cut so that all names fit. Short names stay complete.
        let fixed: usize = drawn.iter().map(|s| width(&value(s)) + 4).sum();
        let names = usize::from(pen.width()).saturating_sub(runs_width(&runs) + fixed + 2);
        let fits = |most: usize| drawn.iter().map(|s| width(&s.name).min(most)).sum::<usize>() <= names;
        let most = (LEAST_NAME..=usize::from(pen.width())).take_while(|most| fits(*most)).last();
        for (i, series) in drawn.iter().enumerate() {
            let value = value(series);
            let markers_after = if time.is_some() { (drawn.len() - i - 1) * 3 } else { 0 };
            let room = usize::from(pen.width()).saturating_sub(runs_width(&runs) + markers_after + 3);
            let name = cut(&series.name, most.map_or(u16::MAX, |most| most as u16));
            if time.is_none() && width(&name) + 2 > room {
                // The runs above the chart have the same markers, so a marker without a name is enough.
                continue;
            }
            runs.push((format!("{} ", series.marker), series.style));
            if width(&name) + 2 + width(&value) <= room {
                runs.push((format!("{name} "), theme.dim));
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
    /// The value of the reading nearest to a time. `None` where no line is drawn: in a gap, and before and after the
    /// data.
    pub(crate) fn at(&self, time: f64) -> Option<f64> {
        let next = self.points.partition_point(|p| p.0 < time);
        let (before, after) = (next.checked_sub(1).and_then(|i| self.points.get(i)), self.points.get(next));
        // Around a single point, or at an end, a value is valid for the distance of two readings.
        let spacing = match (self.points.first(), self.points.last()) {
            (Some(first), Some(last)) if self.points.len() > 1 => (last.0 - first.0) / (self.points.len() - 1) as f64,
            _ => self.gap,
        };
        let reach = if spacing.is_finite() { (self.gap / 2.0).min(spacing) } else { 0.0 };
        let complete = |p: &&(f64, f64)| p.0.is_finite() && p.1.is_finite();
        let nearest = match (before, after) {
            (Some(a), Some(b)) if b.0 - a.0 <= self.gap && complete(&a) && complete(&b) => {
                Some(if time - a.0 <= b.0 - time { a } else { b })
            }
            (a, b) => {
                let close = [a, b].into_iter().flatten().filter(|p| (p.0 - time).abs() <= reach);
                close.min_by(|a, b| (a.0 - time).abs().total_cmp(&(b.0 - time).abs()))
            }
        };
        nearest.filter(complete).map(|p| p.1)
    }
}

/// The unit for a duration in seconds, and the number of these units per second.
fn time_unit(length: f64) -> (&'static str, f64) {
    match length {
        l if l < 0.9e-3 => ("µs", 1e6),
        l if l < 0.9 => ("ms", 1e3),
        _ => ("s", 1.0),
    }
}

/// Whether a text at this position would cover only grid lines.
fn is_free(plot: &Pen<'_>, x: u16, y: u16, text: &str) -> bool {
    (x..x + width(text) as u16).all(|x| matches!(plot.glyph(x, y), Some(' ' | '┄')))
}

/// Maximum number of rows at the top that stay empty.
const MOST_SPARE: u16 = 2;

/// The number of rows at the top that stay empty so that the ticks of an axis have equal distances. Few rows are all
/// used.
fn spare_rows(max: f64, rows: u16) -> u16 {
    let mut fewest = (0..=MOST_SPARE).filter(|spare| *spare == 0 || rows > 2 + 2 * spare);
    fewest.find(|spare| Scale::even(max, rows - spare).is_some()).unwrap_or(0)
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
        assert_eq!(Scale { top: 0.001, step: 0.00025 }.label(0.00075), "0.00075");
    }

    #[test]
    fn ticks_have_equal_distances_if_two_rows_or_fewer_can_stay_empty_for_it() {
        for rows in 2..30 {
            let spare = spare_rows(262.0, rows);
            let scale = Scale::on(262.0, rows - spare);
            let ticks: Vec<u16> = scale.ticks().map(|tick| row_of(tick, scale, rows - spare)).collect();
            let distances: std::collections::BTreeSet<u16> = ticks.windows(2).map(|pair| pair[0] - pair[1]).collect();
            assert!(spare <= MOST_SPARE && (distances.len() == 1 || rows < 7), "{rows}: {ticks:?}");
        }
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
