//! Checks whether the NVMe controllers work, using their state and the kernel log.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, EVERY, Judged, Scope};
use crate::checks::storage::namespaces;
use crate::core::CheckId;
use crate::machine::{self, DirectRead, PathFacts};
use crate::text::quoted;
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

/// Whether the kernel removed the disk: it was not reset successfully.
fn is_removed(line: &str) -> bool {
    ["Removing after probe failure", "Disabling device after reset failure"].iter().any(|part| line.contains(part))
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
        out.extend(errors(&log, facts).map(|judged| judged.of(Scope::Path(number))));
        seen.extend(controllers);
    }
    out.extend(elsewhere(&log, &seen));
    out.extend(namespaces::run(ctx));
    out
}

/// A report of the kernel about a device of the path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// The disk could not read or write.
    Disk,
    /// The file system found an error in its structures.
    Ext4,
    Xfs,
    /// XFS stopped, and its log has changes that are not in the file system.
    XfsShutdown,
}

/// The trouble with a block device that a line reports. Discarded blocks are not data, so their errors do not count.
fn trouble(line: &str, device: &str) -> Option<Trouble> {
    let has = |parts: &[&str]| parts.iter().any(|part| line.contains(part));
    let names = |before: &str, after: &str| line.contains(&format!("{before}{device}{after}"));
    if names(" dev ", ",") && has(&["I/O error", "critical medium error"]) && has(&["(READ)", "(WRITE)"]) {
        Some(Trouble::Disk)
    } else if names("EXT4-fs error (device ", ")") {
        Some(Trouble::Ext4)
    } else if names("XFS (", ")")
        && has(&["shut down", "log I/O error", "Log I/O Error", "Please unmount the filesystem"])
    {
        Some(Trouble::XfsShutdown)
    } else if names("XFS (", ")") && has(&["Corruption", "corruption", "metadata I/O error"]) {
        Some(Trouble::Xfs)
    } else {
        None
    }
}

/// How to use an XFS that stopped. Mounting it writes its log into the file system, and xfs_repair refuses it before.
fn replay(mount: &str, device: &str) -> Advice {
    let (mount, device) = (quoted(mount), format!("/dev/{device}"));
    Advice::from("Stop the programs that use it and run ")
        .command(format!("sudo umount {mount} && sudo mount {device} {mount}"))
        .text(", which replays its log. Back up the data, examine the disk with ")
        .command(format!("sudo smartctl -a {device}"))
        .text(", and run ")
        .command(format!("sudo umount {mount} && sudo xfs_repair -n {device}"))
        .text(". If that finds damage, run it without -n. Do not use -L: it deletes the log.")
}

/// Whether a direct read failed because of the disk or the structures of the file system.
pub(crate) fn fails_reads(facts: &PathFacts) -> bool {
    const CODES: [&str; 5] = ["EIO", "EUCLEAN", "ENODEV", "ENXIO", "EREMOTEIO"];
    facts.open_direct.as_ref().map(DirectRead::result).is_some_and(|read| read.is_err_and(|code| CODES.contains(&code)))
}

/// The last error that the kernel reports of the disk or the file system of a path. Reads may work elsewhere on it.
pub(crate) fn errors(log: &str, facts: &PathFacts) -> Option<Judged> {
    let (line, device, trouble) = log.lines().rev().find_map(|line| {
        facts.block_device.iter().find_map(|device| Some((line, &device.name, trouble(line, &device.name)?)))
    })?;
    let mount = facts.mount_point.as_deref().map(|point| point.to_string_lossy()).unwrap_or_default();
    let repair = |tool: &str| {
        Advice::from("Back up the data. Then stop the programs that use it and run ")
            .command(format!("sudo umount {} && sudo {tool} /dev/{device}", quoted(&mount)))
    };
    let summary = format!("the kernel reports errors of {device}, which this path is on");
    let judged = if fails_reads(facts) {
        Judged::lack(ID, summary).missing(Cost::System, EVERY)
    } else {
        Judged::warn(ID, summary)
    };
    Some(
        match trouble {
            Trouble::Disk => judged.advice(
                Advice::from("Back up the data, then run ")
                    .command(format!("sudo smartctl -a /dev/{device}"))
                    .text(" and replace the disk if it confirms the errors."),
            ),
            Trouble::Ext4 => judged.advice(repair("e2fsck -f")),
            Trouble::Xfs => judged.advice(repair("xfs_repair")),
            Trouble::XfsShutdown => judged.advice(replay(&mount, device)),
        }
        .found(machine::KERNEL_LOG, line.trim()),
    )
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
        (_, Some(line)) if is_removed(line) => {
            Judged::lack(ID, format!("the kernel disabled {controller}, the disk of this path, after a failed reset"))
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
