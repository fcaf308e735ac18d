//! The answers of a session: verdicts, winners and problems.

use super::comparisons::{Comparison, comparisons, naming};
use super::engine_rows::{self, EngineRow, RowGroup, row_groups};
use super::labels::{self, plural};
use super::view::Answer;
use super::{grid, progress, verdict, watch, winner};
use crate::analysis::SessionEnd;
use crate::core::{Engine, FallbackAction, Grid, Status, units};
use crate::session::{LaneStatus, State};

/// The sentence for a session whose end was not recorded.
pub const UNEXPECTED_END: &str = "The session ended unexpectedly. Results are incomplete.";

/// The answers of a session, with the most important one first.
#[must_use]
pub fn answers(state: &State) -> Vec<Answer> {
    let mut answers: Vec<Answer> = Vec::new();
    if state.watch.is_some() && state.ended.is_none() {
        answers.push(Answer::new(Status::Warn, UNEXPECTED_END, ""));
    }
    for verdict in &state.verdicts {
        // The verdicts of two GPUs may have the same answer, which is listed once.
        let answer = verdict::answer_of_gpu(state, verdict);
        if !answers.contains(&answer) {
            answers.push(answer);
        }
    }
    let comparisons = comparisons(state);
    answers.extend(winners(&comparisons));
    answers.extend(fallbacks(state));
    let all_ended = || state.lanes.iter().all(|lane| lane.ended_ns.is_some());
    if !state.lanes.is_empty() && comparisons.is_empty() && all_ended() {
        let text = match state.lanes.iter().all(|lane| matches!(lane.engine, Engine::Workload(_))) {
            true => "No variant moved all bytes.",
            false => "No engine loaded the model.",
        };
        answers.push(Answer::new(Status::Fail, text, ""));
    }
    answers.extend(none_can_run(state));
    answers.extend(state.grid.iter().flat_map(grid::answers));
    let end = SessionEnd::of(state.ended, true);
    answers.extend(
        state.watch.iter().flat_map(|report| std::iter::once(watch::answer(report, end)).chain(watch::end(report))),
    );
    answers.extend(problems(state));
    if state.ended == Some(true) {
        answers.push(Answer::new(Status::Warn, "The session was interrupted. Results are incomplete.", ""));
    }
    answers
}

