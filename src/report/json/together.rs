//! Runs that loaded together, for `report.json`.

use crate::present::ceilings::combined_reached;
use crate::present::together::slowdown;
use crate::session::{Group, State};
use serde_json::{Value, json};

/// The ceiling of a group. Null if the ceiling of one of its targets or models was not measured.
fn ceiling(state: &State, group: &Group<'_>) -> Value {
    combined_reached(state, group)
        .map_or(Value::Null, |(_, kind, bound, share)| json!({"kind": kind, "bytes_per_s": bound, "fraction": share}))
}

/// The groups with their runs.
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
            let combined = group.combined.as_ref();
            let good = combined.filter(|r| r.error.is_none());
            let first = group.lanes.first();
            json!({
                "group": group.number, "kind": if group.is_one_model() { "parts" } else { "models" },
                "engine": first.map(|l| &l.engine), "cache": first.map(|l| l.cache), "repeat": first.map(|l| l.repeat),
                "model": combined.map(|r| &r.model), "target": combined.map(|r| &r.target),
                "bytes": good.map(|r| r.bytes), "wall_ns": good.map(|r| r.wall_ns),
                "bytes_per_s": good.map_or(Value::Null, |r| number(r.bytes_per_s)),
                "ceiling": ceiling(state, group),
                "verified": combined.and_then(|r| r.verified), "error": combined.and_then(|r| r.error.as_ref()),
                "lanes": members,
            })
        })
        .collect()
}
