//! File system, mount, device and the udev record of a path.

use super::context::{Context, Subject};
use super::judged::{Cost, DIRECT, EVERY, Judged, Scope};
use crate::domain::{Group::Files, Route};
use crate::host::{self, BlockKind, PathFacts};

pub(super) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out = Vec::new();
    for (number, subject) in ctx.subjects.iter().enumerate() {
        out.extend(of_path(ctx, subject).into_iter().map(|judged| judged.of(Scope::Path(number))));
    }
    out
}

fn of_path(ctx: &Context<'_>, subject: &Subject) -> Vec<Judged> {
    let path = subject.path.display();
    let Some(facts) = &subject.facts else {
        return vec![
            Judged::na("fs-resolve", Files, format!("{path} was not examined when this machine was captured"))
                .found("paths.json", format!("no entry for {path}"))
                .unknown(EVERY),
        ];
    };
    if let Some(error) = &facts.error {
        return vec![
            Judged::lack("fs-resolve", Files, format!("{path} cannot be examined"))
                .found("stat", error.clone())
                .missing(Cost::Setting, EVERY)
                .why("Every other check of this path rests on it.")
                .advice("Give a file or folder that exists and that you may read; a dead network mount must be revived first."),
        ];
    }
    let mut out = vec![resolve(facts), file_system(ctx, facts)];
    out.push(udev_database(ctx, facts));
    out.extend(ext4_ordered(facts));
    // A file system without direct routes has no need of O_DIRECT either.
    let closed = out.iter().any(|j| j.finding.id == "fs-type" && j.stops(Route::Nvfs) && j.stops(Route::P2pdma));
    let direct = direct_open(facts);
    out.push(if closed && direct.stops(Route::Nvfs) { direct.cause("fs-type") } else { direct });
    out.extend(alignment(facts));
    out.extend(inode_flags(facts));
    out.extend(md_raid(ctx, facts));
    out.extend(device_mapper(facts));
    out.extend(nfs(facts));
    out
}

fn resolve(facts: &PathFacts) -> Judged {
    let device = facts.device.as_deref().unwrap_or("unknown");
    let chain: Vec<&str> = facts.block_device.iter().map(|d| d.name.as_str()).collect();
    let summary = format!(
        "{} on {}, device {device}{}",
        facts.filesystem.as_deref().unwrap_or("unknown file system"),
        facts.mount_point.as_deref().map_or_else(|| "an unknown mount".to_owned(), |p| p.display().to_string()),
        if chain.is_empty() { String::new() } else { format!(" ({})", chain.join(" on ")) }
    );
    let judged = Judged::pass("fs-resolve", Files, summary).found(
        "/proc/self/mountinfo",
        format!("{} {}", facts.source.as_deref().unwrap_or("?"), facts.mount_options.as_deref().unwrap_or("")),
    );
    let elsewhere =
        facts.tried_file.as_ref().zip(facts.real_path.as_ref()).filter(|(file, folder)| !file.starts_with(folder));
    let judged = match elsewhere {
        Some((file, folder)) => judged.found(
            folder.display().to_string(),
            format!("its files are links: {} is looked at, and what is said is of where it lies", file.display()),
        ),
        None => judged,
    };
    // The device of a file's number is that of the other files, and files with the flag lie there all the same.
    let judged = match facts.option_value("rtdev").filter(|_| facts.filesystem.as_deref() == Some("xfs")) {
        Some(device) => judged.found(
            "/proc/self/mountinfo",
            format!("rtdev={device}: files with the flag of realtime lie on {device}, of which nothing is said here"),
        ),
        None => judged,
    };
    judged.why("The route differs by file system, mount and device, so the verdict is per path.")
}

