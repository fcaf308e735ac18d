//! The measured ceilings in words, and each run as a share of its own.

use super::words::plain;
use crate::domain::{Ceiling, CeilingKind, RunResult, units};
use crate::session::{Group, Lane, State};
use serde_json::{Value, json};

/// The ceiling of a lane that loaded, and the share of it that was reached.
fn reached<'s>(state: &'s State, lane: &Lane) -> Option<(&'s Ceiling, f64, f64)> {
    let run = lane.result.as_deref().filter(|r| r.error.is_none())?;
    let rate = units::bytes_per_s(run.bytes, run.wall_ns)?;
    let ceiling = state.ceiling(lane.cache, &lane.target, &run.model)?;
    Some((ceiling, rate, rate / ceiling.bytes_per_s))
}

/// The ceilings, each a sentence, and then each run that has one: `hot pread 49.7 GB/s = 90 % of the pinned copy rate 55.1 GB/s`. Empty where none
/// was measured.
#[must_use]
pub fn ceiling_words(state: &State) -> Vec<String> {
    let mut said: Vec<String> = state
        .ceilings
        .iter()
        .map(|c| {
            let of = c.model.as_deref().or(c.gpu.as_deref()).map_or_else(String::new, |of| format!(" ({})", plain(of)));
            format!(
                "{}{of}: {} ({}; measured in {})",
                c.kind.words(),
                units::rate(c.bytes_per_s),
                plain(&c.how),
                units::duration(c.took_ns)
            )
        })
        .collect();
    for lane in &state.lanes {
        // One of several at once has a share of what bounds them all; the whole is told below.
        if lane.group().is_some() {
            continue;
        }
        let Some((ceiling, rate, share)) = reached(state, lane) else { continue };
        let of = lane.share.as_ref().map_or_else(String::new, |s| format!(" {}", plain(&s.label(&lane.target))));
        said.push(format!(
            "{} {}{of} {} = {:.0} % of the {} {}",
            lane.cache,
            plain(&lane.engine.to_string()),
            units::rate(rate),
            share * 100.0,
            ceiling.kind.words(),
            units::rate(ceiling.bytes_per_s)
        ));
    }
    for group in state.groups() {
        let Some((run, kind, bound, share)) = whole_reached(state, &group) else { continue };
        said.push(format!(
            "{} {} {} {} {}: {} together = {:.0} % of {}, which the {} allows",
            run.cache,
            plain(&run.engine.to_string()),
            plain(&run.model),
            if group.is_one_model() { "cut over" } else { "at once into" },
            plain(&run.target),
            units::rate(run.bytes_per_s),
            share * 100.0,
            units::rate(bound),
            kind.words(),
        ));
    }
    said
}

/// The whole of a group that loaded, what bounds it, at which rate, and the share of that which was reached.
fn whole_reached<'g>(state: &State, group: &'g Group<'_>) -> Option<(&'g RunResult, CeilingKind, f64, f64)> {
    let run = group.whole.as_ref().filter(|r| r.error.is_none())?;
    let rate = units::bytes_per_s(run.bytes, run.wall_ns)?;
    let (kind, bound) = state.group_ceiling(group)?;
    Some((run, kind, bound, rate / bound))
}

/// The ceiling of a group for `report.json`; null where one that bounds it was not measured.
pub(super) fn of_group(state: &State, group: &Group<'_>) -> Value {
    whole_reached(state, group)
        .map_or(Value::Null, |(_, kind, bound, share)| json!({"kind": kind, "bytes_per_s": bound, "fraction": share}))
}

/// The ceiling of a run for `report.json`; null where none was measured.
pub(super) fn of_run(state: &State, lane: &Lane) -> Value {
    reached(state, lane).map_or(
        Value::Null,
        |(ceiling, _, share)| json!({"kind": ceiling.kind, "bytes_per_s": ceiling.bytes_per_s, "fraction": share}),
    )
}
