//! The rows of the support matrix for a GPU and for a path.

use crate::checks::context::{Context, GpuSeen};
use crate::checks::matrix::{GpuClass, Storage};
use crate::machine::{self, Architecture, BlockKind, Message, PathFacts, Root, Source};

/// The GPUs that NVIDIA lists for P2PDMA. L40 is only in the list of gds-diag.
const LISTED: &[&str] = &["A100", "A40", "L4", "L40", "L40S", "H100", "H200", "B100", "B200", "B300"];
/// Integrated GPUs: DGX Spark and Jetson.
const INTEGRATED: &[&str] = &["GB10", "Orin", "Xavier", "Thor", "Tegra"];

/// Whether NVIDIA lists the GPU for P2PDMA.
pub(crate) fn is_listed(gpu: &GpuSeen) -> bool {
    gpu.name.split([' ', '-']).any(|word| LISTED.contains(&word))
}

/// That NVIDIA does not list the GPU for P2PDMA, on which it may work. This changes no route: it works on many of them.
/// `None` if NVIDIA lists it, or if the model is unknown.
pub(crate) fn unlisted(ctx: &Context<'_>, gpu: &GpuSeen) -> Option<String> {
    // Without a driver, only the PCI bus shows the model.
    let on_bus = || ctx.pci()?.iter().find(|pci| pci.address == gpu.address).map(|pci| !pci.is_listed_for_p2pdma());
    let is_known = gpu.nvml.is_some();
    let is_unlisted = if is_known { !gpu.is_grace() && !is_listed(gpu) } else { on_bus() == Some(true) };
    is_unlisted.then(|| {
        let name = if is_known { gpu.name.trim_start_matches("NVIDIA ").trim() } else { "this GPU" };
        format!("NVIDIA does not list {name} for P2PDMA.")
    })
}

/// Why the route is not known to work on this machine: nvfs on Arm, P2PDMA in some clouds.
pub(crate) fn doubt(ctx: &Context<'_>) -> Option<String> {
    if is_arm_without_c2c(ctx) {
        return Some(
            "NVIDIA documents direct routes of Arm servers only for Grace (C2C), so nvfs is not known to work; compat mode is."
                .to_owned(),
        );
    }
    undocumented(ctx).map(|name| {
        format!("P2PDMA in virtual machines of {name} is not documented, so it is not known to work; compat mode is.")
    })
}

