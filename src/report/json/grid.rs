//! The grid of storage measurements, for `report.json`.

use crate::core::Grid;
use serde_json::{Value, json};

/// The measured cells and the number of planned cells.
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
    use crate::core::grid_testdata::to_quote;

    #[test]
    fn json_holds_the_measured_cells_and_how_many_were_planned() {
        let value = json(&to_quote());
        assert_eq!((value["planned_cells"].as_u64(), value["cells"].as_array().map(Vec::len)), (Some(4), Some(2)));
        assert!(value["cells"][0]["bytes_per_s"].is_null() && value["cells"][1]["latency_ns"]["p99"] == 12_000);
    }
}
