//! The Race screen of a storage measurement: what does the storage under this folder give, in which way and at which size?
//!
//! ```text
//!  Reads: 3.18 GB/s at best, by cpu, 1.00 MiB blocks, 4 threads, sequential …
//! ╭ sequential read ── GB/s ───────────────────────────────╮
//! │          gds-registered    gds               cpu       │
//! │  threads  1     4     16    1     4     16    1        │
//! │ 4.00 KiB  0.02  0.08  0.3   …                          │
//! ╰────────────────────────────────────────────────────────╯
//! ```

use super::environment;
use crate::analysis::{GridTable, cell_text, cell_words, grid_failures, grid_sentences, grid_tables, warmth};
use crate::domain::{CellKey, CellResult, Grid, Status, units};
use crate::session::State;
use crate::tui::app::UiState;
use crate::tui::pen::Pen;
use crate::tui::theme::Theme;
use crate::tui::words::Headline;
use ratatui::style::{Modifier, Style};

/// Columns of the block sizes, of a cell, and between two transfers.
const LABEL: u16 = 10;
const CELL: u16 = 6;
const GAP: u16 = 2;

/// Draws the screen; `ui.race.selected` is the cell under the cursor, counted row by row through the tables.
pub(crate) fn draw(pen: &mut Pen<'_>, state: &State, grid: &Grid, ui: &UiState, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let airy = h >= 26;
    let mut y = u16::from(airy);
    let sentences = grid_sentences(grid);
    let status = match (grid.done(), sentences.is_empty()) {
        (0, _) => Status::Info,
        (_, true) => Status::Fail,
        _ => Status::Pass,
    };
    let text = sentences.first().cloned().unwrap_or_else(|| waiting(state, grid));
    y += environment::headline(&mut pen.part(0, y, w, 3), &Headline { status, text }, theme);
    let progress = grid.running.map(|cell| {
        let key = grid.plan.cells.get(cell as usize).map(|key| format!("{} {}", key.access, cell_words(key)));
        format!("{} of {} cells · now {}", grid.done(), grid.plan.cells.len(), key.unwrap_or_default())
    });
    let more: Vec<&String> = sentences.iter().skip(1).collect();
    for line in progress.iter().chain(more.iter().copied()).take(if airy { 4 } else { 1 }) {
        pen.fit(3, y, w.saturating_sub(5), line, theme.dim);
        y += 1;
    }
    y += u16::from(airy);
    let tables = grid_tables(grid);
    let keys = cursor_order(grid);
    let cursor = selected(grid, ui).and_then(|at| keys.get(at)).copied();
    let foot = 3;
    let room = h.saturating_sub(y + foot);
    let Some(size) = tables.first().map(table_size) else { return };
    // As many side by side as fit; where not all fit, those from the cursor's on are shown.
    let across = (w / size.0.max(1)).max(1) as usize;
    let down = (room / size.1.max(1)).max(1) as usize;
    let first = if across * down >= tables.len() { 0 } else { cursor.and_then(|c| holding(&tables, &c)).unwrap_or(0) };
    for (i, table) in tables.iter().skip(first).take(across * down).enumerate() {
        let (x, below) = ((i % across) as u16 * size.0, (i / across) as u16 * size.1);
        let part = &mut pen.part(x, y + below, size.0.min(w), size.1.min(room.saturating_sub(below)));
        draw_table(part, grid, table, cursor, theme);
    }
    if let Some(key) = cursor {
        describe(&mut pen.part(0, h.saturating_sub(foot), w, foot), grid, &key, theme);
    }
}

fn waiting(state: &State, grid: &Grid) -> String {
    match state.messages.last() {
        Some((_, _, text)) if grid.done() == 0 => text.clone(),
        _ if grid.done() == 0 => format!("Measuring the storage under {} …", grid.plan.dir.display()),
        _ => grid_failures(grid).first().cloned().unwrap_or_else(|| "No cell has ended yet.".to_owned()),
    }
}

/// Columns and rows of a table with its border.
fn table_size(table: &GridTable) -> (u16, u16) {
    let gaps = table.transfers.len().saturating_sub(1) as u16;
    let cells = (table.transfers.len() * table.threads.len()) as u16;
    (LABEL + cells * CELL + gaps * GAP + 3, table.blocks.len() as u16 + 4)
}

fn holding(tables: &[GridTable], key: &CellKey) -> Option<usize> {
    tables.iter().position(|t| t.access == key.access && t.pattern == key.pattern)
}

/// The cells in the order in which the cursor visits them: table by table, row by row.
pub(crate) fn cursor_order(grid: &Grid) -> Vec<CellKey> {
    let row =
        |table: &GridTable, block: u64| table.columns().map(|column| table.key(block, column)).collect::<Vec<_>>();
    grid_tables(grid)
        .iter()
        .flat_map(|table| table.blocks.iter().flat_map(|block| row(table, *block)).collect::<Vec<_>>())
        .collect()
}

/// Cells of a row.
pub(crate) fn columns(grid: &Grid) -> usize {
    grid_tables(grid).first().map_or(1, |table| table.columns().count()).max(1)
}

