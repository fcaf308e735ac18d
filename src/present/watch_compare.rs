//! Compares a watched program with an earlier recording, as sentences and as tables.

use super::view::{Answer, GAP, Table, number, text};
use crate::analysis::{PaceChange, PaceResult, PaceSide, WatchComparison, WatchRegression};
use crate::core::Status;
use crate::core::units::{bytes, count, duration, plural};

/// The answer: the values that are worse, that no value is worse, or that this cannot be decided.
#[must_use]
pub fn answer(comparison: &WatchComparison, baseline: &str) -> Answer {
    let worse = comparison.regressions.len() as u64;
    if worse > 0 {
        let sentences: Vec<String> = comparison.regressions.iter().map(sentence).collect();
        return Answer::new(
            Status::Fail,
            format!("{} against {baseline}.", plural(worse, "regression")),
            sentences.join(" "),
        );
    }
    let unclear = |pace: &&PaceChange| pace.result == PaceResult::Unclear && pace.now.mean_ns > pace.before.mean_ns;
    let unclear: Vec<&PaceChange> = comparison.paces.iter().filter(unclear).collect();
    let mut sentences: Vec<String> = unclear
        .iter()
        .take(NAMED)
        .map(|pace| {
            let side = |side: &PaceSide| (side.mean_ns, side.count == 1);
            slower(&name(&pace.function, pace.up_to_bytes), side(&pace.before), side(&pace.now))
        })
        .collect();
    if unclear.is_empty() {
        return Answer::new(Status::Pass, format!("No regression against {baseline}."), "");
    }
    if let Some(more) = unclear.len().checked_sub(NAMED).filter(|more| *more > 0) {
        sentences.push(format!("{} more in the table.", plural(more as u64, "difference")));
    }
    sentences.push("The recordings are too short or vary too much to decide.".to_owned());
    Answer::new(Status::Info, format!("No regression is proven against {baseline}."), sentences.join(" "))
}

/// Maximum number of differences in the answer that are not decided.
const NAMED: usize = 3;

fn name(function: &str, up_to_bytes: u64) -> String {
    match up_to_bytes {
        0 => function.to_owned(),
        u64::MAX => format!("{function} of large sizes"),
        size => format!("{function} up to {}", bytes(size)),
    }
}

/// A difference of durations. A single call has no average.
fn slower(what: &str, (before_ns, before_is_one): (u64, bool), (now_ns, now_is_one): (u64, bool)) -> String {
    let of = |is_one: bool| if is_one { " in one call" } else { " on average" };
    let of_before = if before_is_one == now_is_one { "" } else { of(before_is_one) };
    format!("{what} takes {}{}, {}{of_before} before.", duration(now_ns), of(now_is_one), duration(before_ns))
}

fn sentence(regression: &WatchRegression) -> String {
    match regression {
        WatchRegression::Slower { function, up_to_bytes, before_ns, now_ns } => {
            // Such a result needs several calls in both recordings.
            slower(&name(function, *up_to_bytes), (*before_ns, false), (*now_ns, false))
        }
        WatchRegression::MoreErrors { function, before, now } => {
            format!("{} of {function} failed, {} before.", plural(*now, "call"), count(*before))
        }
        WatchRegression::RouteLost(path) => format!("{path} has no proven direct route any more."),
    }
}

/// Two tables: the calls of each function, and their durations by size, before and now.
#[must_use]
pub fn tables(comparison: &WatchComparison, baseline: &str) -> Vec<Table> {
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
            0 => GAP.to_owned(),
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
    let note = format!("The numbers before are those of {baseline}.");
    let calls = Table { title: "Calls compared".to_owned(), note, heads, rows: rows.collect() };
    std::iter::once(calls).chain(by_size(comparison)).collect()
}

fn by_size(comparison: &WatchComparison) -> Option<Table> {
    let heads = vec![
        text("function"),
        text("size up to"),
        number("calls before"),
        number("calls"),
        number("mean before"),
        number("mean"),
        number("calls/s before"),
        number("calls/s"),
        text("result"),
    ];
    let number_of = |side: &PaceSide, value: String| if side.count == 0 { GAP.to_owned() } else { value };
    let mean = |side: &PaceSide| number_of(side, duration(side.mean_ns));
    let rate = |side: &PaceSide| match side.calls_per_s > 0.0 {
        true => format!("{:.1}", side.calls_per_s),
        false => GAP.to_owned(),
    };
    let rows: Vec<_> = (comparison.paces.iter())
        .map(|pace| {
            vec![
                pace.function.clone(),
                match pace.up_to_bytes {
                    0 => String::new(),
                    u64::MAX => "larger".to_owned(),
                    size => bytes(size),
                },
                count(pace.before.count),
                count(pace.now.count),
                mean(&pace.before),
                mean(&pace.now),
                rate(&pace.before),
                rate(&pace.now),
                match pace.result {
                    PaceResult::OnlyOnce => GAP,
                    PaceResult::Same => "same",
                    PaceResult::Slower => "slower",
                    PaceResult::Faster => "faster",
                    PaceResult::Unclear => "unclear",
                }
                .to_owned(),
            ]
        })
        .collect();
    let note = "A result needs a difference above the threshold and above the variation inside both recordings.";
    (!rows.is_empty()).then(|| Table { title: "Calls by size".to_owned(), note: note.to_owned(), heads, rows })
}
