//! Recomputes the reports of shipped recordings from the runs and tensors that they list. Every figure must follow
//! from these.

use gds_top::present::{SessionAnalysis, together};
use gds_top::report;
use gds_top::session::{State, recording};
use serde_json::Value;
use std::path::Path;

/// Small recordings that together contain all features: cold and hot loads, cuFile and NIXL, ceilings, models at the
/// same time, and a workload.
const SMALL: [&str; 4] = ["h200-qwen3-0.6b", "h200-full-qwen3-0.6b", "h200x2-together", "h200-kv-ucm-layers"];

fn state(name: &str) -> State {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("assets/recordings/{name}.gdsrec"));
    let mut state = State::default();
    recording::read(&path).unwrap().for_each(|event| state.reduce(&event.unwrap()));
    state
}

fn list<'v>(of: &'v Value, name: &str) -> &'v [Value] {
    of[name].as_array().unwrap_or_else(|| panic!("{name} is not a list"))
}

fn number(of: &Value, name: &str) -> f64 {
    of[name].as_f64().unwrap_or_else(|| panic!("{name} is not a number: {of}"))
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()) + 1.0
}

/// Nanoseconds in all phases except idle.
fn busy(tensor: &Value) -> f64 {
    tensor["phases"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| *name != "idle")
        .map(|(_, ns)| ns.as_f64().unwrap())
        .sum()
}

/// The successful runs of an engine, a cache state and a model, with the fastest first.
fn runs_of<'v>(told: &'v Value, like: &Value, model: &Value) -> Vec<&'v Value> {
    let same = |r: &&Value| r["engine"] == like["engine"] && r["cache"] == like["cache"] && r["model"] == *model;
    let good = |r: &&Value| r["error"].is_null() && r["verified"] != false;
    let alone: Vec<&Value> = list(told, "together").iter().flat_map(|group| list(group, "lanes")).collect();
    let grouped = |r: &&Value| alone.iter().any(|lane| lane["lane"] == r["lane"]);
    let mut runs: Vec<&Value> = list(told, "runs").iter().filter(same).filter(good).filter(|r| !grouped(r)).collect();
    runs.sort_by_key(|r| r["wall_ns"].as_u64());
    runs
}

fn tensors_of<'v>(told: &'v Value, run: &Value) -> Vec<&'v Value> {
    list(told, "tensors").iter().filter(|t| t["lane"] == run["lane"]).collect()
}

#[test]
fn a_report_names_the_facts_that_its_recording_does_not_have() {
    let missing = |name: &str| {
        let text = report::markdown(&state(name));
        text.lines().find(|line| line.starts_with("| Not recorded")).map(str::to_owned)
    };
    let old = missing("h200-full-qwen3-0.6b").unwrap();
    let facts = ["command line", "CPU", "kernel parameters", "mount options", "cufile.json in effect"];
    assert!(facts.iter().all(|fact| old.contains(fact)) && !old.contains("date"), "{old}");
    let watched = missing("watch-torch").unwrap();
    assert!(watched.contains("host, driver and GPUs") && !watched.contains("command line"), "{watched}");
}

#[test]
fn a_report_begins_with_the_machine_the_date_and_the_program() {
    let state = state("h200-full-qwen3-0.6b");
    let text = report::markdown(&state);
    let line = text.lines().nth(2).unwrap();
    assert!(line.contains("NVIDIA H200 · 2026-") && line.contains(" UTC · gds-top"), "{line}");
    let parts = line.split(" · ").all(|part| report::html(&state).contains(part));
    assert!(parts, "{line}");
    // The recording has no reasons for settings, so the column is left out.
    assert!(!text.contains("chosen by"), "{text}");
}

#[test]
fn phases_add_up_and_medians_are_medians() {
    for name in SMALL {
        let told = report::json(&state(name));
        for run in list(&told, "runs").iter().filter(|r| r["error"].is_null()) {
            let phases: u64 = run["phases"].as_object().unwrap().values().map(|ns| ns.as_u64().unwrap()).sum();
            assert_eq!(Some(phases), run["wall_ns"].as_u64(), "{name}: {} {}", run["engine"], run["repeat"]);
            assert!(
                near(number(run, "bytes_per_s"), number(run, "bytes") * 1e9 / number(run, "wall_ns")),
                "{name}: {run}"
            );
        }
        for comparison in list(&told["analysis"], "comparisons") {
            for standing in list(comparison, "standings") {
                let mut like = standing.clone();
                like["cache"] = comparison["cache"].clone();
                let runs = runs_of(&told, &like, &comparison["model"]);
                // Runs at the same time are one run of their group, which is listed separately.
                let Some(first) = runs.first() else { continue };
                assert_eq!(number(standing, "wall_ns"), number(runs[runs.len() / 2], "wall_ns"), "{name}: {standing}");
                assert_eq!(number(standing, "wall_min_ns"), number(first, "wall_ns"), "{name}: {standing}");
            }
        }
    }
}

