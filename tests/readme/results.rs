//! Tests that the results in the documents are those of the shipped recordings.

use crate::{part_is, state, updates};
use gds_top::analysis::median;
use gds_top::core::{CacheState, units};
use gds_top::session::State;
use std::fmt::Write as _;
use std::path::Path;

const RECORDINGS: [(&str, &str); 2] = [
    ("Qwen3-0.6B", "assets/recordings/h200-full-qwen3-0.6b.gdsrec"),
    ("Qwen2.5-7B", "assets/recordings/h200-full-qwen2.5-7b.gdsrec"),
];

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
    // One column for each model and cache state with runs.
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
    part_is("docs/results.md", "results", &results());
}

/// The names of loaders and their recordings.
const LOADERS: [(&str, &str); 11] = [
    ("NIXL 1.5.1 GDS, one tensor at a time", "nixl-gds"),
    ("NIXL 1.5.1 GDS_MT, one tensor at a time", "nixl-gds-mt"),
    ("torch.cuda.gds 2.11, one tensor at a time", "torch"),
    ("kvikio 26.10, blocks of 16 MiB", "kvikio"),
    ("kvikio 26.10 in POSIX mode", "kvikio-posix"),
    ("fastsafetensors 0.5.0, cuFile", "fastsafetensors"),
    ("fastsafetensors 0.5.0, default", "fastsafetensors-default"),
    ("InstantTensor 0.2.2, cuFile", "instanttensor"),
    ("InstantTensor 0.2.2, default", "instanttensor-default"),
    ("run:ai model streamer 0.16.1", "runai"),
    ("safetensors 0.8.0 `load_file`", "safetensors"),
];

/// The tensors of Qwen3-0.6B.
const TENSORS: u64 = 311;

/// A row for each loader with its calls for the file of the model, from the recording of one load.
fn loaders() -> String {
    let per_tensor = |count: u64| if count == TENSORS { ", one per tensor" } else { "" };
    let mut text = "| loader | cuFile calls for data | buffers registered | other reads | copies by libcuda |\n\
                    |---|---|---|---|---|\n"
        .to_owned();
    for (name, recording) in LOADERS {
        let state = state(&format!("assets/recordings/watch-{recording}.gdsrec"));
        let watched = state.watch.as_deref().unwrap();
        assert_eq!((watched.lost_events, watched.uncounted), (0, 0), "{name}");
        let count = |name: &str| watched.calls.iter().filter(|c| c.function == name).map(|c| c.count).sum::<u64>();
        let (reads, batches) = (count("cuFileRead"), count("cuFileBatchIOSubmit"));
        // Requests of io_uring name no file.
        let file = watched.files.iter().find(|file| file.path.ends_with("model.safetensors"));
        let (file_reads, plain) = file.map(|file| (file.reads, file.plain)).unwrap_or_default();
        assert_eq!(reads + file_reads.batched, file_reads.count, "{name}");
        let by_cufile = match (reads, batches) {
            (0, 0) => "0".to_owned(),
            (0, batches) => format!("{batches} batches with {} reads", file_reads.batched),
            (reads, _) => format!("{reads} reads{}", per_tensor(reads)),
        };
        let registered = watched.buffers.registered;
        let size = units::bytes(watched.buffers.most_bytes);
        let buffers = match registered {
            0 => "0".to_owned(),
            1 => format!("1 of {size}"),
            _ => format!("{registered}{}", per_tensor(registered)),
        };
        let io_uring = watched.process_io.as_ref().map_or(0, |io| io.io_uring_requests);
        let mut others = Vec::new();
        if plain.count > 0 {
            others.push(format!("{} of {}", plain.count, units::bytes(plain.bytes)));
        }
        if plain.touched_bytes > 0 {
            others.push(format!("mapping, {} touched", units::bytes(plain.touched_bytes)));
        }
        if io_uring > 0 {
            others.push(format!("io_uring, {io_uring} requests or more"));
        }
        let others = if others.is_empty() { "0".to_owned() } else { others.join(", ") };
        let copies: u64 =
            watched.other_calls.iter().filter(|c| c.function.starts_with("cuMemcpy")).map(|c| c.count).sum();
        let copies = match copies {
            0 if file_reads.count > 0 => "by libcufile".to_owned(),
            copies => format!("{copies}{}", per_tensor(copies)),
        };
        let _ = writeln!(text, "| {name} | {by_cufile} | {buffers} | {others} | {copies} |");
    }
    text
}

