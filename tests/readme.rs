//! Tests README.md and the book in docs/: tables and outputs are those of the program and of the shipped recordings,
//! commands are accepted, and all pages are linked.
//!
//! `GDS_TOP_UPDATE_README=1 cargo test --test readme -- --test-threads=1` writes the tables and outputs.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "program/mod.rs"]
mod program;

use crate::program::gds_top;
use gds_top::analysis::median;
use gds_top::core::{CacheState, CheckId, units};
use gds_top::session::{State, recording};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const RECORDINGS: [(&str, &str); 2] = [
    ("Qwen3-0.6B", "assets/recordings/h200-full-qwen3-0.6b.gdsrec"),
    ("Qwen2.5-7B", "assets/recordings/h200-full-qwen2.5-7b.gdsrec"),
];

/// Whether tables and outputs are written instead of compared.
fn updates() -> bool {
    std::env::var_os("GDS_TOP_UPDATE_README").is_some()
}

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

/// Compares the part of a page between two marks, or writes it.
fn part_is(path: &str, mark: &str, wanted: &str) {
    let page = std::fs::read_to_string(path).unwrap();
    let (start, end) = (format!("<!-- {mark} -->\n"), format!("<!-- /{mark} -->"));
    let from = page.find(&start).unwrap() + start.len();
    let to = page.find(&end).unwrap();
    if updates() {
        std::fs::write(path, format!("{}{wanted}{}", &page[..from], &page[to..])).unwrap();
    } else {
        assert_eq!(&page[from..to], wanted, "{path}: the part '{mark}' is out of date");
    }
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

/// Number, meaning and cases of each exit status, from the help of a command.
fn exit_statuses() -> Vec<(String, String, String)> {
    let help = String::from_utf8(gds_top().arg("--help").output().unwrap().stdout).unwrap();
    let mut rows: Vec<(String, String)> = Vec::new();
    for line in help.split_once("Exit status:\n").unwrap().1.lines().map(str::trim) {
        match (line.split_once("  "), rows.last_mut()) {
            (Some((number, text)), _) => rows.push((number.to_owned(), text.to_owned())),
            // The help is wrapped.
            (None, Some((_, text))) => *text = format!("{text} {line}"),
            (None, None) => panic!("{line}"),
        }
    }
    let parts = |(number, text): (String, String)| match text.split_once(": ") {
        Some((meaning, cases)) => (number, meaning.to_owned(), cases.to_owned()),
        None => (number, text, String::new()),
    };
    rows.into_iter().map(parts).collect()
}

#[test]
fn the_exit_statuses_are_those_of_the_help() {
    let statuses = exit_statuses();
    assert_eq!(statuses.iter().map(|(number, ..)| number.as_str()).collect::<Vec<_>>(), ["0", "1", "2", "3", "130"]);
    let mut table = String::from("| status | meaning | cases |\n|---|---|---|\n");
    for (number, meaning, cases) in &statuses {
        let _ = writeln!(table, "| {number} | {meaning} | {cases} |");
    }
    part_is("docs/automation.md", "exit-status", &table);
    let short: Vec<String> = statuses.iter().map(|(number, meaning, _)| format!("{number} {meaning}")).collect();
    part_is("README.md", "exit-status", &format!("Exit status: {}.\n", short.join(", ")));
}

#[test]
fn the_table_of_checks_is_that_of_the_specification() {
    let mut table = format!("{} checks, causes before consequences:\n\n", CheckId::ALL.len());
    table.push_str("| check | group | examines | can block |\n|---|---|---|---|\n");
    for check in CheckId::ALL {
        let spec = check.spec();
        let routes: Vec<String> = spec.blocks.iter().map(ToString::to_string).collect();
        let blocks = if routes.is_empty() { "–".to_owned() } else { routes.join(", ") };
        let _ = writeln!(table, "| `{check}` | {} | {} | {blocks} |", spec.group.title(), spec.examines);
    }
    part_is("docs/checks.md", "checks", &table);
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

/// README.md and the pages of the book with their text.
fn pages() -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir("docs").unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    paths.push("README.md".into());
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The commands with `gds-top` in the shell examples and claims of a page.
fn commands(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_example = false;
    for line in page.lines() {
        if let Some(language) = line.strip_prefix("```") {
            in_example = language == "sh";
        } else if in_example && let Some(at) = line.find("gds-top ").filter(|_| !line.starts_with('#')) {
            found.push(line[at..].to_owned());
        } else if let Some(rest) = line.strip_prefix("- Command: `gds-top ") {
            found.push(format!("gds-top {}", rest.split('`').next().unwrap()));
        }
    }
    found
}

/// Adds `--help` to a command of a page, so that the words before it are parsed but nothing runs. Words after `--`
/// belong to another program.
fn assert_accepted(page: &Path, command: &str) {
    let words = shlex::Shlex::new(command.split(" #").next().unwrap()).take_while(|word| word != ">" && word != "--");
    let out = gds_top().args(words.skip(1)).arg("--help").output().unwrap();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{}: '{command}': {error}", page.display());
}

#[test]
fn every_command_of_the_documents_is_accepted() {
    let mut seen = 0;
    for (path, page) in pages() {
        for command in commands(&page) {
            assert_accepted(&path, &command);
            seen += 1;
        }
    }
    assert!(seen > 40, "only {seen} commands were found");
}

#[test]
fn the_page_of_commands_has_an_example_of_each_command() {
    let help = String::from_utf8(gds_top().arg("-h").output().unwrap().stdout).unwrap();
    let (_, listed) = help.split_once("Commands:\n").unwrap();
    let names = listed.lines().take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).filter(|n| *n != "help").collect();
    assert!(names.len() > 15 && names.contains(&"fleet"), "{names:?}");
    let page = std::fs::read_to_string("docs/commands.md").unwrap();
    let has_example = |name: &&str| commands(&page).iter().any(|command| command.split(' ').nth(1) == Some(*name));
    let missing: Vec<&str> = names.into_iter().filter(|name| !has_example(name)).collect();
    assert!(missing.is_empty(), "docs/commands.md has no example of {missing:?}");
}

/// An example in README.md has a comment with the lines and the command, followed by a block with its output.
#[test]
fn the_outputs_in_the_readme_are_those_of_the_program() {
    let readme = std::fs::read_to_string("README.md").unwrap();
    let mut wanted = String::new();
    let mut rest = readme.as_str();
    let (start, end) = ("<!-- output, ", "<!-- /output -->");
    let mut seen = 0;
    while let Some(at) = rest.find(start) {
        let line_end = at + rest[at..].find('\n').unwrap() + 1;
        let mark = rest[at + start.len()..line_end].trim_end().trim_end_matches(" -->");
        let (lines, command) = mark.split_once(" lines: ").unwrap();
        let words = shlex::Shlex::new(command).collect::<Vec<_>>();
        let out = gds_top().args(&words[1..]).output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let lines: usize = lines.parse().unwrap();
        let mut shown: Vec<&str> = text.lines().take(lines).map(str::trim_end).collect();
        // The rest of the output is not shown.
        shown.extend((text.lines().count() > lines).then_some("…"));
        wanted += &rest[..line_end];
        let _ = write!(wanted, "```console\n$ {command}\n{}\n```\n", shown.join("\n").trim_end());
        rest = &rest[line_end + rest[line_end..].find(end).unwrap()..];
        seen += 1;
    }
    wanted += rest;
    assert!(seen >= 3, "the README lost its outputs");
    if updates() {
        std::fs::write("README.md", wanted).unwrap();
        return;
    }
    assert_eq!(readme, wanted, "an output in README.md is not that of its command");
}

#[test]
fn the_readme_is_short_and_the_book_has_every_page() {
    let readme = std::fs::read_to_string("README.md").unwrap();
    assert!(readme.lines().count() <= 120, "move text to docs/");
    let parts = [
        "## Install\n",
        "## In 60 seconds\n",
        "## Is it safe?\n",
        "## Compared with other tools\n",
        "## Findings\n",
        "## In scripts\n",
        "## Hardware and limits\n",
        "## More\n",
    ];
    assert!(parts.iter().all(|part| readme.contains(part)) && readme.matches("](assets/pictures/").count() == 1);
    // The commands of a fresh machine come before the first part.
    let (top, _) = readme.split_once("## Install").unwrap();
    assert!(top.contains("cargo run --release") && top.contains("cargo test --workspace"));
    for command in ["gds-top bench model --cache hot --baseline", "kubectl apply", "sbatch "] {
        assert!(readme.contains(command), "{command}");
    }
    let summary = std::fs::read_to_string("docs/SUMMARY.md").unwrap();
    for (path, _) in pages() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_listed = summary.contains(&format!("]({name})"));
        assert!(is_listed || ["README.md", "SUMMARY.md"].contains(&name), "docs/SUMMARY.md does not list {name}");
    }
    for (_, target) in summary.lines().filter_map(|line| line.trim_end_matches(')').rsplit_once("](")) {
        assert!(Path::new("docs").join(target).is_file(), "docs/SUMMARY.md lists {target}, which does not exist");
    }
}

