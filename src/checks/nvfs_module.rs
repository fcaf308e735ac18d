//! How nvidia-fs is signed, loaded and connected: Secure Boot, lockdown, storage drivers, bridges.

use super::context::Context;
use super::judged::{Cost, Judged, Scope};
use super::kernel_log::{self, Refusal};
use super::nvfs_dkms::{build_inputs, dkms};
use super::nvidia_fs::is_loaded;
use crate::domain::{Group::NvidiaFs, Route};
use crate::host;

const NVFS: &[Route] = &[Route::Nvfs];
const MODULES: &str = "/proc/driver/nvidia-fs/modules";

/// The check that explains a refusal of the kernel, where one does.
pub(super) fn behind(ctx: &Context<'_>, kind: Refusal) -> Option<&'static str> {
    let stops = |judged: Option<Judged>| judged.is_some_and(|j| j.stops(Route::Nvfs));
    match kind {
        // Only as long as they are still the ones that are loaded.
        Refusal::Proprietary if ctx.before_turing().next().is_some() => Some("gpu-open-capable"),
        Refusal::Proprietary => (super::gpu::Driver::of(ctx).is_open() == Some(false)).then_some("driver-flavour"),
        Refusal::Key => Some("nvfs-secureboot"),
        Refusal::NoVersions | Refusal::OtherDriver => stops(build_inputs(ctx)).then_some("nvfs-build-inputs"),
        Refusal::OtherKernel => stops(dkms(ctx)).then_some("nvfs-dkms"),
        Refusal::TooEarly | Refusal::LacksSymbol => None,
    }
}

/// What decides whether the module can be loaded at all, causes first.
pub(super) fn before_loading(ctx: &Context<'_>) -> Vec<Judged> {
    let dkms = super::nvfs_build::other_driver(ctx).or_else(|| dkms(ctx));
    [secure_boot(ctx), lockdown(ctx), build_inputs(ctx), dkms].into_iter().flatten().collect()
}

/// What matters once it is loaded.
pub(super) fn when_loaded(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out: Vec<Judged> = [autoload(ctx), bridges(ctx), distances(ctx)].into_iter().flatten().collect();
    out.extend(registered(ctx));
    out
}

fn secure_boot(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "nvfs-secureboot";
    const ENROL: &str = "sudo mokutil --import /var/lib/dkms/mok.pub (on Ubuntu /var/lib/shim-signed/mok/MOK.der), reboot, choose 'Enroll MOK' at the console.";
    let state = host::secure_boot(ctx.root);
    let refusal = kernel_log::refusal(ctx);
    let modinfo = ctx.root.command(&["modinfo", "nvidia_fs"]).filter(|o| o.exit_code == Some(0));
    let signer = modinfo.as_ref().and_then(|o| o.stdout.lines().find_map(|l| l.strip_prefix("signer:")));
    let on = state.as_ref().map(|state| state.is_on);
    let judged = if let Some((Refusal::Key, line)) = &refusal {
        Judged::lack(ID, NvidiaFs, "Secure Boot refuses nvidia-fs: its signing key is not enrolled")
            .found(kernel_log::SOURCE, line.clone())
            .missing(Cost::Reboot, NVFS)
            .advice(ENROL)
    } else if on == Some(true)
        && modinfo.is_some()
        && is_loaded(ctx) == Some(false)
        && refusal.is_none()
        && signer.is_none()
    {
        Judged::lack(ID, NvidiaFs, "Secure Boot is on, and nvidia-fs is not signed: the kernel will refuse it")
            .found("modinfo nvidia_fs", "no signer")
            .missing(Cost::Reboot, NVFS)
            .advice(ENROL)
    } else {
        match on? {
            true if is_loaded(ctx) == Some(true) => {
                Judged::pass(ID, NvidiaFs, "Secure Boot is on, and nvidia-fs was let in")
            }
            true => Judged::info(
                ID,
                NvidiaFs,
                "Secure Boot is on: a module that is built here must be signed with an enrolled key",
            ),
            false => Judged::pass(ID, NvidiaFs, "Secure Boot is off"),
        }
    };
    let judged = match state {
        Some(state) => judged.found(state.source, state.text),
        None => judged,
    };
    Some(judged.why("Under Secure Boot the kernel takes only modules that are signed with a key it knows; the rest is refused without a visible error."))
}

fn lockdown(ctx: &Context<'_>) -> Option<Judged> {
    const FILE: &str = "/sys/kernel/security/lockdown";
    let text = ctx.root.read_text(FILE).ok()?;
    let mode = text.split('[').nth(1)?.split(']').next()?.to_owned();
    let judged = if mode == "none" {
        Judged::pass("nvfs-lockdown", NvidiaFs, "the kernel is not locked down")
    } else {
        Judged::info(
            "nvfs-lockdown",
            NvidiaFs,
            format!("the kernel is locked down ({mode}): unsigned modules and setpci do not work"),
        )
    };
    Some(
        judged
            .found(FILE, text.trim())
            .why("It comes with Secure Boot, and explains why modules and tools are refused."),
    )
}

fn autoload(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "nvfs-autoload";
    let mut files = vec!["/etc/modules".to_owned()];
    for folder in ["/etc/modules-load.d", "/usr/lib/modules-load.d", "/lib/modules-load.d"] {
        files.extend(ctx.root.entries(folder).unwrap_or_default().into_iter().map(|name| format!("{folder}/{name}")));
    }
    if files.len() == 1 && !ctx.root.exists("/etc/modules-load.d") {
        return None;
    }
    let line = files.iter().find_map(|file| {
        let text = ctx.root.read_text(file).ok()?;
        let line = text.lines().map(str::trim).find(|line| *line == "nvidia_fs" || *line == "nvidia-fs")?.to_owned();
        Some((file.clone(), line))
    });
    let judged = match line {
        Some((file, line)) => Judged::pass(ID, NvidiaFs, "nvidia-fs is loaded at boot").found(file, line),
        None => Judged::info(ID, NvidiaFs, "nothing loads nvidia-fs at boot: after a reboot it may be absent")
            .found("/etc/modules-load.d", "no line nvidia_fs")
            .advice("echo nvidia_fs | sudo tee /etc/modules-load.d/nvidia_fs.conf"),
    };
    Some(judged.why("A module that was loaded by hand is gone after a reboot, and reads fall back silently."))
}

fn bridges(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "nvfs-bridges-acs";
    const FILE: &str = "/proc/driver/nvidia-fs/bridges";
    let text = ctx.root.read_text(FILE).ok()?;
    let list: Vec<&str> = text.split_whitespace().filter(|word| word.contains(':')).collect();
    let judged = if list.is_empty() {
        Judged::pass(ID, NvidiaFs, "no bridge with ACS").found(FILE, "empty")
    } else {
        Judged::warn(
            ID,
            NvidiaFs,
            format!("{} PCIe bridges have ACS on: transfers may take the way over the root complex", list.len()),
        )
        .found(FILE, list.iter().take(16).copied().collect::<Vec<_>>().join(" "))
        .advice(
            "Switch ACS off in the firmware, or with pci=disable_acs_redir= for the bridges between GPU and disk only.",
        )
    };
    Some(
        judged.why("With ACS a bridge sends peer-to-peer transfers up to the root complex instead of straight across."),
    )
}

fn distances(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "nvfs-peer-distance";
    const FILE: &str = "/proc/driver/nvidia-fs/peer_distance";
    let text = ctx.root.read_text(FILE).ok()?;
    let rows: Vec<(&str, &str, u32)> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (gpu, peer, _, distance) = (words.next()?, words.next()?, words.next()?, words.next()?);
            Some((gpu, peer, u32::from_str_radix(distance.strip_prefix("0x")?, 16).ok()?))
        })
        .collect();
    let nearest = rows.iter().min_by_key(|(.., distance)| *distance)?;
    let near = rows.iter().filter(|(.., distance)| *distance < 0x7f).count();
    let summary = if near == rows.len() {
        "every pair of GPU and peer is below one root port".to_owned()
    } else {
        format!("{near} of {} pairs of GPU and peer are below one root port", rows.len())
    };
    Some(
        Judged::info(ID, NvidiaFs, summary)
            .found(FILE, format!("nearest: {} and {}, distance {:#x}", nearest.0, nearest.1, nearest.2))
            .why("The library picks the GPU's nearest peers by this table."),
    )
}

