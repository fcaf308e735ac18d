//! A canvas with two by four dots per cell. Dots are drawn as braille, as quarters of a cell or as ASCII. Lines of
//! dots can have gaps.

use super::series::Series;
use crate::config::Markers;
use crate::tui::pen::Pen;
use ratatui::style::Style;
use std::collections::BTreeMap;

/// A canvas of dots. Each cell has an owner.
pub(crate) struct Canvas {
    columns: u16,
    rows: u16,
    markers: Markers,
    /// The dots of each cell, with the bits of the Unicode braille patterns.
    dots: Vec<u8>,
    owner: Vec<Option<usize>>,
    /// The dots of each owner in the cells, for cells with several owners.
    shares: BTreeMap<usize, Vec<(usize, u8)>>,
    ends: Vec<(u16, u16, usize)>,
}

impl Canvas {
    pub(crate) fn new(columns: u16, rows: u16) -> Self {
        let cells = usize::from(columns) * usize::from(rows);
        Self {
            columns,
            rows,
            markers: Markers::Braille,
            dots: vec![0; cells],
            owner: vec![None; cells],
            shares: BTreeMap::new(),
            ends: Vec::new(),
        }
    }

    /// Selects the characters for the dots.
    #[must_use]
    pub(crate) fn with(self, markers: Markers) -> Self {
        Self { markers, ..self }
    }

    pub(crate) fn dot(&mut self, x: i64, y: i64, owner: usize) {
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        let (column, row) = (x / 2, y / 4);
        if column < usize::from(self.columns) && row < usize::from(self.rows) {
            let cell = row * usize::from(self.columns) + column;
            let bit = BITS[y % 4][x % 2];
            match (self.owner[cell], self.shares.get_mut(&cell)) {
                (_, Some(shares)) => match shares.iter_mut().find(|(of, _)| *of == owner) {
                    Some((_, dots)) => *dots |= bit,
                    None => shares.push((owner, bit)),
                },
                (Some(first), None) if first != owner => {
                    self.shares.insert(cell, vec![(first, self.dots[cell]), (owner, bit)]);
                }
                _ => {}
            }
            self.dots[cell] |= bit;
            self.owner[cell] = Some(owner);
        }
    }

    /// Draws a series over the time range `x`, with values from 0 in the middle of the lowest row to `top` in that of
    /// the highest, where the labels of an axis are. Points that are further apart than the gap of the series are not
    /// joined.
    pub(crate) fn line(&mut self, series: &Series, owner: usize, x: (f64, f64), top: f64) {
        let length = x.1 - x.0;
        if !(length > 0.0 && length.is_finite() && top > 0.0) || self.columns == 0 || self.rows == 0 {
            return;
        }
        let wide = dot_at(1.0, self.columns);
        // A single row has only its dots to show a value.
        let (highest, lowest) = match self.rows {
            1 => (0.0, 3.0),
            rows => (1.5, f64::from(rows) * 4.0 - 2.5),
        };
        let height = |value: f64| lowest - (value / top).clamp(0.0, 1.0) * (lowest - highest);
        let columns = self.columns;
        let place = |(px, py): (f64, f64)| (dot_at((px - x.0) / length, columns), height(py));
        let mut end = None;
        for run in runs(shown(&series.points, x), series.gap) {
            let points = decimate(run, x, self.columns);
            let first = points.first().map(|p| place(*p));
            let mut before = first;
            for point in points {
                let here = place(point);
                self.stroke(before.unwrap_or(here), here, wide, owner);
                before = Some(here);
            }
            end = before.filter(|(px, _)| *px >= 0.0).or(end);
        }
        if let Some((px, py)) = end {
            let column = ((px.min(wide).round() / 2.0) as u16).min(self.columns - 1);
            self.ends.push((column, ((py.round() / 4.0) as u16).min(self.rows - 1), owner));
        }
    }

