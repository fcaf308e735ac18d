//! The file system of a path and its routes.

use crate::checks::classes::is_lustre_over_tcp;
use crate::checks::container::bring::{Lack, bring_all};
use crate::checks::context::Context;
use crate::checks::filesystem::{clients, network};
use crate::checks::judged::{Cost, DIRECT, Judged};
use crate::checks::kernel::p2pdma::is_gvisor;
use crate::checks::matrix::Storage;
use crate::checks::storage::virtual_disk::{self, Maker};
use crate::core::{CheckId, Route, Status};
use crate::machine::{self, PathFacts};
use std::path::Path;

/// The first libcufile that copies from an overlay (release notes of GDS 1.16).
pub(crate) const OVERLAY_SINCE: (u32, u32) = (1, 16);

/// Checks which routes the file system supports.
pub(crate) fn file_system(ctx: &Context<'_>, facts: &PathFacts) -> Judged {
    const ID: CheckId = CheckId::FsType;
    let kind = facts.filesystem.as_deref().unwrap_or("unknown");
    let judged = match kind {
        "ext4" | "xfs" => Judged::pass(ID, format!("{kind} has direct routes")),
        "lustre" if is_lustre_over_tcp(ctx.root, facts) => lustre_over_tcp(ctx, facts),
        "nfs" | "nfs4" | "lustre" | "beegfs" | "fhgfs" | "scatefs" | "panfs" => {
            let over_tcp = if matches!(kind, "beegfs" | "fhgfs") { clients::beegfs_over_tcp(ctx, facts) } else { None };
            over_tcp
                .unwrap_or_else(|| {
                    Judged::pass(ID, format!("{kind} has the route nvfs if its client was built for it"))
                })
                .never(&closed(Storage::KernelClient))
        }
        "gpfs" | "mmfs" | "wekafs" => {
            Judged::pass(ID, format!("{kind} uses user-space RDMA")).never(&closed(Storage::UserRdma))
        }
        "virtiofs" => Judged::pass(ID, "virtiofs has the route p2pdma only").never(&closed(Storage::Virtiofs)),
        "tmpfs" | "ramfs" | "devtmpfs" => since(
            ctx,
            (1, 16),
            Judged::lack(ID, format!("{kind} is in host memory and has no disk"))
                .advice("Keep the model on ext4 or xfs on a local NVMe disk."),
        ),
        "proc" | "sysfs" | "cgroup" | "cgroup2" | "devpts" | "debugfs" | "tracefs" | "securityfs" | "configfs"
        | "efivarfs" | "bpf" | "mqueue" => {
            Judged::lack(ID, format!("{kind} has no data files: cuFile rejects them with 5027"))
                .never(&closed(Storage::Refused))
                .advice("Name a file or directory with models.")
        }
        "vfat" | "exfat" | "msdos" => Judged::lack(ID, format!("cuFile does not support {kind}"))
            .never(&closed(Storage::Refused))
            .advice("Keep the model on ext4 or xfs on a local NVMe disk."),
        "overlay" | "overlayfs" | "aufs" => since(ctx, OVERLAY_SINCE, overlay(ctx, facts)),
        "squashfs" => since(
            ctx,
            (1, 16),
            Judged::lack(ID, "squashfs has no direct route; cuFile copies through host memory")
                .advice("Keep the model on ext4 or xfs on a local NVMe disk."),
        ),
        "zfs" | "btrfs" => since(
            ctx,
            (1, 17),
            Judged::lack(ID, format!("{kind} has no direct route, cuFile copies through host memory"))
                .advice("Keep the model on ext4 or xfs on a local NVMe disk."),
        ),
        "fuse" | "fuseblk" | "cifs" | "smb3" | "9p" | "ext2" | "ext3" | "f2fs" | "iso9660" | "erofs" => {
            Judged::lack(ID, format!("{kind} has no direct route, cuFile copies through host memory"))
                .never(&closed(Storage::HostOnly))
                .advice("Keep the model on ext4 or xfs on a local NVMe disk.")
        }
        other if other.starts_with("fuse.") => Judged::lack(ID, format!("{other} has no direct route"))
            .never(&closed(Storage::HostOnly))
            .advice("Keep the model on ext4 or xfs on a local NVMe disk."),
        "unknown" => Judged::na(ID, "the file system of this path is not known").unknown(DIRECT),
        other => {
            // All file systems with a direct route are known. Other file systems use host memory or do not work.
            Judged::lack(ID, format!("{other} is not among the file systems with a direct route"))
                .never(&closed(Storage::HostOnly))
                .unknown(&[Route::Compat])
                .advice("Keep the model on ext4 or xfs on a local NVMe disk.")
        }
    };
    let judged = judged.found("/proc/self/mountinfo", kind);
    // The path itself can be on another file system.
    let real = facts.real_path.as_deref().filter(|real| *real != facts.path && judged.advice.is_some());
    let judged = match real {
        Some(real) => judged.found(facts.path.display().to_string(), format!("leads to {}", real.display())),
        None => judged,
    };
    // A sandbox shows the file systems of a separate kernel, so no other place in it helps.
    let is_of_sandbox = judged.finding.status != Status::Pass
        && judged.in_the_way().next().is_some()
        && !judged.stops(Route::Compat)
        && is_gvisor(ctx);
    if is_of_sandbox { Judged { advice: None, ..judged.cause(CheckId::KernelVersion) } } else { judged }
}

