//! Draws the calls of a watched program.
//!
//! ```text
//!  headline
//! ╭ Rate ─────────────╮╭ Latency by size ─────────╮
//! ╰───────────────────╯╰──────────────────────────╯
//! ╭ Threads ──────────╮╭ Files ───────────────────╮
//! ```

use crate::core::WatchReport;
use crate::core::units::{duration, plural, verb};
use crate::present::call_rates::{newest, rates};
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
/// Minimum height of the rate in lines, with its frame.
const LEAST_CHART: u16 = 7;
/// Minimum height of the threads or the files in lines, with their frame.
const LEAST_LIST: u16 = 4;
/// Width of a thread's name in columns. The labels of the rates have the same space.
const THREAD: u16 = 16;
/// Width of a file's bar in columns.
const BAR: u16 = 12;
/// Width of a size in columns, with a space after it.
const SIZE: u16 = 9;
/// Bytes per gigabyte, the unit of the chart.
const GB: f64 = 1e9;
/// Characters for the share of time that is spent in calls.
const FILLS: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// Draws the screen. `is_over`: no more events will come.
pub(crate) fn draw(pen: &mut Pen<'_>, state: &State, is_over: bool, theme: &Theme) {
    let Some(report) = state.watch.as_deref() else { return };
    let (w, h) = (pen.width(), pen.height());
    let mut y = u16::from(h >= 26);
    let answer = headline_in(&calls::answers(state, is_over), w.saturating_sub(6), 2);
    y += headline::draw(&mut pen.part(0, y, w, 2), &answer, theme);
    pen.fit(3, y, w.saturating_sub(4), &calls::summary(state, report), theme.dim);
    y += 1;
    let rest = |y: u16| h.saturating_sub(y);
    let is_wide = w >= WIDE && rest(y + u16::from(h >= 26)) >= 14;
    // In one column, threads and files are the most useful: they show what the program does now and what it has read.
    // The rate gets the lines that they do not need.
    // The line that names the panes without space needs one of the lines.
    let narrow = rest(y + 1 + u16::from(h >= 26));
    let has_rate = narrow >= LEAST_CHART + 2 * LEAST_LIST;
    let most = (narrow / 3).min(narrow.saturating_sub(LEAST_CHART) / 2);
    let need = |lines: usize, frame: u16| lines.clamp(1, 100) as u16 + frame;
    let threads_need = need(calls::timeline(state, 1).len(), 3);
    let lower = need(calls::top_files(report, h.into()).len(), 2).min(most);
    let left = narrow.saturating_sub(LEAST_CHART + lower);
    let middle = threads_need.min(left).min((narrow / 3).max(LEAST_LIST));
    if !is_wide {
        // A line with the newest rates takes the place of the chart.
        let line = newest(state).filter(|_| !has_rate && narrow > 2 * LEAST_LIST);
        if let Some(line) = &line {
            pen.fit(3, y, w.saturating_sub(4), line, theme.dim);
            y += 1;
        }
        let missing = if has_rate || line.is_some() { "latency by size" } else { "rate, latency by size" };
        pen.fit(3, y, w.saturating_sub(4), &format!("No space for: {missing}."), theme.dim);
        y += 1;
    }
    y += u16::from(h >= 26);
    let rest = rest(y);
    if !is_wide && has_rate {
        let upper = rest - middle - lower;
        rate(&mut pen.part(0, y, w, upper), state, theme);
        threads(&mut pen.part(0, y + upper, w, middle), state, theme);
        files(&mut pen.part(0, y + upper + middle, w, lower), report, theme);
        return;
    }
    if !is_wide {
        let upper = rest / 2;
        threads(&mut pen.part(0, y, w, upper), state, theme);
        files(&mut pen.part(0, y + upper, w, rest - upper), report, theme);
        return;
    }
    let (left, upper) = (w / 2, rest / 2);
    rate(&mut pen.part(0, y, left, upper), state, theme);
    latency(&mut pen.part(left, y, w - left, upper), report, theme);
    threads(&mut pen.part(0, y + upper, left, rest - upper), state, theme);
    files(&mut pen.part(left, y + upper, w - left, rest - upper), report, theme);
}