#[test]
fn the_calls_of_loaders_are_those_of_their_recordings() {
    part_is("docs/watch.md", "loaders", &loaders());
}

/// A claim by a part of its command, and the recordings from which its result is computed. If they are not shipped,
/// the result is not compared. The results of the other claims come from sessions that were not recorded.
const CLAIMS: [(&str, &[&str]); 8] = [
    (
        "--provoke no-library --yes`",
        &["h200-kv-no-library", "h200-kv-init-failed", "h200-kv-no-odirect", "h200-kv-operation-failed"],
    ),
    ("--compare handle_cache=0,65536`", &["h200-kv-ucm-cache"]),
    ("bench-kv ucm DIR --variants gds,gds-registered`", &["h200-kv-ucm"]),
    ("--compare misalign=0,512`", &["h200-kv-ucm-misalign"]),
    ("bench-kv ucm DIR --variants gds --compare enable_layerwise=0,1`", &["h200-kv-ucm-layers"]),
    ("--variants gds,gds-registered,staging --yes`", &["h200-kv-llmd"]),
    ("--compare read_priority=0,1 --yes`", &["h200-kv-llmd-priority"]),
    ("lmcache DIR --variants ram,gds,gds-registered,disk`", &["h200-kv-lmcache"]),
];

/// The result of a recorded KV-cache workload: the verified read of each variant (the median if there are several),
/// with latencies, fallbacks and concurrent writes.
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
    let mut shown = Vec::new();
    for (_, mut runs) in variants {
        runs.sort_by_key(|(result, _)| result.wall_ns);
        // If the number is even, the faster of the two middle runs is used, so that all figures belong to one run.
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
        if let Some(writes) = seen.concurrent_writes {
            let (before, all) = (writes.before_last_read_operations, writes.operations);
            let _ = write!(text, ", {before} of {all} writes ended before the last read");
        }
        if let Some(on) = seen.on_streams {
            let inside = 100.0 * on.in_call_fraction(result.wall_ns).unwrap_or(0.0);
            let _ = write!(
                text,
                ", at most {} in flight on a stream, {inside:.0} % of the workers' time inside the calls",
                on.most_under_way
            );
        }
        if let (Some(hidden), false) = (seen.hidden_fraction, seen.layers.is_empty()) {
            let _ = write!(text, ", {:.0} % hidden", hidden * 100.0);
        }
        shown.push(text);
    }
    shown.join("; ")
}

#[test]
fn the_results_of_the_claims_are_those_of_the_shipped_recordings() {
    let page = std::fs::read_to_string("docs/claims.md").unwrap();
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    for (command, recordings) in CLAIMS {
        let at = lines.iter().position(|line| line.starts_with("- Command: ") && line.contains(command));
        let at = at.unwrap_or_else(|| panic!("no claim has the command '{command}'"));
        let paths = recordings.iter().map(|name| format!("assets/recordings/{name}.gdsrec"));
        let paths: Vec<String> = paths.filter(|path| Path::new(path).exists()).collect();
        if paths.is_empty() {
            continue;
        }
        let result = paths.iter().map(|path| workload_cell(&state(path))).collect::<Vec<_>>().join("; ");
        assert!(!result.is_empty(), "{recordings:?} contain no verified read");
        let line = lines[at..].iter_mut().take(3).find(|line| line.starts_with("- Measured: ")).unwrap();
        *line = format!("- Measured: {result}");
    }
    let wanted = lines.join("\n") + "\n";
    if updates() {
        std::fs::write("docs/claims.md", wanted).unwrap();
        return;
    }
    assert_eq!(page, wanted, "a result of docs/claims.md is not that of its recordings");
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
