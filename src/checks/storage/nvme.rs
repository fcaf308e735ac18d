//! Checks of the disks of a path: real or virtual, and the transport of NVMe.

use crate::checks::advice::{Advice, for_single_paths, rebuild_initramfs};
use crate::checks::classes;
use crate::checks::context::{Context, Subject};
use crate::checks::filesystem::{layers, network};
use crate::checks::guest;
use crate::checks::image_host;
use crate::checks::judged::{Cost, DIRECT, Judged, Scope};
use crate::checks::kernel::arguments::{change_argument, without_argument};
use crate::checks::kernel::reboot_pending;
use crate::checks::nvidia_fs::nvme_hook;
use crate::checks::storage::software::software;
use crate::checks::storage::{format, raid, virtual_disk};
use crate::checks::verdict::elsewhere;
use crate::core::{CheckId, FixId, Route};
use crate::machine::{
    self, BlockDevice, BlockKind, NVME_IOPOLICY, NVME_MULTIPATH, NVME_SUBSYSTEMS, NvmeMultipath, PathFacts,
};
use crate::text::quoted;
use std::path::Path;

const KERNEL_ROUTES: &[Route] = &[Route::Nvfs, Route::P2pdma, Route::C2c];

pub(crate) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    for (number, subject) in ctx.subjects.iter().enumerate() {
        out.extend(of_path(ctx, subject).into_iter().map(|judged| judged.of(Scope::Path(number))));
    }
    out
}

fn of_path(ctx: &Context<'_>, subject: &Subject) -> Vec<Judged> {
    let Some(facts) = subject.facts.as_ref().filter(|facts| facts.error.is_none()) else { return Vec::new() };
    if facts.device_numbers().is_none_or(|(major, _)| major == 0) {
        return Vec::new();
    }
    if let Some(judged) = software(ctx, facts) {
        return vec![judged];
    }
    let disks = machine::disks(facts);
    if disks.is_empty() {
        return vec![
            Judged::na(CheckId::NvmeTransport, "the disks of this path are not visible here")
                .found("/sys/dev/block", facts.device.clone().unwrap_or_default())
                .unknown(DIRECT),
        ];
    }
    let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
    let source = format!("/sys/dev/block/{}", facts.device.as_deref().unwrap_or(""));
    if let Some((disk, (maker, place, text))) =
        disks.iter().find_map(|disk| Some((disk, virtual_disk::maker(ctx, disk)?)))
    {
        return vec![
            Judged::lack(
                CheckId::VmType,
                format!("{} is a virtual disk of {} and cannot DMA into GPU memory", disk.name, maker.name()),
            )
            .found(source, names.join(" "))
            .found(place, text)
            .never(DIRECT)
            .fixes(move_model(ctx, facts))
            .advice(maker.advice(ctx)),
        ];
    }
    if let Some(driver) = machine::vendor_driver(facts).map(|driver| driver.name) {
        return vec![
            Judged::pass(
                CheckId::NvmeTransport,
                format!("{} uses the driver {driver}, which only supports the route nvfs", names.join(" ")),
            )
            .found(source, names.join(" "))
            .never(&[Route::P2pdma]),
        ];
    }
    if let Some(name) = names.iter().find(|name| !name.starts_with("nvme")) {
        let behind = raid::controller(ctx, name);
        let summary = match &behind {
            Some(controller) => {
                format!("{name} is a volume of the RAID controller {}, not an NVMe disk", controller.name)
            }
            None => match array_with_nvme(facts) {
                Some(array) => format!("the RAID {array} has a member that is not an NVMe disk: {name}"),
                None => format!("{name} is not an NVMe disk"),
            },
        };
        let judged = Judged::lack(CheckId::NvmeTransport, summary).found(source, names.join(" "));
        let judged = behind.iter().fold(judged, |judged, c| judged.found(c.source.clone(), c.name.clone()));
        let judged = judged.never(DIRECT).fixes(move_model(ctx, facts));
        let advice: Advice = if behind.is_some() {
            raid::ADVICE.into()
        } else if facts.block_device.iter().any(|device| device.kind == BlockKind::Dm) {
            // The finding about device mapper has the same advice.
            layers::PLAIN_PARTITION.into()
        } else if guest::is_virtual(ctx) && matches!(classes::undocumented(ctx), None | Some("Hyper-V")) {
            virtual_disk::pass_through(ctx).into()
        } else if let Some(array) = array_with_nvme(facts) {
            format!("Keep the model on an NVMe disk outside of {array}. Or back up {array} and create it again from NVMe disks only, which erases its data.").into()
        } else {
            "Keep the model on a local NVMe disk.".into()
        };
        let mut out = vec![judged.advice(advice)];
        out.extend(scsi_queues(ctx, name));
        return out;
    }
    let mut out = vec![transport(ctx, facts, &names), multipath(ctx, &names)];
    out.extend(names.iter().find_map(|name| integrity(ctx, facts, name)));
    out.extend(disks.first().and_then(|disk| geometry(ctx, disk)));
    out
}

