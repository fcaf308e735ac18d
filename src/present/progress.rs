//! The progress and the end of a run.

use super::engine_rows::{group_of, row_groups};
use super::labels;
use super::view::Answer;
use crate::core::{CacheState, LaneStage, RunResult, Status, units};
use crate::session::{Lane, LaneStatus, State};

/// The answer about the progress of a run.
#[must_use]
pub fn answer(state: &State, lane: &Lane, clock_ns: u64) -> Answer {
    let LaneStatus::Running(stage) = lane.status else { return Answer::new(Status::Info, "", "") };
    if lane.group().is_some() {
        return together(state, lane);
    }
    let number = state.lanes.iter().position(|l| l.id == lane.id).map_or(1, |at| at + 1);
    let of = format!("Run {number} of {}.", state.lanes.len());
    let (name, words) = (labels::engine(&lane.engine), stage_words(stage, lane.cache));
    if stage != LaneStage::Loading {
        return Answer::new(Status::Info, format!("{name} {words}."), of);
    }
    let (landed, total) = (lane.landed_bytes(), state.bytes_of(lane));
    let so_far = match total {
        0 => units::bytes(landed),
        _ => format!("{} of {}", units::percent(landed as f64 / total as f64), units::bytes(total)),
    };
    let speed = rate_now(lane).map_or_else(String::new, |rate| format!(" at {}", units::rate(rate)));
    let rival = rival(state, lane, clock_ns).unwrap_or_default();
    Answer::new(Status::Info, format!("{name} {words}: {so_far}{speed}{rival}."), of)
}

/// The combined progress of runs that load at the same time.
fn together(state: &State, lane: &Lane) -> Answer {
    let lanes: Vec<&Lane> = state.lanes.iter().filter(|l| l.group() == lane.group()).collect();
    let landed = lanes.iter().fold(0_u64, |sum, l| sum.saturating_add(l.landed_bytes()));
    let total = lanes.iter().fold(0_u64, |sum, l| sum.saturating_add(state.bytes_of(l)));
    let loading = lanes.iter().filter(|l| l.clock_ns.is_some() && l.loaded_ns.is_none() && l.ended_ns.is_none());
    let speed: f64 = loading.clone().filter_map(|l| rate_now(l)).sum();
    let (n, name) = (lanes.len(), labels::engine(&lane.engine));
    let headline = if loading.count() > 0 {
        let share = units::percent(landed as f64 / total.max(1) as f64);
        format!("{n} runs of {name} together: {share} of {} at {}.", units::bytes(total), units::rate(speed))
    } else if lanes.iter().any(|l| l.loaded_ns.is_some() || l.ended_ns.is_some()) {
        format!("{n} runs of {name} have loaded; their bytes are being verified.")
    } else {
        format!("{n} runs of {name} start together.")
    };
    Answer::new(Status::Info, headline, "")
}

/// Compares the run with the fastest completed engine of its group at the same time after the start.
fn rival(state: &State, lane: &Lane, clock_ns: u64) -> Option<String> {
    let groups = row_groups(state);
    let group = group_of(&groups, lane).filter(|group| !group.together())?;
    let best = group.ranked().into_iter().find(|row| *row.engine != lane.engine)?;
    let elapsed = elapsed_ns(lane, clock_ns)?;
    let (ours, theirs) = (lane.landed_bytes(), landed_at(best.typical()?, elapsed));
    if theirs == 0 || ours == 0 {
        return None;
    }
    let place = if ours >= theirs { "ahead of" } else { "behind" };
    Some(format!(", {place} {}", labels::engine(best.engine)))
}

/// The elapsed time of a run in nanoseconds: until now while it loads, later its wall time. `None` before its clock
/// starts.
#[must_use]
pub fn elapsed_ns(lane: &Lane, clock_ns: u64) -> Option<u64> {
    if let Some(result) = lane.result.as_deref().filter(|r| r.wall_ns > 0) {
        return Some(result.wall_ns);
    }
    let start = lane.clock_ns?;
    let end = lane.loaded_ns.or(lane.ended_ns).unwrap_or(clock_ns);
    Some(end.saturating_sub(start))
}

