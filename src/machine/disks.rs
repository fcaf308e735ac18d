//! Lists the disks below a path and how they are attached.

use super::block::{BlockDevice, BlockKind};
use super::path_facts::PathFacts;
use super::root::Root;

/// The disks at the end of the list of block devices.
#[must_use]
pub fn disks(facts: &PathFacts) -> Vec<&BlockDevice> {
    facts.block_device.iter().filter(|device| device.kind == BlockKind::Disk).collect()
}

/// The device below a path that the kernel implements in software, in addition to md, device mapper and loop devices:
/// bcache, DRBD, network block devices, zram.
#[must_use]
pub fn software_device(facts: &PathFacts) -> Option<&BlockDevice> {
    const NAMES: [&str; 5] = ["bcache", "drbd", "nbd", "rbd", "zram"];
    facts.block_device.iter().find(|device| NAMES.iter().any(|name| device.name.starts_with(name)))
}

/// The NVMe disks and partitions that are parts of other block devices, each with that device: `nvme1n1p1` and `bcache0`.
#[must_use]
pub fn nvme_members(root: &Root) -> Vec<(String, String)> {
    let of = |holder: String| {
        let parts = root.entries(format!("/sys/block/{holder}/slaves")).unwrap_or_default();
        let is_disk = |part: &String| part.starts_with("nvme");
        parts.into_iter().filter(is_disk).map(move |part| (part, holder.clone())).collect::<Vec<_>>()
    };
    root.entries("/sys/block").unwrap_or_default().into_iter().flat_map(of).collect()
}

/// A disk driver, other than NVMe, that nvidia-fs supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VendorDriver {
    /// The driver's name in the list of nvidia-fs.
    pub name: &'static str,
    /// The kernel symbol that the driver exports for nvidia-fs.
    pub symbol: &'static str,
}

/// The vendor driver of a path's disks, if nvidia-fs supports that driver.
#[must_use]
pub fn vendor_driver(facts: &PathFacts) -> Option<VendorDriver> {
    let starts = |prefix: &str| disks(facts).iter().any(|disk| disk.name.starts_with(prefix));
    if starts("sfdv") {
        Some(VendorDriver { name: "sfxvdriver", symbol: "sfxv_v1_register_nvfs_dma_ops" })
    } else if starts("nvmesh") {
        Some(VendorDriver { name: "nvmeib_common", symbol: "nvmesh_v1_register_nvfs_dma_ops" })
    } else {
        None
    }
}

/// The NVMe controller of a disk: `nvme0` for `nvme0n1` or `nvme0c0n1`.
#[must_use]
pub fn nvme_controller(disk: &str) -> Option<String> {
    let number: String = disk.strip_prefix("nvme")?.chars().take_while(char::is_ascii_digit).collect();
    Some(format!("nvme{number}"))
}

/// The transports of a path's NVMe controllers, such as `pcie` or `tcp`, from sysfs.
#[must_use]
pub fn nvme_transports(root: &Root, facts: &PathFacts) -> Vec<String> {
    disks(facts)
        .iter()
        .filter_map(|disk| root.read_text(format!("/sys/class/nvme/{}/transport", nvme_controller(&disk.name)?)).ok())
        .map(|text| text.trim().to_owned())
        .collect()
}

/// The identifier of a map of device mapper. That of a partition has a prefix: `part1-mpath-…`.
#[must_use]
pub fn map_id(uuid: &str) -> &str {
    match uuid.strip_prefix("part").and_then(|rest| rest.split_once('-')) {
        Some((number, map)) if number.bytes().all(|byte| byte.is_ascii_digit()) => map,
        _ => uuid,
    }
}

/// The local NVMe disk below a map of multipathd, and its identifier (WWID). The disk has only one path, so the map can
/// be removed. `None` for other layers, and for an identifier that a command could not contain.
#[must_use]
pub fn local_multipath<'a>(root: &Root, facts: &'a PathFacts) -> Option<(&'a BlockDevice, &'a str)> {
    let maps = facts.block_device.iter().filter(|device| device.kind == BlockKind::Dm);
    let ids: Option<Vec<&str>> = maps.map(|map| map_id(map.uuid.as_deref()?).strip_prefix("mpath-")).collect();
    match disks(facts).as_slice() {
        [disk] if nvme_transports(root, facts) == ["pcie"] => {
            let plain = |id: &&str| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte));
            Some((*disk, ids?.pop().filter(plain)?))
        }
        _ => None,
    }
}

/// The path of the udev record of a device `major:minor`.
#[must_use]
pub fn udev_record_path(device: &str) -> String {
    format!("/run/udev/data/b{device}")
}
