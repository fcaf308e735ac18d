//! The report in the text format of Prometheus, for the textfile collector of node_exporter and for `gds-top export`.
//! Units follow the conventions of Prometheus: seconds, bytes, and ratios from 0 to 1. Unknown values are left out.

use super::common::tool;
use crate::analysis::median;
use crate::core::{Finding, Histogram, ProgramEnd, Route, RunResult, Status, Target, WatchReport};
use crate::present::{SessionAnalysis, ceilings, watch};
use crate::session::{Lane, State};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The type of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that can increase and decrease.
    Gauge,
    /// Cumulative counts by upper bounds.
    Histogram,
}

/// A metric family.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its name with the unit.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Its label names.
    pub labels: &'static [&'static str],
    /// Its help text, which is one sentence.
    pub help: &'static str,
}

pub(super) const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family { name, kind: Kind::Gauge, labels, help }
}

/// The label names of a load. `gpu` is the UUID, or empty for host memory.
const LOAD: &[&str] = &["engine", "cache", "model", "gpu"];
/// The label names of a workload.
const WORKLOAD: &[&str] = &["workload", "variant", "direction", "shape", "gpu"];

const INFO: Family = gauge(
    "gds_top_info",
    &["version", "kernel", "distribution", "driver", "cuda", "libcufile", "nvidia_fs"],
    "Versions on this node; always 1.",
);
const TIMESTAMP: Family =
    gauge("gds_top_timestamp_seconds", &[], "Start of the checks or runs, in seconds since 1970.");
const ROUTE: Family = gauge(
    "gds_top_route",
    &["path", "gpu", "route"],
    "1 for the route that a cuFile read of the path takes, 0 for the others.",
);
const PROVEN: Family = gauge(
    "gds_top_route_proven",
    &["path", "gpu"],
    "1 if reads proved the route, 0 if it was derived from the checks.",
);
const CHECKS: Family = gauge("gds_top_checks", &["status"], "Number of findings by status.");
const SEVERITY: Family = gauge(
    "gds_top_check_severity",
    &["check", "group"],
    "Worst finding of a check: 0 fine or not applicable, 1 warning, 2 failure.",
);
const WALL: Family = gauge("gds_top_load_seconds", LOAD, "Median wall time of a load.");
const SETUP: Family =
    gauge("gds_top_setup_seconds", LOAD, "Median time from the start of the process to the start of the load.");
const RATE: Family = gauge("gds_top_load_bytes_per_second", LOAD, "Median rate of a load.");
const RUNS: Family = gauge("gds_top_load_runs", LOAD, "Number of runs from which the median was computed.");
const TO_FASTEST: Family =
    gauge("gds_top_load_ratio_to_fastest", LOAD, "Wall time divided by the wall time of the fastest engine.");
const OF_CEILING: Family =
    gauge("gds_top_load_ceiling_ratio", LOAD, "Median rate divided by the measured ceiling of this machine.");
const VERIFIED: Family = gauge("gds_top_load_verified", LOAD, "1 if every byte on the target equals the file.");
const OVERHEAD: Family =
    gauge("gds_top_tensor_overhead_seconds", LOAD, "Overhead per tensor, which does not depend on its size.");
const KV_LATENCY: Family = Family {
    name: "gds_top_kv_latency_seconds",
    kind: Kind::Histogram,
    labels: WORKLOAD,
    help: "Latency of the transfers of a KV cache in the newest run.",
};
const KV_RATE: Family =
    gauge("gds_top_kv_bytes_per_second", WORKLOAD, "Bytes divided by the time in which a transfer was in progress.");
const KV_HITS: Family =
    gauge("gds_top_kv_hit_ratio", WORKLOAD, "Files or chunks that were found, divided by the number of lookups.");
const KV_HIDDEN: Family = gauge(
    "gds_top_kv_hidden_ratio",
    WORKLOAD,
    "Share of the transfer time in which computing did not wait for transfers.",
);
const KV_BUSY: Family =
    gauge("gds_top_kv_busy_ratio", WORKLOAD, "Share of the wall time in which a transfer was in progress.");

const KV_SAVED: Family = gauge(
    "gds_top_kv_saved_seconds",
    WORKLOAD,
    "Time saved against computing all tokens, calculated with the setting recompute_us. Negative if reading takes longer.",
);

/// The label names of transfers of a watched program.
const TRANSFERS: &[&str] = &["route", "proven", "direction"];
const CALLS: Family = gauge("gds_top_watch_calls", &["function"], "Calls of a function by the watched program.");
const CALL_ERRORS: Family = gauge("gds_top_watch_call_errors", &["function"], "Calls of a function that failed.");
const CALL_BYTES: Family = gauge("gds_top_watch_call_bytes", &["function"], "Bytes that the calls transferred.");
const CALL_SECONDS: Family =
    gauge("gds_top_watch_call_seconds", &["function"], "Time inside the calls of all threads.");
