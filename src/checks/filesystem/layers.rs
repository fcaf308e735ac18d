//! Layers between file system and disk: software RAID and device mapper.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, DIRECT, Judged};
use crate::core::{CheckId, FixId, Route};
use crate::machine::{self, BlockKind, PathFacts};

/// The first Linux with P2PDMA on md raid0.
pub(crate) const RAID0_P2PDMA: (u32, u32) = (7, 1);

pub(crate) fn md_raid(ctx: &Context<'_>, facts: &PathFacts) -> Option<Judged> {
    const ID: CheckId = CheckId::MdRaid;
    let device = facts.block_device.iter().find(|d| d.kind == BlockKind::Md)?;
    let level = device.level.as_deref().unwrap_or("unknown");
    let source = format!("/sys/block/{}/md/level", device.name);
    if level != "raid0" {
        let has_raid0_route = ctx.kernel().is_some_and(|kernel| kernel >= RAID0_P2PDMA)
            || machine::nvidia_fs_loaded(ctx.root) == Some(true);
        return Some(
            Judged::lack(ID, format!("{} is {level}; direct routes need raid0", device.name))
                .found(source, level)
                .never(DIRECT)
                .fix(FixId::MoveModel)
                .advice(if has_raid0_route {
                    "Keep the model on a plain NVMe disk or on md raid0."
                } else {
                    "Keep the model on an NVMe disk without RAID. P2PDMA supports md raid0 from Linux 7.1 on."
                }),
        );
    }
    let mut judged = Judged::pass(ID, format!("{} is raid0", device.name));
    let record = facts.device.as_deref().map(machine::udev_record_path);
    if let Some((path, text)) = record.and_then(|path| ctx.root.read_text(&path).ok().map(|text| (path, text)))
        && !text.lines().any(|line| line.starts_with("E:MD_LEVEL="))
    {
        judged = Judged::lack(ID, "udev has no record of this RAID's level")
            .missing(Cost::Root, &[Route::Nvfs])
            .found(path, "no line E:MD_LEVEL")
            .fix(FixId::MdUdev)
            .advice("Import `mdadm --detail --export` in udev's md rule, then reload and trigger udev.");
    }
    if ctx.kernel().is_none_or(|kernel| kernel < RAID0_P2PDMA) {
        let is_fine = judged.in_the_way().next().is_none();
        if is_fine {
            judged = Judged::lack(ID, format!("{} is raid0; P2PDMA supports it from Linux 7.1 on", device.name))
                .advice("Keep the model on a single NVMe disk; to dissolve the RAID erases its data. Or use nvidia-fs with an NVMe driver built for GDS.");
        }
        judged = judged.missing(Cost::System, &[Route::P2pdma]);
    }
    Some(judged.found(source, level))
}

/// The advice for a model on a device-mapper volume.
pub(crate) const PLAIN_PARTITION: &str =
    "Keep the model on a local NVMe disk: a partition without LVM, Stratis, encryption or multipath.";

