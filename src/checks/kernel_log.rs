//! What the kernel log says of nvidia-fs, GPU and disks: lines as they were seen on machines and in reports, and what each means.

use super::context::Context;
use super::gpu::nvfs_version;
use super::judged::{Cost, Judged};
use super::nvidia_fs::is_loaded;
use crate::domain::{Group::NvidiaFs, Route};

pub(super) const SOURCE: &str = "journalctl -k -b";
const NVFS: &[Route] = &[Route::Nvfs];

/// The kernel log of this boot; none where it may not be read, or where it was not asked for: without nvidia-fs it has little to say, and
/// reading it is slow.
pub(super) fn text(ctx: &Context<'_>) -> Option<String> {
    if is_loaded(ctx) != Some(true) && !super::nvfs_dkms::is_anywhere(ctx) {
        return None;
    }
    let output = ctx.root.command(&["journalctl", "-k", "-b", "-o", "cat"])?;
    (output.exit_code == Some(0) && output.stdout.lines().count() > 1).then_some(output.stdout)
}

/// Why the module did not load, as the kernel put it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Its symbols come from proprietary modules.
    Proprietary,
    /// It was built without symbol versions.
    NoVersions,
    /// It was built against another driver.
    OtherDriver,
    /// Its key is not enrolled.
    Key,
    /// Nvidia was not loaded before it.
    TooEarly,
    /// Nvidia was loaded, and has not the symbol.
    LacksSymbol,
    /// It was built for another kernel.
    OtherKernel,
}

/// Signatures in the order of their strength: a later one may be the consequence of an earlier.
const REFUSALS: &[(Refusal, &[&str])] = &[
    // Kernels before 6.2, and those of RHEL 9, name no symbol in that line.
    (Refusal::Proprietary, &["nvidia_fs", "from proprietary module"]),
    (Refusal::NoVersions, &["no symbol version for nvidia_p2p_"]),
    (Refusal::OtherDriver, &["disagrees about version of symbol nvidia_p2p_"]),
    (Refusal::Key, &["module with unavailable key is rejected"]),
    (Refusal::Key, &["key was rejected by service"]),
    (Refusal::OtherKernel, &["nvidia_fs", "version magic"]),
    (Refusal::OtherKernel, &["nvidia-fs", "exec format error"]),
    (Refusal::TooEarly, &["unknown symbol nvidia_p2p_"]),
];

/// The last line of the log with all of these parts, letters of either case.
fn last<'a>(log: &'a str, parts: &[&str]) -> Option<&'a str> {
    log.lines().rev().find(|line| {
        let line = line.to_ascii_lowercase();
        parts.iter().all(|part| line.contains(part))
    })
}

/// Why the kernel refused nvidia-fs, with the line; none where it is loaded.
pub(super) fn refusal(ctx: &Context<'_>) -> Option<(Refusal, String)> {
    if is_loaded(ctx) == Some(true) {
        return None;
    }
    let log = text(ctx)?;
    let (kind, line) = REFUSALS.iter().find_map(|(kind, parts)| Some((*kind, last(&log, parts)?.trim().to_owned())))?;
    let kind = if kind == Refusal::TooEarly && lacks_symbol(ctx, &log, &line) { Refusal::LacksSymbol } else { kind };
    Some((kind, line))
}

/// Whether the driver that is loaded has not the symbol that the line misses; else it was not there yet.
fn lacks_symbol(ctx: &Context<'_>, log: &str, line: &str) -> bool {
    /// The oldest driver that GPUDirect Storage names (README of nvidia-fs).
    const OLDEST: u32 = 418;
    let driver = super::gpu::Driver::of(ctx);
    if !driver.is_loaded() {
        return false;
    }
    let missing = symbol(line).unwrap_or_default();
    if let Ok(symbols) = ctx.root.symbols() {
        if symbols.contains(missing) {
            return false;
        }
        if symbols.iter().any(|name| name.starts_with("nvidia_p2p_")) {
            return crate::host::SYMBOLS.contains(&missing);
        }
    }
    // Which came first in the log: the driver, or the module that missed it.
    let at = |part: &str| log.lines().position(|line| line.to_ascii_lowercase().contains(part));
    match (at("nvrm: loading nvidia unix"), log.lines().position(|l| l.trim() == line)) {
        (Some(driver), Some(refused)) => driver < refused,
        _ => {
            driver.version.as_deref().and_then(|v| v.split('.').next()?.parse::<u32>().ok()).is_some_and(|v| v < OLDEST)
        }
    }
}

