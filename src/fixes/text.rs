//! Formats fixes as text for a terminal or a pipe.

use super::journal::{Entry, Stage};
use super::statement;
use crate::core::{FixPlan, FixPolicy, FixProgress, FixRisk, FixStage, Needs, OpenPlan};
use crate::text::{capitalised, paragraph, sanitise, sanitise_line, strong};
use std::fmt::Write as _;

/// The output of `gds-top fix --list`: fixes that can be applied, applied fixes, and fixes that are not verified yet. Text is
/// wrapped at `width` columns. `no_help` is the reason if fixes exist that are not listed.
#[must_use]
pub fn list(
    plans: &[FixPlan],
    no_help: Option<&str>,
    applied: &[Entry],
    open: &[OpenPlan],
    colour: bool,
    width: usize,
) -> String {
    let strong = |text: &str| strong(text, colour);
    let mut out = String::new();
    match no_help.filter(|_| plans.is_empty()) {
        Some(reason) => paragraph(&mut out, "", 0, &format!("{}.", capitalised(reason)), width),
        None if plans.is_empty() => {
            out.push_str("No fix to apply. Steps without a fix are in the advice of 'gds-top check'.\n");
        }
        None => {}
    }
    for plan in plans {
        let how = match (plan.policy, plan.risk) {
            (FixPolicy::Show, _) | (FixPolicy::Never, FixRisk::Low) => "gds-top only shows it",
            (FixPolicy::Never, _) => "gds-top only shows it, apply it with care",
            (FixPolicy::Ask, FixRisk::Low) => "gds-top applies it",
            (FixPolicy::Ask, FixRisk::Medium) => "gds-top applies it, medium risk",
            (FixPolicy::Ask, FixRisk::High) => "gds-top applies it, high risk",
        };
        let needs = match plan.needs {
            Needs::User => "",
            Needs::Root => ", needs root",
            Needs::Reboot => ", needs root and a reboot",
        };
        let _ = writeln!(
            out,
            "{}  {}\n    fixes {} ({how}{needs})",
            strong(plan.id.as_str()),
            sanitise_line(&plan.title),
            plan.check,
        );
        paragraph(&mut out, "    undo: ", 10, &plan.undo, width);
    }
    for entry in applied.iter().filter(|entry| entry.stage == Stage::Applied) {
        let undo = statement::of_applied(entry);
        let _ = writeln!(out, "{}  applied", strong(entry.id.as_str()));
        paragraph(&mut out, "    undo: ", 10, &undo, width);
    }
    let waiting: Vec<&OpenPlan> = open.iter().filter(|plan| !plan.verified).collect();
    if !waiting.is_empty() {
        out.push_str("\nNot verified yet:\n");
    }
    for line in waiting.into_iter().flat_map(OpenPlan::lines) {
        let _ = writeln!(out, "{}", sanitise(&line));
    }
    out
}

/// One progress message as a line.
#[must_use]
pub fn progress(progress: &FixProgress) -> String {
    let mark = match progress.stage {
        FixStage::Fixed | FixStage::Undone => '✔',
        FixStage::StillWrong | FixStage::Failed => '✖',
        _ => '●',
    };
    let word = match progress.stage {
        FixStage::Previewed => "preview",
        FixStage::Applying => "applying",
        FixStage::Verifying => "verifying",
        FixStage::Waiting => "in place",
        FixStage::Fixed => "fixed",
        FixStage::StillWrong => "still wrong",
        FixStage::Undone => "undone",
        FixStage::Failed => "failed",
    };
    format!("{mark} {} {word}: {}", progress.id, progress.text)
}
