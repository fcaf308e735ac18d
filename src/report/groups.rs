//! Lanes that ran together, for every form of the report: the whole in a sentence, and each lane beside the same load alone.

use super::words::{plain, where_time_went};
use crate::analysis::of_median_time;
use crate::domain::{RunResult, units};
use crate::session::{Group, Lane, LaneStatus, State};
use serde_json::{Value, json};

/// A group as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTable {
    /// `pread, hot cache: q cut over 2 × NVIDIA H200`.
    pub title: String,
    /// What it came to.
    pub sentence: String,
    /// Heads of the columns.
    pub head: Vec<&'static str>,
    /// Which columns are numbers.
    pub right: Vec<bool>,
    /// A row a lane.
    pub rows: Vec<Vec<String>>,
}

/// The groups of a session that have ended: the repeats that ended well as one, with medians and ranges, and each that failed.
#[must_use]
pub fn group_tables(state: &State) -> Vec<GroupTable> {
    let groups = state.groups();
    let mut repeats: Vec<Vec<(&Group<'_>, &RunResult)>> = Vec::new();
    for (group, whole) in groups.iter().filter_map(|group| Some((group, group.whole.as_ref()?))) {
        let key = |r: &RunResult| (r.engine.clone(), r.cache, r.model.clone(), r.target.clone());
        let same = |known: &&mut Vec<(&Group<'_>, &RunResult)>| {
            known.first().is_some_and(|(_, r)| r.error.is_none() && whole.error.is_none() && key(r) == key(whole))
        };
        match repeats.iter_mut().find(same) {
            Some(known) => known.push((group, whole)),
            None => repeats.push(vec![(group, whole)]),
        }
    }
    repeats.iter().filter_map(|repeats| table(state, repeats)).collect()
}

fn table(state: &State, repeats: &[(&Group<'_>, &RunResult)]) -> Option<GroupTable> {
    let (group, whole) = *repeats.first()?;
    let one = group.is_one_model();
    let what = if one { "cut over" } else { "at once into" };
    let engine = plain(&whole.engine.to_string());
    let title = format!("{engine}, {} cache: {} {what} {}", whole.cache, plain(&whole.model), plain(&whole.target));
    let mut head = vec![if one { "part" } else { "model" }, "bytes", "time", "rate"];
    let mut right = vec![false, true, true, true];
    if repeats.len() > 1 {
        head.insert(3, "range");
        right.insert(3, true);
    }
    if !one {
        head.extend(["alone", "vs alone"]);
        right.extend([true, true]);
    }
    head.extend(["verified", "where the time went"]);
    right.extend([false, false]);
    let slot = |number: usize| repeats.iter().filter_map(move |(g, _)| g.lanes.get(number).copied()).collect();
    let slots: Vec<Vec<&Lane>> = (0..group.lanes.len()).map(slot).collect();
    let rows = slots.iter().map(|lanes| row(state, lanes, one, repeats.len() > 1)).collect();
    Some(GroupTable { title, sentence: sentence(state, repeats, &slots)?, head, right, rows })
}

/// The times of a slot's lanes that ended well, in order.
fn walls(lanes: &[&Lane]) -> Vec<u64> {
    let good = lanes.iter().filter_map(|lane| lane.result.as_deref().filter(|r| r.error.is_none()));
    let mut walls: Vec<u64> = good.map(|r| r.wall_ns).collect();
    walls.sort_unstable();
    walls
}

fn median(walls: &[u64]) -> Option<u64> {
    let upper = *walls.get(walls.len() / 2)?;
    Some(if walls.len() % 2 == 1 { upper } else { walls[walls.len() / 2 - 1].midpoint(upper) })
}

/// `163 ms to 178 ms`.
fn range(walls: &[u64]) -> Option<String> {
    Some(format!("{} to {}", units::duration(*walls.first()?), units::duration(*walls.last()?)))
}

/// One place of the group: its lane, or that of each repeat.
fn row(state: &State, lanes: &[&Lane], one: bool, repeated: bool) -> Vec<String> {
    let dash = || "–".to_owned();
    let Some(lane) = lanes.first() else { return Vec::new() };
    let label = lane.share.as_ref().map_or_else(String::new, |share| plain(&share.label(&lane.target)));
    let walls = walls(lanes);
    let wall = median(&walls);
    let bytes = lanes.iter().filter_map(|lane| Some(lane.result.as_deref()?.bytes)).max().unwrap_or(0);
    let mut cells = vec![label, units::bytes(state.bytes_of(lane)), wall.map_or_else(dash, units::duration)];
    if repeated {
        cells.push(range(&walls).unwrap_or_else(dash));
    }
    cells.push(wall.and_then(|ns| units::bytes_per_s(bytes, ns)).map_or_else(dash, units::rate));
    if !one {
        let alone = state.alone_ns(lane);
        cells.push(alone.map_or_else(dash, units::duration));
        cells.push(slowdown(state, lanes).map_or_else(dash, |ratio| format!("{}×", units::three_digits(ratio))));
    }
    let verified = |lane: &&Lane| lane.result.as_deref().and_then(|r| r.verified);
    let failed = |lane: &&Lane| matches!(lane.status, LaneStatus::Failed(_));
    cells.push(
        if lanes.iter().any(|lane| verified(lane) == Some(false)) {
            "no"
        } else if lanes.iter().any(failed) {
            "failed"
        } else if lanes.iter().all(|lane| verified(lane) == Some(true)) {
            "yes"
        } else {
            "not asked"
        }
        .to_owned(),
    );
    let good = lanes.iter().filter_map(|lane| lane.result.as_deref().filter(|r| r.error.is_none())).collect();
    cells.push(of_median_time(good, |run: &&RunResult| run.wall_ns).map_or_else(dash, where_time_went));
    cells
}

/// How many times longer a load took together than alone, by the medians of both.
fn slowdown(state: &State, lanes: &[&Lane]) -> Option<f64> {
    let wall = median(&walls(lanes))?;
    state.alone_ns(lanes.first()?).filter(|ns| *ns > 0).map(|alone| wall as f64 / alone as f64)
}

/// `q cut over 2 × host memory by pread: 51.6 ms (51.2 ms to 53.0 ms, n = 3), 7.28 GB/s together, hot cache, bytes verified.`
fn sentence(state: &State, repeats: &[(&Group<'_>, &RunResult)], slots: &[Vec<&Lane>]) -> Option<String> {
    let (group, whole) = *repeats.first()?;
    let (model, target, engine) = (plain(&whole.model), plain(&whole.target), plain(&whole.engine.to_string()));
    let what = if group.is_one_model() { "cut over" } else { "at once into" };
    if let Some(error) = &whole.error {
        // Each repeat that failed is told, so that they are told apart.
        let run = format!("{} #{}", whole.cache, whole.repeat.saturating_add(1));
        return Some(format!("{model} {what} {target} by {engine} failed ({run}): {}", plain(error)));
    }
    let mut walls: Vec<u64> = repeats.iter().map(|(_, r)| r.wall_ns).collect();
    walls.sort_unstable();
    let wall = median(&walls)?;
    let spread = range(&walls).filter(|_| walls.len() > 1);
    let spread = spread.map_or_else(String::new, |range| format!(" ({range}, n = {})", walls.len()));
    let rate = units::bytes_per_s(whole.bytes, wall).map_or_else(|| "–".to_owned(), units::rate);
    let all = |verified| repeats.iter().all(|(_, r)| r.verified == verified);
    let verified = if all(Some(true)) {
        "bytes verified"
    } else if repeats.iter().any(|(_, r)| r.verified == Some(false)) {
        "bytes wrong"
    } else {
        "bytes not verified"
    };
    let mut said = format!(
        "{model} {what} {target} by {engine}: {}{spread}, {rate} together, {} cache, {verified}.",
        units::duration(wall),
        whole.cache
    );
    let alone: Vec<u64> = group.lanes.iter().filter_map(|lane| state.alone_ns(lane)).collect();
    if alone.len() == group.lanes.len() {
        let worst = slots.iter().filter_map(|lanes| slowdown(state, lanes)).fold(0.0, f64::max);
        said += &format!(
            " One after another they took {}; together each took up to {}× its time alone.",
            units::duration(alone.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns))),
            units::three_digits(worst)
        );
    }
    Some(said)
}

/// The groups for `report.json`.
pub(super) fn json(state: &State) -> Vec<Value> {
    let number = |v: f64| serde_json::Number::from_f64(v).map_or(Value::Null, Value::Number);
    state
        .groups()
        .iter()
        .map(|group| {
            let members: Vec<Value> = group
                .lanes
                .iter()
                .map(|lane| {
                    let run = lane.result.as_deref().filter(|r| r.error.is_none());
                    let share = lane.share.as_ref();
                    json!({
                        "lane": lane.id, "model": share.map(|s| &s.model), "part": share.and_then(|s| s.part),
                        "target": lane.target.to_string(), "bytes": state.bytes_of(lane), "wall_ns": run.map(|r| r.wall_ns),
                        "bytes_per_s": run.map_or(Value::Null, |r| number(r.bytes_per_s)),
                        "verified": lane.result.as_deref().and_then(|r| r.verified),
                        "alone_wall_ns": state.alone_ns(lane),
                        "ratio_to_alone": slowdown(state, &[*lane]).map_or(Value::Null, number),
                    })
                })
                .collect();
            let whole = group.whole.as_ref();
            let good = whole.filter(|r| r.error.is_none());
            let first = group.lanes.first();
            json!({
                "group": group.number, "kind": if group.is_one_model() { "parts" } else { "models" },
                "engine": first.map(|l| &l.engine), "cache": first.map(|l| l.cache), "repeat": first.map(|l| l.repeat),
                "model": whole.map(|r| &r.model), "target": whole.map(|r| &r.target),
                "bytes": good.map(|r| r.bytes), "wall_ns": good.map(|r| r.wall_ns),
                "bytes_per_s": good.map_or(Value::Null, |r| number(r.bytes_per_s)),
                "ceiling": super::ceilings::of_group(state, group),
                "verified": whole.and_then(|r| r.verified), "error": whole.and_then(|r| r.error.as_ref()),
                "lanes": members,
            })
        })
        .collect()
}
