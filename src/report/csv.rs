//! The report as CSV tables (RFC 4180) for spreadsheets and data frames: results, runs, tensors and samples. The
//! column names contain the units. An empty cell is a missing value.

use crate::core::{Grid, Metric, PHASES};
use crate::present::SessionAnalysis;
use crate::present::table::COLUMNS;
use crate::session::{Lane, State};
use crate::text::CsvRows;
use std::collections::BTreeSet;
use std::io::{self, Write};

pub(super) fn cell<T: ToString>(value: Option<T>) -> String {
    value.map_or(String::new(), |v| v.to_string())
}

fn real(value: Option<f64>) -> String {
    cell(value.filter(|v| v.is_finite()))
}

/// The part or the model of a run; empty if the session has only one.
fn share(lane: &Lane) -> String {
    lane.share.as_ref().map_or_else(String::new, |share| {
        let together = if share.group.is_some() && share.part.is_none() { ", together" } else { "" };
        format!("{}{together}", share.label(&lane.target))
    })
}

/// Writes one row per engine of a group, with the raw values of the results table.
pub(super) fn results(state: &State, out: impl Write) -> io::Result<()> {
    let mut rows = CsvRows::new(out);
    let values = || COLUMNS.iter().flat_map(|column| column.raw);
    rows.put(&["model", "target", "cache"].into_iter().chain(values().map(|(name, _)| *name)).collect::<Vec<_>>())?;
    for comparison in crate::present::comparisons(state) {
        let group = &comparison.group;
        let key = [group.model.clone(), group.target.to_string(), group.cache.to_string()];
        for row in comparison.rows() {
            rows.put(&key.iter().cloned().chain(values().map(|(_, value)| value(&row))).collect::<Vec<_>>())?;
        }
    }
    rows.flush()
}

/// Writes one row per run.
pub(super) fn runs(state: &State, out: impl Write) -> io::Result<()> {
    let analysis = SessionAnalysis::new(state);
    let mut rows = CsvRows::new(out);
    let mut head: Vec<String> = [
        "lane",
        "share",
        "engine",
        "model",
        "cache",
        "cache_resident_before_fraction",
        "target",
        "repeat",
        "bytes",
        "wall_ns",
        "setup_ns",
        "bytes_per_s",
        "verified",
        "route",
        "route_proven",
        "nvfs_reads",
        "p2p_reads",
        "posix_reads",
        "route_source",
        "slots",
        "host_peak_bytes",
        "pinned_peak_bytes",
        "gpu_peak_bytes",
        "cpu_ns",
        "error",
    ]
    .map(str::to_owned)
    .to_vec();
    head.extend(PHASES.iter().map(|p| format!("{}_ns", p.name())));
    rows.put(&head)?;
    for report in &analysis.runs {
        let (lane, r) = (report.lane, report.lane.result.as_deref());
        let route = r.and_then(|r| r.route.as_ref());
        let mut cells = vec![
            lane.id.0.to_string(),
            share(lane),
            lane.engine.to_string(),
            cell(r.map(|r| &r.model)),
            lane.cache.to_string(),
            real(r.and_then(|r| r.cache_resident_before_fraction)),
            r.map_or_else(|| lane.target.to_string(), |r| r.target.to_string()),
            lane.repeat.to_string(),
            cell(r.map(|r| r.bytes)),
            cell(r.map(|r| r.wall_ns)),
            cell(r.map(|r| r.setup_ns)),
            real(r.filter(|r| r.wall_ns > 0).map(|r| r.bytes_per_s)),
            cell(r.and_then(|r| r.verified)),
            cell(route.map(|c| c.route)),
            cell(route.map(|c| c.proven)),
            cell(route.and_then(|c| c.nvfs_reads)),
            cell(route.and_then(|c| c.p2p_reads)),
            cell(route.and_then(|c| c.posix_reads)),
            cell(route.map(|c| &c.source)),
            cell(r.map(|r| r.slots)),
            cell(r.and_then(|r| r.host_peak_bytes)),
            cell(r.and_then(|r| r.pinned_peak_bytes)),
            cell(r.and_then(|r| r.gpu_peak_bytes)),
            cell(r.and_then(|r| r.cpu_ns)),
            cell(lane.error()),
        ];
        cells.extend(PHASES.iter().map(|p| cell(r.map(|r| r.phases.get(*p)))));
        rows.put(&cells)?;
    }
    rows.flush()
}

