//! The command `watch`: records how any program uses GDS.

use super::args::{ExportArgs, OutputArgs, RunArgs, ScreenArgs};
use super::baseline::{self, Sampled};
use super::outcome::{BAD_ANSWER, COULD_NOT_RUN, FINE, Ran, fail, has_terminal, not_started, note, print_coloured};
use super::{race, report_file, settings, terminal};
use crate::analysis::{Tolerance, WATCH_THRESHOLD, WatchComparison, WatchGap, compare_watched, is_not_recorded};
use crate::core::{Status, WatchReport};
use crate::headless::{self, FirstTask};
use crate::present::{watch, watch_compare};
use crate::report;
use crate::session::live::{self, WatchSessionError, WatchTarget};
use crate::session::{State, recording};
use crate::watch::{Launch, Output};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options of `watch`.
#[derive(Clone, Debug, Args)]
pub(super) struct WatchArgs {
    /// The program and its arguments, after '--'
    #[arg(required_unless_present = "pid", last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Show a running process instead: as root its cuFile calls, else what procfs shows of its libcufile, files and reads
    #[arg(long, value_name = "PID", conflicts_with_all = ["command", "statistics", "require"], value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// With --pid: stop after this time (default: when the process ends, or at Ctrl-C)
    #[arg(long, value_name = "SECONDS", requires = "pid", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Enable libcufile's level-3 statistics in the program; they prove the route of its transfers (libcufile 1.15 or
    /// later)
    #[arg(long)]
    statistics: bool,
    /// Exit with status 1 unless a direct route is proven for every recorded transfer; implies --statistics. A
    /// short program that leaves the recording by a direct system call is not noticed
    #[arg(long, value_name = "ROUTE")]
    require: Option<Require>,
    /// Record the session. The recording is FILE.partial until the session ends and then replaces an earlier
    /// recording, but no other file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Show the screens while the program runs. Its output is dropped and it gets no input. 'q' ends the program, then
    /// the result is printed
    #[arg(long, conflicts_with = "json")]
    screens: bool,
    /// Compare the calls with this recording or report.json; exit status 1 if calls are slower, fail more often or lost a direct route. If a route is proven there, the statistics are on as with --statistics
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Percent by which calls may be slower than in the baseline (default: 20)
    #[arg(long, value_name = "PERCENT", requires = "baseline", value_parser = super::args::threshold)]
    threshold: Option<f64>,
    #[command(flatten)]
    export: ExportArgs,
    #[command(flatten)]
    output: RunArgs,
    #[command(flatten)]
    look: ScreenArgs,
}

/// The requirement that the program must meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Require {
    /// Every transfer uses a proven direct route
    Direct,
}