/// Kinds of file system by what cuFile does on them.
fn file_system(ctx: &Context<'_>, facts: &PathFacts) -> Judged {
    const ID: &str = "fs-type";
    const WHY: &str =
        "cuFile has direct routes for some file systems only; on the others it copies through host memory or refuses.";
    let kind = facts.filesystem.as_deref().unwrap_or("unknown");
    let judged = match kind {
        "ext4" | "xfs" => Judged::pass(ID, Files, format!("{kind} has direct routes")),
        "lustre" if lustre_network(facts).is_some_and(|network| network.starts_with("tcp")) => Judged::lack(
            ID,
            Files,
            "Lustre over TCP: its direct route goes over RDMA (o2ib, or EFA)",
        )
        .found("/proc/self/mountinfo", facts.source.clone().unwrap_or_default())
        .never(&[Route::P2pdma, Route::C2c])
        .missing(Cost::System, &[Route::Nvfs])
        .advice(
            "Mount it by an address on InfiniBand, RoCE or EFA (@o2ib, @efa), or keep the model on a local NVMe disk.",
        ),
        "nfs" | "nfs4" | "lustre" | "beegfs" | "fhgfs" | "scatefs" | "panfs" => {
            Judged::pass(ID, Files, format!("{kind} has the route nvfs, with its client built for it"))
                .never(&[Route::P2pdma, Route::C2c])
        }
        "gpfs" | "mmfs" | "wekafs" => {
            Judged::pass(ID, Files, format!("{kind} goes over user-space RDMA")).never(&[Route::P2pdma, Route::C2c])
        }
        "virtiofs" => Judged::pass(ID, Files, "virtiofs has the route p2pdma only").never(&[Route::Nvfs]),
        "tmpfs" | "ramfs" | "devtmpfs" => since(
            ctx,
            (1, 16),
            Judged::lack(ID, Files, format!("{kind} lies in memory, with no disk that could write into GPU memory"))
                .advice("Keep the model on ext4 or xfs on a local NVMe disk."),
        ),
        "proc" | "sysfs" | "cgroup" | "cgroup2" | "devpts" | "debugfs" | "tracefs" | "securityfs" | "configfs"
        | "efivarfs" | "bpf" | "mqueue" => {
            Judged::lack(ID, Files, format!("{kind} holds no files of its own: cuFile refuses them with 5027"))
                .never(EVERY)
                .advice("Name the file or folder that models are read from.")
        }
        "vfat" | "exfat" | "msdos" => Judged::lack(ID, Files, format!("cuFile does not support {kind}"))
            .never(EVERY)
            .advice("Keep the model on ext4 or xfs on a local NVMe disk."),
        "overlay" | "overlayfs" | "aufs" => since(ctx, (1, 16), overlay(ctx, facts)),
        "squashfs" => since(
            ctx,
            (1, 16),
            Judged::lack(ID, Files, "squashfs has no direct route, cuFile copies through host memory")
                .advice("Keep the model on ext4 or xfs on a local NVMe disk."),
        ),
        "zfs" | "btrfs" => since(
            ctx,
            (1, 17),
            Judged::lack(ID, Files, format!("{kind} has no direct route, cuFile copies through host memory"))
                .advice("Keep the model on ext4 or xfs on a local NVMe disk."),
        ),
        "fuse" | "fuseblk" | "cifs" | "smb3" | "9p" | "ext2" | "ext3" | "f2fs" | "iso9660" | "erofs" => {
            Judged::lack(ID, Files, format!("{kind} has no direct route, cuFile copies through host memory"))
                .never(DIRECT)
                .advice("Keep the model on ext4 or xfs on a local NVMe disk.")
        }
        other if other.starts_with("fuse.") => Judged::lack(ID, Files, format!("{other} has no direct route"))
            .never(DIRECT)
            .advice("Keep the model on ext4 or xfs."),
        "unknown" => Judged::na(ID, Files, "the file system of this path is not known").unknown(DIRECT),
        other => {
            // The file systems with a direct route are a short list that is known; all others go through host memory at best.
            Judged::lack(ID, Files, format!("{other} is not among the file systems with a direct route"))
                .never(DIRECT)
                .unknown(&[Route::Compat])
                .advice("Keep the model on ext4 or xfs on a local NVMe disk.")
        }
    };
    judged.found("/proc/self/mountinfo", kind).why(WHY)
}

/// The network by which a Lustre client was told to reach its servers: `tcp` of `10.0.1.5@tcp:/scratch`. Where there is another than TCP, that one; none
/// where the name does not say.
fn lustre_network(facts: &PathFacts) -> Option<&str> {
    let servers = facts.source.as_deref()?.split(":/").next()?;
    let networks: Vec<&str> =
        servers.split([',', ':']).filter_map(|id| Some(id.rsplit_once('@')?.1)).filter(|n| !n.is_empty()).collect();
    networks.iter().find(|network| !network.starts_with("tcp")).or_else(|| networks.first()).copied()
}

