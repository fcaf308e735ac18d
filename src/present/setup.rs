//! The process start-up before the clock, and the settings of the engines with the reason for each value.

use super::analysed::{AnalysedRun, SessionAnalysis};
use super::cost::{heads, named};
use super::view::{Table, number, text};
use crate::core::{CacheState, RunResult, units};

/// The part of the set-up that happens after the clock stops.
const AFTER: &str = "release_after_clock";

/// The part in which gds-top prepares the page cache for an external loader. It does not belong to the time of the
/// loader.
const OURS: &str = "page_cache";

/// For each engine and cache state: the run with the median time.
fn typical<'d, 'a>(analysis: &'d SessionAnalysis<'a>) -> Vec<(&'d AnalysedRun<'a>, &'d RunResult)> {
    let kinds = analysis.typical(|run| run.lane.engine.direction().is_none());
    kinds.into_iter().filter_map(|run| Some((run, run.good()?))).collect()
}

fn set_up_ns(run: &RunResult) -> u64 {
    run.setup_ns.saturating_sub(run.setup_parts_ns.get(OURS).copied().unwrap_or(0))
}

/// The engine, followed by the model if there are several.
fn label(run: &RunResult, several: bool) -> String {
    if several { format!("{}, {}", run.engine, run.model) } else { run.engine.to_string() }
}

/// The table of the process start-up; `None` if nothing was loaded.
#[must_use]
pub fn before_the_clock(analysis: &SessionAnalysis<'_>) -> Option<Table> {
    let runs = typical(analysis);
    let several = runs.iter().any(|(run, _)| analysis.which(run).is_some());
    let rows: Vec<Vec<String>> = runs
        .iter()
        .filter(|(_, run)| set_up_ns(run) > 0)
        .map(|(analysed, run)| {
            let mut row = named(analysis, analysed, several);
            row.extend(parts(run));
            row
        })
        .collect();
    let mut all = heads(several);
    all.extend([number("set-up"), number("load"), number("until loaded"), text("parts of the set-up")]);
    (!rows.is_empty()).then(|| Table {
        title: "Before the clock".to_owned(),
        note: "Process start-up, paid once per process, of the run with the median time. Opening files, pinning, registering and allocating are phases of the load."
            .to_owned(),
        heads: all,
        rows,
    })
}

fn parts(run: &RunResult) -> [String; 4] {
    let before = |(name, _): &(&String, u64)| *name != AFTER && *name != OURS;
    let mut parts: Vec<(&String, u64)> =
        run.setup_parts_ns.iter().map(|(name, ns)| (name, *ns)).filter(before).collect();
    parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let part = |(name, ns): &(&String, u64)| format!("{} {}", name.replace('_', " "), units::duration(*ns));
    let mut said: Vec<String> = parts.iter().filter(|(_, ns)| *ns >= set_up_ns(run) / 100).map(part).collect();
    said.extend(run.setup_parts_ns.get(AFTER).map(|ns| format!("release after the clock {}", units::duration(*ns))));
    [
        units::duration(set_up_ns(run)),
        units::duration(run.wall_ns),
        units::duration(set_up_ns(run).saturating_add(run.wall_ns)),
        said.join(", "),
    ]
}

/// The table of the settings that the engines used. With `reasons`, each setting has a row with the origin of its
/// value. `None` if nothing was loaded.
#[must_use]
pub fn settings(analysis: &SessionAnalysis<'_>, reasons: bool) -> Option<Table> {
    let runs: Vec<&RunResult> = typical(analysis).into_iter().map(|(_, run)| run).collect();
    let several = runs.iter().any(|run| run.model != runs[0].model);
    // Recordings of earlier versions have no reasons.
    let reasons_known = runs.iter().any(|run| run.settings_why.values().any(|why| !why.is_empty()));
    let reasons = reasons && reasons_known;
    let rows = if reasons { with_reasons(&runs, several) } else { in_a_line(&runs, several) };
    let (heads, note) = if reasons {
        (
            vec![text("engine"), text("cache"), text("setting"), number("value"), text("chosen by")],
            "The values used. --set ENGINE.NAME=NUMBER sets another value, --sweep searches for the best.",
        )
    } else {
        (
            vec![text("engine"), text("cache"), text("settings")],
            if reasons_known {
                "The values used. The export shows the reason for each value."
            } else {
                "The values used."
            },
        )
    };
    (!rows.is_empty()).then(|| Table { title: "Settings".to_owned(), note: note.to_owned(), heads, rows })
}

/// A table row before the rows of different cache states are merged.
struct Row {
    engine: String,
    caches: Vec<CacheState>,
    rest: Vec<String>,
}

fn in_a_line(runs: &[&RunResult], several: bool) -> Vec<Vec<String>> {
    let line = |run: &&RunResult| {
        let all: Vec<String> =
            run.settings.iter().map(|(name, value)| format!("{name} {}", name.text(*value))).collect();
        Row { engine: label(run, several), caches: vec![run.cache], rest: vec![all.join(", ")] }
    };
    merged(runs.iter().filter(|run| !run.settings.is_empty()).map(line))
}

fn with_reasons(runs: &[&RunResult], several: bool) -> Vec<Vec<String>> {
    let rows = runs.iter().flat_map(|run| {
        run.settings.iter().map(|(name, value)| {
            let why = run.settings_why.get(name).cloned().unwrap_or_default();
            let rest = vec![name.to_string(), name.text(*value), why];
            Row { engine: label(run, several), caches: vec![run.cache], rest }
        })
    });
    merged(rows)
}

/// Merges rows that differ only in the cache state, and puts the rows of an engine together.
fn merged(rows: impl Iterator<Item = Row>) -> Vec<Vec<String>> {
    let mut merged: Vec<Row> = Vec::new();
    for row in rows {
        match merged.iter_mut().find(|known| known.engine == row.engine && known.rest == row.rest) {
            Some(known) => known.caches.extend(row.caches),
            None => merged.push(row),
        }
    }
    let order: Vec<String> = merged.iter().map(|row| row.engine.clone()).collect();
    merged.sort_by_key(|row| order.iter().position(|engine| *engine == row.engine));
    merged
        .into_iter()
        .map(|mut row| {
            // If several parts of a model have the same cache state, it is listed once.
            let mut seen = Vec::new();
            row.caches.retain(|cache| {
                !seen.contains(cache) && {
                    seen.push(*cache);
                    true
                }
            });
            let caches: Vec<String> = row.caches.iter().map(ToString::to_string).collect();
            [row.engine, caches.join(", ")].into_iter().chain(row.rest).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_differ_only_in_the_cache_are_merged() {
        use CacheState::{Cold, Hot};
        let row = |(engine, cache, rest): (&str, CacheState, &str)| Row {
            engine: engine.to_owned(),
            caches: vec![cache],
            rest: vec![rest.to_owned()],
        };
        let rows = [("pread", Hot, "a"), ("odirect", Hot, "b"), ("pread", Cold, "a"), ("pread", Cold, "c")];
        // Each row occurs twice, as for a model with two parts.
        let twice = rows.into_iter().flat_map(|cells| [row(cells), row(cells)]);
        let merged: Vec<String> = merged(twice).iter().map(|row| row.join("|")).collect();
        assert_eq!(merged, ["pread|hot, cold|a", "pread|cold|c", "odirect|hot|b"]);
    }
}
