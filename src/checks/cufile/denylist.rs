//! Entries of the denylists in cufile.json: those that exclude an examined path, and those that libcufile rejects.

use crate::checks::context::Context;
use crate::checks::cufile::config_file::{RESTART, edit};
use crate::checks::judged::{Cost, DIRECT, EVERY, Judged, Scope};
use crate::core::CheckId;
use crate::machine::{self, BlockKind, PathFacts, Root};
use std::path::{Component, Path, PathBuf};

const MOUNTS: &str = "denylist.mounts";
const DEVICES: &str = "denylist.devices";
const FILESYSTEMS: &str = "denylist.filesystems";
const DRIVERS: &str = "denylist.drivers";

/// The findings about entries that exclude an examined path.
pub(super) fn excluded(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    for (number, subject) in ctx.subjects.iter().enumerate() {
        let Some(facts) = &subject.facts else { continue };
        out.extend([FILESYSTEMS, DEVICES, MOUNTS, DRIVERS].into_iter().filter_map(|key| {
            let judged = excluded_by(ctx, facts, key)?;
            Some(judged.of(Scope::Path(number)))
        }));
    }
    out
}

fn excluded_by(ctx: &Context<'_>, facts: &PathFacts, key: &str) -> Option<Judged> {
    const ID: CheckId = CheckId::CfgEffective;
    let (denied, origin) = ctx.config().list(key);
    let denied: Vec<&str> = denied.into_iter().filter(|word| !word.is_empty()).collect();
    let remove = |word: &str| edit(ctx.root, &origin).text(format!(": remove {word} from {key}.")).text(RESTART);
    if let Some(word) = denied.iter().copied().find(|word| is_named(facts, key, word)) {
        return Some(
            Judged::lack(ID, format!("{key} excludes this path: {word}"))
                .found(origin.clone(), format!("{key} contains {word}"))
                .missing(Cost::Setting, DIRECT)
                .advice(remove(word)),
        );
    }
    // libcufile compares the file systems and devices behind these names. How it treats other names was not tried.
    let (word, meant) = denied.iter().find_map(|word| Some((*word, other_name(ctx.root, facts, key, word)?)))?;
    Some(
        Judged::warn(ID, format!("{key} probably excludes this path: {word}"))
            .found(origin.clone(), format!("{key} contains {word}, {meant}"))
            .advice(remove(word)),
    )
}

/// Whether an entry is the name by which the kernel lists a part of this path.
fn is_named(facts: &PathFacts, key: &str, word: &str) -> bool {
    match key {
        FILESYSTEMS => facts.filesystem.as_deref() == Some(word),
        DEVICES => facts.source.as_deref() == Some(word),
        // A comparison of paths ignores the slash at the end.
        MOUNTS => facts.mount_point.as_deref().is_some_and(|point| point.as_os_str() == word),
        DRIVERS => word == "nvme" && machine::disks(facts).iter().any(|disk| disk.name.starts_with("nvme")),
        _ => false,
    }
}

/// The part of this path for which an entry is another name.
fn other_name(root: &Root, facts: &PathFacts, key: &str, word: &str) -> Option<String> {
    let real = || behind(root, word);
    match key {
        MOUNTS => {
            let point = facts.mount_point.as_deref()?;
            (real() == point).then(|| format!("another name of {}", point.display()))
        }
        DEVICES => {
            let first = facts.block_device.first()?;
            let node = real();
            let name = node.strip_prefix("/dev").ok()?.to_str()?;
            let disk = facts.block_device.get(1).filter(|_| first.kind == BlockKind::Partition);
            if name == first.name {
                Some(format!("another name of {name}"))
            } else {
                disk.filter(|disk| disk.name == name).map(|disk| format!("the disk {} of {}", disk.name, first.name))
            }
        }
        _ => None,
    }
}

/// The path behind a link, without the slash at its end.
fn behind(root: &Root, word: &str) -> PathBuf {
    let path = match word.trim_end_matches('/') {
        "" => "/",
        path => path,
    };
    let Some(target) = root.link(path) else { return PathBuf::from(path) };
    // A capture has the link, but not always its target.
    root.resolve(path).unwrap_or_else(|| joined(Path::new(path), &target))
}

/// The target of the link `path`, without `..`.
fn joined(path: &Path, target: &Path) -> PathBuf {
    let mut out = path.parent().unwrap_or(path).to_path_buf();
    for part in target.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

/// The finding if libcufile rejects its configuration and a directory of denylist.mounts is not known. A capture may
/// lack a directory that exists, so only the rejection makes the entry suspect.
pub(super) fn rejected(ctx: &Context<'_>) -> Option<Judged> {
    let (mounts, origin) = ctx.config().list(MOUNTS);
    let known = machine::parse_mountinfo(ctx.root.read_bytes("/proc/self/mountinfo").ok()?);
    let is_missing = |word: &&str| {
        word.starts_with('/')
            && !ctx.root.exists(word)
            && !known.iter().any(|mount| mount.point.starts_with(Path::new(word)))
    };
    let word = mounts.into_iter().find(is_missing)?;
    Some(
        Judged::lack(CheckId::CfgParse, format!("libcufile rejects its configuration, probably because of {word}"))
            .found(origin.clone(), format!("{MOUNTS} contains {word}, which was not found"))
            .missing(Cost::Root, EVERY)
            .by_hand()
            .advice(
                edit(ctx.root, &origin)
                    .text(format!(": remove {word} from {MOUNTS}, or create that directory."))
                    .text(RESTART),
            ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_of_a_link_is_found_from_its_folder() {
        for (path, target, wanted) in [
            ("/dev/disk/by-uuid/6a2a", "../../nvme1n1p1", "/dev/nvme1n1p1"),
            ("/dev/mapper/vg-data", "../dm-0", "/dev/dm-0"),
            ("/models", "/data/models", "/data/models"),
        ] {
            assert_eq!(joined(Path::new(path), Path::new(target)), Path::new(wanted));
        }
    }
}
