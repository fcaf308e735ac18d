//! Compares a watched program with an earlier recording, as sentences and as tables.

use super::view::{Answer, GAP, Table, number, text};
use super::watch;
use crate::analysis::{ENOUGH_CALLS, PaceChange, PaceResult, PaceSide, WatchComparison, WatchRegression, is_busy};
use crate::core::units::{bytes, count, duration, percent, plural, three_digits};
use crate::core::{BATCH_ENTRY, ProgramEnd, Status};

/// The answer: the values that are worse, that no value is worse, or that this cannot be decided.
#[must_use]
pub fn answer(comparison: &WatchComparison, baseline: &str) -> Answer {
    let worse = comparison.regressions.len() as u64;
    if worse > 0 {
        let sentences: Vec<String> =
            comparison.regressions.iter().map(sentence).chain(comparison.other_end.map(other_end)).collect();
        return Answer::new(
            Status::Fail,
            format!("{} against {baseline}.", plural(worse, "regression")),
            sentences.join(" "),
        );
    }
    let not_decided =
        |conditions: String| Answer::new(Status::Warn, format!("Not decided against {baseline}."), conditions);
    let waited =
        || format!("Tasks of this machine waited for a CPU in {} of the time", percent(comparison.cpu_pressure));
    if let Some(end) = comparison.other_end {
        return not_decided(other_end(end));
    }
    let incomplete = [("earlier", &comparison.missing_before), ("later", &comparison.missing)];
    let incomplete: Vec<String> = (incomplete.into_iter().filter(|(_, missing)| !missing.is_empty()))
        .map(|(which, missing)| format!("The {which} recording is incomplete: {}.", watch::reasons(missing)))
        .collect();
    if !incomplete.is_empty() {
        return not_decided(incomplete.join(" "));
    }
    if comparison.route_unknown {
        return not_decided(
            "The earlier recording proves a direct route. The later one has no statistics (--statistics, not possible with --pid), so its route is not known."
                .to_owned(),
        );
    }
    let slower_or_unclear =
        |pace: &&PaceChange| pace.result == PaceResult::Unclear && pace.now.mean_ns > pace.before.mean_ns;
    // A few calls show little, so only the table has their functions.
    let (enough, few): (Vec<&PaceChange>, _) =
        comparison.paces.iter().filter(|pace| pace.result != PaceResult::OnlyOnce).partition(|pace| has_enough(pace));
    if enough.is_empty() && few.is_empty() && !comparison.paces.is_empty() {
        return not_decided("No function was called in both recordings.".to_owned());
    }
    let unclear: Vec<&PaceChange> = enough.iter().copied().filter(slower_or_unclear).collect();
    if unclear.is_empty() {
        let tolerated = match comparison.allowed > comparison.threshold {
            true => format!("{}, so calls may be {} slower.", waited(), percent(comparison.allowed)),
            false => String::new(),
        };
        return match enough.is_empty() && few.iter().any(slower_or_unclear) {
            true => {
                not_decided(format!("No function has {ENOUGH_CALLS} calls or more of one size in both recordings."))
            }
            false => Answer::new(Status::Pass, format!("No regression against {baseline}."), tolerated),
        };
    }
    let mut sentences: Vec<String> = (unclear.iter().take(NAMED))
        .map(|pace| slower(&name(&pace.function, pace.up_to_bytes), pace.before.mean_ns, pace.now.mean_ns))
        .collect();
    if let Some(more) = unclear.len().checked_sub(NAMED).filter(|more| *more > 0) {
        sentences.push(format!("{} more in the table.", plural(more as u64, "difference")));
    }
    sentences.push(match is_busy(comparison.cpu_pressure) {
        true => format!("{}. Run again on an idle machine.", waited()),
        false => "The recordings are too short or vary too much to decide, or only one has probes (--pid).".to_owned(),
    });
    not_decided(sentences.join(" "))
}

/// The sentence if the program ended otherwise than in the baseline.
fn other_end(end: ProgramEnd) -> String {
    let how = match end {
        ProgramEnd::Signal(signal) => format!("by signal {signal}"),
        ProgramEnd::Status(status) => format!("with status {status}"),
        ProgramEnd::Unknown => "in another way".to_owned(),
    };
    format!("The program ended {how}, and the earlier one did not.")
}

/// Whether both recordings have enough calls for a sentence about them.
const fn has_enough(pace: &PaceChange) -> bool {
    pace.before.count >= ENOUGH_CALLS && pace.now.count >= ENOUGH_CALLS
}

/// Maximum number of differences in the answer that are not decided.
const NAMED: usize = 3;

fn name(function: &str, up_to_bytes: u64) -> String {
    // A sentence begins with this name.
    let function = if function == BATCH_ENTRY { "A batch entry" } else { function };
    match up_to_bytes {
        0 => function.to_owned(),
        u64::MAX => format!("{function} of large sizes"),
        size => format!("{function} up to {}", bytes(size)),
    }
}

/// A difference of mean durations.
fn slower(what: &str, before_ns: u64, now_ns: u64) -> String {
    format!("{what} takes {} on average, {} before.", duration(now_ns), duration(before_ns))
}