/// The layers of a container, or those of a machine of its own.
fn overlay(ctx: &Context<'_>, facts: &PathFacts) -> Judged {
    match facts.option_value("upperdir").filter(|_| host::container(ctx.root).is_none()) {
        Some(upper) => Judged::lack("fs-type", Files, "overlay, one file system laid over another: no direct route")
            .advice(format!("Read the model where it lies below, by its path in the file system of {upper}; or keep it on ext4 or xfs beside the overlay.")),
        None => Judged::lack("fs-type", Files, "overlay, the layered root of a container: no direct route").advice(
            "Keep the model on a bind-mounted ext4 or xfs volume (-v /data:/data), not in the container's own file system.",
        ),
    }
}

/// A file system without direct routes that cuFile copies from since a release (release notes of GDS 1.16 and 1.17).
fn since(ctx: &Context<'_>, release: (u32, u32), judged: Judged) -> Judged {
    let judged = judged.never(DIRECT);
    match ctx.root.libcufile_if_known().and_then(host::LibcufileFacts::version_numbers) {
        Some(version) if version < release => judged.missing(Cost::Install, &[Route::Compat]).found(
            "libcufile",
            format!("{}.{}; copies from it since {}.{}", version.0, version.1, release.0, release.1),
        ),
        Some(_) => judged,
        None => judged.unknown(&[Route::Compat]),
    }
}

/// Whether what is said of a path's file system changes when the library's version is known.
pub(super) fn waits_for_version(filesystem: &str) -> bool {
    matches!(
        filesystem,
        "overlay" | "overlayfs" | "aufs" | "squashfs" | "tmpfs" | "ramfs" | "devtmpfs" | "zfs" | "btrfs"
    )
}

/// The place of the udev record of a device.
pub(crate) fn udev_record_path(device: &str) -> String {
    format!("/run/udev/data/b{device}")
}

fn udev_database(ctx: &Context<'_>, facts: &PathFacts) -> Judged {
    const ID: &str = "udev-database";
    const WHY: &str = "libcufile asks udev for the file system of the disk (ID_FS_USAGE); containers and small systems often lack /run/udev, and then \
                       cuFileHandleRegister refuses every file with 5027, in compat mode too.";
    let Some(device) = facts.device.as_deref().filter(|_| facts.device_numbers().is_some()) else {
        return Judged::na(ID, Files, "the device of this path is not known").unknown(EVERY).why(WHY);
    };
    if facts.device_numbers().is_some_and(|(major, _)| major == 0) {
        return Judged::na(ID, Files, format!("device {device} is anonymous, udev has no record of such"))
            .found("stat", format!("device {device}"))
            .why(WHY);
    }
    let path = udev_record_path(device);
    let inside = host::container(ctx.root);
    let mend = |judged: Judged| {
        let judged = judged.missing(Cost::Root, EVERY).fix("udev-record");
        if inside.as_ref().is_some_and(|container| container.runtime == "apptainer") {
            judged.advice("Start the container with --bind /run/udev:/run/udev:ro; or on the host, as root: gds-top fix udev-record.")
        } else if inside.is_some() {
            judged.advice(
                "Start the container with -v /run/udev:/run/udev:ro; or here, as root: gds-top fix udev-record.",
            )
        } else {
            judged.advice("sudo gds-top fix udev-record writes the record that udev would have; in a container -v /run/udev:/run/udev:ro.")
        }
    };
    let judged = match ctx.root.read_text(&path) {
        Ok(text) => {
            let usage = text.lines().find(|line| line.starts_with("E:ID_FS_USAGE="));
            match usage {
                Some("E:ID_FS_USAGE=filesystem") => Judged::pass(ID, Files, "udev knows the file system of this disk")
                    .found(&path, "E:ID_FS_USAGE=filesystem"),
                Some(other) => mend(Judged::lack(ID, Files, "udev knows this disk, but not as one with a file system"))
                    .found(&path, other),
                None => mend(Judged::lack(
                    ID,
                    Files,
                    "udev's record of this disk does not name its file system: cuFile refuses its files (5027)",
                ))
                .found(&path, "no line E:ID_FS_USAGE"),
            }
        }
        Err(why) if why.is_missing() => {
            let judged = mend(Judged::lack(
                ID,
                Files,
                "udev has no record of this disk: cuFile cannot register any file on it (error 5027)",
            ))
            .unread(&path, &why);
            if ctx.root.exists("/run/udev") { judged } else { judged.found("/run/udev", "does not exist") }
        }
        Err(why) => {
            Judged::na(ID, Files, "udev's record of this disk may not be read").unread(&path, &why).unknown(EVERY)
        }
    };
    judged.why(WHY)
}

