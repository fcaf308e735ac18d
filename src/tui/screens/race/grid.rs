//! The Race screen of a storage measurement: which rate does the storage of this directory reach, by transfer and block
//! size?
//!
//! ```text
//!  Reads: 3.18 GB/s at best, by cpu, 1 MiB blocks, 4 threads, sequential …
//! ╭ sequential read ── GB/s ───────────────────────────────╮
//! │          gds-registered    gds               cpu       │
//! │  threads  1     4     16    1     4     16    1        │
//! │ 4 KiB    0.02  0.08  0.3   …                          │
//! ╰────────────────────────────────────────────────────────╯
//! ```

use crate::analysis::{GridTable, grid_tables, rate_range, warmth};
use crate::core::{Access, CellKey, Grid, Status, Transfer, units};
use crate::present::{Answer, grid as words, headline as answers};
use crate::session::State;
use crate::tui::clicks::Spot;
use crate::tui::pen::{Pen, width, wrap};
use crate::tui::theme::Theme;
use crate::tui::widgets::bars;
use crate::tui::widgets::headline;
use ratatui::style::{Modifier, Style};

/// Width in columns of the block sizes, and of the space between two transfers.
const LABEL: u16 = 10;
const GAP: u16 = 2;
/// Minimum and maximum width of a cell in columns, and its maximum height in rows.
const CELL: u16 = 6;
const WIDEST: u16 = 18;
const TALLEST: u16 = 4;
/// Columns and rows of a table in addition to its cells.
const BESIDE: u16 = LABEL + 3;
const ABOVE: u16 = 4;
/// Number of rows for the scale and the text about the cell.
const FOOT: u16 = 4;

/// Draws the screen. `cell` is the index of the cell under the cursor, counted row by row through all tables.
pub(crate) fn draw(pen: &mut Pen<'_>, state: &State, grid: &Grid, cell: Option<usize>, theme: &Theme) {
    let (w, h) = (pen.width(), pen.height());
    let airy = h >= 26;
    let mut y = u16::from(airy);
    let all = words::answers(grid);
    let first = all.first().cloned().unwrap_or_else(|| answers::grid_waits(state, grid));
    y += headline::draw(&mut pen.part(0, y, w, 3), &first.into(), theme);
    if let Some((share, words)) = words::progress(grid) {
        let bar = w.saturating_sub(8).min(24);
        bars::bar(pen, 3, y, bar, share, ('█', theme.accent), ('░', theme.faint));
        pen.fit(4 + bar, y, w.saturating_sub(6 + bar), &words, theme.dim);
        y += 1;
    }
    for line in
        all.iter().skip(1).map(Answer::text).take(if airy { 4 } else { usize::from(grid.running.is_none() && h >= 17) })
    {
        for line in wrap(&line, w.saturating_sub(5)).iter().take(2) {
            pen.text(3, y, line, theme.dim);
            y += 1;
        }
    }
    y += u16::from(airy);
    let tables = grid_tables(grid);
    let keys = cursor_order(grid);
    let cursor = selected(grid, cell).and_then(|at| keys.get(at)).copied();
    let meanings = tables.first().map_or(0, |table| meaning_rows(&table.transfers, w));
    // The explanation of the transfer names is below the tables, if there is space for it.
    let explained = airy && h > y + FOOT + meanings + 12;
    let room = h.saturating_sub(y + FOOT + if explained { meanings } else { 0 });
    let Some(sizes) = tables.first().map(|table| Sizes::new(table, tables.len(), (w, room), cursor)) else { return };
    let per_page = sizes.across * sizes.down;
    let page = cursor.and_then(|key| holding(&tables, &key)).unwrap_or(0) / per_page * per_page;
    for (i, table) in tables.iter().skip(page).take(per_page).enumerate() {
        let (x, below) = ((i % sizes.across) as u16 * sizes.table.0, (i / sizes.across) as u16 * sizes.table.1);
        let part = &mut pen.part(x, y + below, sizes.table.0.min(w), sizes.table.1.min(room.saturating_sub(below)));
        let first = (page + i) * table.blocks.len() * table.columns().count();
        draw_table(part, (grid, table, first), &sizes, cursor, theme);
    }
    if let Some(table) = tables.first().filter(|_| explained) {
        meaning(&mut pen.part(0, h.saturating_sub(FOOT + meanings), w, meanings), &table.transfers, theme);
    }
    let foot = &mut pen.part(0, h.saturating_sub(FOOT), w, FOOT);
    let pages = (tables.len() > per_page).then(|| {
        if w >= 100 {
            format!("{per_page} of {} tables, ↑↓ for the others", tables.len())
        } else {
            format!("table {} of {} ↑↓", page + 1, tables.len())
        }
    });
    scale(foot, grid, pages.as_deref(), theme);
    if let Some(key) = cursor {
        describe(&mut foot.part(0, 1, w, FOOT - 1), grid, &key, theme);
    }
}

