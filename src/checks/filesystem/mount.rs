//! Checks of the mount, the device and the udev record of a path.

use crate::checks::advice::Advice;
use crate::checks::container::bring::Lack;
use crate::checks::container::lxc::given;
use crate::checks::context::{Context, Subject};
use crate::checks::filesystem::file::is_meant;
use crate::checks::filesystem::flags::inode_flags;
use crate::checks::filesystem::gone::gone;
use crate::checks::filesystem::kind::{OVERLAY_SINCE, file_system};
use crate::checks::filesystem::layers::{device_mapper, md_raid};
use crate::checks::filesystem::{network, unmounted};
use crate::checks::judged::{Cost, DIRECT, EVERY, Judged, Scope};
use crate::checks::storage::health;
use crate::core::{CheckId, FixId, Route};
use crate::machine::{self, DirectRead, PathFacts};
use crate::text::{quoted, quoted_line};
use std::path::Path;

pub(crate) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    for (number, subject) in ctx.subjects.iter().enumerate() {
        out.extend(of_path(ctx, subject).into_iter().map(|judged| judged.of(Scope::Path(number))));
    }
    out
}

fn of_path(ctx: &Context<'_>, subject: &Subject) -> Vec<Judged> {
    let path = subject.path.display();
    let Some(facts) = &subject.facts else {
        return vec![
            Judged::na(CheckId::FsResolve, format!("the capture does not contain {path}"))
                .found("paths.json", format!("no entry for {path}"))
                .unknown(EVERY),
        ];
    };
    if let Some((planned, present)) = &subject.unmounted {
        let mut out = vec![unmounted::unmounted(ctx, &subject.path, planned, present)];
        // The type and the network decide the routes of a file system also before it is mounted.
        if facts.filesystem.is_some() {
            let known = [Some(file_system(ctx, facts)), nfs(ctx, facts)];
            out.extend(known.into_iter().flatten().map(|judged| unmounted::of_plan(judged, planned)));
        }
        return out;
    }
    if let Some(error) = &facts.error {
        return vec![
            Judged::lack(CheckId::FsResolve, format!("{path} cannot be examined"))
                .found("stat", error.clone())
                .missing(Cost::Setting, EVERY)
                .advice(
                    "Name an existing file or directory that you can read. If a network mount is dead, mount it again.",
                ),
        ];
    }
    if facts.filesystem.as_deref() == Some("autofs") {
        return vec![
            Judged::lack(CheckId::FsResolve, format!("autofs has not mounted the file system of {path}"))
                .found("/proc/self/mountinfo", "autofs")
                .missing(Cost::Root, EVERY)
                .advice(
                    Advice::run("systemctl status autofs")
                        .text(" for the reason: a wrong name, or a server that does not answer."),
                ),
        ];
    }
    if let Some(judged) = gone(ctx, facts) {
        return vec![judged];
    }
    let mut out = vec![resolve(facts), file_system(ctx, facts)];
    out.push(udev_database(ctx, facts));
    out.extend(ext4_ordered(ctx, facts));
    // If there is no direct route, O_DIRECT is not needed either.
    let closed = out.iter().any(|j| j.finding.id == CheckId::FsType && j.stops(Route::Nvfs) && j.stops(Route::P2pdma));
    let direct = direct_open(ctx, facts);
    out.push(if closed && direct.stops(Route::Nvfs) { direct.cause(CheckId::FsType) } else { direct });
    let of_file = |judged: Judged| if is_meant(facts) { judged } else { judged.aside() };
    out.extend(inode_flags(ctx, facts).map(of_file));
    let known = [CheckId::FsType, CheckId::Ext4Ordered, CheckId::OdirectOpen, CheckId::InodeFlags];
    let cause = known.into_iter().find(|id| out.iter().any(|j| j.id == *id && j.stops(Route::P2pdma)));
    out.extend(alignment(facts, cause).map(of_file));
    out.extend(md_raid(ctx, facts));
    out.extend(device_mapper(ctx, facts));
    out.extend(nfs(ctx, facts));
    out
}