/// The RAID 0 of a path that has NVMe disks and other ones as members.
fn array_with_nvme(facts: &PathFacts) -> Option<&str> {
    let is_raid0 = |device: &&BlockDevice| device.kind == BlockKind::Md && device.level.as_deref() == Some("raid0");
    let array = facts.block_device.iter().find(is_raid0)?;
    machine::disks(facts).iter().any(|disk| disk.name.starts_with("nvme")).then_some(array.name.as_str())
}

/// The fix that moves the model, if this machine has a place for it on a local NVMe disk with a direct route.
fn move_model(ctx: &Context<'_>, facts: &PathFacts) -> Option<FixId> {
    if machine::container(ctx.root).is_some() || classes::undocumented(ctx).is_some() {
        return None;
    }
    let has_place = elsewhere::place_for_model(ctx.root, facts.mount_point.as_deref()).is_some()
        || elsewhere::disk_for_model(ctx.root).is_some();
    has_place.then_some(FixId::MoveModel)
}

/// Checks whether SCSI disks use multiple queues. Old kernels can disable them, and cuFile needs them even in compat
/// mode.
fn scsi_queues(ctx: &Context<'_>, name: &str) -> Option<Judged> {
    const FILE: &str = "/sys/module/scsi_mod/parameters/use_blk_mq";
    let text = ctx.root.read_text(FILE).ok().filter(|_| name.starts_with("sd"))?;
    let judged = if text.trim() == "Y" {
        Judged::pass(CheckId::ScsiBlkmq, "SCSI disks have multi-queue")
    } else {
        Judged::info(CheckId::ScsiBlkmq, "SCSI disks have no multi-queue, which libcufile needs")
            .advice(change_argument(ctx, None, Some("scsi_mod.use_blk_mq=1")))
    };
    Some(judged.found(FILE, text.trim()))
}

/// The block size and the queue of a disk.
fn geometry(ctx: &Context<'_>, disk: &BlockDevice) -> Option<Judged> {
    const ID: CheckId = CheckId::BlkGeometry;
    let queue = format!("/sys/block/{}/queue", disk.name);
    let read = |part: &str| ctx.root.read_text(format!("{queue}/{part}")).ok().map(|text| text.trim().to_owned());
    let logical = disk.logical_block_bytes.or_else(|| read("logical_block_size")?.parse().ok())?;
    let judged = if matches!(logical, 512 | 4096) {
        Judged::pass(ID, format!("{} has blocks of {logical} bytes", disk.name))
    } else {
        Judged::info(ID, format!("{} has blocks of {logical} bytes; reads must be aligned to them", disk.name))
    };
    let mut judged = judged.found(format!("{queue}/logical_block_size"), logical.to_string());
    for part in ["max_sectors_kb", "nr_requests", "scheduler"] {
        if let Some(text) = read(part) {
            judged = judged.found(format!("{queue}/{part}"), text);
        }
    }
    Some(judged)
}

