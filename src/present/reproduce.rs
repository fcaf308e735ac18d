//! The commands with which a session can be repeated.

use crate::core::{CacheState, ModelInfo, Synthetic, Target};
use crate::session::State;
use crate::text::quoted_line;
use std::path::Path;

/// The options of a session whose files a repetition must not replace, each with a value.
const OUTPUTS: [&str; 3] = ["--export", "--format", "--record"];
/// The option of a session that examined a captured machine, and its other name.
const CAPTURES: [&str; 2] = ["--capture", "--root"];

/// A sentence about the commands, and the commands, quoted for a shell. `None` if nothing can be repeated.
#[must_use]
pub fn commands(state: &State) -> Option<(&'static str, Vec<String>)> {
    let paths = paths(state);
    let with_paths = |words: &[&str]| line(words.iter().copied().chain(paths.iter().map(String::as_str)));
    let mut all: Vec<String> = state.models.iter().filter_map(|model| make_model(model)).collect();
    // The original command has all options. That of a race on the screens and of earlier recordings is derived.
    let measured = !state.lanes.is_empty() || state.grid.is_some() || state.watch.is_some();
    let words: Vec<&str> = state.command.split(' ').take_while(|word| *word != "--").collect();
    let is_captured = words.iter().any(|word| CAPTURES.contains(&word.split('=').next().unwrap_or_default()));
    let is_check = !measured && (is_captured || words.contains(&"check"));
    if !paths.is_empty() && !is_check {
        all.push(with_paths(&["gds-top", "check"]));
    }
    let derived = bench(state).map(|words| quoted_line(&words));
    let is_complete = derived.is_none() || state.command.split(' ').any(|word| word == "bench");
    if (measured || is_check) && is_complete && !state.command.is_empty() {
        // Paths in the command can be relative.
        if !state.directory.is_empty() {
            all.insert(0, line(["cd", &state.directory]));
        }
        all.push(without_outputs(&state.command));
    } else {
        all.extend(derived);
    }
    let repeats = all.len();
    // A captured machine is another one than that of the session.
    let captures = !paths.is_empty() && !is_captured;
    if captures {
        all.push(with_paths(&["gds-top", "capture", "machine.tar.zst"]));
    }
    let explanation = match (repeats, !captures) {
        (0, _) => return None,
        (1, true) => "This command repeats the session.",
        (_, true) => "These commands repeat the session.",
        (1, false) => {
            "The first command repeats this session. The last one writes what the checks read, without names, addresses and serial numbers."
        }
        (_, false) => {
            "The first commands repeat this session. The last one writes what the checks read, without names, addresses and serial numbers."
        }
    };
    Some((explanation, all))
}

fn line<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    quoted_line(&words.into_iter().map(str::to_owned).collect::<Vec<_>>())
}

