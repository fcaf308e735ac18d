//! Checks and runs, or a watched program, as JUnit XML for CI systems. A failed check, run or requirement is a failure.

use crate::analysis::{SessionEnd, WatchGap, is_not_recorded};
use crate::core::{Failure, ProgramEnd, Status, WatchReport};
use crate::present::finding::FindingView;
use crate::present::{labels, progress, watch};
use crate::session::{LaneStatus, State};
use crate::text::markup;
use std::io::{self, Write};

/// One test case.
struct Case {
    name: String,
    seconds: f64,
    outcome: Outcome,
}

enum Outcome {
    Passed,
    Skipped(String),
    Failed { message: String, details: String },
}

/// Writes one test suite for the checks and one for the runs, or one for a watched program.
pub(super) fn write(state: &State, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<testsuites name=\"gds-top\">")?;
    if let Some(report) = state.watch.as_deref() {
        suite(out, "watch", &program(state, report))?;
    } else {
        suite(out, "checks", &checks(state))?;
        suite(out, "runs", &runs(state))?;
    }
    writeln!(out, "</testsuites>")
}

fn checks(state: &State) -> Vec<Case> {
    let one = |finding: &crate::core::Finding| {
        let view = FindingView::of(finding);
        let outcome = match finding.status {
            Status::Fail => Outcome::Failed {
                message: finding.summary.clone(),
                details: [&view.why, &view.advice]
                    .into_iter()
                    .flatten()
                    .map(|part| part.text.as_str())
                    .collect::<Vec<_>>()
                    .join(" "),
            },
            Status::Na => Outcome::Skipped(finding.summary.clone()),
            Status::Pass | Status::Info | Status::Warn => Outcome::Passed,
        };
        Case { name: finding.id.to_string(), seconds: 0.0, outcome }
    };
    state.checks.iter().map(one).collect()
}

fn runs(state: &State) -> Vec<Case> {
    let lanes = state.lanes.iter().map(|lane| {
        let result = lane.result.as_deref();
        let outcome = match (&lane.status, result) {
            (LaneStatus::Done, Some(run)) if run.verified == Some(false) => Outcome::Failed {
                message: Failure::WrongBytes(run.first_difference.clone()).to_string(),
                details: String::new(),
            },
            (LaneStatus::Done, _) => Outcome::Passed,
            (LaneStatus::Failed(why), _) => {
                Outcome::Failed { message: why.to_string(), details: lane.stderr_tail.clone().unwrap_or_default() }
            }
            (LaneStatus::Cancelled | LaneStatus::Waiting | LaneStatus::Running(_), _) => {
                Outcome::Skipped(progress::without_result(&lane.status).to_owned())
            }
        };
        let name = format!(
            "{} {} #{} {}",
            labels::engine(&lane.engine),
            lane.cache,
            lane.repeat.saturating_add(1),
            lane.target
        );
        Case { name, seconds: result.map_or(0.0, |run| run.wall_ns as f64 / 1e9), outcome }
    });
    let unavailable = state.unavailable.iter().map(|(engine, why)| Case {
        name: labels::engine(engine),
        seconds: 0.0,
        outcome: Outcome::Skipped(why.clone()),
    });
    lanes.chain(unavailable).collect()
}