fn transport(ctx: &Context<'_>, facts: &PathFacts, names: &[&str]) -> Judged {
    const ID: CheckId = CheckId::NvmeTransport;
    let mut kinds = Vec::new();
    for name in names {
        let number: String = name.trim_start_matches("nvme").chars().take_while(char::is_ascii_digit).collect();
        let path = format!("/sys/class/nvme/nvme{number}/transport");
        kinds.push((ctx.root.read_text(&path).map(|text| text.trim().to_owned()), path));
    }
    let slow = kinds.iter().find(|(kind, _)| kind.as_ref().is_ok_and(|k| k != "pcie" && k != "rdma"));
    let mut judged = match slow {
        Some((Ok(kind), path)) => Judged::lack(ID, format!("the NVMe disk is reached over {kind}"))
            .never(DIRECT)
            .advice(other_transport(ctx, facts, kind, path.trim_end_matches("/transport"))),
        // The disks of one path can have different transports.
        _ => match &kinds.iter().find(|(kind, _)| kind.as_ref().is_ok_and(|kind| kind == "rdma")).or(kinds.first()) {
            // The kernel's nvme-rdma driver does not support PCI P2PDMA, and NVIDIA's guide excludes NVMe-oF.
            Some((Ok(kind), _)) if kind == "rdma" => {
                Judged::pass(ID, format!("NVMe over RDMA, which only supports the route nvfs: {}", names.join(" ")))
                    .never(&[Route::P2pdma, Route::C2c])
            }
            Some((Ok(kind), _)) => Judged::pass(ID, format!("NVMe over {kind}: {}", names.join(" "))),
            _ => Judged::info(ID, format!("NVMe: {}; its transport is not known", names.join(" "))),
        },
    };
    for (kind, path) in kinds.into_iter().take(8) {
        judged = match kind {
            Ok(kind) => judged.found(path, kind),
            Err(why) => judged.unread(&path, &why),
        };
    }
    judged
}

/// How to reach a target of NVMe over TCP over RDMA instead. `folder` is that of the controller in sysfs. The driver for
/// RDMA is in the package of DOCA's NVMe driver.
fn other_transport(ctx: &Context<'_>, facts: &PathFacts, kind: &str, folder: &str) -> String {
    const LOCAL: &str = "Keep the model on a local NVMe disk.";
    if kind != "tcp" || machine::container(ctx.root).is_some() || network::has_rdma(ctx) != Some(true) {
        return LOCAL.to_owned();
    }
    if is_system_disk(ctx, facts) {
        return format!("{LOCAL} The system runs from this target, so do not disconnect it.");
    }
    let read = |path: String| ctx.root.read_text(path).ok().map(|text| text.trim().to_owned());
    // `traddr=10.30.0.5,trsvcid=4420`.
    let address = read(format!("{folder}/address")).unwrap_or_default();
    let address = address.split(',').find_map(|part| part.strip_prefix("traddr=")).map_or("ADDRESS".into(), quoted);
    let controller = folder.rsplit('/').next().unwrap_or_default();
    let subsystems = machine::nvme_subsystems(ctx.root);
    let subsystem = subsystems.iter().find(|(_, controllers)| controllers.iter().any(|name| name == controller));
    let name = read(format!("{folder}/subsysnqn"))
        .or_else(|| read(format!("{NVME_SUBSYSTEMS}/{}/subsysnqn", subsystem?.0)))
        .unwrap_or_else(|| "NQN".to_owned());
    let name = quoted(&name);
    let point = facts.mount_point.as_ref().map_or_else(|| "MOUNT".to_owned(), |point| point.display().to_string());
    let driver = machine::mlnx_ofed(ctx.root)
        .map_or_else(|| "DOCA with mlnx-nvme-dkms".to_owned(), |ofed| nvme_hook::from_ofed(&ofed, "mlnx-nvme"));
    format!(
        "{LOCAL} Or use RDMA as the transport, if the target exports it. It needs nvidia-fs and {driver}, then a reboot. First `sudo modprobe nvme-rdma && sudo nvme discover -t rdma -a {address}` must list the target. Stop the programs that use {point}, and unmount it. Disconnect the target with `sudo nvme disconnect -n {name}`. Connect it again with `sudo nvme connect -t rdma -a {address} -n {name}`. Then mount {point}."
    )
}

/// Whether a mount that the operating system needs is on a disk of these controllers. A volume of LVM or a RAID can be on
/// each of their disks.
fn is_system_disk(ctx: &Context<'_>, facts: &PathFacts) -> bool {
    let names = machine::disks(facts).into_iter();
    let controllers: Vec<String> = names.filter_map(|disk| machine::nvme_controller(&disk.name)).collect();
    let is_here = |name: &str| machine::nvme_controller(name).is_some_and(|one| controllers.contains(&one));
    let is_member = machine::nvme_members(ctx.root).iter().any(|(member, _)| is_here(member));
    let is_layer = |name: &str| ["mapper/", "dm-", "md"].iter().any(|start| name.starts_with(start));
    let mounts = ctx.root.read_bytes("/proc/self/mountinfo").map(machine::parse_mountinfo).unwrap_or_default();
    facts.mount_point.as_deref() == Some(Path::new("/"))
        || mounts.iter().filter(|mount| mount.is_of_system()).any(|mount| {
            let name = mount.source.strip_prefix("/dev/").unwrap_or_default();
            is_here(name) || (is_member && is_layer(name))
        })
}