/// The cell under the cursor: the user's, else the one that runs, else the fastest.
pub(crate) fn selected(grid: &Grid, ui: &UiState) -> Option<usize> {
    let keys = cursor_order(grid);
    let at = |key: &CellKey| keys.iter().position(|k| k == key);
    match ui.race.selected {
        Some(chosen) => Some(chosen.min(keys.len().checked_sub(1)?)),
        None => grid
            .running
            .and_then(|cell| at(grid.plan.cells.get(cell as usize)?))
            .or_else(|| at(&grid.best(|_| true)?.key))
            .or((!keys.is_empty()).then_some(0)),
    }
}

fn draw_table(pen: &mut Pen<'_>, grid: &Grid, table: &GridTable, cursor: Option<CellKey>, theme: &Theme) {
    let title = [(table.title(), theme.strong), (" ── GB/s".to_owned(), theme.dim)];
    let mut inside = pen.frame(&title, theme.faint);
    inside.right(LABEL - 1, 1, "threads", theme.dim);
    let best = grid.best(|_| true).and_then(|r| r.bytes_per_s).unwrap_or(0.0);
    for (y, block) in table.blocks.iter().enumerate() {
        inside.right(LABEL - 1, y as u16 + 2, &units::bytes(*block), theme.text);
    }
    let mut x = LABEL;
    for (i, column) in table.columns().enumerate() {
        if i > 0 && i.is_multiple_of(table.threads.len().max(1)) {
            x += GAP;
        }
        if i.is_multiple_of(table.threads.len().max(1)) {
            let room = (CELL * table.threads.len() as u16).max(CELL);
            inside.fit(x, 0, room + GAP - 1, &column.0.to_string(), theme.accent);
        }
        inside.right(x + CELL - 1, 1, &column.1.to_string(), theme.dim);
        for (y, block) in table.blocks.iter().enumerate() {
            let key = table.key(*block, column);
            let style = cell_style(grid, &key, best, theme);
            let text = if grid.running.and_then(|c| grid.plan.cells.get(c as usize)) == Some(&key) {
                "▸".to_owned()
            } else {
                short(grid, &key)
            };
            let style =
                if cursor == Some(key) { style.add_modifier(Modifier::REVERSED | Modifier::BOLD) } else { style };
            inside.text(x, y as u16 + 2, &format!("{text:>width$} ", width = usize::from(CELL) - 1), style);
        }
        x += CELL;
    }
}

/// A rate that fits a cell.
fn short(grid: &Grid, key: &CellKey) -> String {
    let wrong = grid.result(key).is_some_and(|r| r.verified == Some(false));
    match grid.result(key).filter(|r| r.error.is_none()).and_then(|r| r.bytes_per_s) {
        Some(rate) => {
            let rate = rate / 1e9;
            let digits = if rate < 1.0 { 2 } else { usize::from(rate < 100.0) };
            format!("{rate:.digits$}{}", if wrong { "!" } else { "" })
        }
        None => cell_text(grid, key),
    }
}

/// The heat of a cell as its background; without colours, as weight.
fn cell_style(grid: &Grid, key: &CellKey, best: f64, theme: &Theme) -> Style {
    let Some(result) = grid.result(key) else { return theme.faint };
    if result.error.is_some() {
        return theme.status(Status::Fail);
    }
    let warmth = warmth(result.bytes_per_s.unwrap_or(0.0), best);
    theme.heat(warmth)
}

/// The cell under the cursor in words.
fn describe(pen: &mut Pen<'_>, grid: &Grid, key: &CellKey, theme: &Theme) {
    let w = pen.width();
    let head = format!("{} {}", key.access, cell_words(key));
    let Some(result) = grid.result(key) else {
        pen.fit(3, 0, w.saturating_sub(5), &format!("{head}: not measured yet"), theme.dim);
        return;
    };
    let lines = words(&head, result);
    for (y, line) in lines.iter().enumerate() {
        pen.fit(3, y as u16, w.saturating_sub(5), line, if y == 0 { theme.text } else { theme.dim });
    }
}

fn words(head: &str, result: &CellResult) -> Vec<String> {
    if let Some(why) = &result.error {
        return vec![format!("{head}: failed"), why.clone()];
    }
    let rate = result.bytes_per_s.map_or_else(|| "–".to_owned(), units::rate);
    let verified = match result.verified {
        Some(true) => "last blocks verified",
        Some(false) => "WRONG BYTES",
        None => "not verified",
    };
    let mut lines = vec![format!("{head}: {rate}, {} operations, {verified}", units::count(result.operations))];
    let latency = result.latency_ns.map(|l| {
        format!(
            "latency p50 {}, p90 {}, p99 {}, max {}",
            units::duration(l.p50),
            units::duration(l.p90),
            units::duration(l.p99),
            units::duration(l.max)
        )
    });
    let cpu = result
        .cpu_ns
        .filter(|_| result.wall_ns > 0)
        .map(|ns| format!("CPU {:.0} % of one", ns as f64 * 100.0 / result.wall_ns as f64));
    lines.push(latency.into_iter().chain(cpu).collect::<Vec<_>>().join(" · "));
    if let Some(route) = &result.route {
        let proven = if route.proven { "proven" } else { "not proven" };
        lines.push(format!("route {}, {proven}: {}", route.route, route.source));
    }
    lines
}