fn resolve(facts: &PathFacts) -> Judged {
    let device = facts.device.as_deref().unwrap_or("unknown");
    let chain: Vec<&str> = facts.block_device.iter().map(|d| d.name.as_str()).collect();
    let summary = format!(
        "{} on {}, device {device}{}",
        facts.filesystem.as_deref().unwrap_or("unknown file system"),
        facts.mount_point.as_deref().map_or_else(|| "an unknown mount".to_owned(), |p| p.display().to_string()),
        if chain.is_empty() { String::new() } else { format!(" ({})", chain.join(" on ")) }
    );
    let judged = Judged::pass(CheckId::FsResolve, summary).found(
        "/proc/self/mountinfo",
        format!("{} {}", facts.source.as_deref().unwrap_or("?"), facts.mount_options.as_deref().unwrap_or("")),
    );
    let elsewhere =
        facts.tried_file.as_ref().zip(facts.real_path.as_ref()).filter(|(file, folder)| !file.starts_with(folder));
    let judged = match elsewhere {
        Some((file, folder)) => judged.found(
            folder.display().to_string(),
            format!("its files are links; the findings describe the file system of {}", file.display()),
        ),
        None => judged,
    };
    // For files on the XFS realtime device, stat still reports the data device.
    match facts.option_value("rtdev").filter(|_| facts.filesystem.as_deref() == Some("xfs")) {
        Some(device) => judged.found(
            "/proc/self/mountinfo",
            format!("rtdev={device}: files with the realtime flag are on {device}, which was not examined"),
        ),
        None => judged,
    }
}

fn udev_database(ctx: &Context<'_>, facts: &PathFacts) -> Judged {
    const ID: CheckId = CheckId::UdevDatabase;
    let Some(device) = facts.device.as_deref().filter(|_| facts.device_numbers().is_some()) else {
        return Judged::na(ID, "the device of this path is not known").unknown(EVERY);
    };
    if facts.device_numbers().is_some_and(|(major, _)| major == 0) {
        if let Some(judged) = udev_of_a_volume(ctx, facts) {
            return judged.found("stat", format!("device {device} is anonymous"));
        }
        return Judged::info(ID, format!("device {device} is anonymous, so udev has no record of it"))
            .found("stat", format!("device {device}"));
    }
    let path = machine::udev_record_path(device);
    let inside = machine::container(ctx.root);
    let is_recorded = ctx.root.exists(&path);
    let remedied = |judged: Judged| {
        let judged = judged.missing(Cost::Root, EVERY).fix(FixId::UdevRecord);
        judged.advice(match (&inside, is_recorded) {
            (Some(container), _) => given(ctx.root, container, &[Lack::Udev]),
            (None, true) => "Complete the udev record of the disk (`sudo udevadm trigger --action=change`).".to_owned(),
            (None, false) => "In a container, start it with `-v /run/udev:/run/udev:ro`.".to_owned(),
        })
    };
    match ctx.root.read_text(&path) {
        Ok(text) => {
            let usage = text.lines().find(|line| line.starts_with("E:ID_FS_USAGE="));
            match usage {
                Some("E:ID_FS_USAGE=filesystem") => {
                    Judged::pass(ID, "the udev record names the file system of this disk")
                        .found(&path, "E:ID_FS_USAGE=filesystem")
                }
                Some(other) => {
                    remedied(Judged::lack(ID, "the udev record of this disk names no file system")).found(&path, other)
                }
                None => remedied(Judged::lack(
                    ID,
                    "udev's record of this disk lacks its file system: cuFile rejects its files (5027)",
                ))
                .found(&path, "no line E:ID_FS_USAGE"),
            }
        }
        Err(why) if why.is_missing() => {
            let judged = remedied(Judged::lack(
                ID,
                "udev has no record of this disk: cuFile cannot register its files (error 5027)",
            ))
            .unread(&path, &why);
            if ctx.root.exists("/run/udev") { judged } else { judged.found("/run/udev", "does not exist") }
        }
        Err(why) => {
            Judged::na(ID, "this user cannot read udev's record of this disk").unread(&path, &why).unknown(EVERY)
        }
    }
}

