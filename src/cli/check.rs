//! Checks only: the verdict for each path.

use super::args::{Export, OutputArgs};
use super::outcome::{BAD_ANSWER, FINE, Ran, note, print_coloured, print_json};
use super::race::{columns, headless_options};
use super::view::{examined, open_view};
use crate::checks;
use crate::domain::{Event, EventBody};
use crate::host::{LiveOptions, Root};
use crate::report;
use crate::session::{self, State};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Runs the checks and prints what they found. Exit status 1 when no cuFile read can work for some path and GPU.
///
/// With `probe`, on the live machine, the verdicts are proven by real reads.
pub(super) fn run(
    paths: &[PathBuf],
    root: Option<&Path>,
    probe: bool,
    export: Option<Export>,
    output: &OutputArgs,
) -> Ran {
    let view = match root {
        // cuFileDriverOpen initialises CUDA, so it belongs to the proof.
        None => Root::live_with(LiveOptions { open_cufile: probe, ..LiveOptions::default() }),
        Some(_) => open_view(root)?,
    };
    let paths = examined(&view, paths)?;
    let began = Instant::now();
    let mut first = None;
    let mut found = checks::run(&view, &paths, None, &mut |_| {
        first.get_or_insert_with(|| began.elapsed());
    });
    if output.verbose {
        say_timings(&view, first, began.elapsed());
    }
    if probe
        && view.is_live()
        && found.has_gpu
        && let Ok(exe) = std::env::current_exe()
    {
        for verdict in session::live::prove(&exe, &found) {
            found.take_proven(verdict);
        }
    }
    super::fix::tell_open(&found, root);
    let status = if found.has_gpu && found.blocks_route_in_use() { BAD_ANSWER } else { FINE };
    let state = as_state(&view, &found);
    if let Some((folder, formats)) = export
        && let Err(error) = report::export(&state, &folder, &formats)
    {
        return Err(error.to_string());
    }
    let printed = if output.json {
        print_json(&report::json(&state))
    } else {
        let colour = headless_options(output, None).colour;
        print_coloured(&checks::text::render(&found.findings, &found.verdicts, usize::from(columns()), colour), colour)
    };
    Ok(printed.max(status))
}

/// How long each source took, on standard error.
fn say_timings(view: &Root, first: Option<Duration>, all: Duration) {
    let ms = |took: Duration| took.as_secs_f64() * 1000.0;
    let mut timings = view.timings();
    timings.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
    for (source, took) in timings {
        note(&format!("{:>8.1} ms  {source}", ms(took)));
    }
    if let Some(first) = first {
        note(&format!("{:>8.1} ms  until the first finding", ms(first)));
    }
    note(&format!("{:>8.1} ms  all checks; the sources were asked at the same time", ms(all)));
}

/// The findings as a state, so that the same report can be written from them.
pub(super) fn as_state(view: &Root, found: &checks::Report) -> State {
    let tool = concat!("gds-top ", env!("CARGO_PKG_VERSION")).to_owned();
    let unix_ms =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let mut state = State::default();
    let bodies =
        [EventBody::SessionStarted { tool, unix_ms }, EventBody::MachineSeen { machine: checks::machine(view) }]
            .into_iter()
            .chain(found.findings.iter().map(|finding| EventBody::CheckDone { finding: finding.clone() }))
            .chain(found.verdicts.iter().map(|verdict| EventBody::VerdictReached { verdict: verdict.clone() }))
            .chain([EventBody::ChecksDone { took_ns: found.took_ns }, EventBody::SessionEnded { interrupted: false }]);
    for body in bodies {
        state.reduce(&Event { at_ns: 0, body });
    }
    state
}
