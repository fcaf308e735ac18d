//! The layers of a read layer by layer: when each layer was loaded and computed, and for which layers computing had
//! to wait.
//!
//! ```text
//! ╭ Layers ── lmcache/gds/read ── computing is simulated ─────────╮
//! │ 93 % of the loading hides behind computing …                  │
//! │ load     ██████████████████████████                           │
//! │ compute  ▒▒██████▒██████████████████████                      │
//! │          0        ▲                           91.2 ms         │
//! │ ▸ 12        ████▓▓▓▓                                          │
//! │ layer 12: loaded in 1.20 ms, waited for 0.31 ms …             │
//! ╰───────────────────────────────────────────────────────────────╯
//! ```

use super::state::Ui;
use crate::core::{Engine, LayerTimes, Phase, Status, WorkloadResult, units};
use crate::present::{layers as sentences, row_groups};
use crate::session::{Lane, State};
use crate::tui::pen::{Pen, Run};
use crate::tui::selection::selected_entry;
use crate::tui::theme::Theme;
use ratatui::style::Style;

/// Width in columns of the names on the left.
const LABEL: u16 = 9;
/// Number of rows for the border, the two timelines and the text.
const AROUND: u16 = 6;

/// Number of panes that small screens show one at a time: runs, phases, three charts.
const PANES: usize = 5;
/// The number of the pane with the layers of a read.
pub(crate) const LAYERS_PANE: usize = PANES;
/// The number of panes that small screens show now.
pub(super) fn panes(state: &State, ui: &Ui<'_>) -> usize {
    PANES + usize::from(shown(state, ui).is_some())
}

/// A read with its layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read<'s> {
    lane: &'s Lane,
    result: &'s WorkloadResult,
}

/// The read of the selected entry, if it was a read layer by layer.
pub(super) fn shown<'s>(state: &'s State, ui: &Ui<'_>) -> Option<Read<'s>> {
    // This early exit matters, because several keys call the function in every frame.
    if !state.lanes.iter().any(|lane| matches!(lane.engine, Engine::Workload(_))) {
        return None;
    }
    let lanes: Vec<Option<&Lane>> =
        row_groups(state).iter().flat_map(|group| group.rows.iter().map(|entry| entry.typical())).collect();
    let read = |lane: &'s Lane| {
        let result = lane.result.as_deref()?.workload.as_ref()?;
        (!result.layers.is_empty()).then_some(Read { lane, result })
    };
    let at = selected_entry(state, ui.ctx)?;
    let chosen = lanes.get(at).copied().flatten().and_then(read);
    if chosen.is_some() || ui.ctx.entry.is_some() || state.running_lane().is_some() {
        return chosen;
    }
    // Without a selection it is the fastest read from storage, because reads from memory are only a comparison.
    let reads = || lanes.iter().flatten().copied().filter_map(read);
    let wall = |read: &Read<'_>| read.lane.result.as_deref().map_or(u64::MAX, |result| result.wall_ns);
    reads().filter(|read| !read.lane.engine.is_in_memory()).min_by_key(wall).or_else(|| reads().min_by_key(wall))
}

/// Whether the arrow keys move between the layers.
pub(super) fn takes_arrows(ui: &Ui<'_>) -> bool {
    if ui.ctx.small { ui.screen.pane == LAYERS_PANE } else { !ui.screen.charts }
}

/// The layer after the one under the cursor, or the layer before it.
pub(super) fn step(ui: &Ui<'_>, state: &State, forward: bool) -> Option<usize> {
    let read = shown(state, ui)?;
    let (at, last) = (read.cursor(ui), read.result.layers.len() - 1);
    Some(if forward { (at + 1).min(last) } else { at.saturating_sub(1) })
}

impl Read<'_> {
    /// The layer under the cursor: the user's choice, or else the layer with the longest waiting time.
    fn cursor(&self, ui: &Ui<'_>) -> usize {
        let layers = &self.result.layers;
        let longest = || {
            let longest = layers.iter().map(|layer| layer.wait_ns).max()?;
            layers.iter().position(|layer| layer.wait_ns == longest)
        };
        ui.screen.layer.or_else(longest).unwrap_or(0).min(layers.len().saturating_sub(1))
    }

    /// A sentence about the share of loading that computing hides. It has at most `room` columns, unless a word is
    /// longer.
    fn headline(&self, room: u16) -> (Status, String) {
        let (status, texts) = sentences::headline(self.result);
        (status, shortest(texts, room))
    }

    fn end_ns(&self) -> u64 {
        self.result.layers.iter().map(end_of).max().unwrap_or(0).max(1)
    }
}

