//! Draws the calls of a watched program: in a wide terminal two panes side by side, otherwise one column.
//!
//! ```text
//!  headline
//! ╭ Rate ─────────────╮╭ Latency by size ─────────╮
//! ╰───────────────────╯╰──────────────────────────╯
//! ╭ Threads ──────────╮╭ Files ───────────────────╮
//! ```

use super::layout::{Heights, Needs};
use crate::core::WatchReport;
use crate::core::units::{self, duration, plural, verb};
use crate::present::call_rates::{newest, rates, unit};
use crate::present::calls::{self, Latencies};
use crate::session::State;
use crate::tui::pen::{Pen, width, wrap};
use crate::tui::theme::Theme;
use crate::tui::widgets::bars;
use crate::tui::widgets::chart::{Chart, Extras};
use crate::tui::widgets::headline;
use crate::tui::widgets::series::Series;
use crate::tui::words::headline_in;
use std::ops::Range;

/// Minimum number of columns for two panes side by side. The name of a file needs half of them.
const WIDE: u16 = 110;
/// Width of a thread's name in columns. The labels of the rates have the same space.
const THREAD: u16 = 16;
/// Width of a file's bar in columns.
const BAR: u16 = 12;
/// Width of a size in columns, with a space after it.
const SIZE: u16 = 9;
/// Maximum number of lines of a row of the histogram, and of columns that a column has more than its text.
const STRETCH: (u16, u16) = (4, 6);
/// Characters for the share of time that is spent in calls: none, and up to each quarter.
const FILLS: [char; 5] = [' ', '░', '▒', '▓', '█'];
/// Their meaning, as a long and a short text.
const SHADES: [&str; 2] = [
    " process/thread, share of time in calls, up to ░ 25 % ▒ 50 % ▓ 75 % █ 100 %",
    " time in calls: ░ 25 % ▒ 50 % ▓ 75 % █ 100 %",
];

/// Draws the screen. `is_over`: no more events will come.
pub(crate) fn draw(pen: &mut Pen<'_>, state: &State, is_over: bool, theme: &Theme) {
    let Some(report) = state.watch.as_deref() else { return };
    let (w, h) = (pen.width(), pen.height());
    let mut y = u16::from(h >= 26);
    let answer = headline_in(&calls::answers(state, is_over), w.saturating_sub(6), 2);
    y += headline::draw(&mut pen.part(0, y, w, 2), &answer, theme);
    for line in summary(&calls::summary(state, report, &answer.text), w.saturating_sub(4)) {
        pen.text(3, y, &line, theme.dim);
        y += 1;
    }
    let nothing = calls::nothing_seen(state, is_over);
    let airy = u16::from(h >= 26);
    let rest = h.saturating_sub(y + airy);
    if w < WIDE || rest < 14 {
        one_column(&mut pen.part(0, y, w, h.saturating_sub(y)), state, report, nothing, theme);
        return;
    }
    y += airy;
    let (left, upper) = (w / 2, rest / 2);
    rate(&mut pen.part(0, y, left, upper), state, nothing[0], theme);
    latency(&mut pen.part(left, y, w - left, upper), report, theme);
    threads(&mut pen.part(0, y + upper, left, rest - upper), state, nothing[1], theme);
    files(&mut pen.part(left, y + upper, w - left, rest - upper), report, nothing[2], theme);
}

/// The lines of the first sentences that fit into two lines.
fn summary(sentences: &[String], room: u16) -> Vec<String> {
    let mut lines = (1..=sentences.len()).rev().map(|most| wrap(&sentences[..most].join(" "), room));
    lines.find(|lines| lines.len() <= 2).unwrap_or_default()
}

