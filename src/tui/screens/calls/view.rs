//! Draws the calls of a watched program.
//!
//! ```text
//!  headline
//! ╭ Rate ─────────────╮╭ Latency by size ─────────╮
//! ╰───────────────────╯╰──────────────────────────╯
//! ╭ Threads ──────────╮╭ Files ───────────────────╮
//! ```

use crate::core::WatchReport;
use crate::core::units::duration;
use crate::present::calls;
use crate::session::State;
use crate::tui::pen::{Pen, width, wrap};
use crate::tui::theme::Theme;
use crate::tui::widgets::bars;
use crate::tui::widgets::chart::Chart;
use crate::tui::widgets::headline;
use crate::tui::widgets::series::Series;
use crate::tui::words::headline_in;

/// Minimum number of columns for two panes side by side. The name of a file needs half of them.
const WIDE: u16 = 110;
/// Minimum height of the rate in lines, with its frame.
const LEAST_CHART: u16 = 7;
/// Width of a thread's name in columns.
const THREAD: u16 = 16;
/// Width of a file's bar in columns.
const BAR: u16 = 12;
/// Width of a number of reads in columns.
const CELL: u16 = 8;
/// Bytes per gigabyte, the unit of the chart.
const GB: f64 = 1e9;
/// Characters for the share of time that is spent in calls.
const FILLS: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// Draws the screen.
pub(crate) fn draw(pen: &mut Pen<'_>, state: &State, theme: &Theme) {
    let Some(report) = state.watch.as_deref() else { return };
    let (w, h) = (pen.width(), pen.height());
    let mut y = u16::from(h >= 26);
    let answer = headline_in(&calls::answers(report), w.saturating_sub(6), 2);
    y += headline::draw(&mut pen.part(0, y, w, 2), &answer, theme);
    pen.fit(3, y, w.saturating_sub(4), &calls::summary(state, report), theme.dim);
    y += 1 + u16::from(h >= 26);
    let rest = h.saturating_sub(y);
    if w < WIDE || rest < 14 {
        // In one column, threads and files are the most useful: they show what the program does now and what it has
        // read. The rate gets the lines that they do not need.
        let (threads_need, files_need) =
            (calls::timeline(state, 1).1.len(), calls::top_files(report, rest.into()).len());
        let need = |lines: usize, frame: u16| (lines.clamp(1, 100) as u16 + frame).min(rest / 3);
        let (middle, lower) = (need(threads_need, 3), need(files_need, 2));
        let mut upper = rest - middle - lower;
        if upper >= LEAST_CHART {
            rate(&mut pen.part(0, y, w, upper), state, theme);
            threads(&mut pen.part(0, y + upper, w, middle), state, theme);
            files(&mut pen.part(0, y + upper + middle, w, lower), report, theme);
            return;
        }
        upper = rest / 2;
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
    let mut inside = pen.frame(&[("Rate".to_owned(), theme.strong), (" GB/s".to_owned(), theme.dim)], theme.faint);
    let series: Vec<Series> = (calls::rates(state).into_iter().enumerate())
        .map(|(index, rate)| Series {
            name: rate.name.to_owned(),
            marker: ['●', '▲', '■'][index % 3],
            style: theme.series(index),
            points: rate.points.into_iter().map(|(x, y)| (x, y / GB)).collect(),
            gap: f64::INFINITY,
            right: false,
        })
        .collect();
    let last = state.call_rates.last().map_or(1.0, |count| (count.at_ns as f64 / 1e9).max(1e-3));
    let chart = Chart { series: &series, x: (0.0, last), ceiling: None, cursor: None, empty: "No bytes yet." };
    chart.draw(&mut inside, theme);
}

fn latency(pen: &mut Pen<'_>, report: &WatchReport, theme: &Theme) {
    let title = [("Latency by size".to_owned(), theme.strong), (" reads, batch entries".to_owned(), theme.dim)];
    let mut inside = pen.frame(&title, theme.faint);
    let grid = calls::latencies(report);
    if grid.rows.is_empty() {
        let room = inside.width().saturating_sub(2);
        for (y, line) in (0..inside.height()).zip(wrap(calls::no_latencies(report), room)) {
            inside.text(1, y, &line, theme.dim);
        }
        return;
    }
    let columns = usize::from(inside.width().saturating_sub(10) / CELL);
    // If not all columns fit, the slow reads on the right are shown, because they are the most relevant.
    let first = grid.durations.len().saturating_sub(columns);
    for (column, name) in grid.durations.iter().skip(first).enumerate() {
        inside.right(9 + (column as u16 + 1) * CELL, 0, name, theme.dim);
    }
    let most = grid.rows.iter().flat_map(|(_, row)| row).max().copied().unwrap_or(1).max(1);
    for (y, (size, row)) in grid.rows.iter().enumerate() {
        let y = y as u16 + 1;
        inside.right(8, y, size, theme.text);
        for (column, count) in row.iter().skip(first).enumerate().filter(|(_, count)| **count > 0) {
            let style = theme.heat((*count as f64).ln_1p() / (most as f64).ln_1p());
            inside.right(9 + (column as u16 + 1) * CELL, y, &count.to_string(), style);
        }
    }
}

fn threads(pen: &mut Pen<'_>, state: &State, theme: &Theme) {
    let title = [("Threads".to_owned(), theme.strong), (" process/thread".to_owned(), theme.dim)];
    let mut inside = pen.frame(&title, theme.faint);
    let parts = usize::from(inside.width().saturating_sub(THREAD + 1));
    let ((from, to), threads) = calls::timeline(state, parts);
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
    inside.text(0, rows, &left, theme.dim);
    inside.text(THREAD, rows, &moment(from), theme.dim);
    let end = inside.width();
    inside.right(end, rows, &moment(to), theme.dim);
}

/// A time since the start of the program, in seconds.
fn moment(seconds: f64) -> String {
    if seconds > 0.0 { duration((seconds * 1e9) as u64) } else { "0".to_owned() }
}

fn files(pen: &mut Pen<'_>, report: &WatchReport, theme: &Theme) {
    let mut inside = pen.frame(&[("Files".to_owned(), theme.strong)], theme.faint);
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