/// The winner of each group.
#[must_use]
pub fn winners(comparisons: &[Comparison<'_>]) -> Vec<Answer> {
    let naming = naming(comparisons);
    comparisons.iter().filter_map(|comparison| winner::answer(&comparison.group, naming)).collect()
}

/// The fastest engines, or the progress of a running load.
#[must_use]
pub fn race(state: &State, clock_ns: u64) -> Vec<Answer> {
    if let Some(lane) = state.running_lane() {
        return vec![progress::answer(state, lane, clock_ns)];
    }
    if state.lanes.is_empty() {
        return vec![no_runs(state)];
    }
    let mut answers = winners(&comparisons(state));
    let problems = problems(state);
    if answers.is_empty() && problems.is_empty() {
        answers.push(match state.ended {
            Some(_) => Answer::new(Status::Info, "The session ended before a run finished.", ""),
            None => {
                Answer::new(Status::Info, format!("{} planned; the first starts soon.", runs(state.lanes.len())), "")
            }
        });
    }
    answers.extend(problems);
    let waiting = state.lanes.iter().filter(|lane| lane.status == LaneStatus::Waiting).count();
    if waiting > 0 && waiting < state.lanes.len() {
        answers.push(Answer::new(
            Status::Info,
            match state.ended {
                None if !state.stopped => format!("{} to come.", runs(waiting)),
                _ => format!("{} never started.", runs(waiting)),
            },
            "",
        ));
    }
    answers
}

/// The worst status of several answers.
#[must_use]
pub fn worst(answers: &[Answer]) -> Status {
    answers.iter().map(|answer| answer.status).max_by_key(|status| status.weight()).unwrap_or(Status::Info)
}

fn no_runs(state: &State) -> Answer {
    none_can_run(state).unwrap_or_else(|| match (&state.model, state.model_written) {
        (None, Some((bytes, of))) => {
            let share = units::percent(bytes as f64 / of.max(1) as f64);
            Answer::new(Status::Info, format!("Writing the synthetic model: {share} of {}.", units::bytes(of)), "")
        }
        (Some(_), _) => Answer::new(Status::Info, "The model is open; the runs are being planned …", ""),
        (None, None) => Answer::new(Status::Info, "No runs yet: no model is open.", ""),
    })
}

/// The reason why there are no runs, if engines were planned and none of them can run.
fn none_can_run(state: &State) -> Option<Answer> {
    let (engine, why) = state.unavailable.first().filter(|_| state.lanes.is_empty())?;
    let text = match engine_rows::common_obstacle(state) {
        Some(why) => format!("No engine can run here: {why}"),
        None => format!("No engine can run here; {}: {why}", labels::engine(engine)),
    };
    Some(Answer::new(Status::Fail, text, ""))
}

fn runs(count: usize) -> String {
    format!("{count} {}", plural(count, "run"))
}

/// Failed runs, and runs that the user stopped.
fn problems(state: &State) -> Vec<Answer> {
    let groups = row_groups(state);
    let all = state.lanes.len();
    let count = |is_so: fn(&LaneStatus) -> bool| state.lanes.iter().filter(|lane| is_so(&lane.status)).count();
    let failed = count(|status| matches!(status, LaneStatus::Failed(_)));
    let cancelled = count(|status| *status == LaneStatus::Cancelled);
    let mut answers = Vec::new();
    if failed > 0 {
        let engines = engines(&groups, |row| row.failed().is_some());
        answers.push(Answer::new(Status::Warn, format!("{failed} of {} failed: {engines}.", runs(all)), ""));
    }
    if cancelled > 0 {
        let were = if cancelled == 1 { "was" } else { "were" };
        let engines = engines(&groups, |row| row.cancelled());
        answers.push(Answer::new(Status::Info, format!("{cancelled} of {} {were} stopped: {engines}.", runs(all)), ""));
    }
    answers
}

/// The engines of the selected rows, without duplicates.
fn engines(groups: &[RowGroup<'_>], is_so: impl Fn(&EngineRow<'_>) -> bool) -> String {
    let mut names: Vec<String> = Vec::new();
    for row in groups.iter().flat_map(|group| &group.rows).filter(|row| is_so(row)) {
        let name = labels::engine(row.engine);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

/// Transfers that cuFile did not make although their engine should use it: made by staging, dropped or ignored. For
/// each engine and each of the three, the run with the most transfers is shown.
fn fallbacks(state: &State) -> Vec<Answer> {
    struct Most {
        engine: String,
        action: FallbackAction,
        transfers: u64,
        of: u64,
        files: u64,
        reasons: String,
    }
    let mut most: Vec<Most> = Vec::new();
    for (engine, w) in state.lanes.iter().filter_map(|l| Some((&l.engine, l.result.as_ref()?.workload.as_ref()?))) {
        for action in [FallbackAction::Staged, FallbackAction::Dropped, FallbackAction::Ignored] {
            let those = || w.fallbacks.iter().filter(|fallback| fallback.action == action);
            let transfers = those().fold(0_u64, |sum, fallback| sum.saturating_add(fallback.operations));
            if transfers == 0 {
                continue;
            }
            let mut reasons: Vec<&str> = those().map(|fallback| fallback.reason.name()).collect();
            reasons.dedup();
            let found = Most {
                engine: engine.to_string(),
                action,
                transfers,
                of: w.requested_operations(),
                files: those().fold(0_u64, |sum, fallback| sum.saturating_add(fallback.files)),
                reasons: reasons.join(", "),
            };
            match most.iter_mut().find(|known| known.engine == found.engine && known.action == action) {
                Some(known) if known.transfers >= transfers => {}
                Some(known) => *known = found,
                None => most.push(found),
            }
        }
    }
    most.into_iter()
        .map(|found| fallback(&found.engine, found.action, [found.transfers, found.of, found.files], &found.reasons))
        .collect()
}

fn fallback(engine: &str, action: FallbackAction, [transfers, of, files]: [u64; 3], reasons: &str) -> Answer {
    let of_all = format!("{engine}: {} of {} transfers", units::count(transfers), units::count(of));
    let without = match files {
        0 => String::new(),
        files => format!(" cuFile was not used for {}.", units::plural(files, "file")),
    };
    let (headline, effect) = match action {
        FallbackAction::Staged => (format!("{of_all} fell back to staging."), ""),
        FallbackAction::Dropped => {
            (format!("{of_all} failed, and their files were not stored."), " Only the stored files were compared.")
        }
        FallbackAction::Ignored => (
            format!("{of_all} failed, and their files were not read."),
            " Only the files that were read were compared.",
        ),
    };
    Answer::new(Status::Warn, headline, format!("Reason: {reasons}.{without}{effect}"))
}

/// The summary of a plan that ran before the last plan of a session: `load Qwen3-0.6B: 9 of 9 runs finished, all
/// bytes verified.`
#[must_use]
pub fn earlier_plan(page: &State) -> String {
    format!("{}: {}", page.race_title(), super::machine::measured(page))
}

/// The answer if a session contains neither checks nor runs.
#[must_use]
pub fn nothing_done(state: &State) -> Answer {
    // A recording can end before its first result. A message reports that its end is missing.
    if state.ended.is_none() && !state.messages.is_empty() {
        let last = format!("The last event is {} after the start of the session.", units::duration(state.now_ns));
        return Answer::new(Status::Warn, "No result was recorded.", last);
    }
    Answer::new(Status::Info, "Nothing was checked and nothing was run.", "")
}

/// The amount of work in the session: `79 checks; 9 of 9 runs finished.`
#[must_use]
pub fn extent(state: &State) -> Answer {
    Answer::new(Status::Info, "", super::machine::extent(state))
}

/// The activity of a grid without a measured cell: the newest message if there is one.
#[must_use]
pub fn grid_waits(state: &State, measured: &Grid) -> Answer {
    match state.messages.last().filter(|_| measured.done() == 0 && measured.written.is_none()) {
        Some((_, _, text)) => Answer::new(Status::Info, text.clone(), ""),
        None => grid::waiting(measured),
    }
}
