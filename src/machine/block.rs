//! The block devices under a file system, from `/sys/dev/block`: partition, disk, md, dm, loop.

use super::lenient;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// The kind of a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockKind {
    /// A complete disk.
    Disk,
    /// A partition of a disk.
    Partition,
    /// A software RAID (md).
    Md,
    /// A device-mapper device: LVM, encryption or multipath.
    Dm,
    /// A loop device: a file that is used as a disk.
    Loop,
    /// Any other device without hardware, such as zram.
    #[default]
    #[serde(other)]
    Virtual,
}

/// One block device between a file system and its disks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockDevice {
    /// Kernel name, for example `nvme0n1p2`.
    #[serde(default, deserialize_with = "lenient::string")]
    pub name: String,
    /// Its kind.
    #[serde(default, deserialize_with = "lenient::part")]
    pub kind: BlockKind,
    /// RAID level of an md device, for example `raid0`.
    #[serde(default, deserialize_with = "lenient::text")]
    pub level: Option<String>,
    /// UUID of a device-mapper device with its prefix: `LVM-…`, `CRYPT-…` or `mpath-…`.
    #[serde(default, deserialize_with = "lenient::text")]
    pub uuid: Option<String>,
    /// Logical block size in bytes.
    #[serde(default, deserialize_with = "lenient::number")]
    pub logical_block_bytes: Option<u64>,
    /// PCI address of the controller, if there is one.
    #[serde(default, deserialize_with = "lenient::text")]
    pub pci_bus_id: Option<String>,
}

/// Maximum number of devices that are listed for one file system. It limits a RAID of hundreds of disks.
const MAX_DEVICES: usize = 256;

/// The block devices from the device `major:minor` down to its disks. Empty for anonymous devices (major 0) and
/// unknown devices.
pub(super) fn chain(device: &str) -> Vec<BlockDevice> {
    let mut out = Vec::new();
    if !device.starts_with("0:")
        && let Ok(folder) = fs::canonicalize(Path::new("/sys/dev/block").join(device))
    {
        descend(&folder, &mut out);
    }
    out
}

fn descend(folder: &Path, out: &mut Vec<BlockDevice>) {
    let name = folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if out.len() >= MAX_DEVICES || out.iter().any(|device| device.name == name) {
        return;
    }
    let read = |part: &str| fs::read_to_string(folder.join(part)).ok().map(|t| t.trim().to_owned());
    let mut device = BlockDevice { name, pci_bus_id: controller(folder), ..BlockDevice::default() };
    device.logical_block_bytes = read("queue/logical_block_size").and_then(|t| t.parse().ok());
    let is_virtual = folder.starts_with("/sys/devices/virtual/block");
    let mut below: Vec<PathBuf> = Vec::new();
    if folder.join("partition").exists() {
        device.kind = BlockKind::Partition;
        let disk = folder.parent().map(Path::to_owned);
        device.logical_block_bytes = disk
            .as_ref()
            .and_then(|d| fs::read_to_string(d.join("queue/logical_block_size")).ok())
            .and_then(|t| t.trim().parse().ok());
        below.extend(disk);
    } else {
        if let Some(level) = read("md/level") {
            device.kind = BlockKind::Md;
            device.level = Some(level);
        } else if let Some(uuid) = read("dm/uuid") {
            device.kind = BlockKind::Dm;
            device.uuid = Some(uuid);
        } else if folder.join("loop").is_dir() || device.name.starts_with("loop") {
            device.kind = BlockKind::Loop;
        } else {
            device.kind = if is_virtual { BlockKind::Virtual } else { BlockKind::Disk };
        }
        let mut slaves: Vec<PathBuf> = fs::read_dir(folder.join("slaves"))
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .filter_map(|entry| fs::canonicalize(entry.path()).ok())
            .collect();
        slaves.sort();
        below.extend(slaves);
    }
    out.push(device);
    for folder in below {
        descend(&folder, out);
    }
}

/// The nearest PCI function above a device in sysfs. An NVMe multipath device has no PCI parent, so the parent of its
/// controller is used.
fn controller(folder: &Path) -> Option<String> {
    let nearest = folder
        .ancestors()
        .filter_map(|part| part.file_name()?.to_str())
        .find(|name| is_pci_address(name))
        .map(str::to_owned);
    nearest.or_else(|| {
        let name = folder.file_name()?.to_str()?;
        let number: String = name.strip_prefix("nvme")?.chars().take_while(char::is_ascii_digit).collect();
        let address = fs::read_to_string(format!("/sys/class/nvme/nvme{number}/address")).ok()?;
        Some(address.trim().to_owned()).filter(|address| is_pci_address(address))
    })
}

/// Whether a name has the form `dddd:bb:dd.f`.
pub(super) fn is_pci_address(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.len() >= 12
        && name.split([':', '.']).count() == 4
        && name
            .split([':', '.'])
            .zip([4, 2, 2, 1])
            .all(|(part, length)| part.len() >= length && part.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses_are_recognised() {
        assert!(is_pci_address("0000:be:00.0"));
        assert!(is_pci_address("10000:01:00.0"));
        assert!(!is_pci_address("pci0000:00"));
        assert!(!is_pci_address("virtio2"));
        assert!(!is_pci_address("nvme0n1"));
    }
}
