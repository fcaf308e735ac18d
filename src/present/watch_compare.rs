//! Compares a watched program with an earlier recording, as sentences and as a table.

use super::view::{Answer, Table, number, text};
use crate::analysis::{WatchComparison, WatchRegression};
use crate::core::Status;
use crate::core::units::{count, duration, plural};

/// The answer: the values that are worse, or that no value is worse.
#[must_use]
pub fn answer(comparison: &WatchComparison, baseline: &str) -> Answer {
    let worse = comparison.regressions.len() as u64;
    if worse == 0 {
        return Answer::new(Status::Pass, format!("No regression against {baseline}."), "");
    }
    let sentences: Vec<String> = comparison.regressions.iter().map(sentence).collect();
    Answer::new(Status::Fail, format!("{} against {baseline}.", plural(worse, "regression")), sentences.join(" "))
}

fn sentence(regression: &WatchRegression) -> String {
    match regression {
        WatchRegression::Slower { function, before_ns, now_ns } => {
            format!("{function} takes {} on average, {} before.", duration(*now_ns), duration(*before_ns))
        }
        WatchRegression::MoreErrors { function, before, now } => {
            format!("{function} failed {} times, {} before.", count(*now), count(*before))
        }
        WatchRegression::RouteLost(path) => format!("{path} has no proven direct route any more."),
    }
}

/// A table with the calls of each function, before and now.
#[must_use]
pub fn table(comparison: &WatchComparison, baseline: &str) -> Table {
    let heads = vec![
        text("function"),
        number("calls before"),
        number("calls"),
        number("mean before"),
        number("mean"),
        number("errors before"),
        number("errors"),
    ];
    let rows = comparison.calls.iter().map(|change| {
        let mean = |call: &crate::core::CallTotal| match call.count {
            0 => super::view::GAP.to_owned(),
            calls => duration(call.total_ns / calls),
        };
        vec![
            change.function.clone(),
            count(change.before.count),
            count(change.now.count),
            mean(&change.before),
            mean(&change.now),
            count(change.before.errors),
            count(change.now.errors),
        ]
    });
    let note = format!("The times before are those of {baseline}.");
    Table { title: "Calls compared".to_owned(), note, heads, rows: rows.collect() }
}
