//! NVMe subsystems. A subsystem is a disk or an array of disks with its controllers.

use super::root::Root;

/// The folder in which the kernel lists the subsystems.
pub const NVME_SUBSYSTEMS: &str = "/sys/class/nvme-subsystem";

/// Lists NVMe subsystems with their controllers: `("nvme-subsys0", ["nvme0"])`. More than one controller means that
/// there are several paths to the same disk.
#[must_use]
pub fn nvme_subsystems(root: &Root) -> Vec<(String, Vec<String>)> {
    let is_controller = |name: &String| {
        name.strip_prefix("nvme").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    let of = |name: String| {
        let entries = root.entries(format!("{NVME_SUBSYSTEMS}/{name}")).ok()?;
        Some((name, entries.into_iter().filter(is_controller).collect()))
    };
    root.entries(NVME_SUBSYSTEMS).unwrap_or_default().into_iter().filter_map(of).collect()
}
