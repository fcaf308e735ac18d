//! Layers between file system and disk: software RAID and device mapper.

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
        return Some(
            Judged::lack(ID, format!("{} is {level}; direct routes need raid0", device.name))
                .found(source, level)
                .never(DIRECT)
                .advice("Keep the model on a plain NVMe disk or on md raid0."),
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

pub(crate) fn device_mapper(facts: &PathFacts) -> Option<Judged> {
    if let Some(device) = facts.block_device.iter().find(|d| d.kind == BlockKind::Loop) {
        return Some(
            Judged::lack(CheckId::DmLvm, format!("{} is a file used as a disk", device.name))
                .found("/sys/dev/block", device.name.clone())
                .never(DIRECT)
                .advice("Copy the model out of that file, to ext4 or xfs on a local NVMe disk."),
        );
    }
    let device = facts.block_device.iter().find(|d| d.kind == BlockKind::Dm)?;
    let uuid = device.uuid.as_deref().unwrap_or("");
    let what = match uuid.split('-').next().unwrap_or("") {
        "LVM" => "an LVM volume",
        "CRYPT" => "an encrypted volume",
        "mpath" => "a multipath device",
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
    Some(
        Judged::lack(CheckId::DmLvm, format!("{} is {what}: no direct route", device.name))
            .found(format!("/sys/block/{}/dm/uuid", device.name), uuid)
            .never(DIRECT)
            .fix(FixId::MoveModel)
            .advice("Keep the model on a local NVMe disk: a partition without LVM, encryption or multipath."),
    )
}