pub(super) fn run(args: WatchArgs) -> Ran {
    let output = args.output.on(&args.look);
    // A wrong theme is found before the program starts.
    let look = settings::look(&output)?;
    if args.screens && !has_terminal() {
        return Err("--screens needs a terminal".to_owned());
    }
    // The parser does not refuse this, because --pid conflicts with a command.
    if args.seconds.is_some() && args.pid.is_none() {
        return Err("--seconds needs --pid; a command is recorded until it ends".to_owned());
    }
    let earlier_program =
        args.baseline.as_deref().map(|path| Ok::<_, String>((name(path), earlier(path)?))).transpose()?;
    // Without statistics, a route that the baseline proves could not be proven again.
    let has_proof =
        earlier_program.as_ref().is_some_and(|(_, before)| before.report.files.iter().any(|file| file.proven));
    let target = match args.pid {
        Some(pid) => WatchTarget::Process(pid, args.seconds.map(Duration::from_secs)),
        None => WatchTarget::Launch(Launch {
            command: args.command,
            statistics: args.statistics || args.require.is_some() || has_proof,
            requires_direct: args.require.is_some(),
            output: match (args.screens, output.json) {
                (true, _) => Output::Dropped,
                // The result alone is on standard output.
                (false, true) => Output::ToStderr,
                (false, false) => Output::Inherited,
            },
        }),
    };
    let export = args.export.plan();
    // The program must not run if its report cannot be written.
    if let Some((folder, formats)) = &export {
        report::prepare(folder, formats).map_err(|error| error.to_string())?;
    }
    // The program can be running before the screens or the printing begin.
    let signals = (!args.screens).then(race::keep_signals);
    let feed = match live::watch(&target, args.record.as_deref(), args.screens) {
        Ok(feed) => feed,
        // A recording that cannot be created is wrong input, as for a benchmark.
        Err(WatchSessionError::Session(error)) => return not_started(&error),
        Err(error) => return Ok(fail(COULD_NOT_RUN, &error.to_string())),
    };
    let unrecorded = feed.unrecorded.clone();
    let outcome = match signals {
        Some(signals) => {
            let first_task = match &target {
                WatchTarget::Launch(_) => FirstTask::SharedTerminal,
                WatchTarget::Process(..) => FirstTask::Watching,
            };
            let options = headless::Options { first_task, ..terminal::headless_options(&output, export) };
            race::follow_watched(&feed, &signals, &options)
        }
        None => race::watched_on_screens(feed, look, &output, export)?,
    };
    let is_cut = outcome.state.ended == Some(true) && unrecorded.get().is_none();
    if let Some(file) = args.record.as_deref().filter(|file| is_cut && file.is_file()) {
        note(&format!("interrupted; {} has the calls until then", file.display()));
    }
    let seen = outcome.state.watch.as_deref();
    let unmet = args.require.and_then(|Require::Direct| watch::unmet(seen));
    if let Some(unmet) = unmet {
        note(unmet);
    }
    let could_run = if seen.is_some_and(is_not_recorded) { COULD_NOT_RUN } else { FINE };
    let worse = match (&earlier_program, outcome.state.watch.as_deref()) {
        (Some((name, before)), Some(now)) => {
            let threshold = args.threshold.map_or(WATCH_THRESHOLD, |percent| percent / 100.0);
            let pressure = before.pressure.max(baseline::pressure(&outcome.state));
            let comparison = compare_watched(&before.report, now, Tolerance { threshold, pressure });
            compared(name, &comparison.with_missing(before.missing.clone(), watch::gaps(&outcome.state)), &output)
        }
        _ => FINE,
    };
    // A program that failed has status 1, also if the comparison is not decided.
    let worse = if outcome.exit == BAD_ANSWER { worse.min(BAD_ANSWER) } else { worse };
    Ok(outcome.exit.max(if unmet.is_none() { FINE } else { BAD_ANSWER }).max(worse).max(could_run))
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Prints the comparison and returns the exit status.
fn compared(baseline: &str, comparison: &WatchComparison, output: &OutputArgs) -> u8 {
    let answer = watch_compare::answer(comparison, baseline);
    if output.json {
        note(&answer.text());
    } else {
        let colour = terminal::headless_options(output, None).colour;
        let tables = watch_compare::tables(comparison, baseline);
        print_coloured(&report::top_text(&answer, tables, terminal::columns(), colour), colour);
    }
    match answer.status {
        Status::Pass => FINE,
        Status::Fail => BAD_ANSWER,
        _ => COULD_NOT_RUN,
    }
}

/// A watched program in a recording or a report.json.
struct Earlier {
    report: WatchReport,
    /// The CPU pressure of its session.
    pressure: f64,
    /// The reasons why calls are missing.
    missing: Vec<WatchGap>,
}

fn earlier(path: &Path) -> Result<Earlier, String> {
    let none = || format!("{} has no watched program to compare with", path.display());
    let cut = || format!("{} is incomplete: its session ended unexpectedly. Record a new one.", path.display());
    if path.extension().is_none_or(|ending| ending != "json") {
        let mut state = State::default();
        for event in recording::read(path).map_err(|error| error.to_string())? {
            state.reduce(&event.map_err(|error| error.to_string())?);
        }
        if state.ended.is_none() {
            return Err(cut());
        }
        let (pressure, missing) = (baseline::pressure(&state), watch::gaps(&state));
        let report = state.watch.as_deref().cloned().ok_or_else(none)?;
        return Ok(Earlier { report, pressure, missing });
    }
    let wrong = |error: serde_json::Error| format!("{} is not a report of gds-top: {error}", path.display());
    let mut report: Value = serde_json::from_slice(&report_file::read(path)?).map_err(wrong)?;
    let calls = report["watch"]["calls"].take();
    let files = report["program"]["transfers"].take();
    let other_calls = report["program"]["other_calls"].take();
    let paces = report["program"]["paces"].take();
    let samples = Option::<Vec<Sampled>>::deserialize(report["samples"].take()).map_err(wrong)?.unwrap_or_default();
    let ended = report["program"]["ended"].take();
    let missing = report["watch"]["missing"].take();
    let is_cut = report["ended"].is_null();
    let wall_ns = report["program"]["wall_ns"].as_u64().unwrap_or(0);
    if calls.is_null() || files.is_null() {
        return Err(none());
    }
    if is_cut {
        return Err(cut());
    }
    let seen = WatchReport {
        calls: serde_json::from_value(calls).map_err(wrong)?,
        files: serde_json::from_value(files).map_err(wrong)?,
        other_calls: Option::<_>::deserialize(other_calls).map_err(wrong)?.unwrap_or_default(),
        paces: Option::<_>::deserialize(paces).map_err(wrong)?.unwrap_or_default(),
        ended: serde_json::from_value(ended).map_err(wrong)?,
        wall_ns,
        ..WatchReport::default()
    };
    // Reports of earlier versions do not have this field.
    let missing = Option::<_>::deserialize(missing).map_err(wrong)?.unwrap_or_default();
    Ok(Earlier { report: seen, pressure: baseline::pressure_of(&samples), missing })
}