/// Draws the panes below each other. A line names those without space.
fn one_column(pen: &mut Pen<'_>, state: &State, report: &WatchReport, nothing: [&str; 3], theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let airy = u16::from(h >= 22);
    let all = calls::latencies(report);
    let lines = |lines: usize, frame: u16| lines.clamp(1, 100) as u16 + frame;
    let newest = newest(state).map_or_else(Vec::new, |line| wrap(&line, w.saturating_sub(4)));
    let needs = Needs {
        // The heads are above the rows. Without rows, the reason can have two lines.
        latencies: if all.rows.is_empty() { 4 } else { lines(all.rows.len(), 3) },
        has_latencies: !all.rows.is_empty(),
        threads: lines(calls::timeline(state, 1).len(), 3),
        files: lines(calls::top_files(report, h.into()).len(), 2),
        newest: newest.len() as u16,
    };
    let heights = Heights::new(h.saturating_sub(airy), needs);
    let mut y = 0;
    for line in newest.iter().take(heights.newest.into()) {
        pen.text(3, y, line, theme.dim);
        y += 1;
    }
    if heights.names > 0 {
        let rate = (heights.rate + heights.newest == 0).then_some("rate");
        let latencies = (heights.latencies == 0 && needs.has_latencies).then_some("latency by size");
        let missing: Vec<&str> = rate.into_iter().chain(latencies).collect();
        pen.fit(3, y, w.saturating_sub(4), &format!("No space for: {}.", missing.join(", ")), theme.dim);
        y += 1;
    }
    y += airy;
    let next = |height: u16| {
        let top = y;
        y += height;
        (top, height)
    };
    let places = [heights.rate, heights.latencies, heights.threads, heights.files].map(next);
    for (pane, (top, height)) in places.into_iter().enumerate().filter(|(_, (_, height))| *height > 0) {
        let mut pen = pen.part(0, top, w, height);
        match pane {
            0 => rate(&mut pen, state, nothing[0], theme),
            1 => latency(&mut pen, report, theme),
            2 => threads(&mut pen, state, nothing[1], theme),
            _ => files(&mut pen, report, nothing[2], theme),
        }
    }
}

fn rate(pen: &mut Pen<'_>, state: &State, empty: &str, theme: &Theme) {
    // The frame has two columns.
    let rates = rates(state, pen.width().saturating_sub(THREAD + 2).into());
    let (unit, size) = unit(&rates);
    let of = match (rates.iter().all(|rate| rate.is_of_calls), calls::is_part(state)) {
        (false, _) => ", averages between reports",
        (true, true) => ", newest calls",
        (true, false) => "",
    };
    let mut inside = pen.frame(&[("Rate".to_owned(), theme.strong), (format!(" {unit}{of}"), theme.dim)], theme.faint);
    let series: Vec<Series> = (rates.into_iter().enumerate())
        .map(|(index, rate)| Series {
            name: rate.name.to_owned(),
            marker: ['●', '▲', '■'][index % 3],
            style: theme.series(index),
            points: rate.points.into_iter().map(|(x, y)| (x, y / size)).collect(),
            gap: f64::INFINITY,
            right: false,
        })
        .collect();
    let (from, to) = calls::window(state);
    let x = (from as f64 / 1e9, to.max(from.saturating_add(1)) as f64 / 1e9);
    let chart = Chart { series: &series, x, ceiling: None, cursor: None, empty };
    chart.draw_with(&mut inside, theme, &Extras { margin: THREAD, ..Extras::default() });
}

