//! One process on the System screen: its reads over time, and the files with endings of models that it has open or mapped.

use super::charts;
use super::state::Ui;
use super::time::{self, over_time, series};
use crate::core::{CeilingKind, ProcessUse};
use crate::present::flow::{self as flows, Flow, Loaded, share_of};
use crate::present::top;
use crate::session::State;
use crate::tui::keys::action::Action;
use crate::tui::pen::{Pen, Run, runs_width, wrap};
use crate::tui::theme::Theme;
use crate::tui::widgets::{bars, flow};

/// Number of panes for a process on a small screen: reads, memory, files. One is shown at a time.
const SMALL_PANES: usize = 3;

/// Draws the process.
pub(super) fn draw(pen: &mut Pen<'_>, process: &ProcessUse, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let mut about = about(process, w.saturating_sub(4), theme);
    if ui.ctx.small {
        return small(pen, process, state, ui, &mut about, theme);
    }
    let files = process.files.len() + process.mapped.len();
    let top = (about.len() as u16 + 3).min(h);
    let title = [(format!("{} ", process.name), theme.strong), (process.pid.to_string(), theme.dim)];
    let mut pane = pen.part(0, 0, w, top);
    let mut inside = pane.frame(&title, theme.faint);
    for (y, line) in about.iter().enumerate() {
        inside.runs(1, y as u16, line);
    }
    flow::draw(
        &mut inside.part(1, about.len() as u16, w.saturating_sub(4), 1),
        &path(process, state),
        ui.ctx.frames,
        theme,
    );
    let rest = h.saturating_sub(top);
    let file_rows = if files == 0 && process.files_readable { 0 } else { (files.clamp(1, 8) as u16 + 2).min(rest / 2) };
    let charts = rest.saturating_sub(file_rows);
    if charts >= 6 {
        let left = if w >= 80 { w / 2 } else { w };
        reads(&mut pen.part(0, top, left, charts), process.pid, state, ui, theme);
        if left < w {
            memory(&mut pen.part(left, top, w - left, charts), process.pid, state, ui, theme);
        }
    }
    if file_rows > 2 {
        let y = h - file_rows;
        self::files(&mut pen.part(0, y, w, file_rows), process, theme);
    }
}

/// Draws one fact per line. The headline already shows the apparent route of the reads.
fn small(
    pen: &mut Pen<'_>,
    process: &ProcessUse,
    state: &State,
    ui: &Ui<'_>,
    about: &mut Vec<Vec<Run>>,
    theme: &Theme,
) {
    let (w, h) = (pen.width(), pen.height());
    let kept = (usize::from(h).saturating_sub(10)).clamp(1, 2);
    about.truncate(kept);
    let title = [(format!("{} ", process.name), theme.strong), (process.pid.to_string(), theme.dim)];
    let top = about.len() as u16 + 2;
    let mut pane = pen.part(0, 0, w, top);
    let mut inside = pane.frame(&title, theme.faint);
    for (y, line) in about.iter().enumerate() {
        inside.runs(1, y as u16, line);
    }
    let rest = h.saturating_sub(top);
    let mut page = pen.part(0, top, w, rest);
    let next = match ui.screen.pane % SMALL_PANES {
        0 => {
            reads(&mut page, process.pid, state, ui, theme);
            "memory"
        }
        1 => {
            memory(&mut page, process.pid, state, ui, theme);
            "files"
        }
        _ => {
            files(&mut page, process, theme);
            "reads"
        }
    };
    let hint = [(format!(" {} ", ui.ctx.keys.key_of(Action::NextPane)), theme.accent), (format!("{next} "), theme.dim)];
    page.runs(w.saturating_sub(runs_width(&hint) as u16 + 2), rest.saturating_sub(1), &hint);
}