/// Writes one row per run of a workload.
pub(super) fn workloads(state: &State, out: impl Write) -> io::Result<()> {
    let mut rows = CsvRows::new(out);
    rows.put(&[
        "lane",
        "cache",
        "repeat",
        "shape",
        "tokens",
        "batch",
        "operations",
        "operation_bytes",
        "busy_ns",
        "busy_bytes_per_s",
        "busy_fraction",
        "latency_p50_ns",
        "latency_p90_ns",
        "latency_p99_ns",
        "latency_max_ns",
        "lookups",
        "hits",
        "hit_rate_fraction",
        "lookup_ns",
        "handle_cache_limit",
        "handle_cache_hits",
        "handle_cache_misses",
        "handle_cache_evictions",
        "handle_registrations",
        "buffer_registrations",
        "evicted_chunks",
        "fallbacks",
        "computed_ns",
        "hidden_fraction",
    ])?;
    for (r, w) in crate::present::workload::runs(state) {
        let (latency, handles) = (w.latency_ns, w.handle_cache);
        rows.put(&[
            r.engine.to_string(),
            r.cache.to_string(),
            r.repeat.to_string(),
            w.shape.clone(),
            w.tokens.to_string(),
            w.batch.to_string(),
            w.operations.to_string(),
            w.operation_bytes.to_string(),
            w.busy_ns.to_string(),
            real(w.busy_bytes_per_s),
            real(w.busy_fraction),
            cell(latency.map(|l| l.p50)),
            cell(latency.map(|l| l.p90)),
            cell(latency.map(|l| l.p99)),
            cell(latency.map(|l| l.max)),
            cell(w.lookups),
            cell(w.hits),
            real(w.hit_rate_fraction),
            cell(w.lookup_ns),
            cell(handles.map(|h| h.limit)),
            cell(handles.map(|h| h.hits)),
            cell(handles.map(|h| h.misses)),
            cell(handles.map(|h| h.evictions)),
            w.handle_registrations.to_string(),
            w.buffer_registrations.to_string(),
            cell(w.evicted_chunks),
            w.fallbacks.iter().map(|f| format!("{} {}", f.reason, f.operations)).collect::<Vec<_>>().join("; "),
            cell(w.computed_ns),
            real(w.hidden_fraction),
        ])?;
    }
    rows.flush()
}

/// Writes one row per layer of a read layer by layer.
pub(super) fn layers(state: &State, out: impl Write) -> io::Result<()> {
    let mut rows = CsvRows::new(out);
    rows.put(&[
        "lane",
        "cache",
        "repeat",
        "layer",
        "load_start_ns",
        "load_ns",
        "compute_start_ns",
        "compute_ns",
        "wait_ns",
    ])?;
    for (r, w) in crate::present::workload::runs(state) {
        for (number, layer) in w.layers.iter().enumerate() {
            let times = [layer.load_start_ns, layer.load_ns, layer.compute_start_ns, layer.compute_ns, layer.wait_ns]
                .map(|n| n.to_string());
            let mut cells = vec![r.engine.to_string(), r.cache.to_string(), r.repeat.to_string(), number.to_string()];
            cells.extend(times);
            rows.put(&cells)?;
        }
    }
    rows.flush()
}