    /// Draws a straight line of dots. It is clipped at the left and right edge, so that a distant point takes no
    /// time.
    fn stroke(&mut self, a: (f64, f64), b: (f64, f64), wide: f64, owner: usize) {
        let across = b.0 - a.0;
        let (mut first, mut last) = (0.0_f64, 1.0_f64);
        if across > 0.0 {
            first = ((-0.5 - a.0) / across).max(0.0);
            last = ((wide + 0.5 - a.0) / across).min(1.0);
        } else if a.0 < -0.5 || a.0 > wide + 0.5 {
            return;
        }
        if first > last {
            return;
        }
        let at = |t: f64| (a.0 + across * t, a.1 + (b.1 - a.1) * t);
        let (from, to) = (at(first), at(last));
        let steps = (to.0 - from.0).abs().max((to.1 - from.1).abs()).ceil().clamp(1.0, 20_000.0) as u32;
        for step in 0..=steps {
            let t = f64::from(step) / f64::from(steps);
            let (px, py) = (from.0 + (to.0 - from.0) * t, from.1 + (to.1 - from.1) * t);
            self.dot(px.round() as i64, py.round() as i64, owner);
        }
    }

    /// Writes the lines with the styles of their series, and a marker at the end of each line. A cell has one colour, so
    /// a cell with several lines shows one of them. Which one alternates from column to column.
    pub(crate) fn put(&self, pen: &mut Pen<'_>, series: &[Series]) {
        let styles: Vec<Style> = series.iter().map(|s| s.style).collect();
        self.put_dots(pen, &styles);
        for (cell, shares) in &self.shares {
            let (x, y) = (cell % usize::from(self.columns), cell / usize::from(self.columns));
            let (owner, dots) = shares[x % shares.len()];
            let style = styles.get(owner).copied().unwrap_or_default();
            pen.cell(x as u16, y as u16, glyph(dots, self.markers), style);
        }
        for (x, y, owner) in &self.ends {
            if let Some(series) = series.get(*owner) {
                pen.cell(*x, *y, series.marker, series.style);
            }
        }
    }

    /// Writes the dots with the styles of their owners.
    pub(crate) fn put_dots(&self, pen: &mut Pen<'_>, styles: &[Style]) {
        for (cell, dots) in self.dots.iter().enumerate().filter(|(_, dots)| **dots > 0) {
            let (x, y) = (cell % usize::from(self.columns), cell / usize::from(self.columns));
            let style = self.owner[cell].and_then(|owner| styles.get(owner)).copied().unwrap_or_default();
            pen.cell(x as u16, y as u16, glyph(*dots, self.markers), style);
        }
    }
}

/// The horizontal position in dots of a share of the width. 0 is the first dot of the first column, and 1 the last dot of
/// the last one.
pub(crate) fn dot_at(share: f64, columns: u16) -> f64 {
    share * (f64::from(columns) * 2.0 - 1.0)
}

/// The column of the dot at a share of the width. Labels and vertical lines use it, so that they are at the columns of the
/// data.
pub(crate) fn column_at(share: f64, columns: u16) -> u16 {
    ((dot_at(share, columns).round() / 2.0) as u16).min(columns.saturating_sub(1))
}

/// The character for the dots of a cell.
fn glyph(dots: u8, markers: Markers) -> char {
    // Tests each quarter of the cell for dots: upper left, upper right, lower left, lower right.
    let quarters = [0x03, 0x18, 0x44, 0xa0].iter().enumerate().map(|(i, mask)| usize::from(dots & mask != 0) << i);
    match markers {
        Markers::Braille => char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' '),
        Markers::Block => {
            const BLOCKS: [char; 16] = [' ', '▘', '▝', '▀', '▖', '▌', '▞', '▛', '▗', '▚', '▐', '▜', '▄', '▙', '▟', '█'];
            BLOCKS[quarters.sum::<usize>() & 15]
        }
        Markers::Ascii => match (dots & 0x1b != 0, dots & 0xe4 != 0) {
            (true, true) => ':',
            (true, false) => '\'',
            (false, true) => '.',
            (false, false) => ' ',
        },
    }
}

/// The visible points and one more at each end, so that lines continue to the edges.
fn shown(points: &[(f64, f64)], x: (f64, f64)) -> &[(f64, f64)] {
    let from = points.partition_point(|p| p.0 < x.0).saturating_sub(1);
    let to = (points.partition_point(|p| p.0 <= x.1) + 1).min(points.len());
    points.get(from..to).unwrap_or_default()
}

