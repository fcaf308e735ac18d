//! The comparison of runs with a baseline, and of several recordings with one another.

use super::view::{Answer, Head, Table, number, or_gap, text};
use crate::analysis::{Against, Change, Doubt, Lack, LeftOut, Measured, median_time};
use crate::core::{CacheState, Engine, Status, TargetName, units};

/// The title of a comparison.
#[must_use]
pub fn title(before: &str) -> String {
    format!("Compared with {before}")
}

/// The rule of the comparison.
#[must_use]
pub fn rule(threshold: f64) -> String {
    format!(
        "An engine differs if its median changed by more than {} plus half the range of the repeats, and no runs overlap. A single run counts as a range of 15 %. If the repeats differ too much for that, a slower median is undecided.",
        units::percent(threshold)
    )
}

/// The message before an engine runs again, because it was slower.
#[must_use]
pub fn repeats(engine: &Engine, cache: CacheState) -> String {
    format!("{engine} ({cache}) was slower than in the baseline; it runs again")
}

/// The sentence for a comparison on a machine whose CPUs were busy.
#[must_use]
pub fn busy(pressure: f64, threshold: f64) -> String {
    format!(
        "Tasks of this machine waited for a CPU in {} of the time, so an engine may be {} slower.",
        units::percent(pressure),
        units::percent(threshold)
    )
}

/// The warning after a recording on a machine whose CPUs were busy.
#[must_use]
pub fn poor_baseline(pressure: f64) -> String {
    format!(
        "Tasks of this machine waited for a CPU in {} of the time, so this recording is a poor baseline; record again on an idle machine.",
        units::percent(pressure)
    )
}

/// The sentence if no run can be compared. `all`: the engines that were left out.
#[must_use]
pub fn not_comparable(before: &str, all: &[LeftOut]) -> String {
    let why = if all.iter().any(|one| one.lack == Lack::ColdNow) {
        "the page cache had a part of the model before the cold runs"
    } else if all.iter().any(|one| one.lack == Lack::ColdBefore) {
        "the page cache had a part of the model before its cold runs"
    } else {
        "it contains no successful run of the same engine, model, target and cache state"
    };
    format!("Nothing here can be compared with {before}: {why}.")
}

/// The sentence about the runs that were left out because they should be cold and were not.
#[must_use]
pub fn not_cold(before: &str, of_before: &[Measured], of_now: &[Measured]) -> Option<Answer> {
    let count = |runs: &[Measured]| runs.iter().filter(|run| run.is_not_cold()).count() as u64;
    let sides = [(count(of_now), String::new()), (count(of_before), format!(" of {before}"))];
    let some: Vec<String> = sides
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, of)| format!("{}{of}", units::plural(count, "cold run")))
        .collect();
    let headline = format!("Not compared: {}: the page cache had a part of the model before.", some.join(", "));
    (!some.is_empty()).then(|| Answer::new(Status::Warn, headline, ""))
}

/// The engines that were not compared.
#[must_use]
pub fn left_out(before: &str, all: &[LeftOut]) -> Vec<Answer> {
    let names = |lack: Lack| -> Vec<String> {
        all.iter().filter(|one| one.lack == lack).map(|one| format!("{} ({})", one.engine, one.cache)).collect()
    };
    let reasons = [
        (names(Lack::Before), format!("{before} has no successful run with the same model, target and cache state")),
        (names(Lack::Now), format!("ran only in {before}")),
        (names(Lack::ColdBefore), format!("no run in {before} was cold")),
        (names(Lack::ColdNow), "no run was cold".to_owned()),
    ];
    let some = reasons.into_iter().filter(|(names, _)| !names.is_empty());
    some.map(|(names, why)| Answer::new(Status::Warn, format!("Not compared: {}: {why}.", names.join(", ")), ""))
        .collect()
}

