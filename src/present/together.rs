//! Runs that loaded together: a sentence about all of them, and a table of the parts.

use super::labels::{factor, run_verified};
use super::phases::largest;
use super::view::{Table, number, or_gap, text};
use crate::analysis::{median_time, of_median_time};
use crate::core::{RunResult, units};
use crate::session::{Group, Lane, LaneStatus, State};

/// Tables of the completed groups of a session. Successful repeats share one table with medians and ranges. Each
/// failed repeat has a separate table.
#[must_use]
pub fn tables(state: &State) -> Vec<Table> {
    let groups = state.groups();
    let mut repeats: Vec<Vec<(&Group<'_>, &RunResult)>> = Vec::new();
    for (group, combined) in groups.iter().filter_map(|group| Some((group, group.combined.as_ref()?))) {
        let key = |r: &RunResult| (r.engine.clone(), r.cache, r.model.clone(), r.target.clone());
        let same = |known: &&mut Vec<(&Group<'_>, &RunResult)>| {
            known.first().is_some_and(|(_, r)| r.error.is_none() && combined.error.is_none() && key(r) == key(combined))
        };
        match repeats.iter_mut().find(same) {
            Some(known) => known.push((group, combined)),
            None => repeats.push(vec![(group, combined)]),
        }
    }
    repeats.iter().filter_map(|repeats| table(state, repeats)).collect()
}

/// Part of a title: `cut over` for parts of one model, `at once into` for several models.
pub(super) fn how(group: &Group<'_>) -> &'static str {
    if group.is_one_model() { "cut over" } else { "at once into" }
}

fn table(state: &State, repeats: &[(&Group<'_>, &RunResult)]) -> Option<Table> {
    let (group, combined) = *repeats.first()?;
    let one = group.is_one_model();
    let mut heads = vec![text(if one { "part" } else { "model" }), number("bytes"), number("time")];
    heads.extend((repeats.len() > 1).then(|| number("range")));
    heads.push(number("rate"));
    if !one {
        heads.extend([number("alone"), number("vs alone")]);
    }
    heads.extend([text("verified"), text("largest phases")]);
    let slot = |number: usize| repeats.iter().filter_map(move |(g, _)| g.lanes.get(number).copied()).collect();
    let slots: Vec<Vec<&Lane>> = (0..group.lanes.len()).map(slot).collect();
    Some(Table {
        title: format!(
            "{}, {} cache: {} {} {}",
            combined.engine,
            combined.cache,
            combined.model,
            how(group),
            combined.target
        ),
        note: sentence(state, repeats, &slots)?,
        heads,
        rows: slots.iter().map(|lanes| row(state, lanes, one, repeats.len() > 1)).collect(),
    })
}

fn good<'s>(lanes: &[&'s Lane]) -> Vec<&'s RunResult> {
    lanes.iter().filter_map(|lane| lane.result.as_deref().filter(|run| run.error.is_none())).collect()
}

fn walls(runs: &[&RunResult]) -> Vec<u64> {
    runs.iter().map(|run| run.wall_ns).collect()
}

/// The range of wall times: `163 ms – 178 ms`. `None` if there is only one run.
fn range(walls: &[u64]) -> Option<String> {
    let (low, high) = (walls.iter().min()?, walls.iter().max()?);
    (walls.len() > 1).then(|| format!("{} – {}", units::duration(*low), units::duration(*high)))
}

/// The table row for one part or model of the group. `lanes` contains its run in each repeat.
fn row(state: &State, lanes: &[&Lane], one: bool, repeated: bool) -> Vec<String> {
    let Some(lane) = lanes.first() else { return Vec::new() };
    let label = lane.share.as_ref().map_or_else(String::new, |share| share.label(&lane.target));
    let runs = good(lanes);
    let wall = median_time(&walls(&runs));
    let bytes = runs.iter().map(|run| run.bytes).max().unwrap_or(0);
    let mut cells = vec![label, units::bytes(state.bytes_of(lane)), or_gap(wall.map(units::duration))];
    cells.extend(repeated.then(|| or_gap(range(&walls(&runs)))));
    cells.push(or_gap(wall.and_then(|ns| units::bytes_per_s(bytes, ns)).map(units::rate)));
    if !one {
        cells.push(or_gap(state.alone_ns(lane).map(units::duration)));
        cells.push(or_gap(slowdown(state, lanes).map(factor)));
    }
    cells.push(verified(lanes).to_owned());
    cells.push(or_gap(of_median_time(runs, |run: &&RunResult| run.wall_ns).map(largest)));
    cells
}

fn verified(lanes: &[&Lane]) -> &'static str {
    let of = |lane: &&Lane| lane.result.as_deref().and_then(|run| run.verified);
    let failed = |lane: &&Lane| matches!(lane.status, LaneStatus::Failed(_));
    if lanes.iter().any(|lane| of(lane) == Some(false)) {
        "wrong bytes"
    } else if lanes.iter().any(failed) {
        "failed"
    } else if lanes.iter().all(|lane| of(lane) == Some(true)) {
        "yes"
    } else {
        "not asked"
    }
}

/// The median time of a load that ran together with others, divided by its median time alone.
#[must_use]
pub fn slowdown(state: &State, lanes: &[&Lane]) -> Option<f64> {
    let wall = median_time(&walls(&good(lanes)))?;
    state.alone_ns(lanes.first()?).filter(|ns| *ns > 0).map(|alone| wall as f64 / alone as f64)
}

/// The sentence about the group: `pread took 51.6 ms, 7.28 GB/s together. 3 runs (51.2 ms – 53.0 ms), all bytes
/// verified.`
fn sentence(state: &State, repeats: &[(&Group<'_>, &RunResult)], slots: &[Vec<&Lane>]) -> Option<String> {
    let (group, combined) = *repeats.first()?;
    if let Some(error) = &combined.error {
        // Each failed repeat has a separate table, so the sentence contains its number.
        return Some(format!("Run {} failed: {error}", combined.repeat.saturating_add(1)));
    }
    let runs: Vec<&RunResult> = repeats.iter().map(|(_, run)| *run).collect();
    let wall = median_time(&walls(&runs))?;
    let rate = or_gap(units::bytes_per_s(combined.bytes, wall).map(units::rate));
    let spread = range(&walls(&runs)).map_or_else(String::new, |range| format!(" ({range})"));
    let all = |verified| runs.iter().all(|run| run.verified == verified);
    let verified = match runs.iter().find(|run| run.verified == Some(false)) {
        Some(wrong) => run_verified(wrong),
        None if all(Some(true)) => "all bytes verified",
        None => "bytes not verified",
    };
    let mut said = format!(
        "{} took {}, {rate} together. {}{spread}, {verified}.",
        super::labels::engine(&combined.engine),
        units::duration(wall),
        units::plural(runs.len() as u64, "run")
    );
    let alone: Vec<u64> = group.lanes.iter().filter_map(|lane| state.alone_ns(lane)).collect();
    if alone.len() == group.lanes.len() {
        let worst = slots.iter().filter_map(|lanes| slowdown(state, lanes)).fold(0.0, f64::max);
        said += &format!(
            " One after another they took {}. Together, each took up to {} its time alone.",
            units::duration(alone.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns))),
            factor(worst)
        );
    }
    Some(said)
}