/// Lustre over TCP. A network with RDMA has to exist before the servers are mounted by it.
fn lustre_over_tcp(ctx: &Context<'_>, facts: &PathFacts) -> Judged {
    let judged = Judged::lack(CheckId::FsType, "Lustre over TCP: a direct route needs RDMA (o2ib or EFA)")
        .found("/proc/self/mountinfo", facts.source.clone().unwrap_or_default())
        .never(&closed(Storage::Tcp));
    if let Some((Maker::Amazon, ..)) = virtual_disk::cloud(ctx) {
        // AWS's page (network::efa) lists the instances for GDS: P5, P5e, P5en, P6-B200 and P6e-GB200.
        const PRODUCT: &str = "/sys/class/dmi/id/product_name";
        let product = ctx.root.read_text(PRODUCT).unwrap_or_default().trim().to_owned();
        if !product.is_empty() && !product.starts_with("p5") && !product.starts_with("p6") {
            return judged
                .never(&[Route::Nvfs])
                .found(PRODUCT, product)
                .advice("Stay with compat mode: FSx for Lustre supports GDS on P5 and P6 instances only.");
        }
        return judged.missing(Cost::System, &[Route::Nvfs]).by_hand().advice(network::efa(ctx, facts));
    }
    // Azure Managed Lustre has a TCP network only, also for virtual machines with InfiniBand.
    let package = |package: &machine::DebPackage| package.name.starts_with("amlfs-lustre-client");
    if let Some(client) = machine::deb_packages(ctx.root).into_iter().find(package) {
        return judged.never(&[Route::Nvfs]).found("/var/lib/dpkg/status", client.name).advice(
            "Stay with compat mode, or copy the model to a local NVMe disk: Azure Managed Lustre has no RDMA network.",
        );
    }
    if network::has_rdma(ctx) == Some(false) {
        let (source, text) = network::absent(ctx);
        return judged.never(&[Route::Nvfs]).found(source, text).advice(
            "Stay with compat mode, or keep the model on a local NVMe disk: this machine has no InfiniBand or RoCE card for LNet.",
        );
    }
    judged.missing(Cost::System, &[Route::Nvfs]).by_hand().advice(network::lnet(ctx, facts))
}

/// The routes that no file on this kind of storage can use.
fn closed(storage: Storage) -> Vec<Route> {
    storage.row().closed()
}

/// The check of an overlay file system, inside or outside of a container.
fn overlay(ctx: &Context<'_>, facts: &PathFacts) -> Judged {
    match facts.option_value("upperdir").filter(|_| machine::container(ctx.root).is_none()) {
        Some(upper) => Judged::lack(CheckId::FsType, "an overlay of file systems has no direct route").advice(format!(
            "Read the model by its path in the file system of {upper}, or keep it on ext4 or xfs outside the overlay."
        )),
        None => {
            let container = machine::container(ctx.root);
            // An overlay at another mount point is an image that is used as a volume (KEP-4639).
            let volume = facts.mount_point.as_deref().filter(|point| *point != Path::new("/") && container.is_some());
            if let (Some(point), Some(container)) = (volume, &container) {
                return image_volume(ctx, container, point);
            }
            let judged = Judged::lack(CheckId::FsType, "the overlay root of a container has no direct route");
            match container {
                Some(container) => judged.advice(bring_all(
                    ctx.root,
                    &container,
                    &lacks_of_a_volume(ctx),
                    &facts.path.to_string_lossy(),
                )),
                None => {
                    judged.advice("Keep the model on a mounted volume with ext4 or xfs, not in the root file system.")
                }
            }
        }
    }
}

