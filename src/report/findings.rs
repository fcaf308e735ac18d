//! Findings and verdicts as text for a terminal or a pipe: first the answer, then the problems, then the other
//! findings by group.

use super::text::paint;
use crate::core::{CheckId, Finding, Group, Status, Verdict};
use crate::present::Answer;
use crate::present::finding::FindingView;
use crate::present::labels;
use crate::present::verdict::{answer, no_gpu, no_path, proof};
use crate::text::{indented, paragraph, sanitise_line, strong};
use std::fmt::Write as _;

const GROUPS: [Group; 7] =
    [Group::Gpu, Group::NvidiaFs, Group::Kernel, Group::Storage, Group::Files, Group::Cufile, Group::Limits];
/// The minimum width of wrapped text.
const MIN_WIDTH: usize = 40;

/// Renders the verdicts with the causes that the findings give. Lines have up to `width` columns. Long words and paths
/// can exceed the width.
#[must_use]
pub fn verdicts(findings: &[Finding], verdicts: &[Verdict], width: usize, colour: bool) -> String {
    let width = width.max(MIN_WIDTH);
    let mut out = String::new();
    let headline = |out: &mut String, answer: &Answer| {
        let mark = paint(colour, answer.status, &answer.status.mark().to_string());
        let headline = strong(&sanitise_line(&answer.text()), colour);
        out.extend(indented(&format!("{mark} "), 2, &headline, width).into_iter().map(|line| line + "\n"));
    };
    if verdicts.is_empty() {
        headline(&mut out, &no_path());
    }
    for (number, (verdict, gpus)) in alike(verdicts).into_iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        headline(&mut out, &answer(verdict));
        if !gpus.is_empty() {
            paragraph(&mut out, "  GPU     ", 10, &labels::gpus(&gpus), width);
        }
        rows(&mut out, "  Proof   ", proof(verdict).into_iter(), width);
        rows(&mut out, "  Cause   ", causes(findings, &verdict.blockers).iter().map(String::as_str), width);
        rows(&mut out, "  Next    ", verdict.advice.lines(), width);
    }
    out
}

/// Renders the [`verdicts`] and the findings.
#[must_use]
pub fn findings(findings: &[Finding], verdicts: &[Verdict], width: usize, colour: bool) -> String {
    let width = width.max(MIN_WIDTH);
    let mut out = self::verdicts(findings, verdicts, width, colour);
    out.push('\n');
    // Without a GPU, advice about cuFile does not help. The lists of the groups have all findings.
    let has_gpu = verdicts.is_empty() || !verdicts.iter().all(no_gpu);
    let is_shown = |finding: &Finding| has_gpu || !finding.is_only_for_gpus();
    for status in [Status::Fail, Status::Warn] {
        // Findings that are consequences are listed below their causes.
        let mut bad: Vec<&Finding> = findings.iter().filter(|f| f.status == status && is_shown(f)).collect();
        bad.sort_by_key(|f| f.cause.is_some());
        for finding in bad {
            detail(&mut out, finding, width, colour);
        }
    }
    for group in GROUPS {
        let members: Vec<&Finding> = findings.iter().filter(|f| f.group == group && !f.is_implied()).collect();
        if members.is_empty() {
            continue;
        }
        let tally: Vec<String> = [Status::Pass, Status::Info, Status::Warn, Status::Fail, Status::Na]
            .into_iter()
            .filter_map(|status| {
                let n = members.iter().filter(|f| f.status == status).count();
                (n > 0).then(|| paint(colour, status, &format!("{n} {}", status.word())))
            })
            .collect();
        let _ = writeln!(out, "{}  {}", strong(group.title(), colour), tally.join("  "));
        for finding in members {
            let mark = paint(colour, finding.status, &finding.status.mark().to_string());
            paragraph(&mut out, &format!("  {mark} {:<18} ", finding.id), 23, &finding.summary, width);
        }
    }
    out
}

/// Each blocker as the summary of its finding, followed by the name of the check.
fn causes(findings: &[Finding], blockers: &[CheckId]) -> Vec<String> {
    let one = |id: &CheckId| match findings.iter().find(|finding| finding.id == *id) {
        Some(finding) => format!("{} ({id})", finding.summary),
        None => id.to_string(),
    };
    blockers.iter().map(one).collect()
}

/// Appends paragraphs, the first one after `head`.
fn rows<'t>(out: &mut String, head: &str, texts: impl Iterator<Item = &'t str>, width: usize) {
    for (number, text) in texts.enumerate() {
        let head = if number == 0 { head.to_owned() } else { " ".repeat(head.len()) };
        paragraph(out, &head, head.len(), text, width);
    }
}

/// Renders a complete finding with its labelled texts.
fn detail(out: &mut String, finding: &Finding, width: usize, colour: bool) {
    let view = FindingView::of(finding);
    let mark = paint(colour, finding.status, &view.result);
    let blocks = view.blocks.as_ref().map_or_else(String::new, |blocks| format!(", blocks {}", blocks.text));
    let _ = writeln!(out, "{mark}  {}{blocks}", strong(finding.id.as_str(), colour));
    paragraph(out, "  ", 2, &finding.summary, width);
    let mut part = |label: &str, text: &str| paragraph(out, &format!("  {label:<8}"), 10, text, width);
    for (number, evidence) in view.evidence.iter().enumerate() {
        let label = if number == 0 { view.found } else { "" };
        part(label, &format!("{}: {}", evidence.source, evidence.text));
    }
    for shown in [&view.why, &view.cause, &view.command, &view.advice].into_iter().flatten() {
        part(shown.label, &shown.text);
    }
    // Every check has a page in `gds-top explain`.
    part("More", &format!("gds-top explain {}", finding.id));
    out.push('\n');
}

/// Combines verdicts that differ only in the GPU.
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
        // Reports of earlier versions have only the UUID.
        let gpu = verdict.gpu_name.as_deref().or(verdict.gpu.as_deref());
        match out.iter_mut().find(|(other, _)| same(other)) {
            Some((_, gpus)) => gpus.extend(gpu),
            None => out.push((verdict, gpu.into_iter().collect())),
        }
    }
    out
}