const fn end_of(layer: &LayerTimes) -> u64 {
    let (load, compute) =
        (layer.load_start_ns.saturating_add(layer.load_ns), layer.compute_start_ns.saturating_add(layer.compute_ns));
    if load > compute { load } else { compute }
}

/// The start and end of a layer's loading, of the waiting for it, and of its computing, in nanoseconds.
fn spans(layer: &LayerTimes) -> [(u64, u64); 3] {
    let compute = layer.compute_start_ns;
    [
        (layer.load_start_ns, layer.load_start_ns.saturating_add(layer.load_ns)),
        (compute.saturating_sub(layer.wait_ns), compute),
        (compute, compute.saturating_add(layer.compute_ns)),
    ]
}

/// Draws the pane.
pub(super) fn draw(pen: &mut Pen<'_>, read: &Read<'_>, ui: &Ui<'_>, theme: &Theme) {
    let title = [
        ("Layers".to_owned(), theme.strong),
        (" ── ".to_owned(), theme.faint),
        (format!("{} {}", theme.marker(&read.lane.engine), read.lane.engine.label()), theme.lane(&read.lane.engine)),
        (" ── computing is simulated".to_owned(), theme.dim),
    ];
    let mut inside = pen.frame(&title, theme.faint);
    let (w, h) = (inside.width(), inside.height());
    if w < LABEL + 12 || h < 4 {
        return;
    }
    let (status, text) = read.headline(w.saturating_sub(4));
    inside.text(1, 0, &status.mark().to_string(), theme.status(status));
    inside.fit(3, 0, w.saturating_sub(4), &text, theme.text);
    let inks = Inks::new(theme);
    let columns = w - LABEL - 2;
    let (end, cursor) = (read.end_ns(), read.cursor(ui));
    let layers = &read.result.layers;
    let all: Vec<[(u64, u64); 3]> = layers.iter().map(spans).collect();
    inside.text(1, 1, "load", theme.dim);
    inside.text(1, 2, "compute", theme.dim);
    timeline(&mut inside.part(LABEL, 1, columns, 1), &all, (0, end), &[(0, inks.load)]);
    timeline(&mut inside.part(LABEL, 2, columns, 1), &all, (0, end), &[(2, inks.compute), (1, inks.wait)]);
    let axis = |pen: &mut Pen<'_>, y: u16, (from, to): (u64, u64)| {
        let from = if from == 0 { "0".to_owned() } else { units::duration(from) };
        pen.text(LABEL, y, &from, theme.dim);
        pen.right(LABEL + columns, y, &units::duration(to), theme.dim);
    };
    axis(&mut inside, 3, (0, end));
    if let Some(layer) = layers.get(cursor) {
        let at = LABEL + column(layer.compute_start_ns, (0, end), columns);
        // If the mark covers a label of the axis, the mark is drawn.
        if at == LABEL {
            inside.text(LABEL, 3, " ", theme.dim);
        }
        inside.cell(at, 3, '▲', theme.accent);
    }
    legend(&mut inside, &inks, w, theme);
    let rows = usize::from(h.saturating_sub(AROUND));
    if rows >= 1 {
        rows_of(&mut inside, &all, (cursor, rows.min(layers.len())), &inks, theme);
    }
    if let Some(layer) = layers.get(cursor).filter(|_| h > 4) {
        let words = sentences::layer(cursor, layers.len(), layer);
        let words = shortest(words, w.saturating_sub(2));
        let style = if layer.wait_ns > 0 { theme.status(Status::Warn) } else { theme.text };
        inside.fit(1, h - 1, w.saturating_sub(2), &words, style);
    }
}

/// The first text that fits into `room` columns, or else the last text.
fn shortest(texts: [String; 3], room: u16) -> String {
    let [complete, short, least] = texts;
    let fits = |text: &String| crate::tui::pen::width(text) <= usize::from(room);
    if fits(&complete) {
        complete
    } else if fits(&short) {
        short
    } else {
        least
    }
}

/// Character and style of loading, computing and waiting.
struct Inks {
    load: (char, Style),
    compute: (char, Style),
    wait: (char, Style),
}

