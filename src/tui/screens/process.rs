//! One process of the System screen: what it reads over time, and the model files that it has mapped or open.

use crate::domain::ProcessUse;
use crate::domain::units::bytes;
use crate::session::State;
use crate::tui::pen::{Pen, Run, wrap};
use crate::tui::theme::Theme;
use crate::tui::widgets::bars;
use crate::tui::widgets::chart::{Chart, Series};

use super::system::route_word;

/// Pictures come every two seconds; twice that apart, one was missed.
const GAP_S: f64 = 5.0;

/// Draws the process into the whole pen.
pub(crate) fn draw(pen: &mut Pen<'_>, state: &State, process: &ProcessUse, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let about = about(process, w.saturating_sub(4), theme);
    let files = process.files.len() + process.mapped.len();
    let top = (about.len() as u16 + 2).min(h);
    let title = [(format!("{} ", process.name), theme.strong), (process.pid.to_string(), theme.dim)];
    let mut pane = pen.part(0, 0, w, top);
    let mut inside = pane.frame(&title, theme.faint);
    for (y, line) in about.iter().enumerate() {
        inside.runs(1, y as u16, line);
    }
    let rest = h.saturating_sub(top);
    let file_rows = if files == 0 && process.files_readable { 0 } else { (files.clamp(1, 8) as u16 + 2).min(rest / 2) };
    let charts = rest.saturating_sub(file_rows);
    if charts >= 6 {
        let left = if w >= 80 { w / 2 } else { w };
        reads(&mut pen.part(0, top, left, charts), state, process.pid, theme);
        if left < w {
            memory(&mut pen.part(left, top, w - left, charts), state, process.pid, theme);
        }
    }
    if file_rows > 2 {
        let y = h - file_rows;
        self::files(&mut pen.part(0, y, w, file_rows), process, theme);
    }
}

fn about(process: &ProcessUse, room: u16, theme: &Theme) -> Vec<Vec<Run>> {
    let mut lines: Vec<Vec<Run>> = Vec::new();
    for line in wrap(&process.command, room).into_iter().take(3) {
        lines.push(vec![(line, theme.text)]);
    }
    let libraries = match (process.cuda, process.cufile.as_deref()) {
        (true, Some(cufile)) => format!("libcuda and {cufile} mapped"),
        (false, Some(cufile)) => format!("{cufile} mapped, libcuda not"),
        _ => "libcuda mapped, no libcufile".to_owned(),
    };
    let owner = process.uid.map_or_else(String::new, |uid| format!(", user {uid}"));
    lines.push(vec![(format!("{libraries}{owner}"), theme.dim)]);
    let seen =
        format!("seems to read by {}: {} (seen from outside, no proof)", route_word(process.route), process.evidence);
    lines.extend(wrap(&seen, room).into_iter().map(|line| vec![(line, theme.text)]));
    lines
}

/// One value of a process over the time that it was watched, in seconds before now.
fn over_time(state: &State, pid: u32, value: impl Fn(&ProcessUse) -> Option<f64>) -> Vec<(f64, f64)> {
    let Some((now, _)) = state.system.back() else { return Vec::new() };
    let seconds = |at: u64| -(now.saturating_sub(at) as f64 / 1e9);
    let of = |sample: &crate::domain::SystemSample| sample.processes.iter().find(|p| p.pid == pid).and_then(&value);
    state.system.iter().filter_map(|(at, sample)| Some((seconds(*at), of(sample)?))).collect()
}

pub(super) fn span(series: &[Series]) -> (f64, f64) {
    let first = series.iter().filter_map(|s| s.points.first()).map(|p| p.0).fold(-10.0, f64::min);
    (first, 0.0)
}

pub(super) fn series(name: &str, marker: char, index: usize, points: Vec<(f64, f64)>, theme: &Theme) -> Series {
    Series { name: name.to_owned(), marker, style: theme.series(index), points, gap: GAP_S, right: false }
}

fn reads(pen: &mut Pen<'_>, state: &State, pid: u32, theme: &Theme) {
    let title = [("Reads".to_owned(), theme.strong), ("  GB/s".to_owned(), theme.dim)];
    let mut inside = pen.frame(&title, theme.faint);
    let lines = [
        series("from storage", '•', 0, over_time(state, pid, |p| Some(p.storage_bytes_per_s? / 1e9)), theme),
        series("by calls", '▪', 1, over_time(state, pid, |p| Some(p.call_bytes_per_s? / 1e9)), theme),
    ];
    let empty = "Nothing is known yet: rates need two looks, and the rights of its owner or of root.";
    Chart { series: &lines, x: span(&lines), ceiling: None, cursor: None, empty }.draw(&mut inside, theme);
}

fn memory(pen: &mut Pen<'_>, state: &State, pid: u32, theme: &Theme) {
    const GIB: f64 = (1_u64 << 30) as f64;
    let title = [("Memory".to_owned(), theme.strong), ("  GiB".to_owned(), theme.dim)];
    let mut inside = pen.frame(&title, theme.faint);
    let lines = [
        series("RSS", '•', 0, over_time(state, pid, |p| Some(p.rss_bytes? as f64 / GIB)), theme),
        series("GPU", '▪', 1, over_time(state, pid, |p| Some(p.gpu_memory_bytes? as f64 / GIB)), theme),
    ];
    Chart { series: &lines, x: span(&lines), ceiling: None, cursor: None, empty: "Its memory could not be read." }
        .draw(&mut inside, theme);
}

fn files(pen: &mut Pen<'_>, process: &ProcessUse, theme: &Theme) {
    let mut inside = pen.frame(&[("Model files".to_owned(), theme.strong)], theme.faint);
    let (w, h) = (inside.width(), inside.height());
    if !process.files_readable && process.mapped.is_empty() {
        inside.fit(1, 0, w.saturating_sub(2), "Its open files need the rights of its owner or of root.", theme.dim);
        return;
    }
    let mut y = 0;
    for file in process.files.iter().take(usize::from(h)) {
        let figures = match file.bytes {
            Some(all) => format!("{} of {}", bytes(file.offset), bytes(all)),
            None => bytes(file.offset),
        };
        let way = if file.direct { "O_DIRECT" } else { "open" };
        inside.right(w.saturating_sub(1), y, &format!("{figures}  {way:>8}"), theme.text);
        let bar = if w >= 90 { 16 } else { 0 };
        if let Some(all) = file.bytes.filter(|b| *b > 0 && bar > 0) {
            let share = file.offset as f64 / all as f64;
            bars::bar(&mut inside, w - bar - 36, y, bar, share, ('▆', theme.series(0)), ('─', theme.faint));
        }
        inside.fit(1, y, w.saturating_sub(bar + 40), &file.path, theme.text);
        y += 1;
    }
    for path in process.mapped.iter().take(usize::from(h.saturating_sub(y))) {
        inside.right(w.saturating_sub(1), y, "mapped", theme.text);
        inside.fit(1, y, w.saturating_sub(10), path, theme.text);
        y += 1;
    }
}