pub(crate) fn device_mapper(ctx: &Context<'_>, facts: &PathFacts) -> Option<Judged> {
    if let Some(device) = facts.block_device.iter().find(|d| d.kind == BlockKind::Loop) {
        let judged = Judged::lack(CheckId::DmLvm, format!("{} is a file used as a disk", device.name))
            .found("/sys/dev/block", device.name.clone())
            .never(DIRECT);
        // Images have file systems such as squashfs and erofs, which have the same advice.
        return Some(if matches!(facts.filesystem.as_deref(), Some("ext4" | "xfs") | None) {
            judged.fix(FixId::MoveModel).advice("Copy the model out of that file, to ext4 or xfs on a local NVMe disk.")
        } else {
            judged.cause(CheckId::FsType)
        });
    }
    let device = facts.block_device.iter().find(|d| d.kind == BlockKind::Dm)?;
    let uuid = device.uuid.as_deref().unwrap_or("");
    if let Some(judged) = multipath(ctx, facts) {
        return Some(judged.found(format!("/sys/block/{}/dm/uuid", device.name), uuid));
    }
    let what = match machine::map_id(uuid).split('-').next().unwrap_or("") {
        "LVM" => "an LVM volume",
        "CRYPT" => "an encrypted volume",
        "mpath" => "a multipath device",
        "stratis" => "a Stratis volume",
        _ => "a device-mapper volume",
    };
    // LVM is often on top of encryption.
    let is_encrypted =
        facts.block_device.iter().any(|d| d.uuid.as_deref().is_some_and(|uuid| uuid.starts_with("CRYPT")));
    let what = if is_encrypted && !uuid.starts_with("CRYPT") {
        format!("{what} on an encrypted one")
    } else {
        what.to_owned()
    };
    let advice = Advice::from(PLAIN_PARTITION);
    let advice = if is_encrypted {
        advice.text(
            " The data is not encrypted there. Only a self-encrypting disk (OPAL) has encryption and a direct route.",
        )
    } else {
        advice
    };
    Some(
        Judged::lack(CheckId::DmLvm, format!("{} is {what}: no direct route", device.name))
            .found(format!("/sys/block/{}/dm/uuid", device.name), uuid)
            .never(DIRECT)
            .fix(FixId::MoveModel)
            .advice(advice),
    )
}

/// The command that excludes disks from multipathd, by their identifiers.
pub(crate) fn exclude_from_multipathd(ids: &[impl AsRef<str>]) -> String {
    let text = machine::multipathd_blacklist(ids).replace('\n', "\\n");
    format!("sudo mkdir -p /etc/multipath/conf.d && printf '{text}' | sudo tee -a {}", machine::MULTIPATHD_LOCAL)
}

/// A map of multipathd above one local NVMe disk, which has only one path. Without the map the same file system has
/// direct routes. `None` for other layers.
fn multipath(ctx: &Context<'_>, facts: &PathFacts) -> Option<Judged> {
    let (disk, worldwide) = machine::local_multipath(ctx.root, facts)?;
    let advice = Advice::from(format!("{}Exclude the disk from multipathd: ", by_uuid(ctx, worldwide)))
        .command_and_initramfs(ctx.root, &exclude_from_multipathd(&[worldwide]))
        .text(", then reboot. The data stay in place.");
    Some(
        Judged::lack(CheckId::DmLvm, format!("multipathd manages {}, a local disk with one path", disk.name))
            .missing(Cost::Reboot, DIRECT)
            .by_hand()
            .advice(advice),
    )
}

/// A step for the places that name the map, which then no longer exists: lines of /etc/fstab, and the root file system.
fn by_uuid(ctx: &Context<'_>, worldwide: &str) -> String {
    let is_map = |device: &str| {
        let name = device.strip_prefix("/dev/mapper/").or_else(|| device.strip_prefix("/dev/disk/by-id/dm-name-"));
        name.is_some_and(|name| name.starts_with("mpath") || name.starts_with(worldwide))
            || device.starts_with("/dev/dm-")
            || device.contains("dm-uuid-mpath-")
            || device.contains("-mpath-")
    };
    let table = ctx.root.read_text("/etc/fstab").unwrap_or_default();
    let cmdline = ctx.root.read_text(machine::modprobe::COMMAND_LINE).unwrap_or_default();
    let lines = table.lines().filter_map(|line| line.split_whitespace().next());
    let mut devices: Vec<&str> = lines.filter(|device| is_map(device)).collect();
    devices
        .extend(cmdline.split_whitespace().filter_map(|word| word.strip_prefix("root=")).filter(|word| is_map(word)));
    devices.dedup();
    if devices.is_empty() {
        return String::new();
    }
    format!(
        "First name {} by UUID in /etc/fstab and in the boot loader's configuration (`sudo blkid`): without the map these names do not exist. ",
        devices.join(", ")
    )
}