const MOVED: Family =
    gauge("gds_top_watch_transfers", TRANSFERS, "Transfers of cuFile by route, with entries of batches.");
const MOVED_BYTES: Family = gauge("gds_top_watch_transferred_bytes", TRANSFERS, "Bytes of the transfers by route.");
const MOVED_ERRORS: Family = gauge("gds_top_watch_transfer_errors", TRANSFERS, "Transfers that failed by route.");
const LOST: Family = gauge("gds_top_watch_lost_calls", &[], "Calls whose details were not recorded.");
const COMPLETE: Family = gauge(
    "gds_top_watch_complete",
    &["missing"],
    "1 if no call is known to be missing, otherwise 0 and the reasons; the other numbers are then lower bounds.",
);
const WATCHED: Family = gauge("gds_top_watch_seconds", &[], "Time in which the program was watched.");
const STATUS: Family =
    gauge("gds_top_watch_exit_status", &[], "Exit status of the watched program; 128 and its number for a signal.");
const UNEXAMINED: Family = gauge(
    "gds_top_watch_unexamined_processes",
    &[],
    "Largest number of processes that did not answer in time or for which a limit was reached.",
);

/// All families, in the order of the output.
pub const FAMILIES: [Family; 32] = [
    INFO,
    TIMESTAMP,
    ROUTE,
    PROVEN,
    CHECKS,
    SEVERITY,
    WALL,
    SETUP,
    RATE,
    RUNS,
    TO_FASTEST,
    OF_CEILING,
    VERIFIED,
    OVERHEAD,
    KV_LATENCY,
    KV_RATE,
    KV_HITS,
    KV_HIDDEN,
    KV_BUSY,
    KV_SAVED,
    CALLS,
    CALL_ERRORS,
    CALL_BYTES,
    CALL_SECONDS,
    MOVED,
    MOVED_BYTES,
    MOVED_ERRORS,
    LOST,
    COMPLETE,
    WATCHED,
    STATUS,
    UNEXAMINED,
];