/// The symbol that a line of the kernel log misses: `nvidia_fs: Unknown symbol nvidia_p2p_get_pages (err -2)`.
fn symbol(line: &str) -> Option<&str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).find(|word| word.starts_with("nvidia_p2p_"))
}

/// What the kernel said when the module was loaded.
pub(super) fn load_errors(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "nvfs-load-errors";
    let loaded = is_loaded(ctx);
    let Some(log) = text(ctx) else {
        let installed = nvfs_version(ctx).is_some() || super::nvfs_dkms::is_anywhere(ctx);
        return (installed && loaded == Some(false)).then(|| {
            Judged::na(ID, NvidiaFs, "the kernel log could not be read")
                .found(SOURCE, "not available to this user")
                .advice("sudo journalctl -k -b -o cat | grep -i -e nvidia_fs -e nvidia-fs")
                .why("The reason why the module is not there stands in the kernel log.")
        });
    };
    if loaded == Some(true) {
        let judged = if let Some(line) = last(&log, &["nvfs modules probe failed"]) {
            Judged::warn(ID, NvidiaFs, "nvidia-fs could not register with the storage drivers")
                .found(SOURCE, line.trim())
        } else {
            let line = last(&log, &["nvidia_fs", "registered correctly"])?;
            Judged::pass(ID, NvidiaFs, "the kernel registered nvidia-fs").found(SOURCE, line.trim())
        };
        return Some(judged.why("The kernel log says how the module was loaded."));
    }
    let (kind, line) = refusal(ctx)?;
    let (summary, cost, advice) = match kind {
        Refusal::Proprietary => (
            "the kernel refused nvidia-fs: its symbols are in proprietary modules",
            Cost::Install,
            "Install the open kernel modules.",
        ),
        Refusal::NoVersions => (
            "nvidia-fs was built without the symbol versions of the NVIDIA driver",
            Cost::Root,
            "Rebuild it with nvidia-fs 2.29 or later, or with KBUILD_EXTRA_SYMBOLS at the driver's Module.symvers.",
        ),
        Refusal::OtherDriver => (
            "nvidia-fs was built against another driver version",
            Cost::Root,
            "Rebuild it: dkms remove and dkms install.",
        ),
        Refusal::Key => (
            "Secure Boot refused nvidia-fs: its signing key is not enrolled",
            Cost::Reboot,
            "sudo mokutil --import the DKMS key, reboot, choose 'Enroll MOK' at the console.",
        ),
        Refusal::TooEarly => (
            "nvidia-fs found no nvidia_p2p symbols: the NVIDIA driver was not loaded before it",
            Cost::Root,
            "Load nvidia first: softdep nvidia_fs pre: nvidia nvme.",
        ),
        Refusal::LacksSymbol => (
            "nvidia-fs wants a symbol that the loaded NVIDIA driver does not have: the driver is too old for it",
            Cost::Install,
            "Install a current driver with the open kernel modules, then rebuild nvidia-fs (dkms remove and dkms install).",
        ),
        Refusal::OtherKernel => {
            ("nvidia-fs was built for another kernel", Cost::Root, "Rebuild it for the running kernel with dkms.")
        }
    };
    let lacking = (kind == Refusal::LacksSymbol).then(|| symbol(&line).unwrap_or_default().to_owned());
    let judged = Judged::lack(ID, NvidiaFs, summary).found(SOURCE, line).missing(cost, NVFS).advice(advice);
    let judged = match lacking {
        Some(symbol) => judged.found("/proc/kallsyms", format!("no {symbol}")).fixes(ctx.driver_fix()),
        None => judged,
    };
    let judged = match super::nvfs_module::behind(ctx, kind) {
        Some(cause) => judged.cause(cause),
        None => judged,
    };
    Some(judged.why("The reason why the module is not there stands in the kernel log."))
}

