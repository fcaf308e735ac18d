//! Compares runs with earlier ones: `--baseline FILE` after a race, and `report A B`.

use super::args::OutputArgs;
use super::outcome::{BAD_ANSWER, COULD_NOT_RUN, FINE, note, print_coloured};
use super::report_file;
use super::terminal::{columns, headless_options};
use crate::analysis::{Against, Change, LEAST_NOISE, Lack, LeftOut, Measured, Tolerance, against, left_out};
use crate::core::median::median_share;
use crate::core::{CacheState, Engine, Metric};
use crate::present::baseline as present;
use crate::report::lines;
use crate::report::section::Section;
use crate::session::{LaneStatus, State, recording};
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
    /// The engines of `now` that seem slower than in the baseline.
    pub(super) fn slower(&self, now: &[Measured], pressure: f64) -> Vec<(Engine, CacheState)> {
        let compared = against(&self.runs, now, self.tolerance(pressure));
        let slower = compared.into_iter().filter(|one| matches!(one.change, Change::Slower | Change::Undecided(_)));
        slower.map(|one| (one.engine, one.cache)).collect()
    }

    /// The tolerance of the comparison with a session of this CPU pressure.
    pub(super) fn tolerance(&self, pressure: f64) -> Tolerance {
        Tolerance { threshold: self.threshold, pressure: self.pressure.max(pressure) }
    }
}

/// The engines that the user wants compared.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'a> {
    /// These.
    Named(&'a [Engine]),
    /// All that can run on this machine, so each usual engine of the baseline must run again.
    Usual,
    /// All of a recording.
    Recorded,
}

impl Wanted<'_> {
    /// Whether the user wants an engine that was not compared.
    fn has(self, one: &LeftOut) -> bool {
        match self {
            Self::Named(engines) => engines.contains(&one.engine),
            Self::Usual => one.lack != Lack::Before && Engine::usual().contains(&one.engine),
            Self::Recorded => one.lack != Lack::Now,
        }
    }
}