/// A container whose libcufile cannot read its root file system, which has no records of udev for a volume either.
fn udev_of_a_volume(ctx: &Context<'_>, facts: &PathFacts) -> Option<Judged> {
    machine::container(ctx.root)?;
    let version = ctx.root.libcufile_if_known().and_then(machine::LibcufileFacts::version_numbers)?;
    let is_needed = facts.filesystem.as_deref() == Some("overlay") && version < OVERLAY_SINCE;
    (is_needed && !ctx.root.exists("/run/udev")).then(|| {
        Judged::lack(CheckId::UdevDatabase, "this container lacks /run/udev, which files on a volume need (5027)")
            .found("/run/udev", "does not exist")
            .missing(Cost::Root, &[Route::Compat])
            .advice("Give the container /run/udev in the same start as its volume (see fs-type).")
    })
}

/// The routes that need the journal mode data=ordered.
const OF_LOCAL_DISKS: &[Route] = &[Route::Nvfs, Route::P2pdma, Route::C2c];
/// The routes that need it among the mount options. NVIDIA's texts about it are older than P2PDMA and C2C, so it is not
/// known whether these need the text too.
const WITH_THE_OPTION: &[Route] = &[Route::Nvfs];

fn ext4_ordered(ctx: &Context<'_>, facts: &PathFacts) -> Option<Judged> {
    const ID: CheckId = CheckId::Ext4Ordered;
    if facts.filesystem.as_deref() != Some("ext4") {
        return None;
    }
    let options = facts.mount_options.clone().unwrap_or_default();
    // A remount cannot change the journal mode, so one place alone stops the start of the system.
    let is_root = facts.mount_point.as_deref() == Some(Path::new("/"));
    let in_unit = facts.mount_point.as_deref().is_some_and(|point| machine::lacks_fstab_line(ctx.root, point));
    let judged = match facts.option_value("data") {
        Some("ordered") => Judged::pass(ID, "mounted with data=ordered"),
        Some(other) => {
            other_mode(format!("mounted with data={other}; direct routes need data=ordered")).advice(if is_root {
                "Set data=ordered in rootflags= of the kernel command line and in /etc/fstab, both before one reboot."
            } else if in_unit {
                IN_UNIT
            } else {
                "Set data=ordered in /etc/fstab, then unmount and mount it."
            })
        }
        None => {
            let journal = machine::ext4_journal(ctx.root, facts);
            let mode = journal.as_ref().map_or("ordered", |(.., text)| machine::ext4_mode(text));
            let judged = match (&journal, machine::ext4_sets_ordered(ctx.root, facts)) {
                (Some((false, ..)), _) => without_journal(facts, is_root, in_unit),
                (_, Some((source, line))) if mode == "ordered" => hidden(facts, is_root).found(source, line),
                (Some(_), _) if mode != "ordered" => {
                    other_mode(format!("the superblock sets data={mode}; direct routes need data=ordered"))
                        .advice(set_ordered(is_root, in_unit))
                }
                (Some(_), _) => not_shown().advice(set_ordered(is_root, in_unit)),
                // The kernel refuses the option if there is no journal, which stops the start of the system.
                (None, _) => not_shown().advice(
                    Advice::from("Test whether it has a journal: ")
                        .command(format!("sudo tune2fs -l {} | grep has_journal", device(facts)))
                        .text(format!(". Stop if that prints nothing. {}", set_ordered(is_root, in_unit))),
                ),
            };
            match journal {
                Some((_, source, text)) => judged.found(source, text),
                None => judged,
            }
        }
    };
    Some(judged.found("/proc/self/mountinfo", options))
}

/// The finding of an ext4 with another journal mode, by its mount options or by its superblock (`tune2fs -o`). The
/// kernel does not list the mode of the superblock.
fn other_mode(summary: String) -> Judged {
    Judged::lack(CheckId::Ext4Ordered, summary).missing(Cost::Root, OF_LOCAL_DISKS).fix(FixId::Ext4Ordered)
}

/// The finding of an ext4 whose journal mode is right, but not among its mount options.
fn not_shown() -> Judged {
    Judged::lack(CheckId::Ext4Ordered, "data=ordered is in effect, but the mount options do not show it")
        .missing(Cost::Root, WITH_THE_OPTION)
        .only_warn()
        .fix(FixId::Ext4Ordered)
}