/// Splits points at gaps: where two points are further apart than `gap`, and at values that are not numbers.
fn runs(points: &[(f64, f64)], gap: f64) -> impl Iterator<Item = &[(f64, f64)]> {
    let complete = |p: &(f64, f64)| p.0.is_finite() && p.1.is_finite();
    points
        .chunk_by(move |a, b| b.0 - a.0 <= gap && complete(a) && complete(b))
        .filter(move |run| run.iter().all(complete))
}

/// At most two points per column, the minimum and the maximum, in their order. So no peak is lost, and a frame does
/// not draw ten thousand points.
fn decimate(points: &[(f64, f64)], x: (f64, f64), columns: u16) -> Vec<(f64, f64)> {
    let buckets = usize::from(columns);
    if points.len() <= buckets * 2 || x.1 <= x.0 {
        return points.to_vec();
    }
    let bucket = |p: &(f64, f64)| ((p.0 - x.0) / (x.1 - x.0) * buckets as f64).floor();
    let mut out = Vec::with_capacity(buckets * 2);
    for group in points.chunk_by(|a, b| bucket(a) == bucket(b)) {
        let order = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        if let (Some(low), Some(high)) = (group.iter().min_by(order), group.iter().max_by(order)) {
            let (one, two) = if low.0 <= high.0 { (low, high) } else { (high, low) };
            out.push(*one);
            if one != two {
                out.push(*two);
            }
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn series(points: Vec<(f64, f64)>, gap: f64) -> Series {
        Series { name: String::new(), marker: 'x', style: Style::new(), points, gap, right: false }
    }

    #[test]
    fn decimation_keeps_the_peaks_at_two_points_a_column() {
        let points: Vec<(f64, f64)> =
            (0..10_000).map(|i| (f64::from(i), if i == 5_432 { 99.0 } else { f64::from(i % 7) })).collect();
        let kept = decimate(&points, (0.0, 10_000.0), 50);
        assert!(kept.len() <= 100, "{}", kept.len());
        assert!(kept.iter().any(|p| p.1 == 99.0));
        assert!(kept.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }

    #[test]
    fn a_long_run_is_one_line_although_its_columns_are_wider_than_its_gap() {
        let points: Vec<(f64, f64)> = (0..36_000).map(|i| (f64::from(i) / 10.0, 1.0)).collect();
        let mut canvas = Canvas::new(60, 4);
        canvas.line(&series(points, 0.45), 0, (0.0, 3600.0), 2.0);
        assert!((0..60).all(|x| (0..4).any(|y| canvas.dots[y * 60 + x] > 0)), "a column is empty");
    }

    #[test]
    fn a_value_at_a_label_of_the_axis_is_in_the_middle_of_its_row() {
        // The dots in the middle of a cell.
        const MIDDLE: u8 = 0x02 | 0x10 | 0x04 | 0x20;
        for (value, row) in [(0.0, 4), (0.5, 2), (1.0, 0)] {
            let mut canvas = Canvas::new(10, 5);
            canvas.line(&series(vec![(0.0, value), (1.0, value)], 2.0), 0, (0.0, 1.0), 1.0);
            let drawn: Vec<usize> = (0..50).filter(|cell| canvas.dots[*cell] > 0).collect();
            assert_eq!(drawn, (row * 10..row * 10 + 10).collect::<Vec<_>>());
            assert!(drawn.iter().all(|cell| canvas.dots[*cell] & !MIDDLE == 0), "{value}");
        }
    }

    #[test]
    fn two_lines_in_the_same_cells_keep_their_colours() {
        use ratatui::buffer::Buffer;
        use ratatui::layout::Rect;
        use ratatui::style::Color;
        let line =
            |colour, value| Series { style: Style::new().fg(colour), ..series(vec![(0.0, value), (1.0, value)], 2.0) };
        // Both lines are in the same row of cells: the lowest and the highest dots.
        let all = [line(Color::Red, 0.0), line(Color::Blue, 1.0)];
        let area = Rect::new(0, 0, 10, 1);
        let (mut buffer, mut canvas) = (Buffer::empty(area), Canvas::new(10, 1));
        all.iter().enumerate().for_each(|(owner, series)| canvas.line(series, owner, (0.0, 1.0), 1.0));
        canvas.put(&mut Pen::new(&mut buffer, area), &all);
        // The last cell has the marker.
        let cells = &buffer.content()[..9];
        let of = |colour| cells.iter().filter(|cell| cell.fg == colour).map(|cell| cell.symbol()).collect::<Vec<_>>();
        assert_eq!(of(Color::Red), ["⣀"; 5]);
        assert_eq!(of(Color::Blue), ["⠉"; 4]);
    }

    #[test]
    fn the_same_dots_are_braille_quarters_or_ascii() {
        for (dots, braille, block, ascii) in
            [(0x01, '⠁', '▘', '\''), (0xc0, '⣀', '▄', '.'), (0xff, '⣿', '█', ':'), (0x47, '⡇', '▌', ':')]
        {
            assert_eq!(glyph(dots, Markers::Braille), braille);
            assert_eq!(glyph(dots, Markers::Block), block);
            assert_eq!(glyph(dots, Markers::Ascii), ascii);
        }
    }

    proptest! {
        #[test]
        fn a_gap_is_empty_and_never_a_zero(
            columns in 8_u16..120, rows in 2_u16..30, first in 5_usize..200, second in 5_usize..200, high in 0.6..1.0_f64,
        ) {
            // The data has readings every tenth of a second, a pause of ten seconds, and readings again. All values
            // are above half of the axis.
            let mut points: Vec<(f64, f64)> = (0..first).map(|i| (i as f64 / 10.0, high)).collect();
            let (stop, go) = ((first - 1) as f64 / 10.0, (first - 1) as f64 / 10.0 + 10.0);
            points.extend((0..second).map(|i| (go + i as f64 / 10.0, high)));
            let x = (0.0, points.last().unwrap().0);
            let mut canvas = Canvas::new(columns, rows);
            canvas.line(&series(points, 0.45), 0, x, 1.0);
            let column = |t: f64| column_at(t / x.1, columns);
            for c in 0..columns {
                let lit = |rows: std::ops::Range<u16>| rows.into_iter().any(|y| canvas.dots[usize::from(y * columns + c)] > 0);
                prop_assert!(!lit(rows - rows / 3..rows), "something at the bottom, column {c}");
                if c > column(stop) && c < column(go) {
                    prop_assert!(!lit(0..rows), "something in the gap, column {c}");
                }
            }
        }

        #[test]
        fn no_data_and_no_size_panics(
            mut points in prop::collection::vec((prop::num::f64::ANY, prop::num::f64::ANY), 0..200),
            columns in 0_u16..90, rows in 0_u16..40, from in prop::num::f64::ANY, to in prop::num::f64::ANY,
            gap in prop::num::f64::ANY, top in prop::num::f64::ANY,
        ) {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let series = series(points.clone(), gap);
            let mut canvas = Canvas::new(columns, rows);
            canvas.line(&series, 0, (from, to), top);
            for time in points.iter().map(|p| p.0).chain([from, to]) {
                if let Some(value) = series.at(time) {
                    prop_assert!(points.iter().any(|p| p.1 == value), "{value} was never read");
                }
            }
        }

        #[test]
        fn the_cursor_says_what_the_data_says(values in prop::collection::vec(0.0..100.0_f64, 2..80), pick in 0_usize..80) {
            let points: Vec<(f64, f64)> = values.iter().enumerate().map(|(i, v)| (i as f64 * 0.1, *v)).collect();
            let (time, value) = points[pick % points.len()];
            let series = series(points.clone(), 0.25);
            prop_assert_eq!(series.at(time), Some(value));
            prop_assert_eq!(series.at(time + 0.04), Some(value).filter(|_| true));
            prop_assert_eq!(series.at(points.last().unwrap().0 + 1.0), None);
            prop_assert_eq!(series.at(-1.0), None);
        }
    }
}
