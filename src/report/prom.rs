//! The report in the text format of Prometheus, for a textfile collector: base units, as its conventions want (seconds, bytes, ratios).

use crate::domain::{Route, Status};
use crate::present::SessionAnalysis;
use crate::session::State;
use std::io::{self, Write};

/// A value in quotes: backslash, quote and line feed are escaped.
fn quoted(text: &str) -> String {
    format!("\"{}\"", crate::text::sanitise_line(text).replace('\\', "\\\\").replace('"', "\\\""))
}

fn family<W: Write>(out: &mut W, name: &str, help: &str, series: &[(String, f64)]) -> io::Result<()> {
    let series: Vec<&(String, f64)> = series.iter().filter(|(_, value)| value.is_finite()).collect();
    if series.is_empty() {
        return Ok(());
    }
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge")?;
    for (labels, value) in series {
        writeln!(out, "{name}{{{labels}}} {value}")?;
    }
    Ok(())
}

/// Writes the medians of the runs, the checks and the verdicts. Unknown values are absent.
pub(super) fn write(state: &State, mut out: impl Write) -> io::Result<()> {
    let analysis = SessionAnalysis::new(state);
    let (mut wall, mut setup, mut rate, mut ratio, mut verified) = (vec![], vec![], vec![], vec![], vec![]);
    for group in analysis.comparisons.iter().map(|comparison| &comparison.group) {
        for s in &group.engines {
            let labels = format!(
                "engine={},cache=\"{}\",model={},target={}",
                quoted(&s.engine.to_string()),
                group.cache,
                quoted(&group.model),
                quoted(&group.target)
            );
            wall.push((labels.clone(), s.wall_ns as f64 / 1e9));
            setup.push((labels.clone(), s.setup_ns as f64 / 1e9));
            rate.push((labels.clone(), s.bytes_per_s));
            if !s.in_doubt {
                ratio.push((labels.clone(), s.ratio_to_fastest));
            }
            verified.extend(s.verified.map(|v| (labels, f64::from(u8::from(v)))));
        }
    }
    family(&mut out, "gds_top_load_seconds", "Median wall time of a load.", &wall)?;
    family(
        &mut out,
        "gds_top_setup_seconds",
        "Median time from the start of the process to that of the load.",
        &setup,
    )?;
    family(&mut out, "gds_top_load_bytes_per_second", "Median rate of a load.", &rate)?;
    family(&mut out, "gds_top_load_ratio_to_fastest", "Wall time over that of the fastest engine.", &ratio)?;
    family(&mut out, "gds_top_load_verified", "1 if every byte on the target equals the file.", &verified)?;
    let mut overhead = vec![];
    for (lane, cost) in analysis.costs() {
        // Several models or targets are as many series.
        let Some(run) = lane.good() else { continue };
        let labels = format!(
            "engine={},cache=\"{}\",model={},target={}",
            quoted(&lane.lane.engine.to_string()),
            lane.lane.cache,
            quoted(&run.model),
            quoted(&run.target)
        );
        if !overhead.iter().any(|(known, _)| *known == labels) {
            overhead.push((labels, cost.per_tensor_ns() / 1e9));
        }
    }
    family(
        &mut out,
        "gds_top_tensor_overhead_seconds",
        "Overhead per tensor, which does not depend on its size.",
        &overhead,
    )?;
    let mut checks = vec![];
    for (name, status) in [
        ("pass", Status::Pass),
        ("info", Status::Info),
        ("warn", Status::Warn),
        ("fail", Status::Fail),
        ("na", Status::Na),
    ] {
        let count = state.checks.iter().filter(|f| f.status == status).count();
        if !state.checks.is_empty() {
            checks.push((format!("status=\"{name}\""), count as f64));
        }
    }
    family(&mut out, "gds_top_checks", "Checks by outcome.", &checks)?;
    let mut routes = vec![];
    for v in &state.verdicts {
        for route in Route::DIRECT.into_iter().chain([Route::Compat, Route::None]) {
            let (path, gpu) = (quoted(&v.path.to_string_lossy()), quoted(v.gpu.as_deref().unwrap_or("")));
            let labels = format!("path={path},gpu={gpu},route=\"{route}\",proven=\"{}\"", v.proven);
            routes.push((labels, f64::from(u8::from(route == v.route))));
        }
    }
    family(&mut out, "gds_top_route", "1 for the route that a cuFile read of the path takes.", &routes)
}
