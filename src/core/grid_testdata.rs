//! Example grids for tests. The numbers are made up.

use super::{Access, CellResult, Grid, GridPlan, Pattern, Percentiles, Transfer};

fn empty(dir: &str, file_bytes: u64, transfers: &[Transfer]) -> Grid {
    let cells = GridPlan::cells_of(transfers, &[Access::Read], &[Pattern::Sequential], &[4096, 65536], &[1, 4]);
    Grid::new(GridPlan { dir: dir.into(), target: "host memory".to_owned(), file_bytes, cell_ns: 1, cells })
}

fn measured(at: CellResult, bytes_per_s: f64, verified: bool) -> CellResult {
    CellResult {
        error: None,
        verified: Some(verified),
        bytes_per_s: Some(bytes_per_s),
        latency_ns: Some(Percentiles { p50: 10_000, p90: 11_000, p99: 12_000, max: 13_000 }),
        ..at
    }
}

/// Eight cells of two transfer methods. One has wrong bytes, one failed, and one was not measured.
pub(crate) fn with_gaps() -> Grid {
    let mut grid = empty("/d", 1 << 30, &[Transfer::GdsRegistered, Transfer::Gds]);
    grid.end();
    for (i, key) in grid.plan.cells.clone().into_iter().enumerate().take(7) {
        let failed = CellResult::failed(key, "it broke");
        let rate = if key.transfer == Transfer::GdsRegistered { 3e9 } else { 2e9 };
        grid.results[i] = Some(if i == 6 { failed } else { measured(failed, rate, i != 1) });
    }
    grid
}

/// A failed and a measured cell whose texts need quotes in files.
pub(crate) fn to_quote() -> Grid {
    let mut grid = empty("/d<", 1, &[Transfer::Cpu]);
    let cells = grid.plan.cells.clone();
    grid.results[0] = Some(CellResult::failed(cells[0], "it broke, \"badly\""));
    grid.results[1] = Some(measured(CellResult::failed(cells[1], ""), 3e9, true));
    grid
}