/// The finding of an ext4 whose mode is set, but not listed, because its superblock has the same one.
fn hidden(facts: &PathFacts, is_root: bool) -> Judged {
    let mut judged = not_shown();
    judged.finding.summary = "data=ordered is set, but the mount options do not show it".to_owned();
    let clear = format!("sudo tune2fs -o ^journal_data_ordered {}", device(facts));
    let point = facts.mount_point.as_deref().map(|point| point.to_string_lossy()).unwrap_or_default();
    let point = quoted(&point);
    let why = "The kernel does not list a mode that the superblock has too. ";
    judged.advice(if is_root {
        Advice::from(why).text("Run ").command(clear).text(", then reboot.")
    } else {
        let again = format!("sudo umount {point} && {clear} && sudo mount {point}");
        Advice::from(why).text("Stop its programs and run ").command(again)
    })
}

/// The step for a file system that /etc/fstab does not name.
const IN_UNIT: &str =
    "/etc/fstab has no line for it: set data=ordered in its mount unit or script, then unmount and mount it.";

const fn set_ordered(is_root: bool, in_unit: bool) -> &'static str {
    if is_root {
        "Add rootflags=data=ordered to the kernel command line, then reboot."
    } else if in_unit {
        IN_UNIT
    } else {
        "Add data=ordered to its line in /etc/fstab, then unmount and mount it."
    }
}

/// The device of the file system, for a command.
fn device(facts: &PathFacts) -> String {
    facts
        .block_device
        .first()
        .map_or_else(|| "DEVICE".to_owned(), |device| quoted(&format!("/dev/{}", device.name)).into_owned())
}

/// The finding of an ext4 without a journal. The fix would set an option with which it cannot be mounted.
fn without_journal(facts: &PathFacts, is_root: bool, in_unit: bool) -> Judged {
    let device = device(facts);
    let add = format!("sudo tune2fs -O has_journal {device}");
    let mount = facts.mount_point.as_deref().map(|point| point.to_string_lossy()).unwrap_or_default();
    let mount = quoted(&mount);
    Judged::lack(CheckId::Ext4Ordered, "this ext4 has no journal, so it cannot be mounted with data=ordered")
        .missing(Cost::Root, WITH_THE_OPTION)
        .only_warn()
        .by_hand()
        .advice(if is_root {
            Advice::from("Start a rescue system, in which you run ")
                .command(format!("sudo e2fsck -f {device}"))
                .text(" and ")
                .command(add)
                .text(". After that, add rootflags=data=ordered to the kernel command line and reboot.")
        } else {
            Advice::from("Stop its programs and run ")
                .command(format!("sudo umount {mount} && sudo e2fsck -f {device}"))
                .text(", then ")
                .command(add)
                .text(if in_unit {
                    ". After that, set data=ordered in its mount unit or script and run "
                } else {
                    ". After that, add data=ordered to its line in /etc/fstab and run "
                })
                .command(format!("sudo mount {mount}"))
        })
}

fn direct_open(ctx: &Context<'_>, facts: &PathFacts) -> Judged {
    const ID: CheckId = CheckId::OdirectOpen;
    let tried = facts.tried_file.as_deref().unwrap_or(&facts.path).display().to_string();
    let source = format!("open({tried}, O_DIRECT), pread 4096");
    match facts.open_direct.as_ref().map(DirectRead::result) {
        Some(Ok(())) => Judged::pass(ID, "O_DIRECT reads work").found(source, "ok"),
        Some(Err(error @ ("EINVAL" | "EOPNOTSUPP"))) => {
            Judged::lack(ID, format!("this file system does not support O_DIRECT ({error})"))
                .never(DIRECT)
                .found(source, error)
        }
        Some(Err(error @ ("EACCES" | "EPERM"))) => {
            Judged::warn(ID, format!("this user cannot read the file ({error})"))
                .unknown(EVERY)
                .cause(CheckId::FsSpaceOwner)
                .found(source, error)
        }
        Some(Err(error @ ("ESTALE" | "ENOTCONN" | "EHOSTDOWN" | "ETIMEDOUT"))) => {
            Judged::lack(ID, format!("the file system's server does not answer ({error}): no read works"))
                .missing(Cost::Root, EVERY)
                .advice(mount_again(facts))
                .found(source, error)
        }
        Some(Err(error)) if health::fails_reads(facts) => {
            let judged = Judged::lack(ID, format!("the disk or the file system fails ({error}): no read works"))
                .missing(Cost::System, EVERY)
                .found(source, error);
            let log = machine::kernel_log(ctx.root).unwrap_or_default();
            if health::errors(&log, facts).is_some() {
                judged.cause(CheckId::NvmeState)
            } else {
                judged.advice(
                    Advice::from("Read the cause: ")
                        .command("sudo journalctl -k -b -o cat | tail -n 50")
                        .text(". Then repair the file system or replace the disk."),
                )
            }
        }
        Some(Err(error)) => {
            Judged::warn(ID, format!("a direct read fails with {error}")).unknown(DIRECT).found(source, error)
        }
        None => Judged::na(ID, "this directory has no file to test O_DIRECT; check --test-file writes a temporary one")
            .found(facts.path.display().to_string(), "no file with content"),
    }
}