fn ext4_ordered(facts: &PathFacts) -> Option<Judged> {
    const ID: &str = "ext4-ordered";
    const WHY: &str = "The direct routes need ext4's ordered journal; the kernel does not print this default, and libcufile reads the printed options.";
    if facts.filesystem.as_deref() != Some("ext4") {
        return None;
    }
    let options = facts.mount_options.clone().unwrap_or_default();
    let judged = match facts.option_value("data") {
        Some("ordered") => Judged::pass(ID, Files, "mounted with data=ordered"),
        Some(other) => Judged::lack(ID, Files, format!("mounted with data={other}, the direct routes need ordered"))
            .missing(Cost::Root, &[Route::Nvfs, Route::P2pdma, Route::C2c])
            .fix("ext4-ordered")
            .advice("Mount it with data=ordered (in /etc/fstab, then umount and mount)."),
        None => Judged::lack(ID, Files, "data=ordered is in force, but not shown in the mount options")
            .missing(Cost::Root, &[Route::Nvfs])
            .only_warn()
            .fix("ext4-ordered")
            .advice("Add data=ordered to its line in /etc/fstab, then umount and mount."),
    };
    Some(judged.found("/proc/self/mountinfo", options).why(WHY))
}

fn direct_open(facts: &PathFacts) -> Judged {
    const ID: &str = "odirect-open";
    const WHY: &str = "The direct routes read with O_DIRECT, past the page cache; a file system without it has none.";
    let tried = facts.tried_file.as_deref().unwrap_or(&facts.path).display().to_string();
    let source = format!("open({tried}, O_DIRECT), pread 4096");
    let judged = match facts.open_direct.as_deref() {
        Some("ok") => Judged::pass(ID, Files, "O_DIRECT opens and reads").found(source, "ok"),
        Some(error @ ("EINVAL" | "EOPNOTSUPP")) => {
            Judged::lack(ID, Files, format!("this file system has no O_DIRECT ({error})"))
                .never(DIRECT)
                .found(source, error)
        }
        Some(error @ ("EACCES" | "EPERM")) => {
            Judged::warn(ID, Files, format!("this user may not read the file ({error})"))
                .unknown(EVERY)
                .found(source, error)
        }
        Some(error) => {
            Judged::warn(ID, Files, format!("a direct read fails with {error}")).unknown(DIRECT).found(source, error)
        }
        None => Judged::na(ID, Files, "there is no file in this folder to try O_DIRECT on")
            .found(facts.path.display().to_string(), "no file with content"),
    };
    judged.why(WHY)
}

fn alignment(facts: &PathFacts) -> Option<Judged> {
    let (memory, offset) = (facts.dio_mem_align?, facts.dio_offset_align?);
    let judged = if offset > 4096 {
        Judged::warn("statx-dioalign", Files, format!("direct reads must start at multiples of {offset} bytes"))
    } else if offset == 0 {
        Judged::info("statx-dioalign", Files, "statx says that direct reads are not supported on this file")
    } else {
        Judged::pass("statx-dioalign", Files, format!("direct reads are aligned to {offset} bytes"))
    };
    Some(
        judged
            .found("statx STATX_DIOALIGN", format!("memory {memory}, offset {offset}"))
            .why("Parts that are not aligned go through a bounce buffer."),
    )
}

fn inode_flags(facts: &PathFacts) -> Option<Judged> {
    let flags = facts.inode_flags?;
    let bad: Vec<&str> = [(0x4, "compressed"), (0x10, "immutable"), (0x20, "append-only"), (0x800, "encrypted")]
        .into_iter()
        .filter(|(bit, _)| flags & bit != 0)
        .map(|(_, name)| name)
        .collect();
    let judged = if bad.is_empty() {
        Judged::pass("inode-flags", Files, "no flag that cuFile refuses")
    } else {
        Judged::lack("inode-flags", Files, format!("it is {}: cuFile refuses such files (5008)", bad.join(" and ")))
            .missing(Cost::Root, DIRECT)
            .advice("chattr -a -i on the file; store it neither encrypted nor compressed.")
    };
    Some(
        judged
            .found("FS_IOC_GETFLAGS", format!("{flags:#x}"))
            .why("Blocks that the file system transforms cannot be sent to the GPU as they lie."),
    )
}

