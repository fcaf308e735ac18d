//! Another place of the machine for a model, if its path closes every direct route.

use crate::checks::advice::{Command, Examined};
use crate::checks::classes;
use crate::checks::context::Context;
use crate::checks::judged::{Judged, Scope, Weight};
use crate::checks::matrix::{self, Storage};
use crate::checks::storage::virtual_disk;
use crate::checks::verdict::commands;
use crate::checks::verdict::pairs::Pair;
use crate::core::{CheckId, FixId, Needs, Route, Status};
use crate::machine::{self, BlockDevice, BlockKind, Mount, NvmeMultipath, Root};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Whether only the path closes the direct routes, and not the machine or the GPU.
pub(crate) fn is_of_path(permanent: &[&Judged]) -> bool {
    !permanent.is_empty() && permanent.iter().all(|judged| matches!(judged.scope, Scope::Path(_) | Scope::Pair(..)))
}

/// Sentences about an examined path or a local NVMe disk with a direct route for the same GPU.
pub(crate) fn sentence(ctx: &Context<'_>, pair: &Pair, pairs: &[Pair], mine: &[&Judged]) -> Option<String> {
    let is_better = |other: &&Pair| {
        other.gpu == pair.gpu && other.path != pair.path && (other.route.is_direct() || other.goal.is_some())
    };
    let is_root = |other: &Pair| ctx.subjects[other.path].path == Path::new("/");
    let better = pairs.iter().filter(is_better).max_by_key(|other| (other.route.is_direct(), !is_root(other)));
    if let Some(other) = better {
        let path = ctx.subjects[other.path].path.display();
        // A model is not kept among the directories of the system.
        let place = if is_root(other) {
            let taken = ctx.subjects[pair.path].path.as_path();
            let folder = free_folder(ctx.root, folder_on_root(ctx.root), OsStr::new("models"), &[taken]);
            format!("in a directory on it, such as {}", folder.display())
        } else {
            "there".to_owned()
        };
        return Some(match (other.route, other.goal) {
            (route, _) if route.is_direct() => format!("{path} has a direct route ({route}): keep the model {place}."),
            (_, Some(goal)) => format!("{path} can have a direct route ({goal}): keep the model {place}."),
            (_, None) => return None,
        });
    }
    let present = ctx.subjects[pair.path].facts.as_ref().and_then(|facts| facts.mount_point.clone());
    let (place, point) = match nvme_mount(ctx, present.as_deref()) {
        Some(disk) => {
            let point = disk.point.display();
            let command = format!("gds-top check {}", crate::text::quoted(&disk.point.to_string_lossy()));
            let place = format!("{point} is {} on a local NVMe disk: examine it with `{command}`.", disk.filesystem);
            (Some(place), Some(disk.point))
        }
        None => match free_disk(ctx) {
            Some(disk) => {
                (Some(format!("{disk} is a local NVMe disk without partitions and mounts.")), Some(mount_of(&disk)))
            }
            None => match root_on_nvme(ctx, present.as_deref()) {
                Some(filesystem) => {
                    let source = &ctx.subjects[pair.path].path;
                    let name = source.file_name().unwrap_or(OsStr::new("models"));
                    let target = free_folder(ctx.root, Path::new(FOLDER_OF_ROOT), name, &[source]);
                    let quoted = |path: &Path| crate::text::quoted(&path.to_string_lossy()).into_owned();
                    let copy = format!("sudo cp -aL {} {}", quoted(source), quoted(&target));
                    let place = format!(
                        "/ is {filesystem} on a local NVMe disk. If `df -h {FOLDER_OF_ROOT}` shows enough space, run `{copy}` and examine the copy with `gds-top check {}`.",
                        quoted(&target)
                    );
                    let warning = disks_in_use(ctx.root).map_or_else(String::new, |warning| format!(" {warning}"));
                    (Some(place + &warning), Some(PathBuf::from(FOLDER_OF_ROOT)))
                }
                None => (disks_in_use(ctx.root), None),
            },
        },
    };
    // The local disks of clouds are not kept.
    let lost = point.as_ref().and_then(|_| loss(ctx)).map(str::to_owned);
    let in_container = if point.is_none() { of_container(ctx) } else { None };
    let needs = needs(ctx, pair, mine, point.as_deref());
    let parts: Vec<String> =
        place.into_iter().chain(lost).chain(in_container.map(str::to_owned)).chain(needs).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// When the data of a local disk of this machine is lost. `None` if it is kept.
fn loss(ctx: &Context<'_>) -> Option<&'static str> {
    virtual_disk::cloud(ctx).and_then(|(maker, ..)| maker.loss())
}

/// A sentence about the data of local disks, for the plan that moves a model.
#[must_use]
pub(crate) fn loss_of_local_disks(root: &Root) -> Option<&'static str> {
    loss(&Context::new(root, &[], None))
}

/// How a container gets a place on a local NVMe disk of its host.
fn of_container(ctx: &Context<'_>) -> Option<&'static str> {
    let container = machine::container(ctx.root)?;
    Some(match container.runtime.as_str() {
        "kubernetes" => {
            "In a pod, this is a volume of its node: hostPath, or a local PersistentVolume. Without one, stay with compat mode."
        }
        _ => "Without access to the host of this container, stay with compat mode.",
    })
}

/// Whether the NVMe driver combines the paths of a disk, or will do so when the first disk loads it.
fn combines_paths(root: &Root) -> bool {
    match machine::nvme_multipath(root) {
        NvmeMultipath::On => true,
        NvmeMultipath::Absent(_) if !root.exists("/sys/module/nvme_core") => {
            let is_off = machine::modprobe::in_force(root, "nvme_core", "multipath")
                .is_some_and(|set| machine::is_kernel_false(&set.value));
            let release = machine::kernel_release(root).unwrap_or_default();
            let config = machine::kernel_config(root, &release);
            !is_off && config.is_ok_and(|config| config.value("CONFIG_NVME_MULTIPATH") == Some("y"))
        }
        _ => false,
    }
}

/// The needs of a direct route at a place on a local NVMe disk: the fixes, or the checks without one. `None` if it
/// needs nothing, and if no such route is known to work on this machine.
fn needs(ctx: &Context<'_>, pair: &Pair, mine: &[&Judged], place: Option<&Path>) -> Option<String> {
    let has_nvfs = machine::nvidia_fs_loaded(ctx.root) == Some(true);
    let is_to_move = place.is_some() || mine.iter().any(|j| j.finding.fix == Some(FixId::MoveModel));
    if !is_to_move || has_nvfs || classes::doubt(ctx).is_some() || machine::container(ctx.root).is_some() {
        return None;
    }
    let class = pair.gpu.and_then(|gpu| classes::of_gpu(&ctx.gpus()[gpu]));
    let is_open =
        |route: &Route| pair.candidates.contains(route) && !matrix::is_closed(class, Some(Storage::Nvme), *route);
    let route = [Route::P2pdma, Route::Nvfs].into_iter().find(is_open)?;
    let is_of_path = |j: &Judged| matches!(j.scope, Scope::Path(_) | Scope::Pair(..)) && j.id != CheckId::CfgP2pBoth;
    // A finding about the driver of the disks has no effect on a path without a direct route.
    let is_driver = |j: &Judged| {
        route == Route::Nvfs
            && j.id == CheckId::NvfsNvmeSymbol
            && !matches!(j.finding.status, Status::Pass | Status::Na)
    };
    let lacks = |j: &Judged| j.finding.cause.is_none() && !is_of_path(j) && (j.stops(route) || is_driver(j));
    let lacking: Vec<&Judged> = mine.iter().copied().filter(|j| lacks(j)).collect();
    if lacking.iter().any(|j| j.effects.contains(&(route, Weight::Never))) {
        return None;
    }
    let name = |j: &&Judged| {
        let fix = j.finding.fix.or_else(|| j.id.spec().default_fix()).filter(|_| !j.by_hand);
        fix.map_or_else(|| j.id.as_str(), FixId::as_str)
    };
    let mut names: Vec<&str> = lacking.iter().map(name).collect();
    if route == Route::P2pdma && combines_paths(ctx.root) {
        names.push(FixId::NvmeMultipathOff.as_str());
    }
    names.dedup();
    if names.is_empty() {
        return None;
    }
    let label = if route == Route::P2pdma { "P2PDMA" } else { "nvfs" };
    let start = if place.is_some() { "There" } else { "On a local NVMe disk," };
    let known = commands::examined(ctx, pair.path);
    let Some(place) = place else {
        let at = Examined { path: None, ..known };
        let command = |name: &&str| match name.parse::<FixId>() {
            Ok(fix) => format!("`{}`", Command::Fix(fix).line(&at)),
            Err(_) => format!("`gds-top explain {name}`"),
        };
        return Some(format!(
            "{start} {label} still needs: {}.",
            names.iter().map(command).collect::<Vec<_>>().join(", ")
        ));
    };
    let text = format!("{start} {label} still needs: {}.", names.join(", "));
    let at = Examined { path: Some(place), ..known };
    Some(format!("{text} After the copy, run `{}`.", at.line("nvidia-gds", Needs::Root)))
}

/// A local NVMe disk without partitions, file system, mount and other use. `None` in a container, which does not show the
/// uses of its host.
fn free_disk(ctx: &Context<'_>) -> Option<String> {
    let root = ctx.root;
    let read = |path: String| root.read_text(path).ok().map(|text| text.trim().to_owned());
    let mounts = root.read_text("/proc/self/mountinfo").ok().filter(|_| machine::container(root).is_none())?;
    let swaps = root.read_text("/proc/swaps").unwrap_or_default();
    let members = machine::nvme_members(root);
    let is_free = |name: &String| {
        let folder = format!("/sys/block/{name}");
        let (Some(number), Some(size), Ok(parts)) =
            (read(format!("{folder}/dev")), read(format!("{folder}/size")), root.entries(&folder))
        else {
            return false;
        };
        let controller = machine::nvme_controller(name).unwrap_or_default();
        let is_local = read(format!("/sys/class/nvme/{controller}/transport")).is_some_and(|kind| kind == "pcie");
        let words = [format!("/dev/{name} "), format!("/dev/{name}p"), format!(" {number} ")];
        let is_in = |text: &str| words.iter().any(|word| text.contains(word));
        // Without the record of udev, it is not known whether the disk has content.
        let Ok(record) = root.read_text(machine::udev_record_path(&number)) else { return false };
        let device = BlockDevice { name: name.clone(), kind: BlockKind::Disk, ..BlockDevice::default() };
        // A hidden path of a multipath device has a `c` in its name.
        name.starts_with("nvme")
            && !name.contains('c')
            && is_local
            && size != "0"
            && !parts.iter().any(|part| part.starts_with(&format!("{name}p")))
            && !members.iter().any(|(member, _)| member == name)
            && !is_in(&mounts)
            && !is_in(&swaps)
            && !["ID_FS_TYPE=", "ID_FS_USAGE=", "ID_PART_TABLE_TYPE="].iter().any(|key| record.contains(key))
            && virtual_disk::maker(ctx, &device).is_none()
    };
    root.entries("/sys/block").ok()?.into_iter().find(is_free)
}

/// The mount point that the plan gives to a free disk.
fn mount_of(disk: &str) -> PathBuf {
    PathBuf::from(format!("/mnt/{disk}"))
}

/// A free local NVMe disk for a model, and its future mount point.
#[must_use]
pub(crate) fn disk_for_model(root: &Root) -> Option<(String, PathBuf)> {
    let disk = free_disk(&Context::new(root, &[], None))?;
    let point = mount_of(&disk);
    Some((disk, point))
}

/// The volume to which a file system type of udev belongs. Such a disk has data, also if no device above it is active.
fn volume_of(filesystem: &str) -> Option<&'static str> {
    match filesystem {
        "LVM2_member" | "LVM1_member" => Some("LVM"),
        "zfs_member" => Some("ZFS"),
        "crypto_LUKS" => Some("LUKS"),
        "ceph_bluestore" => Some("Ceph"),
        "bcache" => Some("bcache"),
        "drbd" => Some("DRBD"),
        other if other.ends_with("_raid_member") => Some("RAID"),
        other if other.ends_with("_member") => Some("a volume"),
        _ => None,
    }
}

/// The NVMe disks that are parts of volumes according to udev, each with the kind of volume. If a disk is none, its
/// partitions can be.
fn volume_members(root: &Root) -> Vec<(String, String)> {
    let volume = |folder: &str| {
        let number = root.read_text(format!("{folder}/dev")).ok()?;
        let record = root.read_text(machine::udev_record_path(number.trim())).ok()?;
        let filesystem = record.lines().find_map(|line| line.strip_prefix("E:ID_FS_TYPE="))?;
        volume_of(filesystem.trim())
    };
    let of = |disk: String| {
        let folder = format!("/sys/block/{disk}");
        if let Some(kind) = volume(&folder) {
            return vec![(disk, kind.to_owned())];
        }
        let parts = root.entries(&folder).unwrap_or_default().into_iter();
        parts
            .filter(|part| part.starts_with(&format!("{disk}p")))
            .filter_map(|part| {
                let kind = volume(&format!("{folder}/{part}"))?;
                Some((part, kind.to_owned()))
            })
            .collect()
    };
    // A hidden path of a multipath device has a `c` in its name.
    let is_disk = |name: &String| name.starts_with("nvme") && !name.contains('c');
    root.entries("/sys/block").unwrap_or_default().into_iter().filter(is_disk).flat_map(of).collect()
}

/// A warning about NVMe disks that look free and are parts of other devices. An NVMe multipath device is a disk itself.
#[must_use]
pub(crate) fn disks_in_use(root: &Root) -> Option<String> {
    let mut uses: Vec<(String, Vec<String>)> = Vec::new();
    for (member, holder) in machine::nvme_members(root).into_iter().filter(|(_, holder)| !holder.starts_with("nvme")) {
        match uses.iter_mut().find(|(known, _)| *known == member) {
            Some((_, holders)) => holders.push(holder),
            None => uses.push((member, vec![holder])),
        }
    }
    for (member, kind) in volume_members(root) {
        if !uses.iter().any(|(known, _)| *known == member) {
            uses.push((member, vec![kind]));
        }
    }
    let uses: Vec<String> =
        uses.into_iter().take(8).map(|(member, holders)| format!("{member} ({})", holders.join(", "))).collect();
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

/// A directory for models that is on the root file system, and not on another mount.
pub(crate) fn folder_on_root(root: &Root) -> &'static Path {
    let mounts = root.read_bytes("/proc/self/mountinfo").map(machine::parse_mountinfo).unwrap_or_default();
    let is_on_root = |folder: &&str| {
        let real = root.resolve(folder).unwrap_or_else(|| PathBuf::from(folder));
        machine::mount_for(&mounts, &real, None).is_none_or(|mount| mount.point == Path::new("/"))
    };
    Path::new(["/srv", "/opt"].into_iter().find(is_on_root).unwrap_or("/"))
}

/// A directory or file in `parent` for a copy of a model, which does not exist and contains none of the paths `taken`. The
/// ending of the name stays as it is, because programs know a model file by it.
pub(crate) fn free_folder(root: &Root, parent: &Path, name: &OsStr, taken: &[&Path]) -> PathBuf {
    let with = |start: String| {
        let mut whole = OsString::from(start);
        whole.push(name);
        parent.join(whole)
    };
    let is_free = |folder: &PathBuf| !taken.iter().any(|path| path.starts_with(folder)) && !root.exists(folder);
    let numbered = (2..100).map(|number| format!("copy-{number}-of-"));
    let starts = [String::new(), "copy-of-".to_owned()].into_iter().chain(numbered);
    starts.map(with).find(is_free).unwrap_or_else(|| with("copy-of-".to_owned()))
}

/// The directory for a model on the file system of `/`.
const FOLDER_OF_ROOT: &str = "/srv";

/// The type of the root file system if a model can have a direct route there. This is the last choice, because a model
/// can fill the disk of the system. In clouds, the disk of the system is virtual.
fn root_on_nvme(ctx: &Context<'_>, mine: Option<&Path>) -> Option<String> {
    let text = ctx.root.read_bytes("/proc/self/mountinfo").ok().filter(|_| mine != Some(Path::new("/")))?;
    let mounts = machine::parse_mountinfo(text);
    let has_own_mount = mounts.iter().any(|mount| mount.point == Path::new(FOLDER_OF_ROOT));
    let root = mounts.into_iter().rev().find(|mount| mount.point == Path::new("/"))?;
    let is_elsewhere = machine::container(ctx.root).is_some() || virtual_disk::cloud(ctx).is_some() || has_own_mount;
    let is_fit = !is_elsewhere && is_on_nvme(ctx, &root);
    is_fit.then_some(root.filesystem)
}

/// Whether a mount is a file system with direct routes on a local NVMe disk. Small mounts of the system are not meant.
fn is_nvme(ctx: &Context<'_>, mount: &Mount) -> bool {
    !mount.is_of_system() && is_on_nvme(ctx, mount)
}

fn is_on_nvme(ctx: &Context<'_>, mount: &Mount) -> bool {
    let Some(name) = mount.source.strip_prefix("/dev/").filter(|name| name.starts_with("nvme")) else { return false };
    let disk = name.split('p').next().unwrap_or(name);
    let device = BlockDevice { name: disk.to_owned(), kind: BlockKind::Disk, ..BlockDevice::default() };
    let folder = format!("/sys/class/nvme/{}", machine::nvme_controller(disk).unwrap_or_default());
    let is_local = ctx.root.read_text(format!("{folder}/transport")).map_or(true, |text| text.trim() == "pcie")
        && (virtual_disk::cloud(ctx).is_none() || ctx.root.exists(format!("{folder}/model")));
    matches!(mount.filesystem.as_str(), "ext4" | "xfs") && is_local && virtual_disk::maker(ctx, &device).is_none()
}
