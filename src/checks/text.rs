//! The findings and verdicts as text for a terminal or a pipe: the answer first, then what is wrong, then the rest by group.

use crate::domain::{Basis, Finding, Group, Route, Status, Verdict};
use std::borrow::Cow;
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr as _;

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
        paragraph(&mut out, &format!("{mark} "), 2, &strong(&headline(verdict), colour), width);
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
            paragraph(&mut out, &format!("  {mark} {:<18} ", finding.id), 23, &finding.summary, width);
        }
    }
    out
}

/// One finding in full: Found, Why, Fix.
pub(crate) fn detail(out: &mut String, finding: &Finding, width: usize, colour: bool) {
    let mark = paint(finding.status, &format!("{} {}", finding.status.mark(), finding.status.word()), colour);
    let blocks: Vec<String> = finding.blocks.iter().map(ToString::to_string).collect();
    let blocks = if blocks.is_empty() { String::new() } else { format!(", blocks {}", blocks.join(", ")) };
    let _ = writeln!(out, "{mark}  {}{blocks}", strong(&finding.id, colour));
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
    out.push_str(head);
    let mut column = indent.max(visible(head));
    let start = column;
    let mut first = true;
    for word in text.split_whitespace() {
        let size = visible(word);
        if !first && column + 1 + size > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if !first && column > start.min(indent) {
            out.push(' ');
            column += 1;
        }
        out.push_str(&harmless(word));
        column += size;
        first = false;
    }
    out.push('\n');
}

/// Text without signs that a terminal takes for commands, which a captured machine or a name on a disk may hold. Line ends, tabs and colours stay.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    let commands = |c: char| (c.is_control() && c != '\n' && c != '\t') || turns(c);
    if !text.contains(commands) {
        return Cow::Borrowed(text);
    }
    let is_colour = |rest: &str| {
        rest.strip_prefix("\u{1b}[")
            .and_then(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').chars().next())
            == Some('m')
    };
    let keep = |(at, c): (usize, char)| if commands(c) && !is_colour(&text[at..]) { '\u{fffd}' } else { c };
    Cow::Owned(text.char_indices().map(keep).collect())
}

/// Text of others as it is shown: like [`harmless`], and without colours either, which could hide a part of it.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    let commands = |c: char| (c.is_control() && c != '\n' && c != '\t') || turns(c);
    if text.contains(commands) { Cow::Owned(text.replace(commands, "\u{fffd}")) } else { Cow::Borrowed(text) }
}

/// Whether a sign turns the direction of writing around, so that text reads as another than it is.
const fn turns(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Columns that text takes, colour codes not counted.
fn visible(text: &str) -> usize {
    let mut rest = text;
    let mut width = 0;
    while let Some(at) = rest.find('\u{1b}') {
        width += rest[..at].width();
        rest = rest[at..].split_once('m').map_or("", |(_, after)| after);
    }
    width + rest.width()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wrap_at_the_width_and_keep_their_indent() {
        let mut out = String::new();
        paragraph(&mut out, "  Why     ", 10, "one two three four five six seven eight nine ten", 40);
        assert_eq!(out, "  Why     one two three four five six\n          seven eight nine ten\n");
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_printed() {
        assert_eq!(harmless("plain é ✔\n"), "plain é ✔\n");
        assert_eq!(harmless("\u{1b}[31mred\u{1b}[0m"), "\u{1b}[31mred\u{1b}[0m");
        assert_eq!(
            harmless("a\u{1b}]0;title\u{7}b\u{1b}[2Jc\rd\u{9b}"),
            "a\u{fffd}]0;title\u{fffd}b\u{fffd}[2Jc\u{fffd}d\u{fffd}"
        );
    }

    #[test]
    fn colour_codes_take_no_columns() {
        assert_eq!(visible(&paint(Status::Fail, "abc", true)), 3);
        assert_eq!(visible("é✔"), 2);
    }
}
