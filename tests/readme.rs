//! The README is the front page: its results are made from the shipped recordings, and its commands exist.
//!
//! `GDS_TOP_UPDATE_README=1 cargo test --test readme` writes the results anew.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "program/mod.rs"]
mod program;

use crate::program::gds_top;
use gds_top::analysis::median;
use gds_top::domain::{CacheState, units};
use gds_top::session::{State, recording};
use std::fmt::Write as _;
use std::path::Path;

const RECORDINGS: [(&str, &str); 2] = [
    ("Qwen3-0.6B", "assets/recordings/h200-full-qwen3-0.6b.gdsrec"),
    ("Qwen2.5-7B", "assets/recordings/h200-full-qwen2.5-7b.gdsrec"),
];

/// Two tests may write the README anew, each its part.
static README: std::sync::Mutex<()> = std::sync::Mutex::new(());

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
    let _alone = README.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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

/// A row of the table of claims by a part of its command, and the recordings that its last cell is made of. Recordings that are not shipped leave
/// the cell alone.
const ROWS: [(&str, &[&str]); 8] = [
    ("--compare handle_cache=0,65536`", &["h200-kv-ucm-cache"]),
    ("kv ucm DIR --variants gds,gds-registered`", &["h200-kv-ucm"]),
    ("--compare misalign=0,512`", &["h200-kv-ucm-misalign"]),
    ("--compare async=0,1`", &["h200-kv-ucm-async"]),
    ("--compare enable_layerwise=0,1`", &["h200-kv-ucm-layers"]),
    ("--variants gds,gds-registered,staging`", &["h200-kv-llmd"]),
    ("--compare read_priority=0,1`", &["h200-kv-llmd-priority"]),
    (
        "--provoke no-library`",
        &["h200-kv-no-library", "h200-kv-init-failed", "h200-kv-no-odirect", "h200-kv-operation-failed"],
    ),
];

/// What a recording of a KV-cache workload measured: the verified read of each variant (of several the median), with latencies, fall-backs and what was written beside it.
fn workload_cell(state: &State) -> String {
    let reads = state.lanes.iter().filter_map(|lane| lane.result.as_ref());
    let reads = reads.filter(|r| r.error.is_none() && r.verified == Some(true));
    let mut variants: Vec<(&str, Vec<_>)> = Vec::new();
    for (result, seen) in reads.filter_map(|r| Some((r, r.workload.as_ref()?))).filter(|(_, w)| w.direction == "read") {
        match variants.iter_mut().find(|(variant, _)| *variant == seen.variant) {
            Some((_, runs)) => runs.push((result, seen)),
            None => variants.push((&seen.variant, vec![(result, seen)])),
        }
    }
    let mut told = Vec::new();
    for (_, mut runs) in variants {
        runs.sort_by_key(|(result, _)| result.wall_ns);
        // Of an even number the faster of the two in the middle: what is told is one run, whole.
        let (result, seen) = runs[(runs.len() - 1) / 2];
        let mut text =
            format!("`{}` {}, {}", seen.variant, units::duration(result.wall_ns), units::rate(result.bytes_per_s));
        if let Some(latency) = seen.latency_ns {
            let _ = write!(text, " (p50 {}, p99 {})", units::duration(latency.p50), units::duration(latency.p99));
        }
        if runs.len() > 1 {
            let _ = write!(text, ", the median of {}", runs.len());
        }
        if seen.variant.contains("handle_cache") {
            let _ = write!(text, ", {} registrations of files", seen.handle_registrations);
        }
        for fall in &seen.fallbacks {
            let _ = write!(text, ", {} of {} by staging: {}", fall.operations, seen.operations, fall.reason);
        }
        if let Some(beside) = seen.beside {
            let (before, all) = (beside.before_last_read_operations, beside.operations);
            let _ = write!(text, ", {before} of {all} writes ended before the last read");
        }
        if let Some(on) = seen.on_streams {
            let inside = 100.0 * on.in_call_fraction(result.wall_ns).unwrap_or(0.0);
            let _ = write!(
                text,
                ", at most {} under way on a stream, {inside:.0} % of the workers' time inside the calls",
                on.most_under_way
            );
        }
        if let (Some(hidden), false) = (seen.hidden_fraction, seen.layers.is_empty()) {
            let _ = write!(text, ", {:.0} % hidden", hidden * 100.0);
        }
        told.push(text);
    }
    told.join("; ")
}

#[test]
fn the_cells_of_the_claims_are_those_of_the_shipped_recordings() {
    let _alone = README.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let readme = std::fs::read_to_string("README.md").unwrap();
    let mut lines: Vec<String> = readme.lines().map(str::to_owned).collect();
    for (command, recordings) in ROWS {
        let line = lines.iter_mut().find(|line| line.contains(command));
        let line = line.unwrap_or_else(|| panic!("no row of the README has the command '{command}'"));
        let paths = recordings.iter().map(|name| format!("assets/recordings/{name}.gdsrec"));
        let paths: Vec<String> = paths.filter(|path| Path::new(path).exists()).collect();
        if paths.is_empty() {
            continue;
        }
        let cell = paths.iter().map(|path| workload_cell(&state(path))).collect::<Vec<_>>().join("; ");
        assert!(!cell.is_empty(), "{recordings:?} hold no verified read");
        let (front, _) = line.trim_end_matches([' ', '|']).rsplit_once(" | ").unwrap();
        *line = format!("{front} | {cell} |");
    }
    let wanted = lines.join("\n") + "\n";
    if std::env::var_os("GDS_TOP_UPDATE_README").is_some() {
        std::fs::write("README.md", wanted).unwrap();
        return;
    }
    assert_eq!(readme, wanted, "a cell of the README is not what its recordings say");
}

#[test]
fn a_cell_is_made_of_the_verified_reads_of_a_workload() {
    let shipped = std::fs::read_dir("assets/recordings").unwrap().flatten().map(|entry| entry.path());
    let cells: Vec<String> = shipped.map(|path| workload_cell(&state(path.to_str().unwrap()))).collect();
    let of_reads = cells.iter().filter(|cell| !cell.is_empty());
    for cell in of_reads {
        assert!(cell.contains("p50") && cell.contains("B/s"), "{cell}");
    }
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
    let help = gds_top().arg("--help").output().unwrap();
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