/// A volume that is an image: the runtime mounts its layers as an overlay.
fn image_volume(ctx: &Context<'_>, container: &machine::Container, point: &Path) -> Judged {
    let point = point.display();
    let copy = match container.runtime.as_str() {
        "kubernetes" => format!(
            "Copy the model from the image to a local NVMe disk of the node with ext4 or xfs. Add a volume `hostPath: {{path: /data/NEW_FOLDER, type: DirectoryOrCreate}}`, with a directory that the node does not have yet. Mount it at /copy in an initContainer that also has {point} and runs `cp -an {point}/. /copy/`. Then mount it instead of the image at {point}."
        ),
        _ => format!(
            "Copy the model from the image to a directory of the host with ext4 or xfs on a local NVMe disk, and mount that directory at {point} instead of the image."
        ),
    };
    let lacks: Vec<Lack> = lacks_of_a_volume(ctx).into_iter().filter(|lack| *lack != Lack::Volume).collect();
    let others =
        if lacks.is_empty() { String::new() } else { format!(" {}", bring_all(ctx.root, container, &lacks, "/data")) };
    Judged::lack(CheckId::FsType, format!("{point} is an image that is mounted as a volume: it has no direct route"))
        .advice(format!("{copy}{others}"))
}

/// The parts that a container needs for files on a volume: the volume, and those that it lacks.
fn lacks_of_a_volume(ctx: &Context<'_>) -> Vec<Lack> {
    let mut lacks = vec![Lack::Volume];
    lacks.extend((!ctx.root.exists("/run/udev/data")).then_some(Lack::Udev));
    let lacks_nvfs = machine::nvidia_fs_loaded(ctx.root) == Some(true) && !ctx.root.exists("/dev/nvidia-fs0");
    lacks.extend(lacks_nvfs.then_some(Lack::NvidiaFs));
    lacks
}

/// Adds the release of libcufile that can read this file system in compat mode (release notes of GDS 1.16 and 1.17).
fn since(ctx: &Context<'_>, release: (u32, u32), judged: Judged) -> Judged {
    let judged = judged.never(&closed(Storage::Layered));
    match ctx.root.libcufile_if_known().and_then(machine::LibcufileFacts::version_numbers) {
        Some(version) if version < release => {
            let place = judged.advice.clone().unwrap_or_default();
            let mut judged = judged;
            let known = judged.finding.summary.split([',', ';']).next().unwrap_or_default().to_owned();
            judged.finding.summary = format!("{known}; libcufile {}.{} cannot read it", version.0, version.1);
            judged
                .missing(Cost::Install, &[Route::Compat])
                .found(
                    "libcufile",
                    format!("{}.{}; copies from it since {}.{}", version.0, version.1, release.0, release.1),
                )
                .advice(place.text(format!(
                    " Only for reads through host memory: install libcufile {}.{} or later (libcufile-13-{}){}.",
                    release.0,
                    release.1,
                    // libcufile 1.15 was the first of CUDA 13, and each release of CUDA has the next one.
                    release.1.saturating_sub(15),
                    if machine::cuda_served(ctx.root).is_some_and(|(major, _)| major < 13) {
                        ", after driver 580, because it needs CUDA 13"
                    } else {
                        ""
                    }
                )))
        }
        Some(_) => judged,
        None => judged.unknown(&[Route::Compat]),
    }
}

/// Whether the finding depends on the library's version.
pub(crate) fn waits_for_version(filesystem: &str) -> bool {
    matches!(
        filesystem,
        "overlay" | "overlayfs" | "aufs" | "squashfs" | "tmpfs" | "ramfs" | "devtmpfs" | "zfs" | "btrfs"
    )
}