/// The regressions, or the answer that there are none. `is_complete`: all engines were compared.
#[must_use]
pub fn answers(before: &str, all: &[Against], is_complete: bool) -> Vec<Answer> {
    let regression = |one: &Against| {
        let change = match (one.change, one.difference()) {
            (Change::Slower, Some(difference)) => {
                format!("is {} slower than in {before}", units::exact_percent(difference))
            }
            _ => format!("does not load the model correctly; it did in {before}"),
        };
        let headline = format!("Regression: {} ({}, {}) {change}.", one.engine, one.cache, one.model);
        Answer::new(Status::Fail, headline, "")
    };
    let undecided = |one: &Against, doubt: Doubt| {
        let difference = units::exact_percent(one.difference().unwrap_or_default());
        let (reason, advice) = match doubt {
            Doubt::BusyCpus => ("tasks waited for a CPU most of the time", "Run again on an idle machine."),
            Doubt::Spread => {
                ("the repeats differ too much to compare", "Run again on an idle machine with more repeats (--repeat).")
            }
        };
        let headline = format!(
            "Not decided: the median of {} ({}, {}) is {difference} slower than in {before}, but {reason}.",
            one.engine, one.cache, one.model
        );
        Answer::new(Status::Warn, headline, advice)
    };
    let mut found: Vec<Answer> = all.iter().filter(|one| one.change.is_regression()).map(regression).collect();
    found.extend(all.iter().filter_map(|one| match one.change {
        Change::Undecided(doubt) => Some(undecided(one, doubt)),
        _ => None,
    }));
    if found.is_empty() && !all.is_empty() {
        let sentence = if is_complete { "No regression." } else { "No regression in the engines that were compared." };
        found.push(Answer::new(Status::Pass, sentence, ""));
    }
    found
}

/// A difference with its sign: `+3.0 %`.
fn signed(share: f64) -> String {
    let sign = if share >= 0.0 { "+" } else { "" };
    format!("{sign}{}", units::exact_percent(share))
}

/// One table for each model, target and cache state.
#[must_use]
pub fn tables(all: &[Against]) -> Vec<Table> {
    let row = |one: &Against| {
        vec![
            one.engine.to_string(),
            units::duration(one.before.wall_ns),
            or_gap(one.now.map(|side| units::duration(side.wall_ns))),
            or_gap(one.difference().map(signed)),
            units::exact_percent(one.allowed),
            one.change.name().to_owned(),
        ]
    };
    let group = |group: &[&Against]| Table {
        title: group_title(&group[0].model, group[0].cache, group[0].target.as_str()),
        note: String::new(),
        heads: vec![text("engine"), number("before"), number("now"), number("change"), number("noise"), text("result")],
        rows: group.iter().map(|one| row(one)).collect(),
    };
    let all: Vec<&Against> = all.iter().collect();
    let same = |a: &&Against, b: &&Against| (&a.model, a.cache, &a.target) == (&b.model, b.cache, &b.target);
    all.chunk_by(same).map(group).collect()
}

fn group_title(model: &str, cache: CacheState, target: &str) -> String {
    format!("{model}, {cache} cache, {target}")
}

/// The medians of the successful runs of several recordings, with one column per recording.
#[must_use]
pub fn side_by_side(all: &[(&str, &[Measured])]) -> Vec<Table> {
    let key = |run: &Measured| Some((run.model.clone()?, run.target.clone(), run.cache, run.engine.to_string()));
    let mut rows: Vec<_> = all.iter().flat_map(|(_, runs)| *runs).filter_map(key).collect();
    rows.sort();
    rows.dedup();
    let median = |runs: &[Measured], row: &(String, TargetName, CacheState, String)| {
        let good: Vec<u64> =
            runs.iter().filter(|run| key(run).as_ref() == Some(row)).filter_map(Measured::good_ns).collect();
        or_gap(median_time(&good).map(units::duration))
    };
    let group = |group: &[(String, TargetName, CacheState, String)]| {
        let cells = |row: &(String, TargetName, CacheState, String)| {
            std::iter::once(row.3.clone()).chain(all.iter().map(|(_, runs)| median(runs, row))).collect()
        };
        let recordings = all.iter().map(|(name, _)| Head { title: (*name).to_owned().into(), right: true });
        Table {
            title: group_title(&group[0].0, group[0].2, group[0].1.as_str()),
            note: String::new(),
            heads: std::iter::once(text("engine")).chain(recordings).collect(),
            rows: group.iter().map(cells).collect(),
        }
    };
    rows.chunk_by(|a, b| (&a.0, &a.1, a.2) == (&b.0, &b.1, b.2)).map(group).collect()
}
