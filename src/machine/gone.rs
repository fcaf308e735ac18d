//! The disk of a mount that left the machine, and the name under which it came back.

use super::disks::udev_record_path;
use super::path_facts::PathFacts;
use super::root::Root;
use super::summary::container;

const BLOCK: &str = "/sys/block";

/// Whether the kernel gave the name: those of NVMe and SCSI disks and their partitions.
fn is_of_kernel(name: &str) -> bool {
    (name.starts_with("nvme") || name.starts_with("sd")) && !name.contains('/')
}

/// The name of the device of a mount, if the machine no longer has this device: `nvme1n1p1`. A disk that comes back gets
/// another number, and often another name, but the mount keeps the old one.
#[must_use]
pub fn gone_device(root: &Root, facts: &PathFacts) -> Option<String> {
    let name = facts.source.as_deref()?.strip_prefix("/dev/").filter(|name| is_of_kernel(name))?;
    let device = facts.device.as_deref().filter(|device| !device.starts_with("0:"))?;
    // A container can lack the records of udev.
    if !facts.block_device.is_empty() || root.exists(udev_record_path(device)) || container(root).is_some() {
        return None;
    }
    let disks = root.entries(BLOCK).ok()?;
    let has = |disk: &String| {
        let place = if disk == name { format!("{BLOCK}/{disk}") } else { format!("{BLOCK}/{disk}/{name}") };
        root.exists(&place) && root.read_text(format!("{place}/dev")).map_or(true, |number| number.trim() == device)
    };
    // A sandbox shows no disks at all.
    (disks.iter().any(|disk| is_of_kernel(disk)) && !disks.iter().any(has)).then(|| name.to_owned())
}

/// The name of the device whose file system has this UUID.
#[must_use]
pub fn device_of_uuid(root: &Root, uuid: &str) -> Option<String> {
    let wanted = format!("E:ID_FS_UUID={uuid}");
    let has = |place: &str| {
        let device = root.read_text(format!("{place}/dev")).ok()?;
        let record = root.read_text(udev_record_path(device.trim())).ok()?;
        record.lines().any(|line| line == wanted).then_some(())
    };
    root.entries(BLOCK).ok()?.into_iter().find_map(|disk| {
        let folder = format!("{BLOCK}/{disk}");
        let parts = root.entries(&folder).unwrap_or_default();
        let part = parts
            .into_iter()
            .filter(|name| name.starts_with(&disk))
            .find(|name| has(&format!("{folder}/{name}")).is_some());
        part.or_else(|| has(&folder).map(|()| disk))
    })
}
