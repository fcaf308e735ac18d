//! What lies before the clock, and the settings that the engines used with what chose them, as tables.

use super::cost::{heads, named};
use super::document::{Document, LaneReport};
use super::workload::Table;
use crate::domain::{RunResult, units};
use crate::session::State;

/// The part of the set-up that comes after the clock and is none of it.
const AFTER: &str = "release_after_clock";

/// The part in which this program brings the page cache into its state for a loader of somebody else's: none of that loader's time.
const OURS: &str = "page_cache";

/// The lanes that speak for their engines and cache states.
fn typical<'d, 'a>(document: &'d Document<'a>) -> Vec<(&'d LaneReport<'a>, &'d RunResult)> {
    let kinds = document.typical(|lane| lane.lane.engine.direction().is_none());
    kinds.into_iter().filter_map(|lane| Some((lane, lane.good()?))).collect()
}

fn set_up_ns(run: &RunResult) -> u64 {
    run.setup_ns.saturating_sub(run.setup_parts_ns.get(OURS).copied().unwrap_or(0))
}

/// The engine, and the model where there are several.
fn label(run: &RunResult, several: bool) -> String {
    if several { format!("{}, {}", run.engine, run.model) } else { run.engine.to_string() }
}

/// A value as people read it.
fn value_text(name: &str, value: u64) -> String {
    if name.ends_with("_bytes") { units::bytes(value) } else { value.to_string() }
}

/// The tables of a session; none where nothing was loaded. `whys` has each setting in a row of its own, with what chose it.
#[must_use]
pub fn tables(state: &State, whys: bool) -> Vec<Table> {
    of(&Document::new(state), whys)
}

pub(super) fn of(document: &Document<'_>, whys: bool) -> Vec<Table> {
    let lanes = typical(document);
    let several = lanes.iter().any(|(lane, _)| document.which(lane).is_some());
    let told = lanes.iter().filter(|(_, run)| set_up_ns(run) > 0);
    let set_up: Vec<Vec<String>> = told
        .map(|(lane, run)| {
            let mut row = named(document, lane, several);
            row.extend(before_the_clock(run));
            row
        })
        .collect();
    let mut set_up_head = heads(several);
    let mut set_up_right = vec![false; set_up_head.len()];
    set_up_head.extend(["set-up", "load", "to loaded", "what the set-up was"]);
    set_up_right.extend([true, true, true, false]);
    let runs: Vec<&RunResult> = lanes.into_iter().map(|(_, run)| run).collect();
    let models = runs.iter().any(|run| run.model != runs[0].model);
    let settings = if whys { with_reasons(&runs, models) } else { in_a_line(&runs, models) };
    let set_up = Table {
        title: "Before the clock",
        says: "Set-up of a load's process, which one that loads more than once pays once; opening files, pinning, registering and allocating lie inside the load, as \
               phases. Of the run with the median time."
            .to_owned(),
        head: set_up_head,
        right: set_up_right,
        rows: set_up,
    };
    let (head, says) = if whys {
        (
            vec!["engine", "cache", "setting", "value", "what chose it"],
            "As used; --set ENGINE.NAME=NUMBER sets another, --sweep looks for the best.",
        )
    } else {
        (vec!["engine", "cache", "settings"], "As used; what chose each stands in the export.")
    };
    let right = head.iter().map(|name| *name == "value").collect();
    let settings = Table { title: "Settings", says: says.to_owned(), head, right, rows: settings };
    [set_up, settings].into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn before_the_clock(run: &RunResult) -> [String; 4] {
    let before = |(name, _): &(&String, u64)| *name != AFTER && *name != OURS;
    let mut parts: Vec<(&String, u64)> =
        run.setup_parts_ns.iter().map(|(name, ns)| (name, *ns)).filter(before).collect();
    parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let told = |(name, ns): &(&String, u64)| format!("{} {}", name.replace('_', " "), units::duration(*ns));
    let mut said: Vec<String> = parts.iter().filter(|(_, ns)| *ns >= set_up_ns(run) / 100).map(told).collect();
    said.extend(run.setup_parts_ns.get(AFTER).map(|ns| format!("given back after the clock {}", units::duration(*ns))));
    [
        units::duration(set_up_ns(run)),
        units::duration(run.wall_ns),
        units::duration(set_up_ns(run).saturating_add(run.wall_ns)),
        said.join(", "),
    ]
}

fn in_a_line(runs: &[&RunResult], several: bool) -> Vec<Vec<String>> {
    let line = |run: &&RunResult| {
        let all: Vec<String> =
            run.knobs.iter().map(|(name, value)| format!("{name} {}", value_text(name, *value))).collect();
        vec![label(run, several), run.cache.to_string(), all.join(", ")]
    };
    merged(runs.iter().filter(|run| !run.knobs.is_empty()).map(line))
}

fn with_reasons(runs: &[&RunResult], several: bool) -> Vec<Vec<String>> {
    let rows = runs.iter().flat_map(|run| {
        run.knobs.iter().map(|(name, value)| {
            let why = run.knobs_why.get(name).cloned().unwrap_or_default();
            vec![label(run, several), run.cache.to_string(), name.clone(), value_text(name, *value), why]
        })
    });
    merged(rows)
}

/// Rows that differ in nothing but the cache state as one.
fn merged(rows: impl Iterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    let mut out: Vec<Vec<String>> = Vec::new();
    for row in rows {
        let same = |known: &&mut Vec<String>| known[0] == row[0] && known[2..] == row[2..];
        match out.iter_mut().find(same) {
            // Several lanes of a state, as the parts of a model are, name it once.
            Some(known) if known[1].split(", ").any(|state| state == row[1]) => {}
            Some(known) => known[1] = format!("{}, {}", known[1], row[1]),
            None => out.push(row),
        }
    }
    // What one engine used stands together.
    let first: Vec<String> = out.iter().map(|row| row[0].clone()).collect();
    out.sort_by_key(|row| first.iter().position(|engine| *engine == row[0]));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_differ_in_the_cache_alone_are_one_and_an_engine_s_stand_together() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [["pread", "hot", "a"], ["direct", "hot", "b"], ["pread", "cold", "a"], ["pread", "cold", "c"]];
        // As two parts of a model tell them.
        let twice = rows.into_iter().flat_map(|cells| [row(cells), row(cells)]);
        let told: Vec<String> = merged(twice).iter().map(|row| row.join("|")).collect();
        assert_eq!(told, ["pread|hot, cold|a", "pread|cold|c", "direct|hot|b"]);
    }
}
