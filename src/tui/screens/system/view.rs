//! Screen 4: who is using GPUs and storage right now?
//!
//! ```text
//!  headline
//! ╭ GPUs ───────────────────╮╭ Storage ─────────────╮
//! ╭ Processes with CUDA or cuFile ──────────────────╮
//! ```

use super::order::{order, selected};
use super::state::{ProcessSort, Ui, is_past};
use super::{charts, past};
use crate::core::units::{bytes, duration, rate};
use crate::core::{DiskUse, GpuUse, ProcessUse, SeenRoute, Status, SystemSample};
use crate::present::top;
use crate::session::State;
use crate::tui::clicks::Spot;
use crate::tui::layout::SIDE_BY_SIDE;
use crate::tui::pen::{Pen, Run, cut, width, wrap};
use crate::tui::theme::Theme;
use crate::tui::widgets::{bars, flow, headline, sheet};
use crate::tui::words::Headline;
use std::path::Path;

/// Draws the screen.
pub(super) fn draw(pen: &mut Pen<'_>, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let airy = h >= 26;
    let mut y = u16::from(airy);
    let sample = state.system.back().map(|(_, sample)| sample);
    y += headline::draw(&mut pen.part(0, y, w, 3), &headline(sample, state, ui), theme);
    y += u16::from(airy);
    let rest = h.saturating_sub(y);
    ui.screen.charted.set(false);
    let Some(sample) = sample else {
        if is_past(state, ui.ctx) {
            past::draw(&mut pen.part(0, y, w, rest), state, ui, theme);
        }
        return;
    };
    if ui.screen.open
        && let Some(process) = selected(state, ui)
    {
        ui.screen.charted.set(true);
        super::process::draw(&mut pen.part(0, y, w, rest), process, state, ui, theme);
        return;
    }
    // An error of NVML is a sentence that needs several lines.
    let lines = if sample.gpus.is_empty() && sample.gpu_problem.is_some() { 3 } else { sample.gpus.len().max(1) };
    let rows = lines.max(sample.disks.len().max(1)).min(8) as u16 + 3;
    let top = rows.min(rest / 2);
    let no_gpu = sample.gpus.is_empty();
    if no_gpu && !ui.ctx.small {
        // The disks get the width that the GPUs do not need.
        let lines = sample.disks.len().clamp(1, 8) as u16 + 3;
        let gpu_rows = wrap(no_gpu_words(sample), w.saturating_sub(4)).len().clamp(1, 3) as u16 + 2;
        gpus(&mut pen.part(0, y, w, gpu_rows), sample, theme);
        disks(&mut pen.part(0, y + gpu_rows, w, lines), sample, theme);
        let used = gpu_rows + lines;
        lower(&mut pen.part(0, y + used, w, rest.saturating_sub(used)), sample, state, ui, theme);
    } else if w >= SIDE_BY_SIDE {
        let left = w * 9 / 16;
        gpus(&mut pen.part(0, y, left, top), sample, theme);
        disks(&mut pen.part(left, y, w - left, top), sample, theme);
        lower(&mut pen.part(0, y + top, w, rest - top), sample, state, ui, theme);
    } else if ui.ctx.small {
        match ui.screen.pane % 3 {
            0 => processes(&mut pen.part(0, y, w, rest), sample, state, ui, theme),
            1 => gpus(&mut pen.part(0, y, w, rest), sample, theme),
            _ => disks(&mut pen.part(0, y, w, rest), sample, theme),
        }
    } else {
        let gpu_rows = (sample.gpus.len().clamp(1, 4) as u16 + 3).min(rest / 3);
        let disk_rows = (sample.disks.len().clamp(1, 4) as u16 + 3).min(rest / 3);
        gpus(&mut pen.part(0, y, w, gpu_rows), sample, theme);
        disks(&mut pen.part(0, y + gpu_rows, w, disk_rows), sample, theme);
        let used = gpu_rows + disk_rows;
        lower(&mut pen.part(0, y + used, w, rest - used), sample, state, ui, theme);
    }
}

/// Minimum width in columns for the path of the bytes of a process that uses cuFile, in a second line.
const WITH_PATHS: u16 = 90;

fn cufile_users<'p>(processes: impl IntoIterator<Item = &'p ProcessUse>) -> usize {
    processes.into_iter().filter(|process| process.cufile.is_some()).count()
}