#[test]
fn the_readme_installs_the_released_files_without_changing_the_python_of_the_system() {
    let readme = std::fs::read_to_string("README.md").unwrap();
    let (_, install) = readme.split_once("## Install").unwrap();
    let (block, _) = install.split_once("```sh\n").and_then(|(_, rest)| rest.split_once("```")).unwrap();
    let lines: Vec<&str> = block.lines().collect();
    // Names of files in this folder have no folder in the commands.
    assert_eq!(lines.first(), Some(&"cd target/release-files"));
    assert!([".whl", ".deb", ".rpm"].iter().all(|end| lines.iter().any(|line| line.contains(end))), "{block}");
    // Since Debian 12 and Ubuntu 24.04, pip refuses to install outside a virtual environment.
    assert!(lines.iter().all(|line| !line.contains("pip install") || line.contains("-m venv")), "{block}");
    for line in readme.lines().filter(|line| !line.starts_with('|')) {
        let prose = line.split("<!--").next().unwrap();
        assert!(prose.chars().count() <= 175, "{prose}");
    }
}

#[test]
fn the_readme_names_what_needs_a_clone_and_its_paths_exist() {
    let readme = std::fs::read_to_string("README.md").unwrap();
    let words = readme.split(|c: char| c.is_whitespace() || "()`\"".contains(c));
    let paths: Vec<&str> = words.map(|word| word.trim_end_matches([',', '.', ':', ';', '#'])).collect();
    let folders = ["tests/", "assets/", "deploy/"];
    let named: Vec<&&str> = paths.iter().filter(|path| folders.iter().any(|folder| path.starts_with(folder))).collect();
    assert!(named.len() > 5, "{named:?}");
    for path in named {
        assert!(Path::new(path).exists(), "README.md names {path}");
    }
    let manifest = std::fs::read_to_string("Cargo.toml").unwrap();
    if !manifest.contains("\nrepository") {
        let sentences = ["gds-top is not published yet", "need the clone"];
        assert!(sentences.iter().all(|sentence| readme.contains(sentence)), "there is no address for relative links");
    }
}

