//! The grid of storage measurements: a heat map for each access and pattern, and the cells that failed.

use crate::analysis::{GridTable, grid_tables, rate_range, warmth};
use crate::core::{CellKey, Grid, units};
use crate::present::grid::{cell, failures, heading, legend, title, tooltip};
use crate::report::section::{Block, HeatCell, HeatTable, Section};
use crate::session::State;

pub(super) fn section(state: &State) -> Option<Section> {
    let grid = state.grid.as_ref()?;
    let section = Section::new(heading(grid))
        .text(legend(grid))
        .block(Block::HeatMap(grid_tables(grid).iter().map(|table| heat(grid, table)).collect()));
    Some(section.block(Block::List(failures(grid))))
}

fn heat(grid: &Grid, table: &GridTable) -> HeatTable {
    let range = rate_range(grid).unwrap_or_default();
    let row = |block: &u64| {
        let cells = table.columns().map(|column| heat_cell(grid, &table.key(*block, column), range));
        (units::bytes(*block), cells.collect())
    };
    HeatTable {
        title: format!("{}, GB/s", title(table)),
        rows_title: "block",
        columns_title: "threads",
        groups: table.transfers.iter().map(ToString::to_string).collect(),
        columns: table.threads.iter().map(ToString::to_string).collect(),
        rows: table.blocks.iter().map(row).collect(),
    }
}

fn heat_cell(grid: &Grid, key: &CellKey, range: (f64, f64)) -> HeatCell {
    let result = grid.result(key);
    let rate = result.filter(|r| r.error.is_none()).map(|r| r.bytes_per_s.unwrap_or(0.0));
    HeatCell {
        text: cell(grid, key),
        warmth: rate.map(|rate| warmth(rate, range)),
        tooltip: result.map(tooltip).unwrap_or_default(),
    }
}
