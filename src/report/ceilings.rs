//! The measured ceilings in words, and each run as a share of its own.

use super::words::plain;
use crate::domain::{Ceiling, units};
use crate::session::{Lane, State};
use serde_json::{Value, json};

/// The ceiling of a lane that loaded, and the share of it that was reached.
fn reached<'s>(state: &'s State, lane: &Lane) -> Option<(&'s Ceiling, f64, f64)> {
    let run = lane.result.as_ref().filter(|r| r.error.is_none())?;
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
    said
}

/// The ceiling of a run for `report.json`; null where none was measured.
pub(super) fn of_run(state: &State, lane: &Lane) -> Value {
    reached(state, lane).map_or(
        Value::Null,
        |(ceiling, _, share)| json!({"kind": ceiling.kind, "bytes_per_s": ceiling.bytes_per_s, "fraction": share}),
    )
}
