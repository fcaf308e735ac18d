//! Formats answers as text for a terminal or a pipe.

use super::answer::Answer;
use super::answer::Cause;
use super::answer::Kind;
use super::answer::Remedy;
use crate::text::{capitalised, paragraph, strong};
use crate::text::{sanitise_line, wrap};

/// The columns in front of a value.
const INDENT: usize = 10;

/// Formats answers as text, wrapped at `width` columns.
#[must_use]
pub fn text(answers: &[Answer], width: usize, colour: bool) -> String {
    let mut out = String::new();
    for (number, answer) in answers.iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        one(&mut out, answer, width.max(40), colour);
    }
    out
}

fn one(out: &mut String, answer: &Answer, width: usize, colour: bool) {
    let name = sanitise_line(&answer.name);
    let title = match (answer.kind, answer.code) {
        (Kind::CufileCode, Some(code)) => format!("{code} {name} (cuFile)"),
        (Kind::CudaCode, Some(code)) => format!("{code} {name} (CUDA)"),
        (Kind::SystemError, Some(code)) => format!("{code} {name} (operating system)"),
        (Kind::Key, _) => format!("{name} (cufile.json)"),
        (Kind::Variable, _) => format!("{name} (environment)"),
        (Kind::Check, _) => format!("{name} (check)"),
        (Kind::Fix, _) => format!("{name} (fix)"),
        (Kind::Route, _) => format!("{name} (route)"),
        (Kind::Engine, _) => format!("{name} (engine)"),
        (Kind::GpuClass, _) => format!("{name} (class of GPUs)"),
        (Kind::Storage, _) => format!("{name} (kind of storage)"),
        (Kind::Pair, _) => format!("{name} (GPU and storage)"),
        _ => name.into_owned(),
    };
    for line in wrap(&title, width) {
        out.push_str(&strong(&line, colour));
        out.push('\n');
    }
    row(out, "Meaning", &sentence(&answer.meaning), width);
    for fact in &answer.facts {
        row(out, fact.name, &fact.value, width);
    }
    remedies(out, "", answer.how_to_check.as_deref(), answer.fix.as_ref(), answer.advice.as_deref(), width);
    for (number, cause) in answer.causes.iter().enumerate() {
        numbered(out, number + 1, cause, width);
    }
}

fn numbered(out: &mut String, number: usize, cause: &Cause, width: usize) {
    if number == 1 {
        out.push_str("  Causes, the most likely first:\n");
    }
    paragraph(out, &format!("  {number}. "), 5, &cause.cause, width);
    remedies(out, "   ", cause.how_to_check.as_deref(), cause.fix.as_ref(), cause.advice.as_deref(), width);
    if let Some(check) = cause.check {
        labelled(out, "   ", "More", &format!("gds-top explain {check}"), width);
    }
}

fn remedies(
    out: &mut String,
    indent: &str,
    check: Option<&str>,
    fix: Option<&Remedy>,
    advice: Option<&str>,
    width: usize,
) {
    if let Some(check) = check {
        labelled(out, indent, "Check", check, width);
    }
    if let Some(fix) = fix {
        labelled(out, indent, "Fix", &fix.command, width);
    }
    if let Some(advice) = advice {
        labelled(out, indent, if fix.is_some() { "" } else { "Do" }, advice, width);
    }
}

fn row(out: &mut String, label: &str, text: &str, width: usize) {
    labelled(out, "", label, text, width);
}

fn labelled(out: &mut String, indent: &str, label: &str, text: &str, width: usize) {
    let head = format!("  {indent}{label:<7} ");
    paragraph(out, &head, INDENT + indent.len(), text, width);
}

/// Formats a text as a sentence: with a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let stop = if text.ends_with('.') { "" } else { "." };
    format!("{}{stop}", capitalised(text))
}
