//! Checks of the file: extents, holes, size, residency, and client versions.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::filesystem::{clients, network};
use crate::checks::judged::{Cost, DIRECT, EVERY, Judged, Scope};
use crate::core::{CheckId, Route, units};
use crate::machine::{self, DirectRead, PathFacts, UnfinishedFile};
use crate::text::{quoted, quoted_line};
use std::path::Path;

/// `FS_EXTENT_FL` (include/uapi/linux/fs.h).
const EXTENTS: u64 = 0x80000;

const SPARSE: CheckId = CheckId::SparseOrDelalloc;

pub(crate) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    for (number, subject) in ctx.subjects.iter().enumerate() {
        let Some(facts) = subject.facts.as_ref().filter(|facts| facts.error.is_none()) else { continue };
        let mine = [
            extents(facts),
            holes(facts),
            size(ctx, facts),
            client_version(ctx, facts),
            lazy_initialisation(ctx, facts),
            residency(facts),
        ];
        let is_meant = is_meant(facts);
        let mine = mine.into_iter().flatten().map(|judged| if is_meant { judged } else { judged.aside() });
        out.extend(mine.map(|judged| judged.of(Scope::Path(number))));
    }
    out
}

/// Whether the examined file will be loaded: it is the path itself, or a model in the directory.
pub(crate) fn is_meant(facts: &PathFacts) -> bool {
    const MODELS: [&str; 10] = ["safetensors", "gguf", "bin", "pt", "pth", "ckpt", "npy", "npz", "h5", "onnx"];
    let Some(file) = facts.tried_file.as_deref() else { return true };
    file == facts.path
        || facts.real_path.as_deref() == Some(file)
        || file.extension().is_some_and(|ending| MODELS.iter().any(|known| ending.eq_ignore_ascii_case(known)))
}

fn tried(facts: &PathFacts) -> String {
    facts.tried_file.as_deref().unwrap_or(&facts.path).display().to_string()
}

/// The file or directory with the examined files, and whether it is a directory. The files of a directory can be links to
/// another place.
fn place_of_files(facts: &PathFacts) -> (&Path, bool) {
    let path = facts.real_path.as_deref().unwrap_or(&facts.path);
    match facts.tried_file.as_deref().filter(|file| *file != path) {
        None => (path, false),
        Some(file) if file.starts_with(path) => (path, true),
        Some(file) => (file.parent().unwrap_or(file), true),
    }
}

/// The command that changes an attribute of the examined file. In a directory it changes that of all files, also if they
/// are links, which `chattr -R` does not follow.
pub(crate) fn chattr(facts: &PathFacts, change: &str) -> String {
    let (place, is_folder) = place_of_files(facts);
    let options = if is_folder { "-R " } else { "" };
    format!("sudo chattr {options}{change} {}", quoted(&place.to_string_lossy()))
}

/// How to give files extents. A file system that was made as ext3 lacks the feature, and is changed only while it is not
/// mounted: the root file system needs another system for this, so its files are copied.
fn with_extents(facts: &PathFacts) -> Advice {
    let command = chattr(facts, "+e");
    let place = facts.source.as_deref().filter(|source| source.starts_with("/dev/")).zip(facts.mount_point.as_deref());
    let place = place.filter(|(_, point)| *point != Path::new("/")).zip(facts.mount_command(&[]));
    let Some(((device, point), mount)) = place else {
        return Advice::run(command).text(
            ". If it reports 'Operation not supported', copy the files to an ext4 or XFS that was made with extents.",
        );
    };
    let (device, mount) = (quoted(device), quoted_line(&mount));
    let inside = quoted(&format!("{}/.", point.display())).into_owned();
    let point = point.to_string_lossy();
    let point = quoted(&point);
    Advice::run(command.clone())
        .text(". If it reports 'Operation not supported', back up the file system: ")
        .command(format!("sudo cp -a {inside} /BACKUP/"))
        .text(". Then end the programs that use it, and run ")
        .command(format!(
            "sudo umount {point} && sudo tune2fs -O extent {device} && sudo e2fsck -f {device} && {mount} && {command}"
        ))
        .text(". Replace /BACKUP by a directory on another disk.")
}

fn extents(facts: &PathFacts) -> Option<Judged> {
    let flags = facts.inode_flags.filter(|_| facts.filesystem.as_deref() == Some("ext4"))?;
    let judged = if flags & EXTENTS != 0 {
        Judged::pass(CheckId::Ext4Extents, "the file uses extents")
    } else {
        Judged::lack(CheckId::Ext4Extents, "the file does not use extents, as on ext3: there is no direct route")
            .missing(Cost::Root, DIRECT)
            .advice(with_extents(facts))
    };
    Some(judged.found("FS_IOC_GETFLAGS", format!("{flags:#x}")))
}