/// The name of the cloud in whose virtual machines NVIDIA documents compat mode only (release notes of GDS 1.7.2).
/// Machines without a hypervisor are not meant.
pub(crate) fn undocumented(ctx: &Context<'_>) -> Option<&'static str> {
    let read =
        |name: &str| ctx.root.read_text(format!("/sys/class/dmi/id/{name}")).ok().map(|text| text.trim().to_owned());
    let product = read("product_name").unwrap_or_default();
    let is_azure = || machine::kernel_release(ctx.root).is_some_and(|release| release.contains("-azure"));
    match read("sys_vendor")?.as_str() {
        "Amazon EC2" if !product.contains("metal") => Some("Amazon EC2"),
        "Google" => Some("Google Cloud"),
        "Microsoft Corporation" if product == "Virtual Machine" && is_azure() => Some("Azure"),
        "Microsoft Corporation" if product == "Virtual Machine" => Some("Hyper-V"),
        _ => None,
    }
}

/// Whether this is an Arm server without the coherent link of Grace, and its GPUs are cards.
pub(crate) fn is_arm_without_c2c(ctx: &Context<'_>) -> bool {
    let is_card = |gpu: &GpuSeen| gpu.nvml.is_some() && !gpu.is_grace() && !is_integrated(gpu);
    ctx.is_aarch64() && !ctx.gpus().is_empty() && ctx.gpus().iter().all(is_card)
}

/// Whether MIG divides the GPU.
pub(crate) fn is_partitioned(gpu: &GpuSeen) -> bool {
    gpu.nvml.as_ref().is_some_and(|nvml| nvml.mig.as_deref() == Some("enabled"))
}

/// Whether the name is that of an integrated GPU.
pub(crate) fn is_integrated(gpu: &GpuSeen) -> bool {
    gpu.name.split([' ', '-', '(', ')']).any(|word| INTEGRATED.contains(&word))
}

/// The class of a GPU. `None` if too few facts are known.
pub(crate) fn of_gpu(gpu: &GpuSeen) -> Option<GpuClass> {
    let architecture = gpu.architecture;
    let capability = gpu.capability();
    if architecture.is_some_and(|a| a < Architecture::Pascal) {
        return Some(GpuClass::BeforePascal);
    }
    if gpu.name.contains("GeForce") {
        return Some(GpuClass::GeForce);
    }
    if is_integrated(gpu) {
        return Some(GpuClass::Integrated);
    }
    if gpu.nvml.as_ref().is_some_and(|nvml| nvml.virtualization.as_deref() == Some("vgpu")) {
        return Some(if capability.is_some_and(|c| c < (8, 9)) { GpuClass::OldVgpu } else { GpuClass::Vgpu });
    }
    if gpu.is_grace() {
        return Some(GpuClass::Grace);
    }
    if architecture.is_some_and(|a| a < Architecture::TuringOrLater) {
        return Some(GpuClass::Volta);
    }
    if is_listed(gpu) {
        return Some(GpuClass::Listed);
    }
    Some(if capability? < (8, 0) { GpuClass::Turing } else { GpuClass::Ampere })
}

/// The kind of storage below a path. `None` if too few facts are known.
pub(crate) fn of_path(root: &Root, facts: &PathFacts) -> Option<Storage> {
    let kind = facts.filesystem.as_deref()?;
    Some(match kind {
        "ext4" | "xfs" => of_device(root, facts)?,
        "nfs" | "nfs4" if facts.option_value("proto") == Some("rdma") => Storage::KernelClient,
        "nfs" | "nfs4" => Storage::Tcp,
        "lustre" if is_lustre_over_tcp(root, facts) => Storage::Tcp,
        "lustre" | "beegfs" | "fhgfs" | "scatefs" | "panfs" => Storage::KernelClient,
        "gpfs" | "mmfs" | "wekafs" => Storage::UserRdma,
        "virtiofs" => Storage::Virtiofs,
        "tmpfs" | "ramfs" | "devtmpfs" | "overlay" | "overlayfs" | "aufs" | "squashfs" => Storage::Layered,
        "zfs" | "btrfs" => Storage::CopyOnWrite,
        "proc" | "sysfs" | "cgroup" | "cgroup2" | "devpts" | "debugfs" | "tracefs" | "securityfs" | "configfs"
        | "efivarfs" | "bpf" | "mqueue" | "vfat" | "exfat" | "msdos" => Storage::Refused,
        "unknown" => return None,
        _ => Storage::HostOnly,
    })
}

/// Whether a Lustre mount reaches its servers only over TCP. FSx is mounted by a TCP address also with EFA: LNet finds
/// the other addresses of the servers, and prefers those of EFA (AWS: Configuring EFA clients). LNet uses the module
/// kefalnd for each network with EFA, and logs its address.
pub(crate) fn is_lustre_over_tcp(root: &Root, facts: &PathFacts) -> bool {
    let modules = root.read_text("/proc/modules").unwrap_or_default();
    let efa = modules.lines().find_map(|line| line.strip_prefix("kefalnd ")?.split(' ').nth(1));
    // `LNet: Added LNI 10.0.3.41@efa [32/2048/0/0]`
    let is_added = |message: &Message| message.text.split(' ').nth(3).is_some_and(|address| address.ends_with("@efa"));
    let is_logged = || machine::kernel_log(root).is_some_and(|log| log.of(Source::Lnet).any(is_added));
    let has_efa = efa.is_some_and(|uses| uses != "0" || is_logged());
    lustre_network(facts).is_some_and(|network| network.starts_with("tcp")) && !has_efa
}

/// The network of a Lustre mount: `tcp` for `10.0.1.5@tcp:/scratch`. If there are several, a network other than TCP
/// is preferred. `None` if the name has no network.
pub(crate) fn lustre_network(facts: &PathFacts) -> Option<&str> {
    let servers = facts.source.as_deref()?.split(":/").next()?;
    let networks: Vec<&str> =
        servers.split([',', ':']).filter_map(|id| Some(id.rsplit_once('@')?.1)).filter(|n| !n.is_empty()).collect();
    networks.iter().find(|network| !network.starts_with("tcp")).or_else(|| networks.first()).copied()
}

fn of_device(root: &Root, facts: &PathFacts) -> Option<Storage> {
    let has = |kind: BlockKind| facts.block_device.iter().any(|device| device.kind == kind);
    let disks = machine::disks(facts);
    let is_mapped = has(BlockKind::Dm) && machine::local_multipath(root, facts).is_none();
    if is_mapped || has(BlockKind::Loop) || machine::software_device(facts).is_some() {
        return Some(Storage::Mapped);
    }
    if machine::vendor_driver(facts).is_some() {
        return Some(Storage::VendorDisk);
    }
    if disks.is_empty() {
        return None;
    }
    if disks.iter().any(|disk| !disk.name.starts_with("nvme")) {
        return Some(Storage::OtherDisk);
    }
    match facts.block_device.iter().find(|device| device.kind == BlockKind::Md) {
        Some(raid) if raid.level.as_deref() == Some("raid0") => Some(Storage::NvmeRaid0),
        Some(_) => Some(Storage::Mapped),
        None if machine::nvme_transports(root, facts).iter().any(|kind| kind == "rdma") => Some(Storage::NvmeRdma),
        None => Some(Storage::Nvme),
    }
}