fn multipath(ctx: &Context<'_>, names: &[&str]) -> Judged {
    const ID: CheckId = CheckId::NvmeMultipath;
    let controllers: Vec<String> = names.iter().filter_map(|name| machine::nvme_controller(name)).collect();
    let is_ours = |one: &String| controllers.contains(one);
    let in_use =
        machine::nvme_subsystems(ctx.root).into_iter().find(|(_, paths)| paths.len() > 1 && paths.iter().any(is_ours));
    let state = machine::nvme_multipath(ctx.root);
    match (&state, in_use) {
        (NvmeMultipath::On | NvmeMultipath::Forced, Some((name, paths))) => {
            let judged = Judged::lack(
                ID,
                format!("this disk has {} paths, and P2PDMA does not pass through NVMe multipath", paths.len()),
            );
            match state {
                NvmeMultipath::Forced => judged.found(NVME_IOPOLICY, "exists").found(NVME_MULTIPATH, "does not exist"),
                _ => judged.found(NVME_MULTIPATH, "Y"),
            }
                .found(format!("{NVME_SUBSYSTEMS}/{name}"), paths.join(" "))
                .never(&[Route::P2pdma])
                .advice("Keep multipath on, because the disk is reached by several controllers. Read from a disk with one path, or by nvidia-fs.")
        }
        _ => one_path(ctx, names, state),
    }
}

/// Multipath for a disk with a single controller.
fn one_path(ctx: &Context<'_>, names: &[&str], state: NvmeMultipath) -> Judged {
    const ID: CheckId = CheckId::NvmeMultipath;
    match state {
        NvmeMultipath::On => {
            let judged = Judged::lack(ID, "NVMe native multipath is on, which P2PDMA does not support")
                .found(NVME_MULTIPATH, "Y")
                .missing(Cost::Reboot, &[Route::P2pdma]);
            let paths = machine::nvme_subsystems(ctx.root).into_iter().take(8);
            let judged = paths.fold(judged, |judged, (name, controllers)| {
                judged.found(format!("{NVME_SUBSYSTEMS}/{name}"), controllers.join(" "))
            });
            multipath_advice(ctx, judged)
        }
        NvmeMultipath::Off(value) => Judged::pass(ID, "NVMe native multipath is off").found(NVME_MULTIPATH, value),
        NvmeMultipath::Forced => forced(ctx, names),
        NvmeMultipath::Absent(why) => {
            Judged::pass(ID, "the kernel has no NVMe native multipath").unread(NVME_MULTIPATH, &why)
        }
        NvmeMultipath::Unread(why) => Judged::na(ID, "the state of NVMe multipath could not be read")
            .unread(NVME_MULTIPATH, &why)
            .unknown(&[Route::P2pdma]),
    }
}

/// Multipath that no parameter can disable. It creates a multipath device only for disks with several ports, unless
/// multipath_always_on is set.
fn forced(ctx: &Context<'_>, names: &[&str]) -> Judged {
    const ID: CheckId = CheckId::NvmeMultipath;
    const ALWAYS: &str = "/sys/module/nvme_core/parameters/multipath_always_on";
    let hidden = names.iter().find_map(|name| Some((name, machine::nvme_hidden_path(ctx.root, name)?)));
    let always = ctx.root.read_text(ALWAYS).is_ok_and(|text| text.trim() == "Y");
    let judged = match (hidden, ctx.root.entries("/sys/block")) {
        (Some((name, path)), _) => {
            let judged = Judged::lack(
                ID,
                format!("{name} is a multipath device, which P2PDMA does not support and this kernel cannot disable"),
            )
            .found(format!("/sys/block/{path}"), "exists");
            if always {
                let started = ctx.root.read_text(machine::modprobe::COMMAND_LINE).unwrap_or_default();
                let argument =
                    started.split_whitespace().find(|word| word.starts_with("nvme_core.multipath_always_on"));
                let how = match argument {
                    Some(argument) => without_argument(ctx, argument),
                    None => Advice::from("Boot without nvme_core.multipath_always_on."),
                };
                judged
                    .missing(Cost::Reboot, &[Route::P2pdma])
                    .found(ALWAYS, "Y")
                    .advice(how.text(" Then only disks with several ports are multipath devices."))
            } else {
                judged.never(&[Route::P2pdma]).advice(
                    "Read by nvidia-fs, or from a disk with a single port. multipath=N has no effect: this kernel lacks the parameter, as RHEL 10 does.",
                )
            }
        }
        (None, Ok(_)) => Judged::pass(ID, format!("{} is not a multipath device", names.join(" "))),
        (None, Err(why)) => Judged::na(ID, "it is not visible whether the disk is a multipath device")
            .unread("/sys/block", &why)
            .unknown(&[Route::P2pdma]),
    };
    judged.found(NVME_MULTIPATH, "does not exist").found(NVME_IOPOLICY, "exists")
}