fn rate(pen: &mut Pen<'_>, state: &State, theme: &Theme) {
    // The frame has two columns.
    let rates = rates(state, pen.width().saturating_sub(THREAD + 2).into());
    let unit = match (rates.iter().all(|rate| rate.is_of_calls), calls::is_part(state)) {
        (false, _) => " GB/s, averages between reports",
        (true, true) => " GB/s, newest calls",
        (true, false) => " GB/s",
    };
    let mut inside = pen.frame(&[("Rate".to_owned(), theme.strong), (unit.to_owned(), theme.dim)], theme.faint);
    let series: Vec<Series> = (rates.into_iter().enumerate())
        .map(|(index, rate)| Series {
            name: rate.name.to_owned(),
            marker: ['●', '▲', '■'][index % 3],
            style: theme.series(index),
            points: rate.points.into_iter().map(|(x, y)| (x, y / GB)).collect(),
            gap: f64::INFINITY,
            right: false,
        })
        .collect();
    let (from, to) = calls::window(state);
    let x = (from as f64 / 1e9, to.max(from.saturating_add(1)) as f64 / 1e9);
    let chart = Chart { series: &series, x, ceiling: None, cursor: None, empty: "No bytes yet." };
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
    let block = all.rows.len() as u16 + 1;
    let parts = parts(&columns(&all), room);
    if parts.len() as u16 * block <= height {
        for (y, part) in (0..).step_by(block.into()).zip(parts) {
            histogram(&mut inside, y, &all, part, theme);
        }
        return;
    }
    let rows = usize::from(height.saturating_sub(1));
    let fitting = |rows: usize| {
        let mut grids = (0..=all.durations.len()).rev().map(|most| all.within(most, rows));
        grids.find(|(grid, _)| columns(grid).iter().sum::<u16>() <= room).unwrap_or_default()
    };
    let (mut grid, mut hidden) = fitting(rows);
    if hidden > 0 && grid.rows.len() == rows {
        // The last line is for the number of reads that are not shown.
        (grid, hidden) = fitting(rows.saturating_sub(1));
    }
    histogram(&mut inside, 0, &grid, 0..grid.durations.len(), theme);
    if hidden > 0 {
        let (y, room) = (grid.rows.len() as u16 + 1, inside.width().saturating_sub(1));
        let words = format!("{} {} not shown: no space.", plural(hidden, "other read"), verb(hidden, "is", "are"));
        inside.fit(1, y, room, &words, theme.dim);
    }
}

/// The width of each column, with a space before it.
fn columns(grid: &Latencies) -> Vec<u16> {
    let widest = |column: usize| {
        let counts = grid.rows.iter().filter_map(|(_, row)| row.get(column));
        counts.map(|count| count.to_string().len()).max().unwrap_or(0)
    };
    let names = grid.durations.iter().enumerate();
    names.map(|(column, name)| width(name).max(widest(column)) as u16 + 1).collect()
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
fn histogram(pen: &mut Pen<'_>, y: u16, grid: &Latencies, part: Range<usize>, theme: &Theme) {
    let most = grid.rows.iter().flat_map(|(_, row)| row).max().copied().unwrap_or(1).max(1);
    for (row, (size, _)) in (y + 1..).zip(&grid.rows) {
        pen.right(SIZE - 1, row, size, theme.text);
    }
    let mut end = SIZE;
    let columns = columns(grid).into_iter().zip(&grid.durations).enumerate();
    for (column, (width, name)) in columns.filter(|(column, _)| part.contains(column)) {
        end += width;
        pen.right(end, y, name, theme.dim);
        for (row, (_, counts)) in (y + 1..).zip(&grid.rows) {
            let Some(count) = counts.get(column).filter(|count| **count > 0) else { continue };
            let style = theme.heat((*count as f64).ln_1p() / (most as f64).ln_1p());
            pen.right(end, row, &count.to_string(), style);
        }
    }
}

fn threads(pen: &mut Pen<'_>, state: &State, theme: &Theme) {
    let title = [("Threads".to_owned(), theme.strong), (" process/thread".to_owned(), theme.dim)];
    let mut inside = pen.frame(&title, theme.faint);
    let threads = calls::timeline(state, inside.width().saturating_sub(THREAD).into());
    if threads.is_empty() {
        inside.text(1, 0, "No call yet.", theme.dim);
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
    let left = if more > 0 { format!("{more} more") } else { String::new() };
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

fn files(pen: &mut Pen<'_>, report: &WatchReport, theme: &Theme) {
    let title = [("Files".to_owned(), theme.strong), (" by cuFile, read calls, mappings".to_owned(), theme.dim)];
    let mut inside = pen.frame(&title, theme.faint);
    let rows = calls::top_files(report, usize::from(inside.height()));
    if rows.is_empty() {
        inside.text(1, 0, "No file yet.", theme.dim);
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
        bars::bar(&mut inside, 0, y, BAR, *share, ('█', theme.series(0)), (' ', theme.text));
        inside.right(BAR + 10, y, bytes, theme.text);
        inside.text(BAR + 11, y, method, theme.dim);
        let (x, y, room) = if lines == 2 { (1, y + 1, inside.width().saturating_sub(1)) } else { (x, y, room) };
        inside.fit(x, y, room, &crate::text::truncate_middle(name, usize::from(room)), theme.text);
    }
}
