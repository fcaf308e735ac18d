//! Compares runs with earlier ones: `--baseline FILE` after a race, and `report A B`.

use super::args::OutputArgs;
use super::outcome::{BAD_ANSWER, FINE, note, print_coloured};
use super::terminal::{columns, headless_options};
use crate::analysis::{Against, Change, LEAST_NOISE, Measured, against};
use crate::core::median::median;
use crate::core::{CacheState, Engine, Metric};
use crate::present::baseline as present;
use crate::report::lines;
use crate::report::section::Section;
use crate::session::{LaneStatus, State, recording};
use crate::text::json_values;
use crate::trust::read_regular;
use serde::Deserialize;
use serde_json::json;
use std::path::Path;

/// The runs of the baseline, and its name.
pub(super) struct Baseline {
    pub(super) name: String,
    pub(super) runs: Vec<Measured>,
    /// The share by which an engine may be slower, in addition to the spread of the repeats.
    pub(super) threshold: f64,
    /// The share of the session in which at least one task waited for a CPU, 0 to 1.
    pub(super) pressure: f64,
}

impl Baseline {
    /// The engines of `now` that are slower than in the baseline.
    pub(super) fn slower(&self, now: &[Measured], pressure: f64) -> Vec<(Engine, CacheState)> {
        let compared = against(&self.runs, now, self.allowed(pressure));
        compared.into_iter().filter(|one| one.change == Change::Slower).map(|one| (one.engine, one.cache)).collect()
    }

    /// The permitted slowdown for this CPU pressure. If tasks wait for a CPU in a share `p` of the time, they take up
    /// to 1 / (1 − `p`) times as long.
    fn allowed(&self, pressure: f64) -> f64 {
        let pressure = self.pressure.max(pressure);
        if pressure < QUIET { self.threshold } else { self.threshold + pressure / (1.0 - pressure.min(0.99)) }
    }
}

/// An idle machine usually has a lower pressure than this.
const QUIET: f64 = 0.05;

/// The share of a session in which at least one task waited for a CPU, 0 to 1. It is the median of its samples, or 0
/// without samples. Pressure on storage is not used, because a cold load always waits for storage.
pub(super) fn pressure(state: &State) -> f64 {
    typical(state.samples.iter().filter_map(|sample| sample.get(Metric::CpuPressurePercent)))
}

/// The median of percentages as a share.
fn typical(percents: impl Iterator<Item = f64>) -> f64 {
    let percents: Vec<f64> = percents.filter(|percent| percent.is_finite()).collect();
    median(&percents).map_or(0.0, |percent| (percent / 100.0).clamp(0.0, 1.0))
}

/// The runs of a report: single runs, and the common results of runs in groups.
#[derive(Deserialize)]
struct Report {
    runs: Vec<Listed>,
    #[serde(default)]
    together: Vec<Combined>,
    #[serde(default)]
    samples: Vec<Sampled>,
}

#[derive(Deserialize)]
struct Sampled {
    values: Meters,
}

#[derive(Deserialize)]
struct Meters {
    cpu_pressure_percent: Option<f64>,
}

#[derive(Deserialize)]
struct Listed {
    lane: Option<u64>,
    #[serde(flatten)]
    run: Measured,
}

#[derive(Deserialize)]
struct Combined {
    lanes: Vec<Member>,
    #[serde(flatten)]
    run: Measured,
}

#[derive(Deserialize)]
struct Member {
    lane: u64,
}

impl Report {
    /// The runs that can be compared: single runs, and common results.
    fn measured(self) -> Vec<Measured> {
        let beside: Vec<u64> =
            self.together.iter().flat_map(|combined| combined.lanes.iter().map(|l| l.lane)).collect();
        let alone = self.runs.into_iter().filter(|l| l.lane.is_none_or(|lane| !beside.contains(&lane))).map(|l| l.run);
        alone.chain(self.together.into_iter().map(|combined| combined.run)).collect()
    }
}

/// Reads a recording or a report.json.
///
/// # Errors
/// A sentence if the file cannot be read, has another format, or contains no successful run.
pub(super) fn read(path: &Path, threshold: Option<f64>) -> Result<Baseline, String> {
    const MOST_BYTES: u64 = 256 << 20;
    const MOST_VALUES: u64 = 20_000_000;
    let name = path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
    let (runs, pressure) = if name.ends_with(".json") {
        let failed = |e: std::io::Error| format!("reading {} failed: {e}", path.display());
        let seen = std::fs::metadata(path).map_err(failed)?;
        if !seen.is_file() || seen.len() > MOST_BYTES {
            return Err(format!(
                "{} is not a report of gds-top: it is not a regular file of at most 256 MiB",
                path.display()
            ));
        }
        let text = read_regular(path, MOST_BYTES).map_err(failed)?;
        if json_values(&text) > MOST_VALUES {
            return Err(format!(
                "{} is not a report of gds-top: it has more than {MOST_VALUES} values",
                path.display()
            ));
        }
        let report: Report =
            serde_json::from_slice(&text).map_err(|e| format!("{} is not a report of gds-top: {e}", path.display()))?;
        let pressure = typical(report.samples.iter().filter_map(|sample| sample.values.cpu_pressure_percent));
        (report.measured(), pressure)
    } else {
        let mut state = State::default();
        for event in recording::read(path).map_err(|e| e.to_string())? {
            state.reduce(&event.map_err(|e| e.to_string())?);
        }
        (measured(&state), pressure(&state))
    };
    if !runs.iter().any(|run| run.error.is_none() && run.verified != Some(false)) {
        return Err(format!("{} contains no successful run, so nothing can be compared with it", path.display()));
    }
    Ok(Baseline { name, runs, threshold: threshold.map_or(LEAST_NOISE, |percent| percent / 100.0), pressure })
}

