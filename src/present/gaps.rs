//! Missing measurements, and the notes of the runs.

use super::labels::engine_in;
use super::{engine_rows, progress};
use crate::core::{LeftOutVariable, LogLevel, Status};
use crate::session::{Lane, State};
use std::collections::BTreeSet;

/// The missing measurements and notes of a session. Each is one sentence and appears once.
#[must_use]
pub fn gaps(state: &State) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut say = |sentence: String| {
        if seen.insert(sentence.clone()) {
            said.push(sentence);
        }
    };
    for LeftOutVariable { name, in_part, reason } in &state.left_out_variables {
        let how = if *in_part { "is used only in part" } else { "is not used" };
        say(format!("{name} {how}, because {reason}."));
    }
    // The headline has the reason why nothing can run.
    let unavailable = match engine_rows::common_obstacle(state) {
        Some(_) => Vec::new(),
        None => engine_rows::unavailable(state),
    };
    for (engines, why) in unavailable {
        let engines = engines.join(", ");
        say(format!("{engines} {why}"));
    }
    for finding in state.checks.iter().filter(|finding| finding.status == Status::Na && !finding.is_implied()) {
        say(format!("{} was not checked: {}", finding.id, finding.summary));
    }
    let of_first: BTreeSet<String> = state
        .lanes
        .iter()
        .filter(|lane| lane.repeat == 0)
        .filter_map(|lane| Some((name(lane, false), lane.result.as_deref()?)))
        .flat_map(|(name, run)| progress::notes(run).into_iter().map(move |note| format!("{name}: {note}")))
        .collect();
    for lane in &state.lanes {
        let Some(run) = &lane.result else { continue };
        let name_of_all = name(lane, false);
        if state.model_of(lane).is_some_and(|model| model.name != run.model) {
            say(format!("{name_of_all}: tensors of {} are left out; the session ended with another model.", run.model));
        }
        // If no bytes were moved, there is nothing to verify and no page cache to measure.
        if run.verified.is_none() && run.error.is_none() && run.bytes > 0 {
            say(format!("{name_of_all}: the bytes were not verified."));
        }
        // If a run failed before its clock started, its page cache was not measured. In a workload, only reads of
        // files use the page cache.
        let files = run.workload.as_ref().is_none_or(|w| w.lookup_ns.is_some() && run.bytes > 0);
        if run.cache_resident_before_fraction.is_none() && run.wall_ns > 0 && files {
            say(format!("{name_of_all}: how much of the model was cached is unknown."));
        }
        if let Some(route) = run.route.as_ref().filter(|route| !route.proven) {
            say(format!("{name_of_all}: the route is not proven ({}).", route.source));
        }
        for note in progress::notes(run) {
            // A note that every repeat has is listed once. A note of a later repeat is listed with its number.
            let noted = format!("{name_of_all}: {note}");
            let first = lane.repeat == 0 || of_first.contains(&noted);
            say(if first { noted } else { format!("{}: {note}", name(lane, true)) });
        }
    }
    if !state.lanes.is_empty() && state.samples.is_empty() {
        say("No meters were read during the runs.".to_owned());
    }
    for (_, level, text) in &state.messages {
        let is_listed = state.unavailable.iter().any(|(_, why)| why == text);
        if *level != LogLevel::Info && !is_listed {
            say(text.clone());
        }
    }
    said
}

/// The name of a run: `gds-slab (hot)`, or `gds-slab (hot) #2` with the number of the repeat.
fn name(lane: &Lane, repeat: bool) -> String {
    let share = lane.share.as_ref().map(|share| share.label(&lane.target));
    let name = engine_in(&lane.engine, lane.cache, share.as_deref());
    if repeat { format!("{name} #{}", lane.repeat.saturating_add(1)) } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Event, EventBody};

    #[test]
    fn each_variable_that_was_left_out_is_one_sentence() {
        let variable = |name: &str, in_part| LeftOutVariable {
            name: name.to_owned(),
            in_part,
            reason: "other users can create files in /tmp".to_owned(),
        };
        let left_out_variables = vec![variable("LD_LIBRARY_PATH", true), variable("UCX_LOG_FILE", false)];
        let started = EventBody::SessionStarted {
            tool: String::new(),
            unix_ms: 0,
            command: String::new(),
            directory: String::new(),
            left_out_variables,
        };
        let mut state = State::default();
        state.reduce(&Event { at_ns: 0, body: started });
        let sentences = [
            "LD_LIBRARY_PATH is used only in part, because other users can create files in /tmp.",
            "UCX_LOG_FILE is not used, because other users can create files in /tmp.",
        ];
        assert_eq!(gaps(&state), sentences);
    }
}