fn about(process: &ProcessUse, room: u16, theme: &Theme) -> Vec<Vec<Run>> {
    let mut lines: Vec<Vec<Run>> = Vec::new();
    for line in wrap(&process.command, room).into_iter().take(3) {
        lines.push(vec![(line, theme.text)]);
    }
    lines.push(vec![(top::libraries(process), theme.dim)]);
    let seen = top::seems(process);
    lines.extend(wrap(&seen, room).into_iter().map(|line| vec![(line, theme.text)]));
    lines
}

/// The path of the process's reads. The rate into the GPU is the rate of its link, if no other process uses a GPU.
pub(super) fn path(process: &ProcessUse, state: &State) -> Flow {
    let sample = state.system.back().map(|(_, sample)| sample);
    let into_gpu = sample.and_then(|sample| {
        let alone = sample.processes.iter().filter(|other| other.cuda).count() == 1;
        sample.gpus.first().filter(|_| alone && sample.gpus.len() == 1)?.rx_bytes_per_s
    });
    let busy = || sample?.disks.iter().filter_map(|disk| disk.busy_percent).reduce(f64::max).map(|busy| busy / 100.0);
    let loaded = Loaded {
        storage: share_of(state, CeilingKind::DirectRead, process.storage_bytes_per_s).or_else(busy),
        into_gpu: share_of(state, CeilingKind::PinnedCopy, into_gpu),
    };
    flows::of_process(process, into_gpu, loaded)
}

/// A value of a process over time, in seconds before now.
fn of_process(state: &State, ui: &Ui<'_>, pid: u32, value: impl Fn(&ProcessUse) -> Option<f64>) -> Vec<(f64, f64)> {
    over_time(state, ui, |sample| sample.processes.iter().find(|p| p.pid == pid).and_then(&value))
}

fn reads(pen: &mut Pen<'_>, pid: u32, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let lines = vec![
        series("from storage", '•', 0, of_process(state, ui, pid, |p| p.storage_bytes_per_s), theme),
        series("by calls", '▪', 1, of_process(state, ui, pid, |p| p.call_bytes_per_s), theme),
    ];
    let empty = "Nothing is known yet: rates need two samples, and the rights of the process's owner or of root.";
    charts::chart(pen, ("Reads", empty), lines, state, ui, theme);
}

fn memory(pen: &mut Pen<'_>, pid: u32, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let host = of_process(state, ui, pid, |p| Some(p.rss_bytes? as f64));
    let gpu = of_process(state, ui, pid, |p| Some(p.gpu_memory_bytes? as f64));
    let greatest = host.iter().chain(&gpu).map(|point| point.1).fold(0.0, f64::max);
    let (unit, factor) =
        if greatest >= f64::from(1 << 30) { ("GiB", f64::from(1 << 30)) } else { ("MiB", f64::from(1 << 20)) };
    let scaled = |points: Vec<(f64, f64)>| points.into_iter().map(|(at, value)| (at, value / factor)).collect();
    let mut inside = pen.frame(&time::title("Memory", unit, ui, theme), theme.faint);
    let lines = [series("RSS", '•', 0, scaled(host), theme), series("GPU", '▪', 1, scaled(gpu), theme)];
    time::draw(&mut inside, &lines, "Its memory could not be read.", state, ui, theme);
}

fn files(pen: &mut Pen<'_>, process: &ProcessUse, theme: &Theme) {
    let mut inside = pen.frame(&[("Possible model files".to_owned(), theme.strong)], theme.faint);
    let (w, h) = (inside.width(), inside.height());
    if !process.files_readable && process.mapped.is_empty() {
        inside.fit(1, 0, w.saturating_sub(2), "Its open files need the rights of its owner or of root.", theme.dim);
        return;
    }
    let mut y = 0;
    for file in process.files.iter().take(usize::from(h)) {
        let (figures, share) = top::position(file);
        let access = if file.direct { "O_DIRECT" } else { "open" };
        inside.right(w.saturating_sub(1), y, &format!("{figures}  {access:>8}"), theme.text);
        let bar = if w >= 90 { 16 } else { 0 };
        if let Some(share) = share.filter(|_| bar > 0) {
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