/// The CPU pressure of a session, or 0 without samples. Pressure on storage is not used, because a cold load always
/// waits for storage.
pub(super) fn pressure(state: &State) -> f64 {
    state.pressure(Metric::CpuPressurePercent).unwrap_or(0.0)
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
pub(super) struct Sampled {
    values: Meters,
}

/// The CPU pressure in the samples of a report, or 0 without samples.
pub(super) fn pressure_of(samples: &[Sampled]) -> f64 {
    median_share(samples.iter().filter_map(|sample| sample.values.cpu_pressure_percent)).unwrap_or(0.0)
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
    let name = path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
    let (runs, pressure) = if name.ends_with(".json") {
        let text = report_file::read(path)?;
        let report: Report =
            serde_json::from_slice(&text).map_err(|e| format!("{} is not a report of gds-top: {e}", path.display()))?;
        let pressure = pressure_of(&report.samples);
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
            cache_resident_before_fraction: None,
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
/// standard error. Returns the exit status: 1 if an engine is slower beyond the noise, fails or loads wrong bytes; 3 if
/// an engine that the user wants could not be compared.
pub(super) fn judge(
    baseline: &Baseline,
    now: &[Measured],
    pressure: f64,
    wanted: Wanted<'_>,
    output: &OutputArgs,
) -> u8 {
    let tolerance = baseline.tolerance(pressure);
    let allowed = tolerance.allowed();
    let compared = against(&baseline.runs, now, tolerance);
    let left = left_out(&baseline.runs, now);
    if compared.is_empty() {
        note(&present::not_comparable(&baseline.name, &left));
        return COULD_NOT_RUN;
    }
    if allowed > baseline.threshold {
        note(&present::busy(tolerance.pressure, allowed));
    }
    let colour = headless_options(output, None).colour && !output.json;
    let mut answers = present::answers(&baseline.name, &compared, left.is_empty());
    answers.extend(present::left_out(&baseline.name, &left));
    answers.extend(present::not_cold(&baseline.name, &baseline.runs, now));
    let text = lines(&answers, &comparison(&baseline.name, allowed, &compared), columns(), colour);
    let printed = if output.json {
        text.lines().for_each(print_on_stderr);
        FINE
    } else {
        print_coloured(&format!("\n{text}"), colour)
    };
    printed.max(status(&compared, left.iter().any(|one| wanted.has(one))))
}

fn status(compared: &[Against], incomplete: bool) -> u8 {
    if compared.iter().any(|one| one.change.is_regression()) {
        BAD_ANSWER
    } else if incomplete || compared.iter().any(|one| matches!(one.change, Change::Undecided(_))) {
        COULD_NOT_RUN
    } else {
        FINE
    }
}

fn print_on_stderr(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(super::streams::err(), "{line}");
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
    fn the_pressure_is_the_higher_one_of_both_sessions() {
        let of = |pressure| Baseline { name: String::new(), runs: Vec::new(), threshold: 0.05, pressure };
        assert_eq!((of(0.9).tolerance(0.1).pressure, of(0.1).tolerance(0.9).pressure), (0.9, 0.9));
    }

    #[test]
    fn the_exit_status_is_0_only_if_all_that_the_user_wants_was_decided() {
        let run = |engine: &Engine, wall_ns| Measured {
            engine: engine.clone(),
            model: Some("m".to_owned()),
            cache: CacheState::Hot,
            cache_resident_before_fraction: None,
            target: crate::core::TargetName::Host,
            bytes: Some(1),
            wall_ns: Some(wall_ns),
            verified: None,
            error: None,
        };
        let before = Baseline {
            name: "b".to_owned(),
            runs: vec![run(&Engine::Pread, 100), run(&Engine::Odirect, 100)],
            threshold: 0.05,
            pressure: 0.0,
        };
        let quiet = OutputArgs { json: true, ..OutputArgs::default() };
        let (pread, odirect, mmap) = (Engine::Pread, Engine::Odirect, Engine::Mmap);
        let named = [pread.clone(), mmap.clone()];
        for (now, pressure, wanted, expected) in [
            (vec![run(&pread, 100), run(&odirect, 100)], 0.0, Wanted::Usual, FINE),
            (vec![run(&pread, 3000), run(&odirect, 100)], 0.99, Wanted::Usual, COULD_NOT_RUN),
            (vec![run(&pread, 3000), run(&odirect, 100)], 0.0, Wanted::Usual, BAD_ANSWER),
            (vec![run(&pread, 100)], 0.0, Wanted::Usual, COULD_NOT_RUN),
            (vec![run(&pread, 100)], 0.0, Wanted::Named(&named[..1]), FINE),
            (vec![run(&pread, 100), run(&mmap, 100)], 0.0, Wanted::Named(&named), COULD_NOT_RUN),
            (vec![run(&pread, 900), run(&mmap, 100)], 0.0, Wanted::Named(&named), BAD_ANSWER),
            (vec![run(&pread, 100)], 0.0, Wanted::Recorded, FINE),
            (vec![run(&pread, 100), run(&mmap, 100)], 0.0, Wanted::Recorded, COULD_NOT_RUN),
            (vec![run(&mmap, 100)], 0.0, Wanted::Named(&named), COULD_NOT_RUN),
        ] {
            assert_eq!(judge(&before, &now, pressure, wanted, &quiet), expected, "{now:?} at {pressure}");
        }
        // Runs that should be cold and were not decide nothing.
        let cold = |resident| Measured {
            cache: CacheState::Cold,
            cache_resident_before_fraction: Some(resident),
            ..run(&Engine::Mmap, 100)
        };
        let before = Baseline { runs: vec![cold(0.0), run(&pread, 100)], ..before };
        for (resident, expected) in [(0.0, FINE), (0.5, COULD_NOT_RUN)] {
            let now = [cold(resident), run(&pread, 100)];
            assert_eq!(judge(&before, &now, 0.0, Wanted::Usual, &quiet), expected, "{resident}");
        }
    }
}
