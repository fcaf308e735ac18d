//! Checks whether the NVMe controllers work, using their state and the kernel log.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, EVERY, Judged, Scope};
use crate::checks::storage::namespaces;
use crate::core::CheckId;
use crate::machine::{self, DirectRead, KernelLog, PathFacts, Source};
use crate::text::quoted;
use std::collections::BTreeSet;

const ID: CheckId = CheckId::NvmeState;
const ADVICE: &str =
    "Power the machine off and on, and undo recent changes to ACS. If it fails again, replace the disk.";

/// Whether the kernel removed the disk: it was not reset successfully.
fn is_removed(text: &str) -> bool {
    ["Removing after probe failure", "Disabling device after reset failure"].iter().any(|start| text.starts_with(start))
}

/// Whether a text is about a failed controller.
fn is_failure(text: &str) -> bool {
    const STARTS: [&str; 2] = ["controller is down; will reset", "Device not ready; aborting"];
    is_removed(text) || STARTS.iter().any(|start| text.starts_with(start))
}

/// The messages about failed controllers, last first: the controller, the text and the line.
fn failures(log: &KernelLog) -> impl Iterator<Item = (&str, &str, &str)> {
    log.of(Source::Nvme).rev().filter_map(|message| {
        let (controller, text) = message.nvme_controller()?;
        is_failure(text).then_some((controller, text, message.line.as_str()))
    })
}

/// The state of a controller in sysfs, and its file.
fn state(ctx: &Context<'_>, controller: &str) -> Option<(String, String)> {
    let path = format!("/sys/class/nvme/{controller}/state");
    let text = ctx.root.read_text(&path).ok()?;
    Some((path, text.trim().to_owned()))
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
    out.extend(elsewhere(ctx, &log, &seen));
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

/// The trouble with a block device that a message reports. Discarded blocks are not data, so their errors do not count.
fn trouble(line: &str, device: &str) -> Option<Trouble> {
    let after = |start: &str, end: &str| line.strip_prefix(start)?.strip_prefix(device)?.strip_prefix(end);
    let fails = |start: &str| {
        after(start, ",").is_some_and(|rest: &str| ["(READ)", "(WRITE)"].iter().any(|part| rest.contains(part)))
    };
    const DISK: [&str; 6] = [
        "I/O error, dev ",
        "critical medium error, dev ",
        "blk_update_request: I/O error, dev ",
        "blk_update_request: critical medium error, dev ",
        "print_req_error: I/O error, dev ",
        "print_req_error: critical medium error, dev ",
    ];
    const STOPPED: [&str; 4] =
        ["Filesystem has been shut down", "log I/O error", "Log I/O Error", "Please unmount the filesystem"];
    const DAMAGED: [&str; 5] = [
        "Corruption of ",
        "Corruption detected",
        "Metadata corruption detected",
        "Metadata CRC error detected",
        "metadata I/O error",
    ];
    if DISK.iter().any(|start| fails(start)) {
        return Some(Trouble::Disk);
    }
    if after("EXT4-fs error (device ", ")").is_some() {
        return Some(Trouble::Ext4);
    }
    // This message begins with the name of a program.
    let text = after("XFS (", "): ").filter(|text: &&str| !text.contains(" possible memory allocation deadlock"))?;
    if STOPPED.iter().any(|start| text.starts_with(start)) {
        return Some(Trouble::XfsShutdown);
    }
    DAMAGED.iter().any(|start| text.starts_with(start)).then_some(Trouble::Xfs)
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
pub(crate) fn errors(log: &KernelLog, facts: &PathFacts) -> Option<Judged> {
    let (line, device, trouble) = log.of(Source::Disk).rev().find_map(|message| {
        let of = |device: &str| trouble(&message.text, device);
        facts.block_device.iter().find_map(|device| Some((&message.line, &device.name, of(&device.name)?)))
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
        .found(machine::KERNEL_LOG, line),
    )
}

fn of_path(ctx: &Context<'_>, log: &KernelLog, controller: &str) -> Option<Judged> {
    let state = state(ctx, controller);
    let failure = failures(log).find(|(name, ..)| *name == controller);
    let judged = match (state.as_ref().map(|(_, state)| state.as_str()), failure) {
        (Some("dead" | "deleting" | "deleting (no IO)"), _) => {
            Judged::lack(ID, format!("{controller}, the disk of this path, is dead"))
                .missing(Cost::System, EVERY)
                .advice(ADVICE)
        }
        // The state is newer than the log.
        (Some("live"), Some(_)) => {
            Judged::info(ID, format!("{controller}, the disk of this path, is live after a failure")).advice(ADVICE)
        }
        (_, Some((_, text, _))) if is_removed(text) => {
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
        Some((path, state)) => judged.found(path, state),
        None => judged,
    };
    Some(match failure {
        Some((_, _, line)) => judged.found(machine::KERNEL_LOG, line),
        None => judged,
    })
}

/// Reports a failed controller outside of the examined paths. It may belong to a missing disk.
fn elsewhere(ctx: &Context<'_>, log: &KernelLog, seen: &BTreeSet<String>) -> Option<Judged> {
    let is_live = |name: &str| state(ctx, name).is_some_and(|(_, state)| state == "live");
    let (name, _, line) = failures(log).find(|(name, ..)| !seen.contains(*name) && !is_live(name))?;
    Some(
        Judged::warn(ID, format!("{name}, a disk outside the examined paths, fell off the bus"))
            .found(machine::KERNEL_LOG, line)
            .advice(ADVICE),
    )
}