fn latency(pen: &mut Pen<'_>, report: &WatchReport, theme: &Theme) {
    let title = [("Latency by size".to_owned(), theme.strong), (" reads, batch entries".to_owned(), theme.dim)];
    let mut inside = pen.frame(&title, theme.faint);
    let all = calls::latencies(report);
    if all.rows.is_empty() {
        let room = inside.width().saturating_sub(2);
        for (y, line) in (0..inside.height()).zip(wrap(calls::no_latencies(report), room)) {
            inside.text(1, y, &line, theme.dim);
        }
        return;
    }
    let (room, height) = (inside.width().saturating_sub(SIZE + 1), inside.height());
    let blocks = |heads: u16| {
        let parts = parts(&columns(&all, heads), room);
        let lines = parts.len().saturating_mul(all.rows.len() + usize::from(heads));
        (lines <= usize::from(height)).then_some((heads, parts))
    };
    // With the units in a second line, the columns may need fewer blocks.
    if let Some((heads, parts)) = [1, 2].into_iter().filter_map(blocks).min_by_key(|(_, parts)| parts.len()) {
        let rows = all.rows.len() as u16;
        if let [part] = parts.as_slice() {
            // The rows and columns fill the pane.
            let lines = (height.saturating_sub(heads) / rows).clamp(1, STRETCH.0);
            let spare = room.saturating_sub(columns(&all, heads).iter().sum());
            let more = (spare / all.durations.len().max(1) as u16).min(STRETCH.1);
            histogram(&mut inside, 0, &all, part.clone(), Shape { heads, lines, more }, theme);
            return;
        }
        for (y, part) in (0..).step_by((rows + heads).into()).zip(parts) {
            histogram(&mut inside, y, &all, part, Shape { heads, ..Shape::SMALLEST }, theme);
        }
        return;
    }
    let rows = usize::from(height.saturating_sub(1));
    let fitting = |rows: usize| {
        let mut grids = (0..=all.durations.len()).rev().map(|most| all.within(most, rows));
        grids.find(|(grid, _)| columns(grid, 1).iter().sum::<u16>() <= room).unwrap_or_default()
    };
    let (mut grid, mut hidden) = fitting(rows);
    if hidden > 0 && grid.rows.len() == rows {
        // The last line is for the number of reads that are not shown.
        (grid, hidden) = fitting(rows.saturating_sub(1));
    }
    histogram(&mut inside, 0, &grid, 0..grid.durations.len(), Shape::SMALLEST, theme);
    if hidden > 0 {
        let (y, room) = (grid.rows.len() as u16 + 1, inside.width().saturating_sub(1));
        let words = format!("{} {} not shown: no space.", plural(hidden, "other read"), verb(hidden, "is", "are"));
        inside.fit(1, y, room, &words, theme.dim);
    }
}

/// The size of a histogram.
#[derive(Clone, Copy)]
struct Shape {
    /// The lines of its heads: 1, or 2 if the units are below the values.
    heads: u16,
    /// The lines of each row.
    lines: u16,
    /// The columns that each column has more than its text.
    more: u16,
}

impl Shape {
    const SMALLEST: Self = Self { heads: 1, lines: 1, more: 0 };
}

/// The lines of the head of a column.
fn head(name: &str, heads: u16) -> Vec<&str> {
    match name.rsplit_once(' ') {
        Some((value, unit)) if heads > 1 => vec![value, unit],
        _ => vec![name],
    }
}

/// The width of each column, with a space before it.
fn columns(grid: &Latencies, heads: u16) -> Vec<u16> {
    let widest = |column: usize| {
        let counts = grid.rows.iter().filter_map(|(_, row)| row.get(column));
        counts.map(|count| width(&units::count(*count))).max().unwrap_or(0)
    };
    let names = grid.durations.iter().enumerate();
    let of_head = |name: &str| head(name, heads).into_iter().map(width).max().unwrap_or(0);
    names.map(|(column, name)| of_head(name).max(widest(column)) as u16 + 1).collect()
}

/// The columns that fit next to one another, for each part below the other.
fn parts(widths: &[u16], room: u16) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut used = 0;
    for (column, width) in widths.iter().enumerate() {
        match parts.last_mut() {
            Some(part) if used + *width <= room => part.end = column + 1,
            _ => {
                parts.push(column..column + 1);
                used = 0;
            }
        }
        used += *width;
    }
    parts
}

/// Draws a part of the columns with its heads.
fn histogram(pen: &mut Pen<'_>, y: u16, grid: &Latencies, part: Range<usize>, shape: Shape, theme: &Theme) {
    let Shape { heads, lines, more } = shape;
    let most = grid.rows.iter().flat_map(|(_, row)| row).max().copied().unwrap_or(1).max(1);
    // The text is in the middle line of its row.
    let middle = (lines - 1) / 2;
    let tops = || (y + heads..).step_by(lines.into());
    for (top, (size, _)) in tops().zip(&grid.rows) {
        pen.right(SIZE - 1, top + middle, size, theme.text);
    }
    let mut end = SIZE;
    let columns = columns(grid, heads).into_iter().zip(&grid.durations).enumerate();
    for (column, (width, name)) in columns.filter(|(column, _)| part.contains(column)) {
        let width = width + more;
        end += width;
        for (line, text) in (y..).zip(head(name, heads)) {
            pen.right(end, line, text, theme.dim);
        }
        for (top, (_, counts)) in tops().zip(&grid.rows) {
            let Some(count) = counts.get(column).filter(|count| **count > 0) else { continue };
            let style = theme.heat((*count as f64).ln_1p() / (most as f64).ln_1p());
            if lines > 1 {
                pen.restyle(end + 1 - width, top, width - 1, lines, style);
            }
            pen.right(end, top + middle, &units::count(*count), style);
        }
    }
}

