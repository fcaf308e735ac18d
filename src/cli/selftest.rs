//! The self-test loads models with unaligned tensors with every engine that can run on this machine. The target is
//! filled with a pattern before each load, and every byte is compared.

use super::args::{OutputArgs, RaceArgs};
use super::outcome::{BAD_ANSWER, COULD_NOT_RUN, FINE, INTERRUPTED, Ran, fail, not_started, print, print_json};
use super::race::{config, keep_signals_for_sessions, labelled};
use super::streams;
use super::terminal::{columns, headless_options};
use crate::core::{CacheState, Note, RunResult, units};
use crate::headless::Progress;
use crate::models::{self, KeptModel, Profile, SynthOptions, WeightsError};
use crate::present::engine_rows::unavailable;
use crate::present::{notes, selftest};
use crate::session::live::{self, SessionConfig};
use crate::session::{Lane, State};
use crate::text::paragraph;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::PathBuf;

/// The profile and the scale of each model: one with odd sizes, and a small copy of a real model.
const MODELS: [(&str, f64); 2] = [("odd-sizes", 1.0), ("qwen3-0.6b", 0.05)];

/// Runs the self-test and prints one line per run.
pub(super) fn run(race: &RaceArgs, output: &OutputArgs) -> Ran {
    if race.no_verify || race.ceilings {
        return Err(
            "the self-test compares every byte and ranks no engines: use --no-verify and --ceilings with 'gds-top bench'"
                .to_owned(),
        );
    }
    let mut states = Vec::new();
    let signals = keep_signals_for_sessions();
    for (profile, scale) in MODELS {
        let path = match model(profile, scale) {
            Ok(path) => path,
            Err(error) if error.is_of_the_machine() => return Ok(fail(COULD_NOT_RUN, &error.to_string())),
            Err(error) => return Err(error.to_string()),
        };
        let mut config: SessionConfig = config(race)?;
        // Each model has its own session and recording.
        config.record = config.record.map(|path| labelled(&path, profile));
        config.model = Some(path.to_string_lossy().into_owned());
        config.checks = false;
        config.verify = true;
        config.poison = true;
        if race.engine.is_empty() {
            // All engines are tested, independent of the settings file.
            config.engines = None;
        }
        // One run is enough to find wrong bytes.
        config.repeat = race.repeat.unwrap_or(1);
        if race.cache.is_empty() {
            config.caches = vec![CacheState::Cold, CacheState::Hot];
        }
        let feed = match live::start(config) {
            Ok(feed) => feed,
            Err(error) => return not_started(&error),
        };
        signals.clone().pass_to(&feed);
        let mut state = State::default();
        let mut progress = Progress::new(&headless_options(output, None));
        for event in &feed.events {
            state.reduce(&event);
            progress.event(&state, &event, &mut streams::err());
        }
        progress.clear(&mut streams::err());
        // After its last event, the session still removes its files.
        if state.ended == Some(true) {
            return Ok(fail(INTERRUPTED, "the self-test was interrupted and has no result"));
        }
        states.push(state);
    }
    Ok(print_result(&states, !race.engine.is_empty(), output))
}

fn model(profile: &str, scale: f64) -> Result<PathBuf, WeightsError> {
    let (profile, folder) = (Profile::named(profile)?, models::cache_folder()?);
    let kept = KeptModel::of(profile, &folder, SynthOptions { scale, seed: 1 })?;
    kept.open_or_write(&mut |_, _| true).map(|model| model.path)
}

/// A run that did not load every byte correctly, and the reason.
struct Failed<'a> {
    state: &'a State,
    lane: &'a Lane,
    why: String,
}

impl Failed<'_> {
    fn model(&self) -> &str {
        self.state.model.as_ref().map_or("", |m| m.name.as_str())
    }

    fn stderr_tail(&self) -> Option<&str> {
        self.lane.stderr_tail.as_deref().filter(|words| !words.is_empty())
    }

    fn notes(&self) -> Vec<String> {
        selftest::notes(self.lane, &self.why)
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "lane": self.lane.id.0,
            "engine": self.lane.engine,
            "cache": self.lane.cache,
            "model": self.model(),
            "target": self.lane.target.to_string(),
            "expected": selftest::EXPECTED,
            "found": self.why,
            "stderr_tail": self.stderr_tail(),
            "notes": self.notes(),
        })
    }
}