/// Writes one row per tensor and run.
pub(super) fn tensors(state: &State, out: impl Write) -> io::Result<()> {
    let analysis = SessionAnalysis::new(state);
    let mut rows = CsvRows::new(out);
    let mut head: Vec<String> =
        ["lane", "engine", "cache", "repeat", "name", "shard", "bytes", "file_offset", "aligned", "start_ns", "end_ns"]
            .map(str::to_owned)
            .to_vec();
    head.extend(PHASES.iter().map(|p| format!("{}_ns", p.name())));
    rows.put(&head)?;
    for lane in &analysis.runs {
        let Some(model) = state.model_of(lane.lane) else { continue };
        let (lane_id, engine) = (lane.lane.id.0.to_string(), lane.lane.engine.to_string());
        let (cache, repeat) = (lane.lane.cache.to_string(), lane.lane.repeat.to_string());
        for row in &lane.rows {
            let Some(tensor) = model.tensors.get(row.tensor as usize) else { continue };
            let mut cells = vec![
                lane_id.clone(),
                engine.clone(),
                cache.clone(),
                repeat.clone(),
                tensor.name.clone(),
                tensor.shard.to_string(),
                row.bytes.to_string(),
                row.file_offset.to_string(),
                row.aligned.to_string(),
                cell(row.start_ns),
                cell(row.end_ns),
            ];
            cells.extend(PHASES.iter().map(|p| row.phases.get(*p).to_string()));
            rows.put(&cells)?;
        }
    }
    rows.flush()
}

/// Writes one row per sample, with one column per meter that has readings.
pub(super) fn samples(state: &State, out: impl Write) -> io::Result<()> {
    let mut rows = CsvRows::new(out);
    let meters: BTreeSet<Metric> = state.samples.iter().flat_map(|s| s.readings().map(|(metric, _)| metric)).collect();
    let mut head = vec!["at_ns".to_owned(), "lane".to_owned()];
    head.extend(meters.iter().map(|m| super::common::metric_name(*m)));
    rows.put(&head)?;
    for timed in &state.samples {
        let mut cells = vec![timed.at_ns.to_string(), cell(timed.lane.map(|l| l.0))];
        cells.extend(meters.iter().map(|m| real(timed.get(*m))));
        rows.put(&cells)?;
    }
    rows.flush()
}

/// Writes one row per cell of a grid.
pub(super) fn grid(grid: &Grid, out: impl Write) -> io::Result<()> {
    let mut rows = CsvRows::new(out);
    rows.put(&[
        "transfer",
        "access",
        "pattern",
        "block_bytes",
        "threads",
        "bytes",
        "operations",
        "wall_ns",
        "bytes_per_s",
        "p50_ns",
        "p90_ns",
        "p99_ns",
        "max_ns",
        "cpu_ns",
        "setup_ns",
        "route",
        "route_proven",
        "checked_bytes",
        "verified",
        "error",
    ])?;
    for r in grid.results.iter().flatten() {
        let (latency, route) = (r.latency_ns, r.route.as_ref());
        rows.put(&[
            r.key.transfer.to_string(),
            r.key.access.to_string(),
            r.key.pattern.to_string(),
            r.key.block_bytes.to_string(),
            r.key.threads.to_string(),
            r.bytes.to_string(),
            r.operations.to_string(),
            r.wall_ns.to_string(),
            real(r.bytes_per_s),
            cell(latency.map(|l| l.p50)),
            cell(latency.map(|l| l.p90)),
            cell(latency.map(|l| l.p99)),
            cell(latency.map(|l| l.max)),
            cell(r.cpu_ns),
            r.setup_ns.to_string(),
            cell(route.map(|counts| counts.route)),
            cell(route.map(|counts| counts.proven)),
            r.checked_bytes.to_string(),
            cell(r.verified()),
            cell(r.error.as_ref()),
        ])?;
    }
    rows.flush()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::core::grid_testdata::to_quote;

    #[test]
    fn tables_for_spreadsheets_quote_what_people_wrote() {
        let mut out = Vec::new();
        super::grid(&to_quote(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 3);
        let columns = text.lines().next().unwrap().split(',').count();
        assert_eq!(text.lines().nth(2).unwrap().split(',').count(), columns);
        assert!(text.contains("\"it broke, \"\"badly\"\"\""));
    }
}