/// The number of bytes that had landed at the given time after the start. It is interpolated between progress points.
#[must_use]
pub fn landed_at(lane: &Lane, on_clock_ns: u64) -> u64 {
    let Some(start) = lane.clock_ns else { return 0 };
    let wall = lane.result.as_deref().map(|r| (r.wall_ns, r.bytes)).filter(|_| lane.status == LaneStatus::Done);
    if let Some((wall_ns, bytes)) = wall
        && on_clock_ns >= wall_ns
    {
        return bytes;
    }
    let mut before = (0_u64, 0_u64);
    let points = lane.progress.iter().map(|(at, bytes)| (at.saturating_sub(start), *bytes)).chain(wall);
    for (at, bytes) in points {
        if at >= on_clock_ns {
            let (span, gain) = (at.saturating_sub(before.0).max(1) as f64, bytes.saturating_sub(before.1) as f64);
            return before.1 + (gain * on_clock_ns.saturating_sub(before.0) as f64 / span) as u64;
        }
        before = (at, bytes);
    }
    before.1
}

/// The rate of a running load over about the last half second, in bytes per second.
#[must_use]
pub fn rate_now(lane: &Lane) -> Option<f64> {
    const WINDOW_NS: u64 = 500_000_000;
    let (last_at, last) = *lane.progress.last()?;
    let (first_at, first) =
        *lane.progress.iter().rev().take_while(|(at, _)| last_at - at.min(&last_at) <= WINDOW_NS).last()?;
    let ns = last_at.checked_sub(first_at).filter(|ns| *ns > 0)?;
    Some(last.saturating_sub(first) as f64 * 1e9 / ns as f64)
}

/// The description of a stage, which follows the name of the engine.
#[must_use]
pub const fn stage_words(stage: LaneStage, cache: CacheState) -> &'static str {
    match (stage, cache) {
        (LaneStage::Setup, _) => "starts: process, context, libraries",
        (LaneStage::PreparingCache, CacheState::Cold) => "waits while the page cache is emptied",
        (LaneStage::PreparingCache, CacheState::Hot) => "waits while the page cache is filled",
        (LaneStage::PreparingCache, CacheState::AsIs) => "waits while the page cache is measured",
        (LaneStage::Loading, _) => "loads",
        (LaneStage::Verifying, _) => "has loaded; its bytes are being verified",
    }
}

/// The description of a stage for a progress bar.
#[must_use]
pub const fn stage_short(stage: LaneStage) -> &'static str {
    match stage {
        LaneStage::Setup => "starting",
        LaneStage::PreparingCache => "preparing the page cache",
        LaneStage::Loading => "loading",
        LaneStage::Verifying => "verifying",
    }
}

/// The name of a run with its number: `[3/9] mmap hot #1`.
#[must_use]
pub fn run_name(state: &State, lane: &Lane) -> String {
    let number = state.lanes.iter().position(|l| l.id == lane.id).map_or(1, |at| at + 1);
    let share = lane.share.as_ref().map_or_else(String::new, |share| format!(", {}", share.label(&lane.target)));
    format!("[{number}/{}] {} {} #{}{share}", state.lanes.len(), lane.engine, lane.cache, lane.repeat.saturating_add(1))
}

/// The status and text of a completed run; `None` while it runs.
#[must_use]
pub fn ending(lane: &Lane) -> Option<(Status, String)> {
    match (&lane.status, &lane.result) {
        (LaneStatus::Failed(why), _) => Some((Status::Fail, why.to_string())),
        (LaneStatus::Cancelled, _) => Some((Status::Na, without_result(&lane.status).to_owned())),
        (LaneStatus::Done, Some(run)) => Some((Status::Pass, measured(run))),
        _ => None,
    }
}

/// The state of a run without a result.
#[must_use]
pub fn without_result(status: &LaneStatus) -> &'static str {
    match status {
        LaneStatus::Waiting => "not started",
        LaneStatus::Running(_) => "not finished",
        LaneStatus::Cancelled | LaneStatus::Done | LaneStatus::Failed(_) => "stopped",
    }
}

/// The result of a run: `625 ms, 2.40 GB/s, verified, compat, proven`.
fn measured(run: &RunResult) -> String {
    let rate = units::bytes_per_s(run.bytes, run.wall_ns).filter(|rate| *rate > 0.0);
    let rate = rate.map_or_else(|| "nothing moved".to_owned(), units::rate);
    let mut parts = vec![units::duration(run.wall_ns), rate, labels::run_verified(run).to_owned()];
    parts.extend(run.route.as_ref().map(|counts| labels::route(Some(counts))));
    parts.join(", ")
}

/// The notes of a completed run, each as a sentence.
#[must_use]
pub fn notes(run: &RunResult) -> Vec<String> {
    let chose = run.auto_choice.as_ref().map(|choice| labels::auto_choice(choice, run.cache_resident_before_fraction));
    chose.into_iter().chain(run.notes.iter().map(super::notes::sentence)).collect()
}
