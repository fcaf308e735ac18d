//! GPUs that need different kernel modules. A machine loads one kind for all its GPUs: those before Turing need the
//! proprietary ones, Blackwell needs the open ones, and the GPUs between need the open ones for a direct route.

use crate::checks::advice::Advice;
use crate::checks::context::{Context, GpuSeen, LAST_PROPRIETARY};
use crate::checks::judged::{Cost, EVERY, Judged, Scope};
use crate::core::{CheckId, FixId, Route};
use crate::machine::{self, Architecture, GpuKind};

/// Whether this nvidia-fs works with proprietary kernel modules on this kernel. 2.18.3, which needs open ones, was the first
/// that builds on Linux 6.2 (ChangeLog of nvidia-fs).
pub(crate) fn is_for_proprietary(ctx: &Context<'_>, version: &str) -> bool {
    let is_built =
        machine::nvidia_fs_loaded(ctx.root) == Some(true) || ctx.kernel().is_none_or(|kernel| kernel < (6, 2));
    is_built && machine::version_numbers(version) <= vec![2, 17, 4]
}

/// The choice of the kernel modules, with the loss of each. `None` if one kind serves all GPUs, or if the open ones are
/// loaded: they serve the GPUs with direct routes.
pub(crate) fn choice(ctx: &Context<'_>) -> Option<Advice> {
    if !ctx.is_divided() || machine::Driver::of(ctx.root).is_open() == Some(true) {
        return None;
    }
    let (old, new) = (ctx.before_turing().next()?, ctx.since_turing().next()?);
    let loss =
        if ctx.since_turing().any(|gpu| gpu.needs_open) { "cannot be used" } else { "reads through host memory" };
    Some(Advice::from(format!(
        "A machine loads one kind of kernel modules, so choose. For direct routes, install the open ones (`gds-top fix {} --dry-run` shows the commands): {} is then lost here. {} Or keep the proprietary ones, branch {LAST_PROPRIETARY}: {} then {loss}.",
        FixId::NvidiaDriverOpen,
        old.name,
        elsewhere("it"),
        new.name,
    )))
}

/// The place for a GPU that the loaded modules do not serve.
fn elsewhere(gpu: &str) -> String {
    format!("Use {gpu} in another machine, or pass it to a virtual machine (vfio-pci).")
}

/// The finding for a GPU that needs the open kernel modules while an older GPU keeps the proprietary ones.
pub(crate) fn of_gpu(ctx: &Context<'_>, gpu: &GpuSeen) -> Option<Judged> {
    let is_newer = gpu.architecture.is_none_or(|architecture| architecture == Architecture::TuringOrLater);
    // A GeForce has no direct route with any kernel modules.
    if !is_newer
        || (gpu.nvml.is_some() && gpu.name.contains("GeForce"))
        || machine::Driver::of(ctx.root).is_open() != Some(false)
    {
        return None;
    }
    let has_old_module =
        || machine::nvidia_fs_installed(ctx.root).is_some_and(|version| is_for_proprietary(ctx, &version));
    let routes: &[Route] =
        if gpu.nvml.is_some() && has_old_module() { &[Route::P2pdma] } else { &[Route::Nvfs, Route::P2pdma] };
    Some(
        Judged::lack(CheckId::DriverFlavour, "needs open kernel modules, and an older GPU proprietary ones")
            .found("/sys/bus/pci/devices", format!("{} next to {}", gpu.name, ctx.before_turing().next()?.name))
            .missing(Cost::Install, routes)
            .by_hand()
            .advice(choice(ctx)?),
    )
}

/// The finding about all GPUs as one for each GPU that the loaded modules refuse: only these have no route.
pub(crate) fn of_refused(ctx: &Context<'_>, judged: Judged) -> Vec<Judged> {
    let is_refused = |gpu: &GpuSeen| gpu.nvml.is_none() && !ctx.root.nvml().gpus.is_empty();
    let numbers: Vec<usize> = (0..ctx.gpus().len()).filter(|number| is_refused(&ctx.gpus()[*number])).collect();
    if numbers.is_empty() {
        return vec![judged];
    }
    numbers.into_iter().map(|number| judged.clone().missing(Cost::Install, EVERY).of(Scope::Gpu(number))).collect()
}

/// The finding for GPUs on the bus that the loaded modules do not serve, because they serve the other GPUs.
pub(crate) fn unserved(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::GpuPresent;
    let is_open = machine::Driver::of(ctx.root).is_open().filter(|_| ctx.is_divided())?;
    let listed = &ctx.root.nvml().gpus;
    let is_missing = |kind: &&GpuKind| listed.iter().all(|gpu| gpu.pci_bus_id != kind.address);
    let missing: Vec<&GpuKind> = ctx.kinds().iter().filter(is_missing).collect();
    let is_unserved =
        |kind: &&GpuKind| if is_open { kind.architecture < Architecture::TuringOrLater } else { kind.needs_open };
    let first = missing.first().filter(|_| missing.iter().all(is_unserved))?;
    let count = format!("NVML reports {} of {} GPUs", listed.len(), listed.len() + missing.len());
    Some(if is_open {
        Judged::info(ID, format!("{count}: the open modules do not support {}", first.address)).advice(format!(
            "Keep the open kernel modules: with the proprietary ones, the other GPUs have no direct route. {}",
            elsewhere(&first.name)
        ))
    } else {
        Judged::warn(ID, format!("{count}: {} needs the open modules", first.address)).cause(CheckId::DriverFlavour)
    })
}