/// Number of transfers per line of the explanations.
const fn meanings_across(w: u16) -> usize {
    if w >= 116 { 2 } else { 1 }
}

fn meaning_rows(transfers: &[Transfer], w: u16) -> u16 {
    transfers.len().div_ceil(meanings_across(w)) as u16 + 1
}

fn meaning(pen: &mut Pen<'_>, transfers: &[Transfer], theme: &Theme) {
    let across = meanings_across(pen.width());
    let each = pen.width().saturating_sub(3) / across as u16;
    for (i, transfer) in transfers.iter().enumerate() {
        let (x, y) = ((i % across) as u16 * each + 3, (i / across) as u16);
        pen.text(x, y, transfer.name(), theme.accent);
        pen.fit(x + 16, y, each.saturating_sub(17), transfer.meaning(), theme.dim);
    }
}

/// The size of the cells, and the visible cells.
struct Sizes {
    /// Columns and rows of a cell.
    cell: (u16, u16),
    /// Columns and rows of a table including its border.
    table: (u16, u16),
    across: usize,
    down: usize,
    /// The visible columns and rows.
    columns: std::ops::Range<usize>,
    rows: std::ops::Range<usize>,
}

impl Sizes {
    /// Finds the arrangement with the largest cells that shows all tables. If there is none, it shows as many tables
    /// as fit. If a table is larger than the screen, it shows the part around the cursor.
    fn new(table: &GridTable, tables: usize, (w, h): (u16, u16), cursor: Option<CellKey>) -> Self {
        let count = table.columns().count().max(1);
        let blocks = table.blocks.len().max(1);
        let gaps = table.transfers.len().saturating_sub(1) as u16 * GAP;
        let of = |cell: (u16, u16), columns: usize, rows: usize| {
            (BESIDE + gaps + cell.0 * columns as u16, ABOVE + cell.1 * rows as u16)
        };
        let mut best: Option<(u16, Self)> = None;
        for across in 1..=tables.max(1) {
            let down = tables.max(1).div_ceil(across);
            let cell_w = (w / across as u16).saturating_sub(BESIDE + gaps) / count as u16;
            let cell_h = (h / down as u16).saturating_sub(ABOVE) / blocks as u16;
            if cell_w < CELL || cell_h < 1 {
                continue;
            }
            let cell = (cell_w.min(WIDEST), cell_h.min(TALLEST));
            let score = cell.0 * cell.1;
            if best.as_ref().is_none_or(|(known, _)| score > *known) {
                let table = of(cell, count, blocks);
                best = Some((score, Self { cell, table, across, down, columns: 0..count, rows: 0..blocks }));
            }
        }
        if let Some((_, sizes)) = best {
            return sizes;
        }
        let fit_columns = usize::from(w.saturating_sub(BESIDE + gaps) / CELL).clamp(1, count);
        // Only complete transfers are shown if at least one fits, because a column with half a name is not useful.
        let each = table.threads.len().max(1);
        let complete = if fit_columns >= each { each } else { 1 };
        let fit_columns = fit_columns / complete * complete;
        let fit_rows = usize::from(h.saturating_sub(ABOVE)).clamp(1, blocks);
        // If only one table is shown, it uses all the space.
        let cell = (
            (w.saturating_sub(BESIDE + gaps) / fit_columns as u16).clamp(CELL, WIDEST),
            (h.saturating_sub(ABOVE) / fit_rows as u16).clamp(1, TALLEST),
        );
        let around = |at: usize, fit: usize, all: usize, by: usize| {
            let first = ((at + 1).saturating_sub(fit).div_ceil(by) * by).min(all - fit);
            first..first + fit
        };
        let column = cursor.and_then(|key| table.columns().position(|c| c == (key.transfer, key.threads))).unwrap_or(0);
        let row = cursor.and_then(|key| table.blocks.iter().position(|b| *b == key.block_bytes)).unwrap_or(0);
        let size = of(cell, fit_columns, fit_rows);
        Self {
            cell,
            table: size,
            across: usize::from(w / size.0.max(1)).max(1),
            down: usize::from(h / size.1.max(1)).max(1),
            columns: around(column, fit_columns, count, complete),
            rows: around(row, fit_rows, blocks, 1),
        }
    }
}

