//! Runs the checks of nvidia-fs in their order.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::gpu::flavours;
use crate::checks::judged::{Cost, Judged};
use crate::checks::kernel::excluded;
use crate::checks::nvidia_fs::build_inputs::build_inputs;
use crate::checks::nvidia_fs::connected::{autoload, bridges, distances, peer_direct, peermem, registered};
use crate::checks::nvidia_fs::dkms::dkms;
use crate::checks::nvidia_fs::loaded::{counters, device_nodes, version};
use crate::checks::nvidia_fs::nvme_hook::nvme_hook;
use crate::checks::nvidia_fs::secure_boot::{lockdown, secure_boot};
use crate::checks::nvidia_fs::{load_errors, other_driver, trouble};
use crate::core::{CheckId, FixId, Route};
use crate::machine;

const NVFS: &[Route] = &[Route::Nvfs];

pub(crate) fn run(ctx: &Context<'_>) -> Vec<Judged> {
    if !ctx.has_gpu() {
        return vec![
            Judged::na(CheckId::NvfsLoaded, "nvidia-fs is not needed without a GPU")
                .found("/sys/module/nvidia_fs", "not checked")
                .cause(CheckId::GpuPresent),
        ];
    }
    let mut out = before_loading(ctx);
    out.extend(load_errors::load_errors(ctx));
    match machine::nvidia_fs_loaded(ctx.root) {
        Some(true) => {
            out.push(Judged::pass(CheckId::NvfsLoaded, "nvidia-fs is loaded").found("/sys/module/nvidia_fs", "exists"));
            out.extend([version(ctx), device_nodes(ctx)]);
            out.extend(counters(ctx));
            out.extend(when_loaded(ctx));
        }
        Some(false) => {
            let judged = not_loaded(ctx, &out);
            out.push(judged);
            out.extend(registered(ctx));
        }
        None => out.push(
            Judged::na(CheckId::NvfsLoaded, "it is not visible whether nvidia-fs is loaded")
                .found("/proc/modules and /sys/module", "cannot be read")
                .unknown(NVFS),
        ),
    }
    out.extend(trouble::trouble(ctx));
    out.extend(peermem(ctx));
    out.extend(peer_direct(ctx));
    // Other disks do not use the NVMe driver, and reading the list of symbols is slow.
    let over_pcie = |facts: &machine::PathFacts| {
        machine::disks(facts).iter().any(|d| d.name.starts_with("nvme"))
            && !machine::nvme_transports(ctx.root, facts).iter().any(|kind| kind == "rdma")
    };
    if ctx.subjects.iter().filter_map(|s| s.facts.as_ref()).any(over_pcie) {
        out.push(nvme_hook(ctx));
    }
    out
}