/// Reserved blocks without data, and data without a block (FIEMAP).
fn unfinished(facts: &PathFacts) -> Option<Judged> {
    let files = facts.unfinished.as_deref()?;
    let sum = |of: fn(&UnfinishedFile) -> u64| files.iter().map(of).fold(0, u64::saturating_add);
    let (unwritten, delayed) = (sum(|file| file.unwritten_bytes), sum(|file| file.delayed_bytes));
    let mut meant = files.iter().filter(|file| unwritten == 0 || file.unwritten_bytes > 0);
    let first = meant.next()?.path.display();
    let of = match meant.count() {
        0 => first.to_string(),
        more => format!("{first} and {}", units::plural(more as u64, "more file")),
    };
    let judged = if unwritten > 0 {
        Judged::warn(
            SPARSE, format!("{} of {of} are in reserved blocks that were never written", units::bytes(unwritten)),
        )
        .advice("Run `sync` and check again. Blocks that remain read as zeros, as after a broken download: download the file again.")
    } else if delayed > 0 {
        Judged::warn(SPARSE, format!("{} of {of} are in memory and not on the disk", units::bytes(delayed)))
            .advice("Run `sync` first, because direct reads wait until the data is written.")
    } else {
        return None;
    };
    let mut judged = judged;
    for file in files.iter().take(8) {
        let text = format!("{} bytes unwritten, {} bytes delayed", file.unwritten_bytes, file.delayed_bytes);
        judged = judged.found(format!("FS_IOC_FIEMAP {}", file.path.display()), text);
    }
    Some(judged)
}

fn holes(facts: &PathFacts) -> Option<Judged> {
    const ID: CheckId = SPARSE;
    if let Some(judged) = unfinished(facts) {
        return Some(judged);
    }
    let (size, allocated) = (facts.size_bytes?, facts.allocated_bytes?);
    let judged = if allocated >= size {
        Judged::pass(ID, "no holes")
    } else {
        let lacking = units::bytes(size - allocated);
        Judged::info(ID, format!("{lacking} of {} have no blocks: the file has holes or is compressed", tried(facts)))
            .advice("Copy it with `cp --sparse=never`, then run `sync`.")
    };
    Some(judged.found(format!("stat {}", tried(facts)), format!("{size} bytes, {allocated} allocated")))
}

/// How the user of this process may read files of others.
fn readable(ctx: &Context<'_>, facts: &PathFacts) -> Advice {
    match machine::container(ctx.root).map(|container| container.runtime).as_deref() {
        // Kubernetes gives files to fsGroup only in volumes that support it, which hostPath does not (Kubernetes,
        // "Configure a Security Context for a Pod or Container").
        Some("kubernetes") => {
            "Set securityContext of the pod: runAsUser to the owner of the files, or supplementalGroups to their group if its mode allows reads. In volumes that support it, fsGroup changes the group of the files. For a hostPath volume, `sudo chmod -R o+rX FOLDER` on the node also works. Then create the pod again.".into()
        }
        Some("docker" | "podman" | "container") => {
            "Create the container again with --user and the number of the files' owner, or change their mode on the host.".into()
        }
        _ => {
            let (place, is_folder) = place_of_files(facts);
            let mode = if is_folder { "-R a+rX" } else { "a+r" };
            Advice::run(format!("sudo chmod {mode} {}", quoted(&place.to_string_lossy())))
                .text(", which lets all users read it, or run as the user that loads models.")
        }
    }
}

fn size(ctx: &Context<'_>, facts: &PathFacts) -> Option<Judged> {
    const ID: CheckId = CheckId::FsSpaceOwner;
    if let Some(Err(error @ ("EACCES" | "EPERM"))) = facts.open_direct.as_ref().map(DirectRead::result) {
        return Some(
            Judged::lack(ID, format!("this user cannot read {}", tried(facts)))
                .found(format!("open({})", tried(facts)), error)
                .missing(Cost::Setting, EVERY)
                .advice(readable(ctx, facts)),
        );
    }
    let size = facts.size_bytes?;
    let judged = if size < 4096 {
        Judged::info(ID, format!("{} has {size} bytes; below one block there is no direct route", tried(facts)))
    } else {
        Judged::pass(ID, format!("{} readable bytes", units::bytes(size)))
    };
    Some(judged.found(format!("stat {}", tried(facts)), format!("{size} bytes")))
}