fn threads(pen: &mut Pen<'_>, state: &State, empty: &str, theme: &Theme) {
    // The name, and the border with its spaces.
    let room = usize::from(pen.width().saturating_sub(7 + 5));
    let shades = SHADES.into_iter().find(|text| width(text) <= room).unwrap_or(SHADES[1]);
    let title = [("Threads".to_owned(), theme.strong), (shades.to_owned(), theme.dim)];
    let mut inside = pen.frame(&title, theme.faint);
    let threads = calls::timeline(state, inside.width().saturating_sub(THREAD).into());
    if threads.is_empty() {
        inside.text(1, 0, empty, theme.dim);
        return;
    }
    let rows = inside.height().saturating_sub(1);
    for (y, thread) in threads.iter().take(usize::from(rows)).enumerate() {
        inside.fit(0, y as u16, THREAD - 1, &thread.name, theme.text);
        for (x, share) in thread.shares.iter().enumerate() {
            let fill = (share * (FILLS.len() - 1) as f64).ceil() as usize;
            inside.cell(THREAD + x as u16, y as u16, FILLS[fill.min(FILLS.len() - 1)], theme.series(0));
        }
    }
    let more = threads.len().saturating_sub(usize::from(rows));
    let left = if more > 0 { format!("{more} more") } else { "process/thread".to_owned() };
    // The time axis is below the last thread.
    let y = usize::from(rows).min(threads.len()) as u16;
    inside.text(0, y, &left, theme.dim);
    let (from, to) = calls::window(state);
    inside.text(THREAD, y, &moment(from), theme.dim);
    let end = inside.width();
    inside.right(end, y, &moment(to), theme.dim);
}

/// A time since the start of the program.
fn moment(ns: u64) -> String {
    if ns > 0 { duration(ns) } else { "0".to_owned() }
}

fn files(pen: &mut Pen<'_>, report: &WatchReport, empty: &str, theme: &Theme) {
    let title = [("Files".to_owned(), theme.strong), (" by cuFile, read calls, mappings".to_owned(), theme.dim)];
    let mut inside = pen.frame(&title, theme.faint);
    let rows = calls::top_files(report, usize::from(inside.height()));
    if rows.is_empty() {
        inside.text(1, 0, empty, theme.dim);
        return;
    }
    let route_width = rows.iter().map(|(_, _, route_width, _)| width(route_width)).max().unwrap_or(0) as u16;
    // Names that do not fit are below their bars, if there is space.
    let x = BAR + 12 + route_width;
    let room = inside.width().saturating_sub(x);
    let is_long = rows.iter().any(|(.., name)| width(name) > usize::from(room));
    let lines = if is_long && 2 * rows.len() <= usize::from(inside.height()) { 2 } else { 1 };
    for (row, (share, bytes, method, name)) in rows.iter().enumerate() {
        let y = row as u16 * lines;
        // A lower block leaves a space between the bars of adjacent rows.
        bars::bar(&mut inside, 0, y, BAR, *share, ('▆', theme.series(0)), (' ', theme.text));
        inside.right(BAR + 10, y, bytes, theme.text);
        inside.text(BAR + 11, y, method, theme.dim);
        let (x, y, room) = if lines == 2 { (1, y + 1, inside.width().saturating_sub(1)) } else { (x, y, room) };
        inside.fit(x, y, room, &crate::text::truncate_middle(name, usize::from(room)), theme.text);
    }
}