/// Name in nvidia-fs's list and symbol in the kernel, by file system.
fn client(filesystem: &str) -> Option<(&'static str, &'static str)> {
    match filesystem {
        "lustre" => Some(("lnet", "lustre_v1_register_nvfs_dma_ops")),
        "beegfs" | "fhgfs" => Some(("beegfs", "beegfs_v1_register_nvfs_dma_ops")),
        "scatefs" => Some(("scatefs", "scatefs_register_nvfs_dma_ops")),
        "nfs" | "nfs4" => Some(("rpcrdma", "rpcrdma_register_nvfs_dma_ops")),
        _ => None,
    }
}

/// Whether the drivers of the paths are known to the module.
fn registered(ctx: &Context<'_>) -> Vec<Judged> {
    const ID: &str = "nvfs-registered";
    const WHY: &str =
        "Only a storage driver or client that registered with nvidia-fs can put GPU pages in its requests.";
    let mut out = Vec::new();
    let listed = ctx.root.read_text(MODULES);
    for (number, subject) in ctx.subjects.iter().enumerate() {
        let Some(facts) = &subject.facts else { continue };
        let filesystem = facts.filesystem.as_deref().unwrap_or("");
        let remote =
            client(filesystem).filter(|(name, _)| *name != "rpcrdma" || facts.option_value("proto") == Some("rdma"));
        let disks = super::storage::disks(facts);
        let fabric = super::storage::transports(ctx, facts).iter().any(|kind| kind == "rdma");
        let local = disks.iter().any(|disk| disk.name.starts_with("nvme"));
        let device =
            super::storage::of_vendor(facts).or(fabric.then_some(("nvme_rdma", "nvme_rdma_v1_register_nvfs_dma_ops")));
        let remote = remote.or(device);
        let Some((name, symbol)) = remote.or(local.then_some(("nvme", ""))) else { continue };
        let filesystem = if device.is_some() { name } else { filesystem };
        let line =
            listed.as_ref().ok().and_then(|text| text.lines().find(|line| line.starts_with(&format!("{name}:"))));
        let judged = if let Some(line) = line {
            Judged::pass(ID, NvidiaFs, format!("{name} is registered with nvidia-fs")).found(MODULES, line)
        } else if remote.is_some() {
            match ctx.root.symbols() {
                Ok(symbols) if symbols.contains(symbol) => {
                    Judged::pass(ID, NvidiaFs, format!("the client of {filesystem} is built for GDS"))
                        .found("/proc/kallsyms", symbol)
                }
                Ok(_) => Judged::lack(ID, NvidiaFs, format!("the client of {filesystem} is not built for GDS"))
                    .found("/proc/kallsyms", format!("no {symbol}"))
                    .missing(Cost::System, NVFS)
                    .advice(format!("Install a client of {filesystem} that its vendor built for GPUDirect Storage.")),
                Err(why) => Judged::na(
                    ID,
                    NvidiaFs,
                    format!("whether the client of {filesystem} is built for GDS cannot be seen"),
                )
                .unread("/proc/kallsyms", &why)
                .unknown(NVFS),
            }
        } else {
            let Ok(text) = &listed else { continue };
            if ctx.root.opens("/dev/nvidia-fs0").is_err() {
                continue;
            }
            let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
            Judged::lack(ID, NvidiaFs, "the NVMe driver is not registered with nvidia-fs")
                .found(MODULES, if said.is_empty() { "empty".to_owned() } else { said })
                .missing(Cost::System, NVFS)
                .cause("nvfs-nvme-symbol")
        };
        out.push(judged.why(WHY).of(Scope::Path(number)));
    }
    out
}