/// Whether a line tells of a page fault in the IOMMU by a device that is neither a GPU nor a disk of the paths.
fn is_of_another_device(ctx: &Context<'_>, line: &str) -> bool {
    if !line.contains("IO_PAGE_FAULT") {
        return false;
    }
    let disks = ctx.subjects.iter().filter_map(|s| s.facts.as_ref()).flat_map(|facts| &facts.block_device);
    let mut known = disks
        .filter_map(|disk| disk.pci_bus_id.clone())
        .chain(ctx.pci().into_iter().flatten().map(|gpu| gpu.address.clone()))
        .peekable();
    // Older kernels leave the domain of the address out.
    known.peek().is_some() && !known.any(|address| line.contains(address.get(5..).unwrap_or(&address)))
}

/// What went wrong while it worked: one finding for the first that is there.
pub(super) fn trouble(ctx: &Context<'_>) -> Option<Judged> {
    const ID: &str = "nvfs-errors";
    const SIGNS: &[(&[&str], &str, &str)] = &[
        (
            &["nvme", "controller is down; will reset: csts=0xffffffff"],
            "an NVMe disk fell off the bus",
            "Reboot and undo what was changed on the bridges (ACS) before it happened.",
        ),
        (
            &["unable to pin shadow buffer pages", "-14"],
            "nvidia-fs could not pin its own buffers (-14), so no GPU memory was mapped and reads went through host memory",
            "Update nvidia-fs to 2.26.6 or later: older ones mark these buffers in a way that current kernels refuse.",
        ),
        (
            &["rw_verify_area failed with -14"],
            "reads fail with 'rw_verify_area failed with -14', the fault of nvidia-fs 2.25.6",
            "Update nvidia-fs to 2.25.7 or later, or go back to 2.24.3.",
        ),
        (
            &["invoking nvidia_p2p_get_pages", "-22"],
            "the driver gave no pages of the GPU (-22): its class has none, or BAR1 is used up",
            "See gpu-class, gpu-gdr-attr and gpu-bar1-free.",
        ),
        (&["unable to obtain dma_mapping"], "a transfer could not be mapped", "See iommu-state and pcie-acs."),
        (
            &["io_page_fault"],
            "the IOMMU stopped a transfer",
            "Boot with iommu=pt, or with intel_iommu=off or amd_iommu=off.",
        ),
        (
            &["cannot handle gpu request with integrity metadata"],
            "a disk with integrity metadata was read",
            "See nvme-integrity.",
        ),
        (
            &["cannot handle mixed segments"],
            "the block layer merged requests of CPU and GPU memory",
            "Update nvidia-fs and the kernel.",
        ),
        (&["not sector aligned"], "a read that was not aligned reached the driver", "Align reads to 4096 bytes."),
        (
            &["unable to flush dirty pages"],
            "dirty pages of a file could not be flushed",
            "sync, then open the file again.",
        ),
    ];
    if let Some(crash) = super::nvfs_build::crash(ctx) {
        return Some(crash);
    }
    let log = text(ctx)?;
    // Page faults of other devices are no matter of GPU and disk: USB controllers of some boards have them at every start.
    let log = if log.contains("IO_PAGE_FAULT") {
        log.lines().filter(|line| !is_of_another_device(ctx, line)).map(|line| format!("{line}\n")).collect()
    } else {
        log
    };
    let (line, summary, advice) =
        SIGNS.iter().find_map(|(parts, summary, advice)| Some((last(&log, parts)?, *summary, *advice)))?;
    Some(
        Judged::warn(ID, NvidiaFs, format!("the kernel log: {summary}"))
            .found(SOURCE, line.trim())
            .advice(advice)
            .why("The kernel says what the library only numbers."),
    )
}
