//! Checks whether the NVMe controllers work, using their state and the kernel log.

use crate::checks::context::Context;
use crate::checks::judged::{Cost, EVERY, Judged, Scope};
use crate::checks::spec::CheckId;
use crate::machine;
use std::collections::BTreeSet;

const ID: CheckId = CheckId::NvmeState;
const ADVICE: &str =
    "Power the machine off and on, and undo recent changes to ACS. If it fails again, replace the disk.";

/// Whether a line of the kernel log reports a failed controller.
fn is_failure(line: &str) -> bool {
    [
        "controller is down; will reset",
        "Removing after probe failure",
        "Disabling device after reset failure",
        "Device not ready; aborting",
    ]
    .iter()
    .any(|part| line.contains(part))
}

/// The last line of the log that reports a failure of this controller.
fn failure<'a>(log: &'a str, controller: &str) -> Option<&'a str> {
    let name = format!("{controller}:");
    log.lines().rev().find(|line| line.split_whitespace().any(|word| word == name) && is_failure(line)).map(str::trim)
}

pub(crate) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    let log = machine::kernel_log(ctx.root).unwrap_or_default();
    let mut out = Vec::new();
    let mut seen = BTreeSet::new();
    for (number, subject) in ctx.subjects.iter().enumerate() {
        let Some(facts) = &subject.facts else { continue };
        let controllers: BTreeSet<String> =
            machine::disks(facts).iter().filter_map(|disk| machine::nvme_controller(&disk.name)).collect();
        out.extend(
            controllers.iter().filter_map(|name| of_path(ctx, &log, name)).map(|judged| judged.of(Scope::Path(number))),
        );
        seen.extend(controllers);
    }
    out.extend(elsewhere(&log, &seen));
    out
}

fn of_path(ctx: &Context<'_>, log: &str, controller: &str) -> Option<Judged> {
    let path = format!("/sys/class/nvme/{controller}/state");
    let state = ctx.root.read_text(&path).ok().map(|text| text.trim().to_owned());
    let line = failure(log, controller);
    let judged = match (state.as_deref(), line) {
        (Some("dead" | "deleting" | "deleting (no IO)"), _) => {
            Judged::lack(ID, format!("{controller}, the disk of this path, is dead"))
                .missing(Cost::System, EVERY)
                .advice(ADVICE)
        }
        (_, Some(_)) => {
            Judged::warn(ID, format!("{controller}, the disk of this path, fell off the bus and was reset"))
                .advice(ADVICE)
        }
        (Some("live"), None) => Judged::pass(ID, format!("{controller} is live")),
        (Some(other), None) => Judged::warn(ID, format!("{controller} is in the state {other}")).advice(ADVICE),
        (None, None) => return None,
    };
    let judged = match state {
        Some(state) => judged.found(path, state),
        None => judged,
    };
    Some(match line {
        Some(line) => judged.found(machine::KERNEL_LOG, line),
        None => judged,
    })
}

/// Reports a failed controller outside of the examined paths. It may belong to a missing disk.
fn elsewhere(log: &str, seen: &BTreeSet<String>) -> Option<Judged> {
    let line = log.lines().rev().find(|line| is_failure(line))?.trim();
    let name =
        line.split_whitespace().find_map(|word| word.strip_suffix(':').filter(|name| name.starts_with("nvme")))?;
    (!seen.contains(name)).then(|| {
        Judged::warn(ID, format!("{name}, a disk outside the examined paths, fell off the bus"))
            .found(machine::KERNEL_LOG, line)
            .advice(ADVICE)
    })
}
