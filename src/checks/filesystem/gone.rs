//! A mount whose disk left the machine, and may be back under another name.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, EVERY, Judged};
use crate::core::CheckId;
use crate::machine::{self, Message, PathFacts, Source};
use crate::text::quoted;

/// The finding for a mount whose device the machine no longer has. udev has no record of such a device, and a new record
/// would be that of the next disk with this number.
pub(crate) fn gone(ctx: &Context<'_>, facts: &PathFacts) -> Option<Judged> {
    let name = machine::gone_device(ctx.root, facts)?;
    let point = facts.mount_point.as_deref().map(|point| point.to_string_lossy().into_owned())?;
    let planned = machine::fstab_mounts(ctx.root).into_iter().find(|mount| *mount.point.to_string_lossy() == *point);
    let uuid = planned
        .as_ref()
        .and_then(|mount| mount.device.strip_prefix("UUID="))
        .map(|uuid| uuid.trim_matches('"').to_owned());
    let now = uuid.as_deref().and_then(|uuid| machine::device_of_uuid(ctx.root, uuid));
    let place = quoted(&point);
    let mount = match &uuid {
        Some(_) => format!("sudo umount {place} && sudo mount {place}"),
        None => format!("sudo umount {place} && sudo mount UUID=UUID {place}"),
    };
    let advice = match (&now, &uuid) {
        (Some(now), _) => Advice::from(format!("Its file system is now on {now}. ")),
        (None, Some(_)) => Advice::from("Put the disk back, until `lsblk -f` shows its UUID. "),
        (None, None) => Advice::from(
            "`lsblk -f` shows the UUID of the disk after it is back. Mount it by that, also in /etc/fstab. ",
        ),
    };
    let advice = advice
        .text(format!("End the programs that `sudo fuser -vm {place}` shows, then run "))
        .command(mount)
        .text(". If it is busy, use umount -l. The mount repairs its log: run no other repair before.");
    let mut judged = Judged::lack(CheckId::FsResolve, format!("{name}, the device of {point}, is gone: no read works"))
        .found("/proc/self/mountinfo", facts.source.clone().unwrap_or_default())
        .found("/sys/block", format!("no {name} with the number {}", facts.device.as_deref().unwrap_or_default()))
        .missing(Cost::Root, EVERY)
        .advice(advice);
    if let Some(planned) = planned {
        judged = judged.found(planned.file, planned.line);
    }
    let log = machine::kernel_log(ctx.root).unwrap_or_default();
    let is_about = |message: &&Message| {
        !message.has(&["mounted filesystem"])
            && [format!("({name})"), format!("(device {name})"), format!(" dev {name},")]
                .iter()
                .any(|part| message.has(&[part.as_str()]))
    };
    Some(match log.of(Source::Disk).rev().find(is_about) {
        Some(message) => judged.found(machine::KERNEL_LOG, &message.line),
        None => judged,
    })
}
