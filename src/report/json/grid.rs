//! The grid of storage measurements, for `report.json`.

use crate::core::Grid;
use serde_json::{Value, json};

/// The measured cells, and how many were planned.
pub(super) fn json(grid: &Grid) -> Value {
    let number = |v: f64| serde_json::Number::from_f64(v).map_or(Value::Null, Value::Number);
    let cells: Vec<Value> = grid
        .results
        .iter()
        .flatten()
        .map(|r| {
            json!({
                "transfer": r.key.transfer, "access": r.key.access, "pattern": r.key.pattern,
                "block_bytes": r.key.block_bytes, "threads": r.key.threads, "bytes": r.bytes, "operations": r.operations,
                "wall_ns": r.wall_ns, "bytes_per_s": r.bytes_per_s.map_or(Value::Null, number), "latency_ns": r.latency_ns,
                "cpu_ns": r.cpu_ns, "setup_ns": r.setup_ns, "route": r.route, "checked_bytes": r.checked_bytes, "verified": r.verified(), "error": r.error,
            })
        })
        .collect();
    json!({
        "dir": grid.plan.dir.to_string_lossy(), "target": grid.plan.target, "file_bytes": grid.plan.file_bytes,
        "cell_ns": grid.plan.cell_ns, "planned_cells": grid.plan.cells.len(), "cells": cells,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::{Access, CellResult, GridPlan, Pattern, Percentiles, Transfer};

    fn grid() -> Grid {
        let cells =
            GridPlan::cells_of(&[Transfer::Cpu], &[Access::Read], &[Pattern::Sequential], &[4096, 65536], &[1, 4]);
        let plan = GridPlan { dir: "/d<".into(), target: "host memory".to_owned(), file_bytes: 1, cell_ns: 1, cells };
        let mut grid = Grid::new(plan.clone());
        grid.results[0] = Some(CellResult::failed(plan.cells[0], "it broke, \"badly\""));
        grid.results[1] = Some(CellResult {
            error: None,
            verified: Some(true),
            bytes_per_s: Some(3e9),
            latency_ns: Some(Percentiles { p50: 10_000, p90: 11_000, p99: 12_000, max: 13_000 }),
            ..CellResult::failed(plan.cells[1], "")
        });
        grid
    }

    #[test]
    fn json_holds_the_measured_cells_and_how_many_were_planned() {
        let value = json(&grid());
        assert_eq!((value["planned_cells"].as_u64(), value["cells"].as_array().map(Vec::len)), (Some(4), Some(2)));
        assert!(value["cells"][0]["bytes_per_s"].is_null() && value["cells"][1]["latency_ns"]["p99"] == 12_000);
    }
}
