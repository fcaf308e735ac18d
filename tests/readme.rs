//! The README is the front page: its results are made from the shipped recordings, and its commands exist.
//!
//! `GDS_TOP_UPDATE_README=1 cargo test --test readme` writes the results anew.

#![allow(clippy::unwrap_used, clippy::panic)]

use gds_top::analysis::median;
use gds_top::domain::{CacheState, units};
use gds_top::session::{State, recording};
use std::fmt::Write as _;
use std::path::Path;

const RECORDINGS: [(&str, &str); 2] = [
    ("Qwen3-0.6B", "assets/recordings/h200-full-qwen3-0.6b.gdsrec"),
    ("Qwen2.5-7B", "assets/recordings/h200-full-qwen2.5-7b.gdsrec"),
];

fn state(path: &str) -> State {
    let mut state = State::default();
    for event in recording::read(Path::new(path)).unwrap() {
        state.reduce(&event.unwrap());
    }
    state
}

/// Median time, rate and number of the verified runs.
fn cell(state: &State, engine: &str, cache: CacheState) -> String {
    let runs: Vec<_> = state
        .lanes
        .iter()
        .filter(|l| l.engine.to_string() == engine && l.cache == cache)
        .filter_map(|l| l.result.as_deref())
        .filter(|r| r.error.is_none() && r.verified == Some(true))
        .collect();
    let times: Vec<f64> = runs.iter().map(|r| r.wall_ns as f64).collect();
    let Some(middle) = median(&times) else { return "–".to_owned() };
    let rate = runs[0].bytes as f64 * units::NS_PER_S as f64 / middle;
    format!("{} ({})", units::duration(middle as u64), units::rate(rate))
}

fn results() -> String {
    let mut text = String::from("| engine | route |");
    let states: Vec<(&str, State)> = RECORDINGS.iter().map(|(name, path)| (*name, state(path))).collect();
    // A column for each model and cache state that was raced.
    let columns: Vec<(&str, &State, CacheState)> = states
        .iter()
        .flat_map(|(name, state)| [CacheState::Cold, CacheState::Hot].map(|cache| (*name, state, cache)))
        .filter(|(_, state, cache)| state.lanes.iter().any(|lane| lane.cache == *cache))
        .collect();
    for (name, _, cache) in &columns {
        let _ = write!(text, " {name}, {cache} |");
    }
    text.push_str("\n|---|---|");
    text.push_str(&"---:|".repeat(columns.len()));
    text.push('\n');
    let mut engines: Vec<String> = Vec::new();
    for lane in &states[0].1.lanes {
        if !engines.contains(&lane.engine.to_string()) {
            engines.push(lane.engine.to_string());
        }
    }
    for engine in engines {
        let route = states[0]
            .1
            .lanes
            .iter()
            .filter(|l| l.engine.to_string() == engine)
            .find_map(|l| l.result.as_deref()?.route.clone());
        let route = route.map_or_else(
            || "–".to_owned(),
            |r| format!("{}, {}", r.route, if r.proven { "proven" } else { "not proven" }),
        );
        let _ = write!(text, "| `{engine}` | {route} |");
        for (_, state, cache) in &columns {
            let _ = write!(text, " {} |", cell(state, &engine, *cache));
        }
        text.push('\n');
    }
    text
}

#[test]
fn the_results_are_those_of_the_shipped_recordings() {
    let readme = std::fs::read_to_string("README.md").unwrap();
    let (start, end) = ("<!-- results -->\n", "<!-- /results -->");
    let from = readme.find(start).unwrap() + start.len();
    let to = readme.find(end).unwrap();
    let wanted = results();
    if std::env::var_os("GDS_TOP_UPDATE_README").is_some() {
        std::fs::write("README.md", format!("{}{wanted}{}", &readme[..from], &readme[to..])).unwrap();
        return;
    }
    assert_eq!(&readme[from..to], wanted, "the README's results are not those of the recordings");
}

#[test]
fn every_run_of_the_shipped_recordings_is_verified_and_its_phases_add_up() {
    for (name, path) in RECORDINGS {
        let state = state(path);
        assert!(!state.lanes.is_empty(), "{name}");
        for lane in &state.lanes {
            let result = lane.result.as_deref().unwrap_or_else(|| panic!("{name}: {} has no result", lane.engine));
            assert_eq!(result.verified, Some(true), "{name}: {}", lane.engine);
            let sum = result.phases.total_ns() as f64;
            assert!((sum / result.wall_ns as f64 - 1.0).abs() < 0.02, "{name}: {}", lane.engine);
        }
        assert!(std::fs::metadata(path).unwrap().len() < 2 << 20, "{path} is too large to ship");
    }
}

#[test]
fn every_command_of_the_readme_exists() {
    let readme = std::fs::read_to_string("README.md").unwrap();
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_gds-top")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let mut seen = 0;
    for line in readme.lines().filter_map(|l| l.strip_prefix("gds-top ")) {
        let word = line.split_whitespace().next().unwrap();
        if word.chars().all(|c| c.is_ascii_lowercase()) {
            seen += 1;
            assert!(help.contains(&format!("  {word} ")), "'gds-top {word}' is in the README and not in --help");
        }
    }
    assert!(seen >= 7, "the README lost its commands");
}