/// The files next to README.md in a package, from the sources and the folders of its assets.
fn shipped(assets: &[(&str, &str)]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for &(source, folder) in assets {
        let Some(folder) = folder.trim_start_matches('/').strip_prefix("usr/share/doc/gds-top/") else { continue };
        let (from, pattern) = source.rsplit_once('/').unwrap_or((".", source));
        let is_asset = |name: &str| match pattern.split_once('*') {
            Some((start, end)) => name.starts_with(start) && name.ends_with(end),
            None => name == pattern,
        };
        let names = std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        files.extend(names.filter(|name| is_asset(name)).map(|name| Path::new(folder).join(name)));
    }
    files
}

#[test]
fn every_link_works_in_the_packages() {
    let manifest: toml::Table = std::fs::read_to_string("Cargo.toml").unwrap().parse().unwrap();
    let metadata = &manifest["package"]["metadata"];
    let deb = metadata["deb"]["assets"].as_array().unwrap().iter();
    let deb: Vec<_> = deb.map(|asset| (asset[0].as_str().unwrap(), asset[1].as_str().unwrap())).collect();
    let rpm = metadata["generate-rpm"]["assets"].as_array().unwrap().iter();
    let rpm: Vec<_> = rpm.map(|asset| (asset["source"].as_str().unwrap(), asset["dest"].as_str().unwrap())).collect();
    for assets in [&deb, &rpm] {
        // A package has the folders of the repository.
        let files: Vec<PathBuf> = shipped(assets).iter().map(|file| file.canonicalize().unwrap()).collect();
        assert!(files.contains(&Path::new("README.md").canonicalize().unwrap()));
        for page in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "md")) {
            let text = std::fs::read_to_string(page).unwrap();
            for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
                if link.is_empty() || link.contains("://") {
                    continue;
                }
                let target = page.parent().unwrap().join(link).canonicalize().unwrap();
                let is_shipped = files.iter().any(|file| file.starts_with(&target));
                assert!(is_shipped, "{}: {link} is not in the package", page.display());
            }
        }
    }
    let release = std::fs::read_to_string(".ci/release").unwrap();
    for (source, _) in deb.iter().filter(|(_, folder)| folder.starts_with("usr/share/doc/")) {
        assert!(release.contains(source), "the tarball lacks {source}");
    }
}