/// The failed runs, one entry for each reason: the names of the runs, and the first of them.
fn by_reason<'f>(failed: &'f [Failed<'f>]) -> Vec<(Vec<String>, &'f Failed<'f>)> {
    let mut reasons: Vec<(Vec<String>, &Failed<'_>)> = Vec::new();
    for run in failed {
        let name = format!("{} {} {}", run.lane.engine, run.lane.cache, run.model());
        let same = |known: &Failed<'_>| {
            (&known.why, known.notes(), known.stderr_tail()) == (&run.why, run.notes(), run.stderr_tail())
        };
        match reasons.iter_mut().find(|(_, first)| same(first)) {
            Some((names, _)) => names.push(name),
            None => reasons.push((vec![name], run)),
        }
    }
    reasons
}

/// Prints the result and returns the exit status. `are_named`: the user named the engines, so each of them must run.
fn print_result(states: &[State], are_named: bool, output: &OutputArgs) -> u8 {
    let lanes = || states.iter().flat_map(|s| s.lanes.iter().map(move |l| (s, l)));
    let failed: Vec<Failed<'_>> =
        lanes().filter_map(|(state, lane)| Some(Failed { state, lane, why: selftest::failure(lane)? })).collect();
    let all = lanes().count();
    let good = all - failed.len();
    let status = match (good, all) {
        _ if lanes().any(|(_, lane)| selftest::has_wrong_bytes(lane)) => BAD_ANSWER,
        _ if are_named && states.iter().any(|state| !state.unavailable.is_empty()) => COULD_NOT_RUN,
        (good, all) if good > 0 && good == all => FINE,
        _ => COULD_NOT_RUN,
    };
    let repeated: u64 = lanes().map(|(_, lane)| selftest::repeated_reads(lane)).sum();
    if output.json {
        let mut runs: Vec<RunResult> = lanes().filter_map(|(_, l)| l.result.as_deref().cloned()).collect();
        for note in runs.iter_mut().flat_map(|run| &mut run.notes) {
            *note = Note::Text(notes::sentence(note));
        }
        let unavailable: Vec<serde_json::Value> = states
            .first()
            .map(|s| s.unavailable.iter().map(|(e, why)| serde_json::json!({"engine": e, "why": why})).collect())
            .unwrap_or_default();
        let failed: Vec<_> = failed.iter().map(Failed::json).collect();
        print_json(&serde_json::json!({
            "passed": good, "of": all, "repeated_reads": repeated, "failed": failed, "runs": runs,
            "unavailable": unavailable
        }));
        return status;
    }
    let mut text = String::new();
    // In a file, each reason is one line.
    let width = if std::io::stdout().is_terminal() { usize::from(columns()) } else { usize::MAX };
    let models = states.iter().filter_map(|state| state.model.as_ref()).map(|model| model.name.chars().count());
    let room = models.max().unwrap_or(0);
    for (state, lane) in lanes() {
        let model = state.model.as_ref().map_or("", |m| m.name.as_str());
        let bytes = lane.result.as_deref().map_or_else(String::new, |r| units::bytes(r.bytes));
        let target = lane.target.to_string();
        let engine = lane.engine.to_string();
        let cache = lane.cache.to_string();
        let (status, word) = selftest::outcome(lane);
        let mark = status.mark();
        let _ = writeln!(text, "{mark} {engine:<15} {cache:<5} {model:<room$} {bytes:>9} → {target}: {word}");
    }
    for (engines, why) in states.first().map(unavailable).unwrap_or_default() {
        paragraph(&mut text, "– ", 2, &format!("{} {why}", engines.join(", ")), width);
    }
    for (names, first) in by_reason(&failed) {
        paragraph(&mut text, "failed: ", 2, &format!("{}: {}", names.join(", "), first.why), width);
        for note in first.notes() {
            paragraph(&mut text, "  ", 4, &note, width);
        }
        if let Some(words) = first.stderr_tail() {
            let _ = writeln!(text, "  standard error ends with: {words}");
        }
    }
    text += &selftest::summary(good, all, repeated);
    print(text.as_bytes());
    status
}