fn sentence(regression: &WatchRegression) -> String {
    match regression {
        WatchRegression::Slower { function, up_to_bytes, before_ns, now_ns } => {
            slower(&name(function, *up_to_bytes), *before_ns, *now_ns)
        }
        WatchRegression::MoreErrors { function, before, now } => {
            format!("{} of {function} failed, {} before.", plural(*now, "call"), count(*before))
        }
        WatchRegression::RouteLost(path) => format!("{path} has no proven direct route any more."),
        WatchRegression::LessDirect { before, now } => {
            let share = |[direct, all]: [u64; 2]| format!("{} of {}", bytes(direct), bytes(all));
            format!("{} by cuFile took a proven direct route, {} before.", share(*now), share(*before))
        }
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

/// A number of calls in a second with three significant digits: `37 700`.
fn per_second(calls: f64) -> String {
    if calls < 999.5 {
        return three_digits(calls);
    }
    let unit = 10_f64.powi(calls.log10().floor() as i32 - 2);
    count(((calls / unit).round() * unit) as u64)
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
        true => per_second(side.calls_per_s),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::WatchGap;

    fn pace(function: &str, calls: [u64; 2], means_ns: [u64; 2], result: PaceResult) -> PaceChange {
        let side = |at: usize| PaceSide { count: calls[at], mean_ns: means_ns[at], ..PaceSide::default() };
        PaceChange { function: function.to_owned(), up_to_bytes: 0, before: side(0), now: side(1), result }
    }

    #[test]
    fn calls_in_a_second_have_three_digits_in_groups() {
        let texts = [0.5, 37.3, 998.9, 999.7, 37_667.1, 1_234_567.0].map(per_second);
        assert_eq!(texts, ["0.500", "37.3", "999", "1\u{202f}000", "37\u{202f}700", "1\u{202f}230\u{202f}000"]);
    }

    #[test]
    fn functions_with_few_calls_do_not_decide_the_answer() {
        use PaceResult::{OnlyOnce, Same, Unclear};
        let open = pace("cuFileDriverOpen", [1, 1], [200_000_000, 300_000_000], Unclear);
        let register = pace("cuFileBufRegister", [2, 30], [1000, 2000], Unclear);
        let read = |result| pace("cuFileRead", [800, 900], [1000, 1500], result);
        let new = pace("cuFileWrite", [0, 900], [0, 1500], OnlyOnce);
        for (paces, status, named) in [
            (vec![read(Same), open.clone()], Status::Pass, ""),
            (vec![open.clone(), register.clone(), read(Unclear)], Status::Warn, "cuFileRead"),
            (vec![open.clone(), new], Status::Warn, "No function"),
            (vec![pace("cuFileRead", [3, 3], [1000, 1000], Same)], Status::Pass, ""),
        ] {
            let comparison = WatchComparison { paces, ..WatchComparison::default() };
            let answer = answer(&comparison, "a");
            assert_eq!(answer.status, status, "{answer:?}");
            assert!(answer.conditions.starts_with(named), "{answer:?}");
            let is_named = |function: &str| answer.conditions.contains(function);
            assert!(!is_named("cuFileDriverOpen") && !is_named("cuFileBufRegister"), "{answer:?}");
        }
    }

    #[test]
    fn a_recording_without_all_calls_decides_only_regressions() {
        let paces = || vec![pace("cuFileRead", [800, 900], [1000, 1000], PaceResult::Same)];
        let compared = |before: &[WatchGap], now: &[WatchGap], regressions: Vec<WatchRegression>| {
            let comparison = WatchComparison { paces: paces(), regressions, ..WatchComparison::default() };
            answer(&comparison.with_missing(before.to_vec(), now.to_vec()), "a")
        };
        assert_eq!(compared(&[], &[], Vec::new()).status, Status::Pass);
        let lost = compared(&[], &[WatchGap::LostEvents], Vec::new());
        assert_eq!((lost.status, lost.headline.as_str()), (Status::Warn, "Not decided against a."));
        assert_eq!(lost.conditions, "The later recording is incomplete: lost details of calls.");
        let cut = compared(&[WatchGap::SessionCut], &[], Vec::new());
        assert_eq!(cut.conditions, "The earlier recording is incomplete: unexpected end of the session.");
        let errors = WatchRegression::MoreErrors { function: "cuFileRead".to_owned(), before: 0, now: 1 };
        assert_eq!(compared(&[], &[WatchGap::LostEvents], vec![errors]).status, Status::Fail);
    }

    #[test]
    fn a_busy_machine_is_the_reason_why_nothing_is_decided() {
        let paces = vec![pace("cuFileRead", [800, 900], [1000, 1500], PaceResult::Unclear)];
        let answer =
            |cpu_pressure| answer(&WatchComparison { paces: paces.clone(), cpu_pressure, ..Default::default() }, "a");
        let (busy, idle) = (answer(0.6), answer(0.1));
        assert!(busy.headline.starts_with("Not decided") && busy.conditions.contains("for a CPU in 60 %"), "{busy:?}");
        assert!(idle.headline.starts_with("Not decided") && idle.conditions.contains("too short"), "{idle:?}");
    }
}
