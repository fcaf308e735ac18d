//! The grid of storage measurements as JSON, as a table for spreadsheets, and as a heat map in HTML.

use super::charts::markup;
use super::words::plain;
use crate::analysis::{GridTable, cell_text, grid_failures, grid_tables, rate_range, warmth};
use crate::domain::{CellKey, Grid, units};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{self, Write};

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
                "cpu_ns": r.cpu_ns, "setup_ns": r.setup_ns, "route": r.route, "verified": r.verified, "error": r.error,
            })
        })
        .collect();
    json!({
        "dir": grid.plan.dir.to_string_lossy(), "target": grid.plan.target, "file_bytes": grid.plan.file_bytes,
        "cell_ns": grid.plan.cell_ns, "planned_cells": grid.plan.cells.len(), "cells": cells,
    })
}

/// One row a cell.
pub(super) fn csv(grid: &Grid, mut out: impl Write) -> io::Result<()> {
    out.write_all(b"transfer,access,pattern,block_bytes,threads,bytes,operations,wall_ns,bytes_per_s,p50_ns,p90_ns,p99_ns,max_ns,cpu_ns,setup_ns,route,route_proven,verified,error\r\n")?;
    for r in grid.results.iter().flatten() {
        let text = |v: Option<String>| v.unwrap_or_default();
        let latency = |f: fn(&crate::domain::Percentiles) -> u64| text(r.latency_ns.as_ref().map(|l| f(l).to_string()));
        let cells = [
            r.key.transfer.to_string(),
            r.key.access.to_string(),
            r.key.pattern.to_string(),
            r.key.block_bytes.to_string(),
            r.key.threads.to_string(),
            r.bytes.to_string(),
            r.operations.to_string(),
            r.wall_ns.to_string(),
            text(r.bytes_per_s.filter(|v| v.is_finite()).map(|v| v.to_string())),
            latency(|l| l.p50),
            latency(|l| l.p90),
            latency(|l| l.p99),
            latency(|l| l.max),
            text(r.cpu_ns.map(|v| v.to_string())),
            r.setup_ns.to_string(),
            text(r.route.as_ref().map(|c| c.route.to_string())),
            text(r.route.as_ref().map(|c| c.proven.to_string())),
            text(r.verified.map(|v| v.to_string())),
            text(r.error.as_ref().map(|e| format!("\"{}\"", plain(e).replace('"', "\"\"")))),
        ];
        out.write_all(cells.join(",").as_bytes())?;
        out.write_all(b"\r\n")?;
    }
    Ok(())
}

/// A heat map for each access and pattern.
pub(super) fn html(page: &mut String, grid: &Grid) {
    let range = rate_range(grid).unwrap_or_default();
    let transfers = grid.plan.axis(|cell| cell.transfer);
    let meanings: Vec<String> = transfers.iter().map(|t| format!("{t}: {}", t.meaning())).collect();
    let _ = write!(
        page,
        "<h2>Storage under {}, into {}</h2><p>GB/s; rows are block sizes. The scale is logarithmic, from the slowest rate to the \
         fastest; ✖ failed, ! wrong bytes, · not measured. {}.</p><div class=\"heats\">",
        markup(&grid.plan.dir.to_string_lossy()),
        markup(&grid.plan.target),
        markup(&meanings.join("; "))
    );
    for table in grid_tables(grid) {
        heat(page, grid, &table, range);
    }
    page.push_str("</div>");
    let failures = grid_failures(grid);
    if !failures.is_empty() {
        page.push_str("<ul>");
        failures.iter().for_each(|why| {
            let _ = write!(page, "<li>{}</li>", markup(why));
        });
        page.push_str("</ul>\n");
    }
}

fn heat(page: &mut String, grid: &Grid, table: &GridTable, range: (f64, f64)) {
    let _ = write!(page, "<table class=\"heat\"><caption>{}</caption><tr><th></th>", table.title());
    for transfer in &table.transfers {
        let _ = write!(page, "<th colspan=\"{}\">{transfer}</th>", table.threads.len());
    }
    page.push_str("</tr><tr><th>threads</th>");
    for (_, threads) in table.columns() {
        let _ = write!(page, "<th>{threads}</th>");
    }
    page.push_str("</tr>");
    for block in &table.blocks {
        let _ = write!(page, "<tr><th>{}</th>", units::bytes(*block));
        for column in table.columns() {
            let key = table.key(*block, column);
            let _ = write!(page, "<td{}>{}</td>", style(grid, &key, range), cell_text(grid, &key));
        }
        page.push_str("</tr>");
    }
    page.push_str("</table>\n");
}

/// Colour and tooltip of a cell.
fn style(grid: &Grid, key: &CellKey, range: (f64, f64)) -> String {
    let Some(result) = grid.result(key) else { return String::new() };
    if let Some(why) = &result.error {
        return format!(" title=\"{}\"", markup(&plain(why)).replace('"', "&quot;"));
    }
    let (r, g, b) = crate::domain::heat_colour(warmth(result.bytes_per_s.unwrap_or(0.0), range));
    // Dark text on the light end of the scale, by the usual weights of the channels.
    let ink = if 0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b) > 140.0 { "#000" } else { "#fff" };
    let latency = result.latency_ns.map_or_else(String::new, |l| {
        format!(
            " title=\"{} operations, p50 {}, p99 {}\"",
            result.operations,
            units::duration(l.p50),
            units::duration(l.p99)
        )
    });
    format!(" style=\"background:rgb({r},{g},{b});color:{ink}\"{latency}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::domain::{Access, CellResult, GridPlan, Pattern, Percentiles, Transfer};

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
    fn tables_for_spreadsheets_quote_what_people_wrote() {
        let mut out = Vec::new();
        csv(&grid(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 3);
        let columns = text.lines().next().unwrap().split(',').count();
        assert_eq!(text.lines().nth(2).unwrap().split(',').count(), columns);
        assert!(text.contains("\"it broke, \"\"badly\"\"\""));
    }

    #[test]
    fn heat_maps_escape_what_others_wrote_and_leave_out_what_is_not_known() {
        let mut page = String::new();
        html(&mut page, &grid());
        assert!(page.contains("/d&lt;") && page.contains("&quot;badly&quot;"), "{page}");
        assert_eq!(page.matches("background:").count(), 1);
        assert!(page.contains("<td>·</td>"));
    }

    #[test]
    fn json_holds_the_measured_cells_and_how_many_were_planned() {
        let value = json(&grid());
        assert_eq!((value["planned_cells"].as_u64(), value["cells"].as_array().map(Vec::len)), (Some(4), Some(2)));
        assert!(value["cells"][0]["bytes_per_s"].is_null() && value["cells"][1]["latency_ns"]["p99"] == 12_000);
    }
}