/// Draws the processes and, if there is space below them, the charts of disks and links.
fn lower(pen: &mut Pen<'_>, sample: &SystemSample, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    // An empty table is a line of text.
    let rows = sample.processes.len() + if w >= WITH_PATHS { cufile_users(&sample.processes) } else { 0 };
    let need = if sample.processes.is_empty() { 3 } else { rows.min(30) as u16 + 4 };
    let charts = if need + charts::ROWS <= h { h - need } else { 0 };
    processes(&mut pen.part(0, 0, w, h - charts), sample, state, ui, theme);
    if charts > 0 {
        ui.screen.charted.set(true);
        charts::draw(&mut pen.part(0, h - charts, w, charts), sample, state, ui, theme);
    }
}

fn headline(sample: Option<&SystemSample>, state: &State, ui: &Ui<'_>) -> Headline {
    let say = |status, text: String| Headline { status, text };
    let Some(sample) = sample else {
        return if ui.ctx.captured {
            say(
                Status::Na,
                "This is a captured machine (--capture), so nothing runs on it. Without --capture, this screen watches the machine on which gds-top runs."
                    .into(),
            )
        } else if is_past(state, ui.ctx) {
            say(
                Status::Na,
                "Processes are shown live and never recorded. Below are the meters of the machine during the session."
                    .into(),
            )
        } else if ui.ctx.replay || ui.ctx.over {
            say(
                Status::Na,
                "Processes are shown live only. They are never recorded, because they belong to other users.".into(),
            )
        } else {
            say(Status::Info, "Examining GPUs, disks and processes …".into())
        };
    };
    // Only the selected process is examined.
    let opened = selected(state, ui).filter(|_| ui.screen.open);
    say(Status::Info, top::reading_now(sample, opened))
}