/// The examined paths, or else those of the models, or else those whose storage was described.
fn paths(state: &State) -> Vec<String> {
    let mut all: Vec<&Path> = state.verdicts.iter().map(|verdict| verdict.path.as_path()).collect();
    if all.is_empty() {
        all.extend(state.models.iter().map(|model| model.path.as_path()));
    }
    if all.is_empty() {
        all.extend(state.machine.iter().flat_map(|machine| &machine.storage).map(|storage| Path::new(&storage.path)));
    }
    let mut paths: Vec<String> = Vec::new();
    for path in all {
        // The directory of a store is removed at the end of its session.
        let is_store = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("gds-top-kv-"));
        let path = path.parent().filter(|_| is_store).unwrap_or(path).display().to_string();
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// The command that writes a synthetic model.
fn make_model(model: &ModelInfo) -> Option<String> {
    let Synthetic { shape, scale, seed } = model.synthetic.as_ref()?;
    let is_file = model.path.extension().is_some_and(|end| end == "safetensors" || end == "json");
    let folder = model.path.parent().filter(|_| is_file).unwrap_or(&model.path).display().to_string();
    let seed = seed.to_string();
    let scale = (scale != "1").then_some(["--scale", scale]);
    let seed = (seed != "0").then_some(["--seed", &seed]);
    Some(line(["gds-top", "make-model", shape, &folder].into_iter().chain(scale.into_iter().chain(seed).flatten())))
}

/// The command without options that name its output files. The words of a watched program after `--` stay.
fn without_outputs(command: &str) -> String {
    let Some(words) = shlex::split(command) else { return command.to_owned() };
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let (own, program) = words.split_at(end);
    let mut kept = Vec::new();
    let mut own = own.iter();
    while let Some(word) = own.next() {
        if OUTPUTS.contains(&word.as_str()) {
            own.next();
        } else if !OUTPUTS.iter().any(|option| word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))) {
            kept.push(word.as_str());
        }
    }
    line(kept.into_iter().chain(program.iter().map(String::as_str)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Event, EventBody, GridPlan};

    fn state(command: &str, bodies: Vec<EventBody>) -> State {
        let mut state = State::default();
        let started = EventBody::SessionStarted {
            tool: String::new(),
            unix_ms: 0,
            command: command.to_owned(),
            directory: "/data/a b".to_owned(),
            left_out_variables: Vec::new(),
        };
        for body in std::iter::once(started).chain(bodies) {
            state.reduce(&Event { at_ns: 0, body });
        }
        state
    }

    #[test]
    fn a_command_is_repeated_in_its_directory_without_its_outputs() {
        let plan =
            GridPlan { dir: "/data".into(), target: String::new(), file_bytes: 1, cell_ns: 1, cells: Vec::new() };
        let state = state(
            "gds-top bench-io . --export rep --format=md --record=x.gdsrec --engine pread",
            vec![EventBody::GridPlanned { plan }],
        );
        let (explanation, commands) = super::commands(&state).unwrap_or_default();
        assert_eq!(commands, ["cd '/data/a b'", "gds-top bench-io . --engine pread"]);
        assert_eq!(explanation, "These commands repeat the session.");
        assert_eq!(
            without_outputs("gds-top watch --record x -- python load.py --export y"),
            "gds-top watch -- python load.py --export y"
        );
    }

    #[test]
    fn a_check_of_a_captured_machine_is_repeated_with_its_capture() {
        let model = ModelInfo { path: "/data/models".into(), ..ModelInfo::default() };
        let commands = |command: &str| {
            let state = state(command, vec![EventBody::ModelOpened { model: model.clone() }]);
            super::commands(&state).unwrap_or_default().1
        };
        assert_eq!(
            commands("gds-top check --capture m.tar.zst --export rep --format html"),
            ["cd '/data/a b'", "gds-top check --capture m.tar.zst"]
        );
        assert_eq!(commands("gds-top --root=m.tar.zst"), ["cd '/data/a b'", "gds-top --root=m.tar.zst"]);
        assert_eq!(
            commands("gds-top check . --target 1 --export rep"),
            ["cd '/data/a b'", "gds-top check . --target 1", "gds-top capture machine.tar.zst /data/models"]
        );
        assert_eq!(commands("gds-top"), ["gds-top check /data/models", "gds-top capture machine.tar.zst /data/models"]);
    }

    #[test]
    fn a_synthetic_model_is_made_and_the_folder_of_a_store_is_not_named() {
        let made = Synthetic { shape: "qwen3-0.6b".to_owned(), scale: "0.02".to_owned(), seed: 3 };
        let model = ModelInfo { path: "/data/m".into(), synthetic: Some(made), ..ModelInfo::default() };
        let store = ModelInfo { name: "store".to_owned(), path: "/kv/gds-top-kv-ucm".into(), ..ModelInfo::default() };
        let opened = [model, store].map(|model| EventBody::ModelOpened { model });
        let (_, commands) = commands(&state("", opened.into())).unwrap_or_default();
        assert_eq!(
            commands,
            [
                "gds-top make-model qwen3-0.6b /data/m --scale 0.02 --seed 3",
                "gds-top check /data/m /kv",
                "gds-top capture machine.tar.zst /data/m /kv",
            ]
        );
    }
}
