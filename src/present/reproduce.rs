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
        // The folder of a store is removed at the end of its session.
        let is_store = verdict.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("gds-top-kv-"));
        let path = verdict.path.parent().filter(|_| is_store).unwrap_or(&verdict.path).display().to_string();
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
    // The original command has all options. That of a race on the screens and of earlier recordings is derived.
    let measured = !state.lanes.is_empty() || state.grid.is_some() || state.watch.is_some();
    let derived = bench(state).map(|words| quoted_line(&words));
    let is_complete = derived.is_none() || state.command.split(' ').any(|word| word == "bench");
    if measured && is_complete && !state.command.is_empty() {
        all.push(state.command.clone());
    } else {
        all.extend(derived);
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