/// After mkfs, the kernel initialises an ext4 in the background. This uses bandwidth for minutes.
fn lazy_initialisation(ctx: &Context<'_>, facts: &PathFacts) -> Option<Judged> {
    const ID: CheckId = CheckId::Ext4Lazyinit;
    const THREAD: &str = "ext4lazyinit";
    if facts.filesystem.as_deref() != Some("ext4") || !ctx.root.exists("/proc") {
        return None;
    }
    let judged = match ctx.root.kernel_thread(THREAD) {
        Some(path) => Judged::warn(ID, "an ext4 is being initialised in the background, which slows down reads")
            .found(path, THREAD)
            .advice("Measure after the kernel thread has ended. `mkfs.ext4 -E lazy_itable_init=0,lazy_journal_init=0` initialises at once."),
        None => Judged::pass(ID, "no ext4 is being initialised").found("/proc/*/stat", format!("no kernel thread {THREAD}")),
    };
    Some(judged)
}

/// The share of the file in the page cache. A mapped load reads this share from memory.
fn residency(facts: &PathFacts) -> Option<Judged> {
    const ID: CheckId = CheckId::PageCacheResidency;
    let share = facts.cached_per_mille?;
    let percent = f64::from(share) / 10.0;
    let judged = if share > 50 {
        Judged::info(ID, format!("about {percent:.0} % of {} is in the page cache", tried(facts)))
            .advice("gds-top drops it before cold loads. By hand: `echo 1 | sudo tee /proc/sys/vm/drop_caches`.")
    } else {
        Judged::pass(ID, format!("{percent:.0} % of it is in the page cache"))
    };
    Some(judged.found(format!("preadv2({}, RWF_NOWAIT)", tried(facts)), format!("{share} of 1000")))
}

/// The oldest client versions that support GDS (gdscheck -V and the GDS README).
fn client_version(ctx: &Context<'_>, facts: &PathFacts) -> Option<Judged> {
    const ID: CheckId = CheckId::DfsClientVersion;
    match facts.filesystem.as_deref()? {
        "lustre" => {
            let Some((version, path)) = network::lustre_version(ctx) else {
                return Some(
                    Judged::na(ID, "the version of the Lustre client could not be read")
                        .found("/sys/fs/lustre/version", "cannot be read")
                        .advice(Advice::run("lctl get_param version")),
                );
            };
            let judged = if network::is_old_lustre(&version) {
                Judged::lack(ID, format!("the Lustre client {version} is older than 2.12.3_ddn28"))
                    .missing(Cost::System, &[Route::Nvfs])
                    .advice(network::lustre_client(facts))
            } else if machine::version_numbers(&version) < vec![2, 14, 54] && !version.contains("ddn") {
                // LU-14798.
                Judged::info(
                    ID,
                    format!("Lustre client {version}; clients of other vendors than DDN support GDS from 2.15 on"),
                )
            } else {
                Judged::pass(ID, format!("Lustre client {version}"))
            };
            Some(judged.found(path, version))
        }
        "wekafs" => Some(ask("weka version current", "3.8.0")),
        "gpfs" | "mmfs" => {
            Some(clients::scale(ctx).unwrap_or_else(|| ask("/usr/lpp/mmfs/bin/mmdiag --version", clients::SCALE_SINCE)))
        }
        _ => None,
    }
}

fn ask(command: &'static str, least: &str) -> Judged {
    Judged::na(
        CheckId::DfsClientVersion,
        format!("only the client's tool reports its version; {least} is the oldest with GDS"),
    )
    .found(command, "gds-top does not run it")
    .advice(Advice::run(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chattr_changes_the_files_of_a_directory() {
        let of = |path: &str, real: &str, tried: Option<&str>| {
            let facts = PathFacts {
                path: path.into(),
                real_path: Some(real.into()),
                tried_file: tried.map(Into::into),
                ..PathFacts::default()
            };
            chattr(&facts, "-i")
        };
        assert_eq!(of("/m/a.gguf", "/m/a.gguf", None), "sudo chattr -i /m/a.gguf");
        assert_eq!(of("/m", "/raid/m", Some("/raid/m/a/b.safetensors")), "sudo chattr -R -i /raid/m");
        assert_eq!(of("/hf/snap", "/hf/snap", Some("/hf/my blobs/1f")), "sudo chattr -R -i '/hf/my blobs'");
    }
}