/// The end of the program, whether calls are missing, its requirement, the answer about the route, and each file of
/// cuFile. If calls are missing, no case that depends on them passes: it fails or is skipped.
fn program(state: &State, report: &WatchReport) -> Vec<Case> {
    let seconds = report.wall_ns as f64 / 1e9;
    let gaps = watch::gaps(state);
    let incomplete = watch::incomplete(&gaps);
    let new = |name: &str, outcome| Case { name: name.to_owned(), seconds, outcome };
    let failed = |(message, details)| Outcome::Failed { message, details };
    let without_failure = || incomplete.clone().map_or(Outcome::Passed, Outcome::Skipped);
    let case = |name: &str, failure: Option<(String, String)>| new(name, failure.map_or_else(without_failure, failed));
    let mut cases = Vec::new();
    if report.attached.is_none() {
        let outcome = match (watch::end(report), report.ended) {
            (Some(answer), _) => failed((answer.headline, answer.conditions)),
            (None, None | Some(ProgramEnd::Unknown)) => Outcome::Skipped(watch::NO_END.to_owned()),
            (None, Some(_)) => Outcome::Passed,
        };
        cases.push(new("exit status", outcome));
    }
    // Without its end, the result of a session is unknown. Other reasons are limits of the recording.
    let is_cut = gaps.iter().any(|gap| matches!(gap, WatchGap::SessionCut | WatchGap::SessionInterrupted));
    let cut = incomplete.clone().filter(|_| is_cut).map(|sentence| (sentence, String::new()));
    cases.push(case("complete recording", cut));
    let answer = watch::answer(report, SessionEnd::of(state.ended, true));
    let is_failure = answer.status == Status::Fail || is_not_recorded(report);
    cases.push(case("route", is_failure.then_some((answer.headline, answer.conditions))));
    if report.requires_direct {
        let unmet = watch::unmet(Some(report));
        cases.push(case("--require direct", unmet.map(|sentence| (sentence.to_owned(), String::new()))));
    }
    for file in report.files.iter().filter(|file| watch::is_of_cufile(file)) {
        let failure = watch::file_failure(file, report.requires_direct);
        cases.push(case(&file.path, failure.map(|sentence| (sentence, watch::proof(file.proof).to_owned()))));
    }
    cases
}

fn suite(out: &mut dyn Write, name: &str, cases: &[Case]) -> io::Result<()> {
    let failures = cases.iter().filter(|case| matches!(case.outcome, Outcome::Failed { .. })).count();
    let skipped = cases.iter().filter(|case| matches!(case.outcome, Outcome::Skipped(_))).count();
    writeln!(
        out,
        "  <testsuite name=\"gds-top {name}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">",
        cases.len()
    )?;
    for case in cases {
        let head = format!(
            "    <testcase classname=\"gds-top.{name}\" name=\"{}\" time=\"{:.6}\"",
            markup(&case.name),
            case.seconds
        );
        match &case.outcome {
            Outcome::Passed => writeln!(out, "{head}/>")?,
            Outcome::Skipped(why) => writeln!(out, "{head}><skipped message=\"{}\"/></testcase>", markup(why))?,
            Outcome::Failed { message, details } => writeln!(
                out,
                "{head}><failure message=\"{}\">{}</failure></testcase>",
                markup(message),
                markup(details)
            )?,
        }
    }
    writeln!(out, "  </testsuite>")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::{CheckId, Event, EventBody, Finding, Group};

    fn finding(id: CheckId, status: Status) -> Finding {
        Finding {
            id,
            group: Group::Gpu,
            status,
            summary: "a <b> & \"c\" \u{1b}[2J".to_owned(),
            evidence: Vec::new(),
            why: String::new(),
            blocks: Vec::new(),
            fix: None,
            advice: None,
            command: None,
            cause: None,
            permanent: false,
            facts: Vec::new(),
        }
    }

    #[test]
    fn a_failing_check_is_a_failure_and_text_is_markup() {
        let mut state = State::default();
        for (id, status) in
            [(CheckId::Wsl, Status::Fail), (CheckId::CpuArch, Status::Na), (CheckId::GpuPresent, Status::Warn)]
        {
            state.reduce(&Event { at_ns: 0, body: EventBody::CheckDone { finding: finding(id, status) } });
        }
        let mut out = Vec::new();
        write(&state, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""), "{text}");
        assert!(text.contains("a &lt;b&gt; &amp; &quot;c&quot;") && !text.contains('\u{1b}'), "{text}");
        assert_eq!(text.matches("<testcase ").count(), 3);
    }
}
