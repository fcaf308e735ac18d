//! The commands `replay` and `report` for recordings.

use super::args::{Export, ExportArgs, OutputArgs};
use super::baseline::{self, Baseline, Wanted};
use super::outcome::{FINE, INTERRUPTED, Ran, has_terminal, note, print, print_json};
use super::race::{follow_feed, on_signals, screens};
use super::terminal::{columns, headless_options};
use super::{settings, streams};
use crate::analysis::{LEAST_NOISE, Measured, Tolerance, WATCH_THRESHOLD, WatchGap, against, compare_watched};
use crate::core::WatchReport;
use crate::device::endings;
use crate::headless;
use crate::present::baseline as present;
use crate::present::{watch, watch_compare};
use crate::report::lines;
use crate::report::section::Section;
use crate::session::{REAL_TIME, replay};
use crate::text::sanitise_line;
use crate::tui::ScreenId;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A replay shortens longer pauses between events to this duration.
const LONGEST_GAP_NS: u64 = 3_000_000_000;

/// The screens stretch shorter loads to this duration, so that they are visible.
const SHORTEST_LOAD_NS: u64 = 2_000_000_000;

/// The sentence for a recording that cannot be shown. A JSON file is a report, which other commands read.
fn unreadable(path: &Path, error: impl std::fmt::Display) -> String {
    let is_json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    let others = "; reports in JSON are read by 'gds-top fleet', 'gds-top inspect --predict --from' and --baseline";
    format!("{error}{}", if is_json { others } else { "" })
}

/// Replays a recording, on the screens or as a report.
pub(super) fn replay(recording: &Path, speed: f64, headless: bool, export: Option<Export>, output: &OutputArgs) -> Ran {
    if !speed.is_finite() || speed < 0.0 {
        return Err(format!("--speed must be 0 or more (0 is as fast as possible), not {speed}"));
    }
    let on_screen = !headless && has_terminal();
    if !headless && !on_screen {
        return Err(
            "screens need a terminal; 'gds-top replay --headless' or 'gds-top report' print the report without one"
                .to_owned(),
        );
    }
    let options = replay::Options {
        longest_gap_ns: Some(LONGEST_GAP_NS),
        shortest_load_ns: on_screen.then_some(SHORTEST_LOAD_NS),
        player: on_screen,
        ..replay::Options::default()
    };
    let speed = if on_screen { speed } else { 0.0 };
    let feed = replay::start(recording, speed, options).map_err(|error| unreadable(recording, error))?;
    if !on_screen {
        return Ok(follow_feed(&feed, output, export).exit);
    }
    let sixteenths = (speed * f64::from(REAL_TIME)).clamp(0.0, 1e6);
    // A speed below the smallest step is rounded up, because 0 means as fast as possible.
    let sixteenths = if speed > 0.0 { sixteenths.round().max(1.0) } else { 0.0 };
    screens(feed, settings::look(output)?, ScreenId::Race, sixteenths as u32, export)
}

/// Writes the reports of recordings. Several recordings are compared, and each one is compared with the baseline if
/// the user named one.
pub(super) fn report(
    recordings: &[PathBuf],
    baseline: Option<(&Path, Option<f64>)>,
    export: &ExportArgs,
    output: &OutputArgs,
) -> Ran {
    on_signals(|| {
        note("interrupted, so reports are missing");
        endings::sweep_and_exit(INTERRUPTED)
    });
    let several = recordings.len() > 1;
    // All recordings are read before anything is printed.
    let earlier = baseline.map(|(path, threshold)| baseline::read(path, threshold)).transpose()?;
    let mut worst = FINE;
    let mut all: Vec<Baseline> = Vec::new();
    let mut watched = Vec::new();
    for (number, recording) in recordings.iter().enumerate() {
        let options = replay::Options { longest_gap_ns: Some(0), ..replay::Options::default() };
        let feed = replay::start(recording, 0.0, options).map_err(|error| unreadable(recording, error))?;
        let label = recording.file_stem().map_or_else(|| "report".into(), |s| s.to_string_lossy().into_owned());
        // Recordings with the same name in different directories need separate directories.
        let same = |other: &&PathBuf| other.file_stem() == recording.file_stem();
        let label = match recordings.iter().filter(same).count() {
            ..=1 => label,
            _ => format!("{}-{label}", number + 1),
        };
        let export = export.plan().map(|(dir, formats)| (if several { dir.join(&label) } else { dir }, formats));
        let quiet = OutputArgs { quiet: true, ..output.clone() };
        let state = if several && output.json {
            // The comparison is the only JSON value on standard output.
            let outcome = headless::run(&feed, &headless_options(&quiet, export), &mut io::sink(), &mut streams::err());
            worst = worst.max(outcome.exit);
            outcome.state
        } else {
            let options = headless::Options { full: !output.quiet, ..headless_options(&quiet, export) };
            let outcome = headless::run(&feed, &options, &mut streams::result(output.json), &mut streams::err());
            worst = worst.max(outcome.exit);
            outcome.state
        };
        let (runs, pressure) = (baseline::measured(&state), baseline::pressure(&state));
        if let Some(earlier) = &earlier {
            worst = worst.max(baseline::judge(earlier, &runs, pressure, Wanted::Recorded, output));
        }
        all.push(Baseline { name: label, runs, threshold: LEAST_NOISE, pressure });
        let missing = watch::gaps(&state);
        watched.push(state.watch.map(|report| (report, missing)));
    }
    if several {
        worst = worst.max(together(&all, &watched, output));
    }
    Ok(worst)
}