fn or_gap(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

/// Draws a line of right-aligned figures with the given column widths. Missing values and zeros are dim, so that
/// activity is prominent.
fn figures(pen: &mut Pen<'_>, y: u16, from: u16, columns: &[(u16, String)], theme: &Theme) -> u16 {
    let mut x = from;
    for (room, text) in columns.iter().filter(|(room, _)| *room > 0) {
        x += room;
        let something = text.chars().any(|c| ('1'..='9').contains(&c));
        pen.right(x, y, text, if something { theme.text } else { theme.dim });
    }
    x
}

/// The column widths after a name of `longest` columns. The rest of `w` columns is divided among them.
fn spread<const N: usize>(rooms: [u16; N], w: u16, longest: u16) -> [u16; N] {
    let taken: u16 = rooms.iter().sum();
    let shown = rooms.iter().filter(|room| **room > 0).count().max(1) as u16;
    let more = (w.saturating_sub(taken + longest + 2) / shown).min(12);
    rooms.map(|room| if room > 0 { room + more } else { 0 })
}

/// The reason why no GPU is listed.
fn no_gpu_words(sample: &SystemSample) -> &str {
    sample.gpu_problem.as_deref().unwrap_or("NVML lists no GPU.")
}

fn gpus(pen: &mut Pen<'_>, sample: &SystemSample, theme: &Theme) {
    let mut inside = pen.frame(&[("GPUs".to_owned(), theme.strong)], theme.faint);
    let w = inside.width();
    if sample.gpus.is_empty() {
        let text = no_gpu_words(sample);
        let h = usize::from(inside.height());
        let lines = wrap(text, w.saturating_sub(2));
        for (y, line) in lines.iter().take(h).enumerate() {
            let more = if y + 1 == h && lines.len() > h { " …" } else { "" };
            inside.fit(1, y as u16, w.saturating_sub(2), &format!("{line}{more}"), theme.dim);
        }
        return;
    }
    // The name identifies the GPU, so it has priority over the bar.
    let longest = sample.gpus.iter().map(|gpu| width(&gpu.name) + 4).max().unwrap_or(0) as u16;
    let bar = if w >= 40 + 10 + longest { 10 } else { 0 };
    let columns = |texts: [String; 6]| -> Vec<(u16, String)> {
        let rooms = [10 + bar, 6, 11, 11, if w >= 70 { 10 } else { 0 }, if w >= 76 { 8 } else { 0 }];
        spread(rooms, w, longest).into_iter().zip(texts).collect()
    };
    let taken: u16 = columns(Default::default()).iter().map(|(room, _)| room).sum();
    let name = w.saturating_sub(taken + 2);
    let heads = ["memory", "busy", "PCIe in", "PCIe out", "BAR1", "power"].map(str::to_owned);
    inside.text(1, 0, "gpu", theme.dim);
    figures(&mut inside, 0, name, &columns(heads), theme);
    for (i, gpu) in sample.gpus.iter().enumerate() {
        let y = i as u16 + 1;
        inside.fit(1, y, name.saturating_sub(2), &format!("{} {}", gpu.index, gpu.name), theme.text);
        if bar > 0
            && let Some(share) = share(gpu)
        {
            bars::bar(&mut inside, name, y, bar, share, ('▆', theme.series(0)), ('─', theme.faint));
        }
        let texts = [
            or_gap(gpu.memory_used_bytes.map(bytes)),
            or_gap(gpu.utilization_percent.map(|p| format!("{p:.0} %"))),
            or_gap(gpu.rx_bytes_per_s.map(rate)),
            or_gap(gpu.tx_bytes_per_s.map(rate)),
            or_gap(gpu.bar1_used_bytes.map(bytes)),
            or_gap(gpu.power_watts.map(|w| format!("{w:.0} W"))),
        ];
        figures(&mut inside, y, name, &columns(texts), theme);
    }
}

fn share(gpu: &GpuUse) -> Option<f64> {
    Some(gpu.memory_used_bytes? as f64 / gpu.memory_total_bytes.filter(|t| *t > 0)? as f64)
}

fn disks(pen: &mut Pen<'_>, sample: &SystemSample, theme: &Theme) {
    let mut inside = pen.frame(&[("Storage".to_owned(), theme.strong)], theme.faint);
    let w = inside.width();
    if sample.disks.is_empty() {
        inside.fit(1, 0, w.saturating_sub(2), "No disk of this machine has been read.", theme.dim);
        return;
    }
    let columns = |texts: [String; 5]| -> Vec<(u16, String)> {
        let rooms = [11, if w >= 60 { 11 } else { 0 }, 9, 7, 6];
        let longest = sample.disks.iter().map(|disk| width(&disk.name)).max().unwrap_or(0) as u16 + 3;
        spread(rooms, w, longest).into_iter().zip(texts).collect()
    };
    let taken: u16 = columns(Default::default()).iter().map(|(room, _)| room).sum();
    let name = w.saturating_sub(taken + 2);
    inside.text(1, 0, "disk", theme.dim);
    let heads = ["read", "written", "latency", "queue", "busy"].map(str::to_owned);
    figures(&mut inside, 0, name, &columns(heads), theme);
    let visible = usize::from(inside.height().saturating_sub(1));
    let mut busiest: Vec<&DiskUse> = sample.disks.iter().collect();
    if busiest.len() > visible {
        busiest.sort_by(|a, b| b.read_bytes_per_s.unwrap_or(0.0).total_cmp(&a.read_bytes_per_s.unwrap_or(0.0)));
    }
    for (i, disk) in busiest.iter().take(visible).enumerate() {
        let y = i as u16 + 1;
        inside.fit(1, y, name.saturating_sub(1), &disk.name, theme.text);
        let texts = [
            or_gap(disk.read_bytes_per_s.map(rate)),
            or_gap(disk.written_bytes_per_s.map(rate)),
            or_gap(disk.read_latency_ns.map(|ns| duration(ns as u64))),
            or_gap(disk.queue.map(|q| format!("{q:.1}"))),
            or_gap(disk.busy_percent.map(|p| format!("{p:.0} %"))),
        ];
        figures(&mut inside, y, name, &columns(texts), theme);
    }
}

fn processes(pen: &mut Pen<'_>, sample: &SystemSample, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let mut title: Vec<Run> = vec![("Processes with CUDA or cuFile".to_owned(), theme.strong)];
    let mut counts = Vec::new();
    if sample.hidden_processes > 0 {
        let n = sample.hidden_processes;
        let count = match sample.hidden.as_slice() {
            [one] if n == 1 => format!("{} ({})", one.name, one.pid),
            _ if n == 1 => "one more".to_owned(),
            _ => format!("{n} more"),
        };
        // Root has the rights of all users, but a security module can deny them too.
        let by = if sample.by_root { "denied by the kernel" } else { "hidden from this user" };
        counts.push(format!("  {count} {by}"));
    }
    if sample.unexamined_processes > 0 {
        counts.push(format!("  {} not examined", sample.unexamined_processes));
    }
    // A text that does not fit into the border is left out.
    let mut taken = 34;
    for words in counts {
        if width(&words) + taken <= usize::from(pen.width()) {
            taken += width(&words);
            title.push((words, theme.dim));
        }
    }
    if !ui.screen.filter.is_empty() {
        title.push((format!("  /{}", ui.screen.filter), theme.accent));
    }
    let mut inside = pen.frame(&title, theme.faint);
    let (w, h) = (inside.width(), usize::from(inside.height()));
    let order = order(sample, ui);
    if order.is_empty() {
        let text = if sample.processes.is_empty() {
            "None now. A model server appears here as soon as it has loaded libcuda."
        } else {
            "No process of the table contains this text."
        };
        for (y, line) in wrap(text, w.saturating_sub(3)).iter().take(h).enumerate() {
            inside.text(1, y as u16, line, theme.dim);
        }
        return;
    }
    let wide = w >= 96;
    let columns = |texts: [String; 7]| -> Vec<(u16, String)> {
        // Reads from the page cache are only in the calls, so they are shown before the memory.
        let rooms = match w {
            ..50 => [12, 0, 0, 10, 0, 0, 0],
            50..70 => [11, 11, 0, 10, 0, 0, 0],
            _ => [11, 11, 10, 10, 7, if wide { 8 } else { 0 }, 0],
        };
        rooms.into_iter().zip(texts).collect()
    };
    let taken: u16 = columns(Default::default()).iter().map(|(room, _)| room).sum();
    let access_width = if wide { 19 } else { 0 };
    let name = w.saturating_sub(taken + access_width + 2);
    let sorts = [ProcessSort::Storage, ProcessSort::Calls, ProcessSort::Memory, ProcessSort::Gpu, ProcessSort::Cpu];
    let heads = ["storage", "calls", "memory", "GPU mem", "cpu", "threads", ""].map(str::to_owned);
    inside.text(1, 0, "process", theme.dim);
    inside.hit(0, 0, name, Spot::Column(ProcessSort::Pid as usize));
    let mut end = name;
    for (i, (room, head)) in columns(heads).into_iter().enumerate().filter(|(_, (room, _))| *room > 0) {
        end += room;
        let sort = sorts.get(i).copied();
        let chosen = sort == Some(ui.screen.sort);
        // A sign shows the sort direction, in addition to the colour.
        let sign = if ui.screen.reversed { '▴' } else { '▾' };
        let text = if chosen { format!("{sign}{head}") } else { head };
        inside.right(end, 0, &text, if chosen { theme.accent } else { theme.dim });
        if let Some(sort) = sort {
            inside.hit(0, end.saturating_sub(room), room, Spot::Column(sort as usize));
        }
    }
    if ui.screen.sort == ProcessSort::Pid {
        inside.text(1, 0, if ui.screen.reversed { "▴process" } else { "▾process" }, theme.accent);
    }
    if access_width > 0 {
        inside.text(end + 2, 0, "seen from outside", theme.dim);
    }
    let at = selected(state, ui).and_then(|p| order.iter().position(|o| o.pid == p.pid)).unwrap_or(0);
    let visible = h.saturating_sub(1);
    let first = at.saturating_sub(visible.saturating_sub(2)).min(order.len().saturating_sub(visible));
    // The paths have lines only if all processes are visible with them.
    let paths = w >= WITH_PATHS && order.len() + cufile_users(order.iter().copied()) <= visible;
    let mut next = 1;
    for (i, process) in order.iter().skip(first).take(visible).enumerate() {
        let y = next;
        next += 1;
        if paths && process.cufile.is_some() {
            let mut line = inside.part(10, next, w.saturating_sub(12), 1);
            flow::draw(&mut line, &super::process::path(process, state), ui.ctx.frames, theme);
            next += 1;
        }
        inside.hit(y, 0, w, Spot::Row(process.pid as usize));
        let command = short_command(process);
        let label = format!("{:>7} {command}", process.pid);
        inside.text(1, y, &cut(&label, name.saturating_sub(2)), theme.text);
        let texts = [
            or_gap(process.storage_bytes_per_s.map(rate)),
            or_gap(process.call_bytes_per_s.map(rate)),
            or_gap(process.rss_bytes.map(bytes)),
            or_gap(process.gpu_memory_bytes.map(bytes)),
            or_gap(process.cpu_percent.map(|p| format!("{p:.0} %"))),
            or_gap(process.threads.map(|n| n.to_string())),
            String::new(),
        ];
        let end = figures(&mut inside, y, name, &columns(texts), theme);
        if access_width > 0 {
            let style = if process.route == SeenRoute::Unknown { theme.dim } else { theme.text };
            inside.fit(end + 2, y, access_width, top::method(process.route), style);
        }
        if first + i == at {
            inside.restyle(0, y, w, 1, theme.selected);
            inside.cell(0, y, '▸', theme.accent);
        }
    }
    let mut below = inside.part(0, 1, w, visible as u16);
    sheet::scrollbar(&mut below, order.len(), first, theme);
}

/// The program name and the arguments without directory names, which are not needed to distinguish processes.
fn short_command(process: &ProcessUse) -> String {
    let mut words = process.command.split_whitespace();
    let Some(program) = words.next() else { return process.name.clone() };
    let program =
        Path::new(program).file_name().map_or_else(|| program.to_owned(), |n| n.to_string_lossy().into_owned());
    words.fold(program, |line, word| format!("{line} {word}"))
}
