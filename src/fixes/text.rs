//! Fixes as text for a terminal or a pipe.

use super::journal::{Entry, Stage};
use crate::domain::{FixPlan, FixProgress, FixRisk, FixStage, Needs};
use std::fmt::Write as _;

/// The list of `gds-top fix --list`: what can be done now, and what was done.
#[must_use]
pub fn list(plans: &[FixPlan], applied: &[Entry], colour: bool) -> String {
    let strong = |text: &str| if colour { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() };
    let mut out = String::new();
    if plans.is_empty() {
        out.push_str("Nothing to fix.\n");
    }
    for plan in plans {
        let how = match plan.risk {
            FixRisk::ShownOnly => "shown only",
            FixRisk::Medium => "applies it, medium risk",
            FixRisk::Low => "applies it",
        };
        let needs = match plan.needs {
            Needs::User => "",
            Needs::Root => ", root",
            Needs::Reboot => ", root, reboot",
        };
        let _ = writeln!(out, "{}  {}\n    mends {} ({how}{needs})", strong(&plan.id), plan.title, plan.check);
    }
    for entry in applied.iter().filter(|entry| entry.stage == Stage::Applied) {
        let _ = writeln!(out, "{}  applied; gds-top fix --undo {} takes it back", strong(&entry.id), entry.id);
    }
    out
}

/// One line of news.
#[must_use]
pub fn progress(progress: &FixProgress) -> String {
    let mark = match progress.stage {
        FixStage::Mended | FixStage::Undone => '✔',
        FixStage::StillWrong | FixStage::Failed => '✖',
        _ => '●',
    };
    let word = match progress.stage {
        FixStage::Previewed => "preview",
        FixStage::Applying => "applying",
        FixStage::Verifying => "verifying",
        FixStage::Mended => "mended",
        FixStage::StillWrong => "still wrong",
        FixStage::Undone => "undone",
        FixStage::Failed => "failed",
    };
    format!("{mark} {} {word}: {}", progress.id, progress.text)
}