fn not_loaded(ctx: &Context<'_>, earlier: &[Judged]) -> Judged {
    let installed = machine::nvidia_fs_installed(ctx.root);
    let proprietary = machine::Driver::of(ctx.root).is_open() == Some(false);
    let (summary, cost) = match &installed {
        Some(version) => (format!("nvidia-fs {version} is installed, but not loaded"), Cost::Root),
        None => ("nvidia-fs is not loaded".to_owned(), Cost::Install),
    };
    let mut judged = Judged::lack(CheckId::NvfsLoaded, summary)
        .found("/sys/module/nvidia_fs", "does not exist")
        .missing(cost, NVFS)
        .fix(if installed.is_some() { FixId::NvfsLoad } else { FixId::NvfsInstall })
        .advice(if installed.is_some() {
            "Load the module: `sudo modprobe nvidia-fs`.".to_owned()
        } else {
            match machine::nvidia_fs_of_ubuntu(ctx.root) {
                Some(package) => {
                    format!("Install the package {package}, which Ubuntu built for this kernel and driver.")
                }
                None => "Install the package nvidia-fs-dkms from NVIDIA's repository.".to_owned(),
            }
        });
    if let Some(version) = &installed {
        judged = judged.found("modinfo nvidia_fs", version.clone());
    } else if let Some(file) = machine::precompiled_driver(ctx.root) {
        judged = judged.found("modinfo nvidia", file).advice(
            "Switch the driver from its precompiled stream to DKMS (nvidia-driver:open-dkms), because both cannot be combined. Then install nvidia-fs-dkms.",
        );
    }
    if let Some(line) = machine::excluded(ctx.root, "nvidia_fs").filter(|_| installed.is_some()) {
        judged.finding.summary = format!("{}, because {} blocks it", judged.finding.summary, line.file);
        let advice = excluded::allow(ctx, &line, "nvidia-fs");
        judged = judged.found(line.file, line.line).advice(advice);
        judged = line.others.into_iter().fold(judged, |judged, (file, line)| judged.found(file, line));
    }
    if let Some((file, text)) = machine::modules_disabled(ctx.root).filter(|_| installed.is_some()) {
        judged.finding.summary = format!("{}: the kernel loads no modules until a reboot", judged.finding.summary);
        judged.effects.clear();
        judged = judged.missing(Cost::Reboot, NVFS).found(file, text).fix(FixId::NvfsLoad).advice(
            "List the module in /etc/modules-load.d, then reboot. kernel.modules_disabled=1 can only be left by a reboot, and systemd loads these modules before it is set.",
        );
    }
    if let Some(advice) = excluded::allow_unsupported(ctx, "nvidia-fs").filter(|_| installed.is_some()) {
        judged.finding.summary = format!("{}: SLES loads only modules that SUSE supports", judged.finding.summary);
        judged = judged.found("modprobe.d", format!("{} 0", machine::modprobe::UNSUPPORTED)).advice(advice);
    }
    if let Some((version, kernel)) = source_without_build(ctx).filter(|_| installed.is_none()) {
        judged.finding.summary = format!("nvidia-fs {version} is installed, but DKMS does not know it");
        judged = judged.by_hand().found(format!("/usr/src/nvidia-fs-{version}"), "exists").advice(
            Advice::run(format!("sudo dkms install nvidia-fs/{version} -k {kernel} && sudo modprobe nvidia-fs"))
                .text("; the headers of this kernel must be installed."),
        );
    }
    // A package that DKMS knows is installed. Its check has the remaining steps.
    let is_known = installed.is_none() && !machine::nvidia_fs_builds(ctx.root).is_empty();
    let stops = |id: CheckId| earlier.iter().any(|j| j.id == id && j.stops(Route::Nvfs));
    let is_unbuilt = is_known && stops(CheckId::NvfsDkms);
    if is_unbuilt {
        judged.finding.summary = "nvidia-fs is installed, but not built for this kernel".to_owned();
    }
    // The fix of the build also loads the module.
    if is_unbuilt || stops(CheckId::NvfsBuildInputs) {
        judged.advice = None;
        judged.finding.fix = None;
    }
    let is_too_new = match installed.as_deref() {
        Some(version) => machine::version_numbers(version) > vec![2, 17, 4],
        // The packages have only versions that need the open modules.
        None => ctx.before_turing().next().is_some(),
    };
    // A GPU before Turing keeps the proprietary modules, next to which the kernel rejects this version.
    if proprietary && is_too_new && (installed.is_none() || ctx.before_turing().next().is_some()) {
        judged.advice = None;
        judged.finding.fix = None;
    }
    if proprietary && is_too_new {
        let needs_open = |gpu| flavours::of_gpu(ctx, gpu).is_some();
        let is_kept = ctx.are_all_before_turing() || (ctx.is_divided() && !ctx.gpus().iter().any(needs_open));
        judged.cause(if is_kept { CheckId::GpuOpenCapable } else { CheckId::DriverFlavour })
    } else if let Some(cause) = earlier.iter().find(|j| j.finding.cause.is_none() && j.stops(Route::Nvfs)) {
        judged.cause(cause.id)
    } else {
        judged
    }
}

/// The version of nvidia-fs whose source a package installed and which DKMS does not list, and the running kernel.
fn source_without_build(ctx: &Context<'_>) -> Option<(String, String)> {
    if !machine::nvidia_fs_builds(ctx.root).is_empty() || machine::container(ctx.root).is_some() {
        return None;
    }
    let names = ctx.root.entries("/usr/src").ok()?;
    let version = names.iter().find_map(|name| name.strip_prefix("nvidia-fs-"))?.to_owned();
    Some((version, machine::kernel_release(ctx.root)?))
}

/// Checks whether the module can be loaded, causes first.
pub(crate) fn before_loading(ctx: &Context<'_>) -> Vec<Judged> {
    let dkms = other_driver::other_driver(ctx).or_else(|| dkms(ctx));
    [secure_boot(ctx), lockdown(ctx), build_inputs(ctx), dkms].into_iter().flatten().collect()
}

/// Checks of the loaded module.
pub(crate) fn when_loaded(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out: Vec<Judged> = [autoload(ctx), bridges(ctx), distances(ctx)].into_iter().flatten().collect();
    out.extend(registered(ctx));
    out
}