#[test]
fn the_page_of_crates_and_wheels_has_no_relative_link_and_its_commands_are_accepted() {
    let page = "deploy/package/README.md";
    let read = |path: &str| std::fs::read_to_string(path).unwrap().parse::<toml::Table>().unwrap();
    let package = read("Cargo.toml")["package"].clone();
    assert_eq!(package["readme"].as_str(), Some(page));
    assert_eq!(read("pyproject.toml")["project"]["readme"].as_str(), Some(page));
    // The pages that a crate contains link to no page that it lacks.
    let included = package["include"].as_array().unwrap().iter().map(|path| path.as_str().unwrap());
    let included: Vec<&str> = included.filter(|path| path.ends_with(".md")).collect();
    assert!(included.contains(&"/deploy/package/README.md"), "{included:?}");
    for path in included {
        let text = std::fs::read_to_string(path.trim_start_matches('/')).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let relative: Vec<&str> = links.filter(|link| !link.contains("://")).collect();
        assert!(relative.is_empty(), "{path}: {relative:?}");
    }
    let text = std::fs::read_to_string(page).unwrap();
    let found = commands(&text);
    assert_eq!(found.len(), 5);
    for command in found {
        assert_accepted(Path::new(page), &command);
    }
}

/// The anchor that mdBook and forges give to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_to_a_heading_has_one() {
    let pages = pages();
    let mut seen = 0;
    for (path, page) in &pages {
        for link in page.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let Some((file, wanted)) = link.split_once('#').filter(|_| !link.contains("://")) else { continue };
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let text = &pages.iter().find(|(other, _)| *other == target).unwrap_or_else(|| panic!("{link}")).1;
            let found = text
                .lines()
                .filter(|line| line.starts_with('#'))
                .any(|line| anchor(line.trim_start_matches('#')) == wanted);
            assert!(found, "{}: no heading for {link}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 10, "only {seen} links were found");
}