/// A watched program, and the reasons why calls are missing.
type Watched = (Arc<WatchReport>, Vec<WatchGap>);

/// Shows several recordings side by side, and compares each with the first one if it has the same loads.
fn together(all: &[Baseline], watched: &[Option<Watched>], output: &OutputArgs) -> u8 {
    let Some((first, others)) = all.split_first() else { return FINE };
    let compared_calls = |(now, other): (&Option<Watched>, &Baseline)| {
        let tolerance = Tolerance { threshold: WATCH_THRESHOLD, ..first.tolerance(other.pressure) };
        let ((before, missing_before), (now, missing)) = (watched.first()?.as_ref()?, now.as_ref()?);
        Some(compare_watched(before, now, tolerance).with_missing(missing_before.clone(), missing.clone()))
    };
    let calls: Vec<_> = watched.iter().skip(1).zip(others).map(compared_calls).collect();
    let compared: Vec<_> =
        others.iter().map(|o| (o, against(&first.runs, &o.runs, first.tolerance(o.pressure)))).collect();
    if output.json {
        let list = compared.iter().zip(&calls).map(|((other, all), calls)| {
            let mut one = baseline::to_json(&first.name, &other.name, all);
            let not_cold = |runs: &[Measured]| runs.iter().filter(|run| run.is_not_cold()).count();
            one["not_cold_runs"] = serde_json::json!({"before": not_cold(&first.runs), "now": not_cold(&other.runs)});
            if let Some(calls) = calls {
                one["watch"] = serde_json::json!(calls);
            }
            one
        });
        let list: Vec<_> = list.collect();
        return print_json(&serde_json::json!({ "comparisons": list }));
    }
    let runs: Vec<_> = all.iter().map(|one| (one.name.as_str(), one.runs.as_slice())).collect();
    let mut sections = vec![Section::new("Medians of the successful runs")];
    sections.extend(present::side_by_side(&runs).into_iter().map(Section::from));
    let mut text = String::new();
    if all.iter().any(|one| !one.runs.is_empty()) || calls.iter().all(Option::is_none) {
        text = format!("\n{}", lines(&[], &sections, columns(), false));
    }
    for (other, compared) in &compared {
        let not_cold = present::not_cold(&first.name, &first.runs, &other.runs);
        if compared.is_empty() && not_cold.is_none() {
            continue;
        }
        let head = format!("\n{}\n", sanitise_line(&other.name));
        text.push_str(&head);
        let sections = match compared.is_empty() {
            true => Vec::new(),
            false => baseline::comparison(&first.name, first.tolerance(other.pressure).allowed(), compared),
        };
        let mut answers = present::answers(&first.name, compared, true);
        answers.extend(not_cold);
        text.push_str(&lines(&answers, &sections, columns(), false));
    }
    for (other, calls) in others.iter().zip(&calls) {
        let Some(calls) = calls else { continue };
        let tables: Vec<Section> = watch_compare::tables(calls, &first.name).into_iter().map(Section::from).collect();
        text.push_str(&format!("\n{}\n", sanitise_line(&other.name)));
        text.push_str(&lines(&[watch_compare::answer(calls, &first.name)], &tables, columns(), false));
    }
    print(text.as_bytes())
}
