//! Another place of the machine for a model, if its path closes every direct route.

use crate::checks::context::Context;
use crate::checks::judged::{Judged, Scope};
use crate::checks::storage::virtual_disk;
use crate::checks::verdict::pairs::Pair;
use crate::machine::{self, BlockDevice, BlockKind, Mount, Root};
use std::path::{Path, PathBuf};

/// Whether only the path closes the direct routes, and not the machine or the GPU.
pub(crate) fn is_of_path(permanent: &[&Judged]) -> bool {
    !permanent.is_empty() && permanent.iter().all(|judged| matches!(judged.scope, Scope::Path(_) | Scope::Pair(..)))
}

/// A sentence about an examined path or a mounted NVMe disk with a direct route for the same GPU.
pub(crate) fn sentence(ctx: &Context<'_>, pair: &Pair, pairs: &[Pair]) -> Option<String> {
    let is_better = |other: &&Pair| {
        other.gpu == pair.gpu && other.path != pair.path && (other.route.is_direct() || other.goal.is_some())
    };
    if let Some(other) = pairs.iter().filter(is_better).max_by_key(|other| other.route.is_direct()) {
        let path = ctx.subjects[other.path].path.display();
        return Some(match (other.route, other.goal) {
            (route, _) if route.is_direct() => format!("{path} has a direct route ({route}): keep the model there."),
            (_, Some(goal)) => format!("{path} can have a direct route ({goal}): keep the model there."),
            (_, None) => return None,
        });
    }
    let mine = ctx.subjects[pair.path].facts.as_ref().and_then(|facts| facts.mount_point.clone());
    let Some(disk) = nvme_mount(ctx, mine.as_deref()) else { return in_use(ctx) };
    let point = disk.point.display();
    let command = format!("gds-top check {}", crate::text::quoted(&disk.point.to_string_lossy()));
    Some(format!("{point} is {} on a local NVMe disk: examine it with `{command}`.", disk.filesystem))
}

/// A warning about NVMe disks that look free and are parts of other devices. An NVMe multipath device is a disk itself.
fn in_use(ctx: &Context<'_>) -> Option<String> {
    let members = machine::nvme_members(ctx.root).into_iter().filter(|(_, holder)| !holder.starts_with("nvme"));
    let uses: Vec<String> = members.take(8).map(|(member, holder)| format!("{member} ({holder})")).collect();
    (!uses.is_empty()).then(|| format!("Do not format parts of other devices: {}.", uses.join(", ")))
}

/// The first mount with direct routes, except `mine`.
fn nvme_mount(ctx: &Context<'_>, mine: Option<&Path>) -> Option<Mount> {
    let text = ctx.root.read_bytes("/proc/self/mountinfo").ok()?;
    let is_other = |mount: &Mount| Some(mount.point.as_path()) != mine;
    machine::parse_mountinfo(text).into_iter().find(|mount| is_other(mount) && is_nvme(ctx, mount))
}

/// The mount point of a local NVMe disk for a model, in addition to the present one.
#[must_use]
pub(crate) fn place_for_model(root: &Root, mine: Option<&Path>) -> Option<PathBuf> {
    nvme_mount(&Context::new(root, &[], None), mine).map(|mount| mount.point)
}

/// Whether a mount is a file system with direct routes on a local NVMe disk. Small mounts of the system are not meant.
fn is_nvme(ctx: &Context<'_>, mount: &Mount) -> bool {
    const OF_SYSTEM: [&str; 9] = ["/etc", "/usr", "/boot", "/proc", "/sys", "/dev", "/run", "/snap", "/var"];
    let Some(name) = mount.source.strip_prefix("/dev/").filter(|name| name.starts_with("nvme")) else { return false };
    let disk = name.split('p').next().unwrap_or(name);
    let device = BlockDevice { name: disk.to_owned(), kind: BlockKind::Disk, ..BlockDevice::default() };
    let is_of_system = mount.point == Path::new("/") || OF_SYSTEM.iter().any(|folder| mount.point.starts_with(folder));
    let folder = format!("/sys/class/nvme/{}", machine::nvme_controller(disk).unwrap_or_default());
    let is_local = ctx.root.read_text(format!("{folder}/transport")).map_or(true, |text| text.trim() == "pcie")
        && (virtual_disk::cloud(ctx).is_none() || ctx.root.exists(format!("{folder}/model")));
    matches!(mount.filesystem.as_str(), "ext4" | "xfs")
        && !is_of_system
        && is_local
        && virtual_disk::maker(ctx, &device).is_none()
}