#[test]
fn lines_classes_and_crossings_follow_from_the_tensors() {
    for name in SMALL {
        let told = report::json(&state(name));
        for engine in list(&told["analysis"], "engines") {
            let runs = runs_of(&told, engine, &engine["model"]);
            let tensors = tensors_of(&told, runs[runs.len() / 2]);
            let taken: f64 = tensors.iter().map(|t| busy(t)).sum();
            let (overhead, rate) =
                (number(engine, "per_tensor_overhead_on_slot_ns"), number(engine, "bandwidth_on_slot_bytes_per_s"));
            let line: f64 = tensors.iter().map(|t| overhead + number(t, "bytes") * 1e9 / rate).sum();
            assert!((line / taken - number(engine, "fit_time_fraction")).abs() < 1e-3, "{name}: {engine}");
            let classes = list(engine, "size_classes");
            assert!(near(classes.iter().map(busy).sum(), taken), "{name}: {engine}");
            assert_eq!(classes.iter().map(|c| number(c, "tensors")).sum::<f64>(), tensors.len() as f64, "{name}");
        }
        let cost = |engine: &Value, crossing: &Value| {
            let same = |e: &&Value| e["engine"] == *engine && e["cache"] == crossing["cache"];
            list(&told["analysis"], "engines").iter().find(same).unwrap()
        };
        let inside = |crossing: &&Value| crossing["extrapolated"] == false;
        for crossing in list(&told["analysis"], "crossovers").iter().filter(inside) {
            let (below, above) = (cost(&crossing["faster_below"], crossing), cost(&crossing["faster_above"], crossing));
            let at = |e: &Value| {
                number(e, "per_tensor_overhead_ns")
                    + number(crossing, "bytes") * 1e9 / number(e, "bandwidth_bytes_per_s")
            };
            assert!((at(below) / at(above) - 1.0).abs() < 1e-3, "{name}: {crossing}");
            let took = |e: &Value, larger: bool| -> f64 {
                let runs = runs_of(&told, e, &e["model"]);
                let tensors = tensors_of(&told, runs[runs.len() / 2]);
                let side = tensors.iter().filter(|t| (number(t, "bytes") >= number(crossing, "bytes")) == larger);
                side.map(|t| busy(t)).sum::<f64>() / number(e, "parallelism")
            };
            assert!(
                took(below, false) < took(above, false) && took(above, true) < took(below, true),
                "{name}: {crossing}"
            );
        }
    }
}

#[test]
fn advice_begins_with_what_costs_most_and_its_figures_are_those_of_the_run_in_the_middle() {
    let told = report::json(&state("h200-full-qwen3-0.6b"));
    let advice = list(&told["analysis"], "advice");
    let stakes: Vec<u64> = advice.iter().map(|a| a["at_stake_ns"].as_u64().unwrap_or(0)).collect();
    assert!(stakes.len() > 5 && stakes.is_sorted_by(|a, b| a >= b), "{stakes:?}");
    let registering = advice.iter().filter(|a| a["text"].as_str().unwrap().contains("Register once"));
    let mut told_of = 0;
    for piece in registering {
        let runs = runs_of(&told, piece, &list(&told, "runs")[0]["model"]);
        let phases = &runs[runs.len() / 2]["phases"];
        assert_eq!(
            number(piece, "at_stake_ns"),
            number(phases, "register_buffer") + number(phases, "deregister"),
            "{piece}"
        );
        told_of += 1;
    }
    assert_eq!(told_of, 4);
}

#[test]
fn what_ran_beside_others_is_told_apart_from_what_ran_alone() {
    let page = report::markdown(&state("h200x2-together"));
    let row = |load: &str| {
        page.lines().find(|line| line.contains(&format!("| {load} "))).unwrap_or_else(|| panic!("{load}: {page}"))
    };
    // 293 ms is the median of the loads that ran alone. With the loads next to q06 it would be different.
    assert!(row("q7b on GPU 0").contains(" 293 ms ") && row("q06 on GPU 0").contains(" 35.0 ms "), "{page}");
    assert!(row("q7b on GPU 0, together").contains(" 322 ms "), "{page}");
    assert!(page.contains("Loads in blocks have no R²"), "{page}");
}

#[test]
fn predictions_are_made_of_what_ran_alone_and_of_nothing_else() {
    let alone = SessionAnalysis::new(&state("h200x2-together")).timings();
    let told: Vec<_> = alone.iter().map(|t| (t.model.as_str(), t.runs.len())).collect();
    assert_eq!(told, [("q7b", 3), ("q06", 3)]);
    let walls: Vec<u64> = alone[0].runs.iter().map(|run| run.wall_ns).collect();
    assert!(walls.iter().all(|ns| (280_000_000..300_000_000).contains(ns)), "{walls:?}");
    assert!(SessionAnalysis::new(&state("h200x2-qwen2.5-7b")).timings().is_empty(), "parts only");
}

#[test]
fn of_lanes_that_ran_together_each_tells_where_its_time_went() {
    for name in ["h200x2-together", "h200x2-qwen2.5-7b"] {
        let tables = together::tables(&state(name));
        assert!(!tables.is_empty());
        for table in tables {
            assert_eq!(table.heads.last().map(|head| &*head.title), Some("largest phases"));
            assert!(table.rows.iter().all(|row| row.last().unwrap().contains('%')), "{name}: {table:?}");
        }
    }
}

#[test]
fn no_column_of_storage_rates_stands_without_the_name_of_its_transfer() {
    let state = state("h200-io");
    for width in [40, 60, 80, 100, 120, 200] {
        let text = report::text(&state, width, false);
        let lines: Vec<&str> = text.lines().collect();
        let heads = (1..lines.len()).filter(|at| lines[*at].trim_start().starts_with("block "));
        let named: usize = heads
            .map(|at| {
                let (names, columns) =
                    (lines[at - 1].split_whitespace().count(), lines[at].split_whitespace().count() - 1);
                assert_eq!((columns % names.max(1), columns / names.max(1)), (0, 3), "{width}: {text}");
                names
            })
            .sum();
        assert_eq!(named, 2 * 4, "{width}: {text}");
    }
}

#[test]
fn a_prediction_names_the_model_whose_load_it_was_made_of() {
    for name in SMALL {
        let told = report::json(&state(name));
        for prediction in list(&told["analysis"], "predictions") {
            let runs = runs_of(&told, prediction, &prediction["model"]);
            assert!(
                runs.iter().any(|run| run["wall_ns"] == prediction["measured_ns"]),
                "{name}: {prediction} is of no load"
            );
        }
    }
}