/// Whether libcufile registers GPU memory through dma-buf, for which no module is needed.
fn by_dma_buf(ctx: &Context<'_>) -> Option<(&'static str, String)> {
    if ctx.config().text("properties.rdma_peer_type") == Some("dmabuf") {
        return Some(("cufile.json", "properties.rdma_peer_type \"dmabuf\"".to_owned()));
    }
    let value = ctx.root.variable("CUFILE_DMABUF_ENABLE")?;
    value.eq_ignore_ascii_case("true").then(|| ("environment", format!("CUFILE_DMABUF_ENABLE={value}")))
}

/// The module that user-space RDMA clients need, where a path is on such a file system.
pub(super) fn peermem(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "nvfs-peermem";
    let mut kinds = ctx.subjects.iter().filter_map(|s| s.facts.as_ref()?.filesystem.as_deref());
    let kind = kinds.find(|kind| matches!(*kind, "gpfs" | "mmfs" | "wekafs"))?;
    let name = ["nvidia_peermem", "nv_peer_mem"].into_iter().find(|name| {
        ctx.root.exists(format!("/sys/module/{name}"))
            || ctx
                .root
                .read_text("/proc/modules")
                .is_ok_and(|text| text.lines().any(|l| l.split(' ').next() == Some(*name)))
    });
    let judged = match (name, by_dma_buf(ctx)) {
        (Some(name), _) => Judged::pass(ID, NvidiaFs, format!("{name} is loaded")).found("/proc/modules", name),
        (None, Some((source, text))) => {
            Judged::pass(ID, NvidiaFs, "nvidia_peermem is not loaded and not needed: libcufile uses dma-buf")
                .found(source, text)
        }
        (None, None) => Judged::lack(ID, NvidiaFs, format!("nvidia_peermem is not loaded, which {kind} uses"))
            .found("/proc/modules", "neither nvidia_peermem nor nv_peer_mem")
            .missing(Cost::Root, &[Route::Rdma])
            .only_warn()
            .advice("sudo modprobe nvidia-peermem; or properties.rdma_peer_type \"dmabuf\", which does without it."),
    };
    Some(judged.why(
        "File systems over user-space RDMA register GPU memory with the network card through it, or through dma-buf.",
    ))
}
