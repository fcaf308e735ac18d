//! Lanes that ran together, for every form of the report: the whole in a sentence, and each lane beside the same load alone.

use super::words::plain;
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

/// The groups of a session that have ended.
#[must_use]
pub fn group_tables(state: &State) -> Vec<GroupTable> {
    state.groups().iter().filter_map(|group| Some(table(state, group, group.whole.as_ref()?))).collect()
}

fn table(state: &State, group: &Group<'_>, whole: &RunResult) -> GroupTable {
    let one = group.is_one_model();
    let what = if one { "cut over" } else { "at once into" };
    let engine = plain(&whole.engine.to_string());
    let title = format!("{engine}, {} cache: {} {what} {}", whole.cache, plain(&whole.model), plain(&whole.target));
    let mut head = vec![if one { "part" } else { "model" }, "bytes", "time", "rate"];
    let mut right = vec![false, true, true, true];
    if !one {
        head.extend(["alone", "vs alone"]);
        right.extend([true, true]);
    }
    head.push("verified");
    right.push(false);
    let rows = group.lanes.iter().map(|lane| row(state, lane, one)).collect();
    GroupTable { title, sentence: sentence(state, group, whole), head, right, rows }
}

fn row(state: &State, lane: &Lane, one: bool) -> Vec<String> {
    let label = lane.share.as_ref().map_or_else(String::new, |share| plain(&share.label(&lane.target)));
    let run = lane.result.as_deref().filter(|r| r.error.is_none());
    let dash = || "–".to_owned();
    let mut cells = vec![
        label,
        units::bytes(state.bytes_of(lane)),
        run.map_or_else(dash, |r| units::duration(r.wall_ns)),
        run.and_then(|r| units::bytes_per_s(r.bytes, r.wall_ns)).map_or_else(dash, units::rate),
    ];
    if !one {
        let alone = state.alone_ns(lane);
        cells.push(alone.map_or_else(dash, units::duration));
        cells.push(slowdown(state, lane).map_or_else(dash, |ratio| format!("{}×", units::three_digits(ratio))));
    }
    cells.push(match (&lane.status, lane.result.as_deref().and_then(|r| r.verified)) {
        (_, Some(true)) => "yes".to_owned(),
        (_, Some(false)) => "no".to_owned(),
        (LaneStatus::Failed(_), None) => "failed".to_owned(),
        _ => "not asked".to_owned(),
    });
    cells
}

/// How many times longer a load took together than alone.
fn slowdown(state: &State, lane: &Lane) -> Option<f64> {
    let run = lane.result.as_deref().filter(|r| r.error.is_none())?;
    state.alone_ns(lane).filter(|ns| *ns > 0).map(|alone| run.wall_ns as f64 / alone as f64)
}

/// `q cut over 2 × host memory by pread: 51.6 ms, 7.28 GB/s together (hot cache), bytes verified.`
fn sentence(state: &State, group: &Group<'_>, whole: &RunResult) -> String {
    let (model, target, engine) = (plain(&whole.model), plain(&whole.target), plain(&whole.engine.to_string()));
    let what = if group.is_one_model() { "cut over" } else { "at once into" };
    if let Some(error) = &whole.error {
        return format!("{model} {what} {target} by {engine} failed: {}", plain(error));
    }
    let rate = units::bytes_per_s(whole.bytes, whole.wall_ns).map_or_else(|| "–".to_owned(), units::rate);
    let verified = match whole.verified {
        Some(true) => "bytes verified",
        Some(false) => "bytes wrong",
        None => "bytes not verified",
    };
    let mut said = format!(
        "{model} {what} {target} by {engine}: {}, {rate} together, {} cache, {verified}.",
        units::duration(whole.wall_ns),
        whole.cache
    );
    let alone: Vec<u64> = group.lanes.iter().filter_map(|lane| state.alone_ns(lane)).collect();
    if alone.len() == group.lanes.len() {
        let ratios: Vec<f64> = group.lanes.iter().filter_map(|lane| slowdown(state, lane)).collect();
        let worst = ratios.iter().copied().fold(0.0, f64::max);
        said += &format!(
            " One after another they took {}; together each took up to {}× its time alone.",
            units::duration(alone.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns))),
            units::three_digits(worst)
        );
    }
    said
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
                        "ratio_to_alone": slowdown(state, lane).map_or(Value::Null, number),
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