/// The series of each family.
#[derive(Default)]
pub(super) struct Series(BTreeMap<&'static str, Vec<(String, f64)>>);

impl Series {
    /// Adds a value if it is a finite number. If a series already exists, its value is kept.
    pub(super) fn put<T: AsRef<str>>(&mut self, family: &Family, labels: &[T], value: impl Into<Option<f64>>) {
        self.with_suffix(family, "", &labelled(family.labels, labels), value.into());
    }

    fn with_suffix(&mut self, family: &Family, suffix: &str, labels: &str, value: Option<f64>) {
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        let name = if labels.is_empty() {
            format!("{}{suffix}", family.name)
        } else {
            format!("{}{suffix}{{{labels}}}", family.name)
        };
        let all = self.0.entry(family.name).or_default();
        if !all.iter().any(|(known, _)| *known == name) {
            all.push((name, value));
        }
    }

    /// Writes the values of these families.
    pub(super) fn write(&self, families: impl IntoIterator<Item = Family>, mut out: impl Write) -> io::Result<()> {
        for family in families {
            let Some(all) = self.0.get(family.name) else { continue };
            let kind = match family.kind {
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            writeln!(out, "# HELP {} {}\n# TYPE {} {kind}", family.name, family.help, family.name)?;
            for (name, value) in all {
                writeln!(out, "{name} {value}")?;
            }
        }
        Ok(())
    }
}

fn labelled<T: AsRef<str>>(names: &[&str], values: &[T]) -> String {
    let pairs: Vec<String> =
        names.iter().zip(values).map(|(name, value)| format!("{name}={}", quoted(value.as_ref()))).collect();
    pairs.join(",")
}

/// A label value in quotes. Backslashes and quotes are escaped, and control characters are replaced.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", crate::text::sanitise_name(text).replace('\\', "\\\\").replace('"', "\\\""))
}

/// Writes the checks, the verdicts and the medians of the runs.
///
/// # Errors
/// Fails if `out` cannot be written.
pub fn write(state: &State, out: impl Write) -> io::Result<()> {
    let mut series = Series::default();
    machine(state, &mut series);
    verdicts(state, &mut series);
    let analysis = SessionAnalysis::new(state);
    loads(&analysis, &mut series);
    workloads(state, &mut series);
    if let Some(report) = state.watch.as_deref() {
        program(state, report, &mut series);
    }
    series.write(FAMILIES, out)
}

fn machine(state: &State, series: &mut Series) {
    let known = |text: Option<&String>| text.cloned().unwrap_or_default();
    if let Some(machine) = &state.machine {
        let labels = [
            tool(state).to_owned(),
            machine.kernel.clone(),
            machine.distribution.clone(),
            known(machine.driver.as_ref()),
            known(machine.cuda.as_ref()),
            known(machine.libcufile.as_ref().and_then(|library| library.version.as_ref())),
            known(machine.nvidia_fs.as_ref().and_then(|module| module.version.as_ref())),
        ];
        series.put(&INFO, &labels, 1.0);
    }
    if state.started_unix_ms > 0 {
        series.put::<&str>(&TIMESTAMP, &[], state.started_unix_ms as f64 / 1e3);
    }
}

fn verdicts(state: &State, series: &mut Series) {
    for verdict in &state.verdicts {
        let (path, gpu) = (verdict.path.to_string_lossy(), verdict.gpu.as_deref().unwrap_or(""));
        for route in Route::DIRECT.into_iter().chain([Route::Compat, Route::None]) {
            series.put(&ROUTE, &[&*path, gpu, &route.to_string()], truth(route == verdict.route));
        }
        series.put(&PROVEN, &[&*path, gpu], truth(verdict.proven));
    }
    if state.checks.is_empty() {
        return;
    }
    for status in [Status::Pass, Status::Info, Status::Warn, Status::Fail, Status::Na] {
        let count = state.checks.iter().filter(|finding| finding.status == status).count();
        series.put(&CHECKS, &[status.word()], count as f64);
    }
    let mut worst: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for Finding { id, group, status, .. } in &state.checks {
        let severity = match status {
            Status::Fail => 2.0,
            Status::Warn => 1.0,
            Status::Pass | Status::Info | Status::Na => 0.0,
        };
        let known = worst.entry((id.as_str(), group.title())).or_default();
        *known = known.max(severity);
    }
    for ((check, group), severity) in worst {
        series.put(&SEVERITY, &[check, group], severity);
    }
}

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

fn gpu(target: &Target) -> String {
    match target {
        Target::Gpu { uuid, ordinal, .. } => uuid.clone().unwrap_or_else(|| ordinal.to_string()),
        Target::Host => String::new(),
    }
}

/// The result of a run that loaded all bytes.
fn good(lane: &Lane) -> Option<&RunResult> {
    lane.result.as_deref().filter(|run| run.is_good())
}

/// The label values of a run.
fn of_load(lane: &Lane) -> Option<[String; 4]> {
    let run = good(lane)?;
    Some([lane.engine.to_string(), lane.cache.to_string(), run.model.clone(), gpu(&lane.target)])
}

fn loads(analysis: &SessionAnalysis<'_>, series: &mut Series) {
    let state = analysis.state;
    for group in analysis.comparisons.iter().map(|comparison| &comparison.group) {
        for engine in &group.engines {
            // The comparison contains a display name of the target. The UUID is only in its runs.
            let lanes: Vec<&Lane> = state
                .lanes
                .iter()
                .filter(|lane| good(lane).is_some_and(|run| group.holds(run) && run.engine == engine.engine))
                .collect();
            let Some(labels) = lanes.first().and_then(|lane| of_load(lane)) else { continue };
            let shares: Vec<f64> = lanes.iter().filter_map(|lane| Some(ceilings::reached(state, lane)?.1)).collect();
            series.put(&WALL, &labels, engine.wall_ns as f64 / 1e9);
            series.put(&SETUP, &labels, engine.setup_ns as f64 / 1e9);
            series.put(&RATE, &labels, engine.bytes_per_s);
            series.put(&RUNS, &labels, engine.runs as f64);
            series.put(&TO_FASTEST, &labels, (!engine.in_doubt).then_some(engine.ratio_to_fastest));
            series.put(&OF_CEILING, &labels, median(&shares));
            series.put(&VERIFIED, &labels, engine.verified.map(truth));
        }
    }
    for (analysed, cost) in analysis.costs() {
        if let Some(labels) = of_load(analysed.lane) {
            series.put(&OVERHEAD, &labels, cost.per_tensor_ns() / 1e9);
        }
    }
}

/// Adds the newest run of each workload, because the latencies of several runs cannot be combined.
fn workloads(state: &State, series: &mut Series) {
    for lane in state.lanes.iter().rev() {
        let Some(workload) = good(lane).and_then(|run| run.workload.as_ref()) else { continue };
        let labels = [
            workload.workload.clone(),
            workload.variant.clone(),
            workload.direction.clone(),
            workload.shape.clone(),
            gpu(&lane.target),
        ];
        if let Some(latency) = &workload.latency_histogram {
            latencies(&labels, latency, series);
        }
        series.put(&KV_RATE, &labels, workload.busy_bytes_per_s);
        series.put(&KV_HITS, &labels, workload.hit_rate_fraction);
        series.put(&KV_HIDDEN, &labels, workload.hidden_fraction);
        series.put(&KV_BUSY, &labels, workload.busy_fraction);
        series.put(&KV_SAVED, &labels, workload.recompute.map(|of| of.saved_s()));
    }
}

/// Adds the calls of a watched program by function, and its transfers by route. Paths are not labels, because a cache can
/// have many files.
fn program(state: &State, report: &WatchReport, series: &mut Series) {
    for call in report.calls.iter().chain(&report.other_calls) {
        let labels = [call.function.as_str()];
        series.put(&CALLS, &labels, call.count as f64);
        series.put(&CALL_ERRORS, &labels, call.errors as f64);
        series.put(&CALL_BYTES, &labels, call.bytes as f64);
        series.put(&CALL_SECONDS, &labels, call.total_ns as f64 / 1e9);
    }
    let mut routes: BTreeMap<(&str, bool, &str), [u64; 3]> = BTreeMap::new();
    for file in &report.files {
        for (direction, of) in
            [("read", &file.reads), ("write", &file.writes)].into_iter().filter(|(_, of)| of.count > 0)
        {
            let sums = routes.entry((file.route.as_str(), file.proven, direction)).or_default();
            for (sum, more) in sums.iter_mut().zip([of.count, of.bytes, of.errors]) {
                *sum = sum.saturating_add(more);
            }
        }
    }
    for ((route, proven, direction), sums) in routes {
        let labels = [route, if proven { "true" } else { "false" }, direction];
        for (family, sum) in [&MOVED, &MOVED_BYTES, &MOVED_ERRORS].into_iter().zip(sums) {
            series.put(family, &labels, sum as f64);
        }
    }
    series.put::<&str>(&LOST, &[], report.lost_events as f64);
    let missing = watch::gaps(state);
    series.put(&COMPLETE, &[watch::gap_ids(&missing)], truth(missing.is_empty()));
    series.put::<&str>(&WATCHED, &[], report.wall_ns as f64 / 1e9);
    let status = match report.ended {
        Some(ProgramEnd::Status(status)) => Some(status),
        Some(ProgramEnd::Signal(signal)) => Some(128_i32.saturating_add(signal)),
        Some(ProgramEnd::Unknown) | None => None,
    };
    series.put::<&str>(&STATUS, &[], status.map(f64::from));
    series.put::<&str>(&UNEXAMINED, &[], report.unexamined() as f64);
}

/// Adds a histogram: cumulative counts by upper bounds in seconds, the sum and the count.
fn latencies(labels: &[String; 5], latency: &Histogram, series: &mut Series) {
    let all = labelled(WORKLOAD, labels);
    for (bound, count) in latency.cumulative() {
        let bound = bound.map_or_else(|| "+Inf".to_owned(), |ns| (ns as f64 / 1e9).to_string());
        series.with_suffix(&KV_LATENCY, "_bucket", &format!("{all},le=\"{bound}\""), Some(count as f64));
    }
    series.with_suffix(&KV_LATENCY, "_sum", &all, Some(latency.sum_ns as f64 / 1e9));
    series.with_suffix(&KV_LATENCY, "_count", &all, Some(latency.count() as f64));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_a_cumulative_histogram_in_seconds() {
        let mut series = Series::default();
        let labels = ["ucm", "gds", "read", "s", ""].map(str::to_owned);
        let values = Histogram::of(&[40_000, 60_000, 70_000, 20_000_000_000]).unwrap();
        latencies(&labels, &values, &mut series);
        let mut text = Vec::new();
        series.write(FAMILIES, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let labels = "workload=\"ucm\",variant=\"gds\",direction=\"read\",shape=\"s\",gpu=\"\"";
        let has = |line: String| assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
        has("# TYPE gds_top_kv_latency_seconds histogram".to_owned());
        has(format!("gds_top_kv_latency_seconds_bucket{{{labels},le=\"0.00005\"}} 1"));
        has(format!("gds_top_kv_latency_seconds_bucket{{{labels},le=\"0.0001\"}} 3"));
        has(format!("gds_top_kv_latency_seconds_bucket{{{labels},le=\"10\"}} 3"));
        has(format!("gds_top_kv_latency_seconds_bucket{{{labels},le=\"+Inf\"}} 4"));
        has(format!("gds_top_kv_latency_seconds_sum{{{labels}}} 20.00017"));
        has(format!("gds_top_kv_latency_seconds_count{{{labels}}} 4"));
        assert_eq!(text.matches("_bucket").count(), values.counts.len());
    }
}
