//! The findings and verdicts as text for a terminal or a pipe: the answer first, then what is wrong, then the rest by group.

use crate::core::{Basis, Finding, Group, Route, Status, Verdict};
use crate::text::{indented, sanitise_line};
use std::fmt::Write as _;

const GROUPS: [Group; 7] =
    [Group::Gpu, Group::NvidiaFs, Group::Kernel, Group::Storage, Group::Files, Group::Cufile, Group::Limits];
/// Narrower than this nothing is wrapped any further.
const MIN_WIDTH: usize = 40;

/// Wraps text in the colour of a status, or leaves it.
pub(crate) fn paint(status: Status, text: &str, colour: bool) -> String {
    let code = match status {
        Status::Pass => "32",
        Status::Info => "36",
        Status::Warn => "33",
        Status::Fail => "31",
        Status::Na => "2",
    };
    if colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

pub(crate) fn strong(text: &str, colour: bool) -> String {
    if colour { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// The answer for a verdict, in one sentence.
#[must_use]
pub fn headline(verdict: &Verdict) -> String {
    let path = verdict.path.display();
    if verdict.basis == Basis::NoGpu {
        return format!("No GPU: reads of {path} can only go to host memory.");
    }
    let proven = if verdict.proven { "proven" } else { "not proven" };
    match verdict.route {
        Route::None => format!("No: no cuFile read of {path} works."),
        Route::Compat if verdict.possible.is_direct() => {
            let steps = match verdict.steps.len() {
                // The library's own word is in the proof, and it weighs more than checks that found nothing.
                0 if verdict.basis == Basis::LibraryDenies => "open by all checks, but not by libcufile".to_owned(),
                0 => "perhaps already there".to_owned(),
                1 => "one step away".to_owned(),
                n => format!("{n} steps away"),
            };
            format!(
                "No: reads of {path} are copied through host memory (compat, {proven}); {} is {steps}.",
                verdict.possible
            )
        }
        Route::Compat => {
            format!(
                "No: reads of {path} are copied through host memory (compat, {proven}); no direct route exists here."
            )
        }
        route => format!("Yes: reads of {path} can go straight to the GPU ({route}, {proven})."),
    }
}

/// Renders findings and verdicts, lines up to `width` columns wide (long words and paths excepted).
#[must_use]
pub fn render(findings: &[Finding], verdicts: &[Verdict], width: usize, colour: bool) -> String {
    let width = width.max(MIN_WIDTH);
    let mut out = String::new();
    for (verdict, gpus) in alike(verdicts) {
        let status = match verdict.route {
            Route::None => Status::Fail,
            Route::Compat => Status::Warn,
            _ => Status::Pass,
        };
        let mark = paint(status, &status.mark().to_string(), colour);
        let answer = strong(&sanitise_line(&headline(verdict)), colour);
        out.extend(indented(&format!("{mark} "), 2, &answer, width).into_iter().map(|line| line + "\n"));
        if !gpus.is_empty() {
            paragraph(&mut out, "  GPU     ", 10, &gpus.join(", "), width);
        }
        paragraph(&mut out, "  Proof   ", 10, &verdict.proof, width);
        if !verdict.blockers.is_empty() {
            paragraph(&mut out, "  Cause   ", 10, &verdict.blockers.join(", "), width);
        }
        paragraph(&mut out, "  Next    ", 10, &verdict.advice, width);
        out.push('\n');
    }
    for status in [Status::Fail, Status::Warn] {
        // Consequences follow their causes.
        let mut bad: Vec<&Finding> = findings.iter().filter(|f| f.status == status).collect();
        bad.sort_by_key(|f| f.cause.is_some());
        for finding in bad {
            detail(&mut out, finding, width, colour);
        }
    }
    for group in GROUPS {
        let members: Vec<&Finding> = findings.iter().filter(|f| f.group == group).collect();
        if members.is_empty() {
            continue;
        }
        let tally: Vec<String> = [Status::Pass, Status::Info, Status::Warn, Status::Fail, Status::Na]
            .into_iter()
            .filter_map(|status| {
                let n = members.iter().filter(|f| f.status == status).count();
                (n > 0).then(|| paint(status, &format!("{n} {}", status.word()), colour))
            })
            .collect();
        let _ = writeln!(out, "{}  {}", strong(group.title(), colour), tally.join("  "));
        for finding in members {
            let mark = paint(finding.status, &finding.status.mark().to_string(), colour);
            paragraph(&mut out, &format!("  {mark} {:<18} ", sanitise_line(&finding.id)), 23, &finding.summary, width);
        }
    }
    out
}

/// One finding in full: Found, Why, Fix.
pub(crate) fn detail(out: &mut String, finding: &Finding, width: usize, colour: bool) {
    let mark = paint(finding.status, &format!("{} {}", finding.status.mark(), finding.status.word()), colour);
    let blocks: Vec<String> = finding.blocks.iter().map(ToString::to_string).collect();
    let blocks = if blocks.is_empty() { String::new() } else { format!(", blocks {}", blocks.join(", ")) };
    let _ = writeln!(out, "{mark}  {}{blocks}", strong(&sanitise_line(&finding.id), colour));
    paragraph(out, "  ", 2, &finding.summary, width);
    for (number, evidence) in finding.evidence.iter().enumerate() {
        let head = if number == 0 { "  Found   " } else { "          " };
        paragraph(out, head, 10, &format!("{}: {}", evidence.source, evidence.text), width);
    }
    if !finding.why.is_empty() {
        paragraph(out, "  Why     ", 10, &finding.why, width);
    }
    if let Some(cause) = &finding.cause {
        paragraph(out, "  Because ", 10, &format!("of {cause}"), width);
    }
    if let Some(advice) = &finding.advice {
        paragraph(out, "  Fix     ", 10, advice, width);
    }
    // Every check has a page; a test of that module holds the list against the sources.
    paragraph(out, "  More    ", 10, &format!("gds-top explain {}", finding.id), width);
    out.push('\n');
}

/// Verdicts that differ by nothing but the GPU, together.
fn alike(verdicts: &[Verdict]) -> Vec<(&Verdict, Vec<&str>)> {
    let mut out: Vec<(&Verdict, Vec<&str>)> = Vec::new();
    for verdict in verdicts {
        let same = |other: &Verdict| {
            other.path == verdict.path
                && other.route == verdict.route
                && other.possible == verdict.possible
                && other.proof == verdict.proof
                && other.blockers == verdict.blockers
        };
        match out.iter_mut().find(|(other, _)| same(other)) {
            Some((_, gpus)) => gpus.extend(verdict.gpu.as_deref()),
            None => out.push((verdict, verdict.gpu.as_deref().into_iter().collect())),
        }
    }
    out
}

/// Writes text behind `head`, wrapped, further lines indented by `indent` columns.
pub(crate) fn paragraph(out: &mut String, head: &str, indent: usize, text: &str, width: usize) {
    for line in indented(head, indent, &sanitise_line(text), width) {
        out.push_str(&line);
        out.push('\n');
    }
}
