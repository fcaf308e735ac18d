//! The activity of disks and GPUs since the System screen was opened.

use super::state::Ui;
use super::time::{self, over_time, series};
use crate::core::SystemSample;
use crate::session::State;
use crate::tui::pen::Pen;
use crate::tui::theme::Theme;
use crate::tui::widgets::series::Series;

/// Minimum height of useful charts in rows.
pub(super) const ROWS: u16 = 9;
/// Maximum number of lines in one chart. More lines could not be distinguished.
const MOST: usize = 4;
const MARKERS: [char; MOST] = ['•', '▪', '◦', '▫'];

const SOON: &str = "Rates need two samples; the second one follows soon.";

/// Draws the charts side by side: storage and, if there are any, the links of the GPUs.
pub(super) fn draw(pen: &mut Pen<'_>, sample: &SystemSample, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let left = if sample.gpus.is_empty() { w } else { w / 2 };
    disks(&mut pen.part(0, 0, left, h), sample, state, ui, theme);
    if left < w {
        links(&mut pen.part(left, 0, w - left, h), sample, state, ui, theme);
    }
}

/// Draws a chart of rates, in the unit of its largest value.
pub(super) fn chart(
    pen: &mut Pen<'_>,
    (title, empty): (&str, &str),
    mut lines: Vec<Series>,
    state: &State,
    ui: &Ui<'_>,
    theme: &Theme,
) {
    let greatest = lines.iter().flat_map(|line| &line.points).map(|p| p.1).fold(0.0, f64::max);
    let (unit, factor) = match greatest {
        g if g >= 1e9 => ("GB/s", 1e9),
        g if g >= 1e6 => ("MB/s", 1e6),
        _ => ("kB/s", 1e3),
    };
    for point in lines.iter_mut().flat_map(|line| &mut line.points) {
        point.1 /= factor;
    }
    let mut inside = pen.frame(&time::title(title, unit, ui, theme), theme.faint);
    time::draw(&mut inside, &lines, empty, state, ui, theme);
}

fn disks(pen: &mut Pen<'_>, sample: &SystemSample, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let mut disks: Vec<_> = sample.disks.iter().collect();
    disks.sort_by(|a, b| b.read_bytes_per_s.unwrap_or(0.0).total_cmp(&a.read_bytes_per_s.unwrap_or(0.0)));
    disks.truncate(MOST);
    // The disks are sorted by name, so that a line keeps its colour when their order by rate changes.
    disks.sort_by(|a, b| a.name.cmp(&b.name));
    let lines: Vec<Series> = disks
        .iter()
        .enumerate()
        .map(|(i, disk)| {
            let read = |sample: &SystemSample| sample.disks.iter().find(|d| d.name == disk.name)?.read_bytes_per_s;
            series(&disk.name, MARKERS[i % MOST], i, over_time(state, ui, read), theme)
        })
        .collect();
    chart(pen, ("Read from storage", SOON), lines, state, ui, theme);
}

fn links(pen: &mut Pen<'_>, sample: &SystemSample, state: &State, ui: &Ui<'_>, theme: &Theme) {
    let lines: Vec<Series> = sample
        .gpus
        .iter()
        .take(MOST)
        .enumerate()
        .map(|(i, gpu)| {
            let come = |sample: &SystemSample| sample.gpus.iter().find(|g| g.index == gpu.index)?.rx_bytes_per_s;
            series(&format!("GPU {}", gpu.index), MARKERS[i], i, over_time(state, ui, come), theme)
        })
        .collect();
    chart(pen, ("Into the GPUs over PCIe", SOON), lines, state, ui, theme);
}
