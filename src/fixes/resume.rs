//! Fixes that wait for a reboot: their progress, the next step, and whether the check passes.

use super::files;
use super::journal::{CommandState, Entry, Journal, Stage};
use super::place::Place;
use crate::checks::Report;
use crate::core::{OpenPlan, OpenStep, Status, StepState};
use crate::text::quoted_line;
use rustix::fd::OwnedFd;
use std::path::Path;

/// The id of the current boot of a machine: `/proc/sys/kernel/random/boot_id` below its root, which changes at every
/// boot (random(4)).
pub(super) fn boot_id(root: &OwnedFd) -> Option<String> {
    let found = files::look(root, Path::new("/proc/sys/kernel/random/boot_id")).ok()??;
    Some(found.text.trim().to_owned()).filter(|id| !id.is_empty())
}

/// All applied fixes that take effect after a reboot, compared with new findings: their progress, the next step, and
/// whether the check passes. It writes nothing: a fix counts as verified while it is applied and its check passes.
#[must_use]
pub fn take_up(report: &Report, place: &Place) -> Vec<OpenPlan> {
    let Ok(root) = place.open_root() else { return Vec::new() };
    let boot = boot_id(&root);
    let mut out: Vec<OpenPlan> = Vec::new();
    for journal in Journal::all(place) {
        for entry in journal.entries() {
            if entry.stage != Stage::Applied || !entry.waits_for_boot {
                continue;
            }
            if out.iter().any(|plan| plan.id == entry.id) {
                continue;
            }
            out.push(look(&entry, report, &root, boot.as_deref()));
        }
    }
    out
}

fn look(entry: &Entry, report: &Report, root: &OwnedFd, boot: Option<&str>) -> OpenPlan {
    let mut steps = Vec::new();
    let mut lost = None;
    for file in &entry.files {
        let is_written = files::has_text(root, &file.path, &file.after);
        if !is_written {
            lost = Some(file.path.display().to_string());
        }
        let state = if is_written { StepState::Done } else { StepState::Open };
        steps.push(OpenStep { text: format!("{} written", file.path.display()), state });
    }
    let mut by_hand = Vec::new();
    for command in &entry.commands {
        let line = quoted_line(&command.argv);
        let state = match command.state {
            CommandState::Done => StepState::Done,
            CommandState::Skipped => {
                by_hand.push(line.clone());
                StepState::Unknown
            }
            CommandState::Waiting | CommandState::Started => StepState::Open,
        };
        steps.push(OpenStep { text: line, state });
    }
    let rebooted = entry.boot_id.as_deref().zip(boot).map(|(then, now)| then != now);
    steps.push(OpenStep {
        text: entry.remaining.first().cloned().unwrap_or_else(|| "sudo reboot".to_owned()),
        state: match rebooted {
            Some(true) => StepState::Done,
            Some(false) => StepState::Open,
            None => StepState::Unknown,
        },
    });
    let finding = report.finding(entry.check);
    let passes = finding.is_some_and(|finding| matches!(finding.status, Status::Pass));
    let says = finding.map_or_else(|| "it has no finding here".to_owned(), |finding| finding.summary.clone());
    let verified = passes && lost.is_none();
    let proof = match (verified, rebooted) {
        (true, _) => StepState::Done,
        (false, None) if finding.is_none_or(|f| f.status == Status::Na) => StepState::Unknown,
        _ => StepState::Open,
    };
    steps.push(OpenStep { text: format!("the check {}", entry.check), state: proof });
    let undo = format!("gds-top fix --undo {}", entry.id);
    let next = match (verified, lost, rebooted) {
        (true, ..) => format!("proven: {says}"),
        (_, Some(path), _) => {
            format!("{path} has changed since the fix wrote it; run {undo}, then apply the fix again")
        }
        (_, _, Some(true)) => format!(
            "after the reboot {} does not pass: {says}; verify by hand: {}; or run {undo}",
            entry.check, entry.verify
        ),
        (_, _, Some(false)) => {
            by_hand.extend(if entry.remaining.is_empty() {
                vec!["sudo reboot".to_owned()]
            } else {
                entry.remaining.clone()
            });
            format!("{}; then gds-top verifies it", by_hand.join(", then "))
        }
        (_, _, None) => format!("it is not known whether the machine was rebooted; {}: {says}", entry.check),
    };
    OpenPlan { id: entry.id, title: entry.title.clone(), steps, verified, next }
}
