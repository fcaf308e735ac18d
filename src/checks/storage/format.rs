//! How to format an NVMe namespace without metadata and to restore its file system, with the values of this machine.

use crate::checks::advice::Advice;
use crate::machine::{self, BlockKind, PathFacts, PlannedMount, Root};

/// A text that a shell and sed do not interpret.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_-=,.:".contains(&byte))
}

/// The block device of the file system, if no other one is on the disk: its first partition, or the disk itself.
fn only_device<'a>(facts: &'a PathFacts, disk: &str) -> Option<&'a str> {
    match facts.block_device.as_slice() {
        [part, whole] if part.kind == BlockKind::Partition && whole.name == disk => {
            (part.name == format!("{disk}p1")).then_some(part.name.as_str())
        }
        [whole] if whole.name == disk => Some(whole.name.as_str()),
        _ => None,
    }
}

/// The command that adds nofail to a line of /etc/fstab.
fn add_nofail(planned: &PlannedMount, point: &str) -> Option<String> {
    let options = &planned.options;
    let lacks = !options.is_empty() && is_plain(options) && !options.split(',').any(|option| option == "nofail");
    lacks.then(|| {
        format!(
            "sudo sed -i '\\|[[:space:]]{point}[[:space:]]|s|\\([[:space:]]\\){options}|\\1{options},nofail|' {}",
            machine::FSTAB
        )
    })
}

/// How to remove the metadata of a disk. The way back is known if the file system is alone on the disk.
pub(super) fn without_metadata(root: &Root, facts: &PathFacts, disk: &str) -> Advice {
    let list = format!("sudo nvme id-ns -H /dev/{disk}");
    let format = format!(
        ", which lists the formats. With a number N of Metadata Size 0, run `sudo nvme format /dev/{disk} --lbaf=N --pi=0`. "
    );
    let point = facts.mount_point.as_deref().and_then(|point| point.to_str());
    let point = point.filter(|point| *point != "/" && is_plain(point));
    let kind = facts.filesystem.as_deref().filter(|kind| matches!(*kind, "ext4" | "xfs"));
    let (Some(point), Some(kind), Some(device)) = (point, kind, only_device(facts, disk)) else {
        return Advice::from("Copy the data of all its file systems away and unmount them, because a format erases it. Run ")
            .command(list)
            .text(format)
            .text("Then create partitions and file systems again, write their new UUIDs (`sudo blkid`) into /etc/fstab, mount them and copy the data back.");
    };
    let planned = machine::fstab_mounts(root).into_iter().find(|planned| planned.point.to_str() == Some(point));
    let uuid = planned.as_ref().and_then(|planned| planned.device.strip_prefix("UUID="));
    let uuid = uuid.map(|uuid| uuid.trim_matches('"')).filter(|uuid| is_plain(uuid));
    let make = match (kind, uuid) {
        ("xfs", Some(uuid)) => format!("sudo mkfs.xfs -m uuid={uuid} /dev/{device}"),
        (_, Some(uuid)) => format!("sudo mkfs.ext4 -U {uuid} /dev/{device}"),
        (kind, None) => format!("sudo mkfs.{kind} /dev/{device}"),
    };
    let partition = if device == disk {
        String::new()
    } else {
        format!("sudo parted -s /dev/{disk} mklabel gpt mkpart data 2MiB 100% && sudo udevadm settle && ")
    };
    let is_named = uuid.is_some() || planned.as_ref().is_some_and(|planned| planned.device == format!("/dev/{device}"));
    let mount = if is_named { format!("sudo mount {point}") } else { format!("sudo mount /dev/{device} {point}") };
    let at_boot = match (&planned, is_named) {
        (Some(planned), false) => {
            format!(" Write its new UUID (`sudo blkid /dev/{device}`) into /etc/fstab instead of {}.", planned.device)
        }
        _ => String::new(),
    };
    let advice = Advice::from(format!(
        "A format erases all of {disk}: first copy {point} to a directory of another disk (`sudo cp -a {point}/. /BACKUP/`). "
    ));
    let advice = match planned.as_ref().and_then(|planned| add_nofail(planned, point)) {
        Some(edit) => advice
            .text(format!("Without nofail in /etc/fstab, a reboot before the end stops in emergency mode: `{edit}`. ")),
        None => advice,
    };
    advice
        .text("Stop the programs that use it and run ")
        .command(format!("sudo umount {point} && {list}"))
        .text(format)
        .text("Then run ")
        .command(format!("{partition}{make} && {mount}"))
        .text(format!(" and copy the data back: `sudo cp -a /BACKUP/. {point}/`.{at_boot}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::BlockDevice;

    #[test]
    fn the_way_back_is_known_only_for_a_file_system_that_is_alone_on_its_disk() {
        let device = |name: &str, kind| BlockDevice { name: name.to_owned(), kind, ..BlockDevice::default() };
        let disk = || device("nvme1n1", BlockKind::Disk);
        for (stack, known) in [
            (vec![device("nvme1n1p1", BlockKind::Partition), disk()], Some("nvme1n1p1")),
            (vec![disk()], Some("nvme1n1")),
            (vec![device("nvme1n1p2", BlockKind::Partition), disk()], None),
            (vec![device("md0", BlockKind::Md), disk()], None),
            (vec![device("dm-0", BlockKind::Dm), device("nvme1n1p1", BlockKind::Partition), disk()], None),
        ] {
            let facts = PathFacts { block_device: stack, ..PathFacts::default() };
            assert_eq!(only_device(&facts, "nvme1n1"), known);
        }
    }

    #[test]
    fn nofail_is_added_to_options_that_lack_it() {
        let planned = |options: &str| PlannedMount { options: options.to_owned(), ..PlannedMount::default() };
        let edit = add_nofail(&planned("defaults,noatime"), "/data");
        assert!(edit.is_some_and(|edit| edit.contains("\\1defaults,noatime,nofail|' /etc/fstab")));
        assert_eq!(add_nofail(&planned("defaults,nofail"), "/data"), None);
    }
}