/// The runs of a session that can be compared. A run that ended early counts as failed. Runs in a group have one
/// common result, because they shared the disk or loaded only a part each.
pub(super) fn measured(state: &State) -> Vec<Measured> {
    let of = |lane: &crate::session::Lane| match (&lane.result, &lane.status) {
        (Some(run), _) => Some(Measured::from(run.as_ref())),
        (None, LaneStatus::Failed(_) | LaneStatus::Cancelled) => Some(Measured {
            engine: lane.engine.clone(),
            model: state.model.as_ref().map(|m| m.name.clone()),
            cache: lane.cache,
            target: (&lane.target).into(),
            bytes: None,
            wall_ns: None,
            verified: None,
            error: lane.error(),
        }),
        _ => None,
    };
    let alone = state.lanes.iter().filter(|lane| lane.group().is_none()).filter_map(of);
    alone.chain(state.groups().iter().filter_map(|group| group.combined.as_ref().map(Measured::from))).collect()
}

/// Compares runs with their baseline and prints the result. If standard output has JSON, the comparison is printed on
/// standard error. Returns the exit status: 1 if an engine is slower beyond the noise, fails or loads wrong bytes, or
/// if no run can be compared.
pub(super) fn judge(baseline: &Baseline, now: &[Measured], pressure: f64, output: &OutputArgs) -> u8 {
    let allowed = baseline.allowed(pressure);
    let compared = against(&baseline.runs, now, allowed);
    if compared.is_empty() {
        note(&present::not_comparable(&baseline.name));
        return BAD_ANSWER;
    }
    if allowed > baseline.threshold {
        note(&present::busy(baseline.pressure.max(pressure), allowed));
    }
    let colour = headless_options(output, None).colour && !output.json;
    let text = lines(
        &present::answers(&baseline.name, &compared),
        &comparison(&baseline.name, allowed, &compared),
        columns(),
        colour,
    );
    let printed = if output.json {
        text.lines().for_each(print_on_stderr);
        FINE
    } else {
        print_coloured(&format!("\n{text}"), colour)
    };
    let worse = compared.iter().any(|one| one.change.is_regression());
    printed.max(if worse { BAD_ANSWER } else { FINE })
}

fn print_on_stderr(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The sections of a comparison: its rule and its tables.
pub(super) fn comparison(before: &str, threshold: f64, compared: &[Against]) -> Vec<Section> {
    let first = Section::new(present::title(before)).text(present::rule(threshold));
    std::iter::once(first).chain(present::tables(compared).into_iter().map(Section::from)).collect()
}

/// The comparison as JSON.
pub(super) fn to_json(before: &str, now: &str, compared: &[Against]) -> serde_json::Value {
    let engines: Vec<_> = compared
        .iter()
        .map(|t| {
            json!({
                "engine": t.engine, "cache": t.cache, "model": t.model, "target": t.target,
                "before_ns": t.before.wall_ns, "before_runs": t.before.runs,
                "now_ns": t.now.map(|s| s.wall_ns), "now_runs": t.now.map_or(0, |s| s.runs),
                "difference": t.difference(), "allowed": t.allowed, "regression": t.change.is_regression(),
                "change": t.change.name(),
            })
        })
        .collect();
    json!({"baseline": before, "now": now, "engines": engines})
}

#[cfg(test)]
mod pressure_tests {
    use super::*;

    #[test]
    fn a_busy_machine_permits_slower_runs() {
        let of = |pressure| Baseline { name: String::new(), runs: Vec::new(), threshold: 0.05, pressure };
        assert!((of(0.0).allowed(0.02) - 0.05).abs() < 1e-9);
        assert!((of(0.0).allowed(0.5) - 1.05).abs() < 1e-9);
        assert!((of(0.5).allowed(0.0) - 1.05).abs() < 1e-9, "a baseline from a busy machine is not better");
        assert!(of(1.0).allowed(1.0).is_finite());
        assert_eq!(
            (typical([90.0, 10.0, 20.0].into_iter()), typical(std::iter::empty()), typical(std::iter::once(f64::NAN))),
            (0.2, 0.0, 0.0)
        );
    }
}
