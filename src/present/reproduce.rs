//! The commands with which a session can be repeated.

use crate::core::{CacheState, Target};
use crate::session::State;
use crate::text::quoted_line;

/// The explanation of the commands.
pub const EXPLANATION: &str = "The first commands repeat this session. The last one writes what the checks read, without names, addresses and serial numbers.";

/// The commands, quoted for a shell. Model paths are those of the session.
#[must_use]
pub fn commands(state: &State) -> Vec<String> {
    let line = |words: &[&str]| quoted_line(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let mut paths: Vec<String> = Vec::new();
    for verdict in &state.verdicts {
        let path = verdict.path.display().to_string();
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        paths.extend(state.models.iter().map(|model| model.path.display().to_string()));
    }
    let with_paths =
        |words: &[&str]| line(&words.iter().copied().chain(paths.iter().map(String::as_str)).collect::<Vec<_>>());
    let mut all = Vec::new();
    if !paths.is_empty() {
        all.push(with_paths(&["gds-top", "check"]));
    }
    all.extend(bench(state).map(|words| quoted_line(&words)));
    // The options of a storage grid or a watched program cannot be derived from the state, so the original command is
    // used.
    let measured = !state.lanes.is_empty() || state.grid.is_some() || state.watch.is_some();
    if measured && bench(state).is_none() && !state.command.is_empty() {
        all.push(state.command.clone());
    }
    if !paths.is_empty() {
        all.push(with_paths(&["gds-top", "capture", "machine.tar.zst"]));
    }
    all
}

/// The benchmark command of a session that contains loads.
fn bench(state: &State) -> Option<Vec<String>> {
    let is_load = |lane: &&crate::session::Lane| lane.result.as_deref().is_none_or(|run| run.workload.is_none());
    let lanes: Vec<_> = state.lanes.iter().filter(is_load).collect();
    if lanes.is_empty() || state.grid.is_some() || lanes.len() < state.lanes.len() {
        return None;
    }
    let mut words: Vec<String> = ["gds-top", "bench"].map(str::to_owned).into();
    words.extend(state.models.iter().map(|model| model.path.display().to_string()));
    let once = |values: Vec<String>| {
        let mut seen: Vec<String> = Vec::new();
        values.into_iter().for_each(|value| {
            if !seen.contains(&value) {
                seen.push(value);
            }
        });
        seen.join(",")
    };
    words.push("--engine".to_owned());
    words.push(once(lanes.iter().map(|lane| lane.engine.to_string()).collect()));
    words.push("--cache".to_owned());
    words.push(once(lanes.iter().map(|lane| CacheState::to_string(&lane.cache)).collect()));
    words.push("--repeat".to_owned());
    words.push(lanes.iter().map(|lane| lane.repeat.saturating_add(1)).max().unwrap_or(1).to_string());
    words.push("--target".to_owned());
    words.push(once(
        lanes
            .iter()
            .map(|lane| match &lane.target {
                Target::Host => "host".to_owned(),
                Target::Gpu { uuid: Some(uuid), .. } => uuid.clone(),
                Target::Gpu { ordinal, .. } => ordinal.to_string(),
            })
            .collect(),
    ));
    Some(words)
}