/// How to mount a file system again whose server stopped answering. The command has all options, because the mount may
/// not be in /etc/fstab.
fn mount_again(facts: &PathFacts) -> Advice {
    match (&facts.mount_point, facts.mount_command(&[])) {
        (Some(point), Some(mount)) => Advice::from("Check the server and its client, then run ").command(format!(
            "sudo umount -l {} && {}",
            quoted(&point.to_string_lossy()),
            quoted_line(&mount)
        )),
        _ => "Check the server and its client, then unmount and mount the file system.".into(),
    }
}

/// The alignment of direct reads. An alignment of 0 means that the kernel reads the file through the page cache, although
/// a read with `O_DIRECT` works. `cause` is the check that reports the reason.
fn alignment(facts: &PathFacts, cause: Option<CheckId>) -> Option<Judged> {
    let (memory, offset) = (facts.dio_mem_align?, facts.dio_offset_align?);
    let judged = if offset > 4096 {
        Judged::warn(CheckId::StatxDioalign, format!("direct reads must start at multiples of {offset} bytes"))
    } else if offset == 0 {
        const SUMMARY: &str = "statx reports that this file does not support direct reads";
        match cause {
            Some(cause) => Judged::info(CheckId::StatxDioalign, SUMMARY).cause(cause),
            None => Judged::lack(CheckId::StatxDioalign, SUMMARY)
                .missing(Cost::Root, DIRECT)
                .advice("Copy the file to ext4 or XFS without encryption, inline data and a journal of the data."),
        }
    } else {
        Judged::pass(CheckId::StatxDioalign, format!("direct reads are aligned to {offset} bytes"))
    };
    Some(judged.found("statx STATX_DIOALIGN", format!("memory {memory}, offset {offset}")))
}

fn nfs(ctx: &Context<'_>, facts: &PathFacts) -> Option<Judged> {
    if !facts.filesystem.as_deref().is_some_and(|kind| kind.starts_with("nfs")) {
        return None;
    }
    let proto = facts.option_value("proto").unwrap_or("unknown");
    let judged = if proto == "rdma" {
        Judged::pass(CheckId::NfsRdma, "NFS over RDMA")
    } else if network::has_rdma(ctx) == Some(false) {
        let (source, text) = network::absent(ctx);
        Judged::lack(CheckId::NfsRdma, format!("NFS over {proto}, and this machine has no RDMA network for it"))
            .never(&[Route::Nvfs])
            .found(source, text)
            .advice(if network::keeps_options(ctx, facts) {
                "Stay with compat mode and the present mount options. A copy of the model on a local disk is faster."
            } else {
                "Stay with compat mode. The mount option nconnect=8 makes it faster, and so does a copy of the model on a local disk."
            })
    } else {
        Judged::lack(CheckId::NfsRdma, format!("NFS over {proto}: no direct route"))
            .missing(Cost::Root, &[Route::Nvfs])
            .advice(network::mount_over_rdma(ctx, facts))
    };
    Some(judged.found("/proc/self/mountinfo", facts.mount_options.clone().unwrap_or_default()))
}