impl Inks {
    fn new(theme: &Theme) -> Self {
        Self {
            load: (theme.phase(Phase::Transfer).1, theme.phase(Phase::Transfer).0),
            compute: (if theme.mono { '▓' } else { '█' }, theme.series(1)),
            wait: ('▒', theme.status(Status::Warn)),
        }
    }
}

fn legend(pen: &mut Pen<'_>, inks: &Inks, w: u16, theme: &Theme) {
    let runs: Vec<Run> = [(inks.load, "loading"), (inks.compute, "computing"), (inks.wait, "waiting")]
        .into_iter()
        .flat_map(|((glyph, style), word)| [(glyph.to_string(), style), (format!(" {word}  "), theme.dim)])
        .collect();
    let width = crate::tui::pen::runs_width(&runs) as u16;
    // The mark has a label between the ends of the axis, if there is space for it.
    if width + 26 < w - LABEL {
        pen.runs(LABEL + (w - LABEL - width) / 2, 3, &runs);
    }
}

/// Draws a row for each layer around the cursor. The rows have a separate time range.
fn rows_of(pen: &mut Pen<'_>, all: &[[(u64, u64); 3]], (cursor, rows): (usize, usize), inks: &Inks, theme: &Theme) {
    let columns = pen.width() - LABEL - 2;
    let first = cursor.saturating_sub(rows / 2).min(all.len().saturating_sub(rows));
    let part = &all[first..(first + rows).min(all.len())];
    let from = part.iter().flatten().map(|(from, _)| *from).min().unwrap_or(0);
    let to = part.iter().flatten().map(|(_, to)| *to).max().unwrap_or(1).max(from + 1);
    for (row, spans) in part.iter().enumerate() {
        let (number, y) = (first + row, row as u16 + 5);
        let style = if number == cursor { theme.accent } else { theme.dim };
        if number == cursor {
            pen.cell(1, y, '▸', theme.accent);
        }
        pen.right(LABEL - 2, y, &number.to_string(), style);
        // Waiting is drawn on top of loading.
        let order = [(0, inks.load), (2, inks.compute), (1, inks.wait)];
        timeline(&mut pen.part(LABEL, y, columns, 1), std::slice::from_ref(spans), (from, to), &order);
    }
    let words = match part.len() {
        shown if shown == all.len() => "each layer".to_owned(),
        1 => format!("layer {first} of {}", all.len()),
        shown => format!("layers {first} to {} of {}", first + shown - 1, all.len()),
    };
    pen.text(1, 4, &format!("{words}, {} to {}", units::duration(from), units::duration(to)), theme.faint_text());
}

/// The column of a time.
fn column(at: u64, (from, to): (u64, u64), columns: u16) -> u16 {
    let share = at.saturating_sub(from) as f64 / to.saturating_sub(from).max(1) as f64;
    ((share * f64::from(columns)) as u16).min(columns.saturating_sub(1))
}

/// Draws a timeline. If several kinds fill a large part of a column, the last of them is drawn. Short spans are
/// always visible.
fn timeline(pen: &mut Pen<'_>, all: &[[(u64, u64); 3]], window: (u64, u64), kinds: &[(usize, (char, Style))]) {
    let columns = pen.width();
    if columns == 0 {
        return;
    }
    let step = window.1.saturating_sub(window.0).max(1) as f64 / f64::from(columns);
    for (kind, (glyph, style)) in kinds {
        let mut filled = vec![0.0_f64; usize::from(columns)];
        for (from, to) in all.iter().map(|spans| spans[*kind]).filter(|(from, to)| to > from) {
            let (a, b) = (from.saturating_sub(window.0) as f64 / step, to.saturating_sub(window.0) as f64 / step);
            // If a span is shorter than a column, the column with its largest part counts as full.
            if b - a < 1.0 {
                let middle = f64::midpoint(a, b) as usize;
                if let Some(cell) = filled.get_mut(middle).filter(|_| b - a > 0.25) {
                    *cell += 1.0;
                }
            }
            let last = (b as usize).min(usize::from(columns) - 1);
            for (at, cell) in filled.iter_mut().enumerate().take(last + 1).skip(a as usize) {
                *cell += (b.min(at as f64 + 1.0) - a.max(at as f64)).max(0.0);
            }
        }
        for (at, _) in filled.iter().enumerate().filter(|(_, share)| **share >= 0.5) {
            pen.cell(at as u16, 0, *glyph, *style);
        }
    }
}