/// How to switch multipath off: with a module option, or with a kernel argument if the module is built in.
fn multipath_advice(ctx: &Context<'_>, judged: Judged) -> Judged {
    const WORD: &str = "nvme_core.multipath=N";
    if let Some(left) = reboot_pending::waiting_word(ctx, |word| [WORD, "nvme_core.multipath=0"].contains(&word)) {
        return judged.advice(left);
    }
    let argument = machine::nvme_multipath_argument(ctx.root);
    if let Some((path, text)) = machine::built_in(ctx.root, "nvme_core", "CONFIG_NVME_CORE") {
        let how = change_argument(ctx, argument.as_deref(), Some(WORD))
            .text(" nvme_core is built in and ignores modprobe.d.")
            .text(for_single_paths(ctx.root));
        return judged.found(path, text).fix(FixId::NvmeMultipathOff).advice(how);
    }
    if let Some(argument) = argument {
        let how = change_argument(ctx, Some(&argument), Some(WORD))
            .text(" The kernel command line overrides modprobe.d.")
            .text(for_single_paths(ctx.root));
        return judged.found(machine::modprobe::COMMAND_LINE, argument).fix(FixId::NvmeMultipathOff).advice(how);
    }
    let ignored = machine::modprobe::ignored(ctx.root, "nvme_core", "multipath", &["N"]);
    let rebuild = rebuild_initramfs(ctx.root);
    let condition = for_single_paths(ctx.root);
    match reboot_pending::written(ctx, "options nvme_core ", "multipath=N") {
        Some(written) => {
            let judged = judged.found(written.path.clone(), "options nvme_core multipath=N");
            written.finish(judged)
        }
        None if ignored.is_some() => {
            reboot_pending::without_suffix(ctx, judged.fix(FixId::NvmeMultipathOff), &ignored.unwrap_or_default())
        }
        None if machine::multipathd_takes_nvme(ctx.root) => {
            let (judged, how) = match machine::local_nvme_ids(ctx.root) {
                Some(ids) => {
                    (judged.fix(FixId::NvmeMultipathOff), format!("`{}`", layers::exclude_from_multipathd(&ids)))
                }
                None => (judged.by_hand(), "a blacklist with the identifiers in /sys/block/nvme*/wwid".to_owned()),
            };
            judged.advice(format!(
                "First exclude local NVMe disks from multipathd: {how}. Then set `options nvme_core multipath=N` in /etc/modprobe.d, {rebuild}, then reboot.{condition}"
            ))
        }
        // The plan has no commands of this distribution. An image-based host has its own advice for the fix.
        None if image_host::replaces(ctx, FixId::NvmeMultipathOff) => judged.fix(FixId::NvmeMultipathOff).advice(
            Advice::set_option(ctx.root, "options nvme_core multipath=N", "/etc/modprobe.d/nvme.conf")
                .text(", then reboot.")
                .text(condition),
        ),
        None => judged.fix(FixId::NvmeMultipathOff).advice(format!(
            "Set `options nvme_core multipath=N` in /etc/modprobe.d, {rebuild}, then reboot.{condition}"
        )),
    }
}

fn integrity(ctx: &Context<'_>, facts: &PathFacts, name: &str) -> Option<Judged> {
    let path = format!("/sys/block/{name}/integrity/device_is_integrity_capable");
    let text = ctx.root.read_text(&path).ok()?;
    let judged = if text.trim() == "1" {
        Judged::lack(CheckId::NvmeIntegrity, format!("{name} is formatted with integrity metadata"))
            .missing(Cost::System, KERNEL_ROUTES)
            .advice(format::without_metadata(ctx.root, facts, name))
    } else {
        Judged::pass(CheckId::NvmeIntegrity, "no integrity metadata")
    };
    Some(judged.found(path, text.trim()))
}