fn holding(tables: &[GridTable], key: &CellKey) -> Option<usize> {
    tables.iter().position(|t| t.access == key.access && t.pattern == key.pattern)
}

/// The cells in the order of the cursor: table by table, row by row.
pub(crate) fn cursor_order(grid: &Grid) -> Vec<CellKey> {
    let row =
        |table: &GridTable, block: u64| table.columns().map(|column| table.key(block, column)).collect::<Vec<_>>();
    grid_tables(grid)
        .iter()
        .flat_map(|table| table.blocks.iter().flat_map(|block| row(table, *block)).collect::<Vec<_>>())
        .collect()
}

/// Number of cells in a row.
pub(crate) fn columns(grid: &Grid) -> usize {
    grid_tables(grid).first().map_or(1, |table| table.columns().count()).max(1)
}

/// The index of the cell under the cursor: the user's choice, or else the running cell, or else the fastest one.
pub(crate) fn selected(grid: &Grid, cell: Option<usize>) -> Option<usize> {
    let keys = cursor_order(grid);
    let at = |key: &CellKey| keys.iter().position(|k| k == key);
    match cell {
        Some(chosen) => Some(chosen.min(keys.len().checked_sub(1)?)),
        None => grid
            .running
            .and_then(|cell| at(grid.plan.cells.get(cell as usize)?))
            // This is the cell that the headline names first.
            .or_else(|| at(&grid.best(|key| key.access == Access::Read)?.key))
            .or_else(|| at(&grid.best(|_| true)?.key))
            .or((!keys.is_empty()).then_some(0)),
    }
}

/// Draws a table. `first` is the index of its first cell in the order of the cursor.
fn draw_table(
    pen: &mut Pen<'_>,
    (grid, table, first): (&Grid, &GridTable, usize),
    sizes: &Sizes,
    cursor: Option<CellKey>,
    theme: &Theme,
) {
    let all = table.columns().count();
    let mut title = vec![(words::title(table), theme.strong), (" ── GB/s".to_owned(), theme.dim)];
    if sizes.columns.len() < all {
        let part = format!(" ── columns {} to {} of {all}", sizes.columns.start + 1, sizes.columns.end);
        title.push((part, theme.dim));
    }
    let mut inside = pen.frame(&title, theme.faint);
    inside.right(LABEL - 1, 1, "threads", theme.dim);
    let range = rate_range(grid).unwrap_or_default();
    let running = grid.running.and_then(|cell| grid.plan.cells.get(cell as usize)).copied();
    // Between two cells, the last cell that ran already has its result.
    let running = running.filter(|key| grid.result(key).is_none());
    let (wide, tall) = sizes.cell;
    let shown = || table.blocks.iter().enumerate().skip(sizes.rows.start).take(sizes.rows.len());
    let top = |row: usize| (row - sizes.rows.start) as u16 * tall + 2;
    for (row, block) in shown() {
        inside.right(LABEL - 1, top(row) + (tall - 1) / 2, &units::bytes(*block), theme.text);
    }
    let mut x = LABEL;
    let per_transfer = table.threads.len().max(1);
    for (i, column) in table.columns().enumerate().skip(sizes.columns.start).take(sizes.columns.len()) {
        if i > sizes.columns.start && i.is_multiple_of(per_transfer) {
            x += GAP;
        }
        if i == sizes.columns.start || i.is_multiple_of(per_transfer) {
            let left = (per_transfer - i % per_transfer).min(sizes.columns.end - i) as u16;
            inside.fit(x, 0, (wide * left + GAP).saturating_sub(1), &column.0.to_string(), theme.accent);
        }
        inside.right(x + wide - 1, 1, &column.1.to_string(), theme.dim);
        for (row, block) in shown() {
            let key = table.key(*block, column);
            let style = cell_style(grid, &key, range, theme);
            let text = if running == Some(key) { "▸".to_owned() } else { words::cell(grid, &key) };
            for line in 0..tall {
                let y = top(row) + line;
                inside.text(x, y, &" ".repeat(usize::from(wide)), style);
                inside.hit(y, x, wide, Spot::Row(first + row * all + i));
            }
            let y = top(row) + (tall - 1) / 2;
            let bold = if cursor == Some(key) { style.add_modifier(Modifier::BOLD) } else { style };
            inside.right(x + wide - 1, y, &text, bold);
            if cursor == Some(key) {
                if theme.mono {
                    inside.restyle(x, top(row), wide, tall, Style::new().add_modifier(Modifier::REVERSED));
                }
                inside.cell(x, y, '[', bold);
                inside.cell(x + wide - 1, y, ']', bold);
            }
        }
        x += wide;
    }
}