fn md_raid(ctx: &Context<'_>, facts: &PathFacts) -> Option<Judged> {
    const ID: &str = "md-raid";
    const WHY: &str = "cuFile knows RAID 0 only, and learns the level from udev's MD_LEVEL.";
    let device = facts.block_device.iter().find(|d| d.kind == BlockKind::Md)?;
    let level = device.level.as_deref().unwrap_or("unknown");
    let source = format!("/sys/block/{}/md/level", device.name);
    if level != "raid0" {
        return Some(
            Judged::lack(ID, Files, format!("{} is {level}, the direct routes know raid0 only", device.name))
                .found(source, level)
                .never(DIRECT)
                .why(WHY)
                .advice("Keep the model on a plain NVMe disk or on md raid0."),
        );
    }
    let mut judged = Judged::pass(ID, Files, format!("{} is raid0", device.name));
    let record = facts.device.as_deref().map(udev_record_path);
    if let Some((path, text)) = record.and_then(|path| ctx.root.read_text(&path).ok().map(|text| (path, text)))
        && !text.lines().any(|line| line.starts_with("E:MD_LEVEL="))
    {
        judged = Judged::lack(ID, Files, "udev does not know the level of this RAID")
            .missing(Cost::Root, &[Route::Nvfs])
            .found(path, "no line E:MD_LEVEL")
            .advice("Let the md rule of udev import mdadm --detail --export, then reload and trigger udev.");
    }
    if ctx.kernel().is_none_or(|k| k < (7, 1)) {
        let is_fine = judged.in_the_way().next().is_none();
        if is_fine {
            judged =
                Judged::lack(ID, Files, format!("{} is raid0, which P2PDMA reads from Linux 7.1 on only", device.name))
                    .advice("Keep the model on a plain NVMe disk, or read it by nvidia-fs.");
        }
        judged = judged.missing(Cost::System, &[Route::P2pdma]);
    }
    Some(judged.found(source, level).why(WHY))
}

fn device_mapper(facts: &PathFacts) -> Option<Judged> {
    const WHY: &str = "The requests pass through a layer that changes or copies them on the CPU.";
    if let Some(device) = facts.block_device.iter().find(|d| d.kind == BlockKind::Loop) {
        return Some(
            Judged::lack("dm-lvm", Files, format!("{} is a file used as a disk", device.name))
                .found("/sys/dev/block", device.name.clone())
                .never(DIRECT)
                .why(WHY)
                .advice("Copy the model out of that file, to ext4 or xfs on a local NVMe disk."),
        );
    }
    let device = facts.block_device.iter().find(|d| d.kind == BlockKind::Dm)?;
    let uuid = device.uuid.as_deref().unwrap_or("");
    let what = match uuid.split('-').next().unwrap_or("") {
        "LVM" => "an LVM volume",
        "CRYPT" => "an encrypted volume",
        "mpath" => "a multipath device",
        _ => "a device-mapper volume",
    };
    Some(
        Judged::lack("dm-lvm", Files, format!("{} is {what}: no direct route", device.name))
            .found(format!("/sys/block/{}/dm/uuid", device.name), uuid)
            .never(DIRECT)
            .why(WHY)
            .advice("Keep the model on a plain partition of an NVMe disk, or on md raid0."),
    )
}

fn nfs(facts: &PathFacts) -> Option<Judged> {
    if !facts.filesystem.as_deref().is_some_and(|kind| kind.starts_with("nfs")) {
        return None;
    }
    let proto = facts.option_value("proto").unwrap_or("unknown");
    let judged = if proto == "rdma" {
        Judged::pass("nfs-rdma", Files, "NFS over RDMA")
    } else {
        Judged::lack("nfs-rdma", Files, format!("NFS over {proto}: no direct route"))
            .missing(Cost::Root, &[Route::Nvfs])
            .advice("Mount it with proto=rdma,port=20049, with a client that is built for GDS.")
    };
    Some(
        judged
            .found("/proc/self/mountinfo", facts.mount_options.clone().unwrap_or_default())
            .why("NFS reaches GPU memory over RDMA only."),
    )
}