/// Draws the legend of the colours, from the slowest to the fastest rate on a logarithmic scale.
fn scale(pen: &mut Pen<'_>, grid: &Grid, more: Option<&str>, theme: &Theme) {
    let w = pen.width();
    let mut x = 3;
    if let Some((least, best)) = rate_range(grid)
        && !theme.mono
        && w >= 60
    {
        x = pen.text(x, 0, &units::rate(least), theme.dim) + 1;
        let columns = if w >= 100 { 24 } else { 12 };
        for i in 0..columns {
            pen.cell(x + i, 0, ' ', theme.heat(f64::from(i) / f64::from(columns - 1)));
        }
        x = pen.text(x + columns + 1, 0, &units::rate(best), theme.dim) + 2;
        if w >= 100 {
            x = pen.text(x, 0, "logarithmic scale", theme.dim) + 2;
        }
    }
    let failed = grid.results.iter().flatten().any(|result| result.error.is_some());
    let words = [failed.then_some("✖ failed"), more];
    for word in words.into_iter().flatten() {
        x = pen.fit(x, 0, w.saturating_sub(x + 1), word, theme.dim) + 2;
    }
}

/// The background of a cell, which shows its rate. Without colours, the weight of the text shows it.
fn cell_style(grid: &Grid, key: &CellKey, range: (f64, f64), theme: &Theme) -> Style {
    let Some(result) = grid.result(key) else { return theme.faint };
    if result.error.is_some() {
        return theme.status(Status::Fail);
    }
    let warmth = warmth(result.bytes_per_s.unwrap_or(0.0), range);
    theme.heat(warmth)
}

/// Draws the text about the cell under the cursor.
fn describe(pen: &mut Pen<'_>, grid: &Grid, key: &CellKey, theme: &Theme) {
    let w = pen.width();
    let mut lines = words::details(grid, key);
    if lines.iter().any(|line| width(line) + 5 > usize::from(w)) {
        lines = words::short_details(grid, key);
    }
    for (y, line) in lines.iter().enumerate() {
        pen.fit(3, y as u16, w.saturating_sub(5), line, if y == 0 { theme.text } else { theme.dim });
    }
}

/// The text about the cell under the cursor, for the clipboard.
pub(crate) fn copied(grid: &Grid, cell: Option<usize>) -> Vec<String> {
    let mut lines: Vec<String> = words::answers(grid).iter().take(1).map(Answer::text).collect();
    if let Some(key) = selected(grid, cell).and_then(|at| cursor_order(grid).get(at).copied()) {
        lines.extend(words::details(grid, &key));
    }
    lines
}
