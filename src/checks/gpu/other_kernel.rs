//! The NVIDIA driver of other installed kernels, and real-time kernels, for which it cannot be built.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, EVERY, Judged};
use crate::checks::kernel::{boot_kernel, build_log};
use crate::core::CheckId;
use crate::machine::{self, DkmsRow};

/// A kernel for which a package has installed the driver (RHEL and SUSE), if the running kernel has none.
pub(super) fn packaged_elsewhere(ctx: &Context<'_>, release: &str) -> Option<String> {
    let kernels = machine::installed_kernels(ctx.root);
    kernels.into_iter().filter(|kernel| kernel != release).find(|kernel| machine::has_driver(ctx.root, kernel))
}

/// Another installed kernel that has the driver and is not a real-time kernel. The newest is the last one.
pub(super) fn with_driver(ctx: &Context<'_>, release: &str, rows: &[DkmsRow]) -> Option<String> {
    let mut kernels = machine::installed_kernels(ctx.root);
    kernels.sort_by_cached_key(|kernel| machine::release_numbers(kernel));
    let has = |kernel: &String| {
        rows.iter().any(|row| row.is_driver() && row.is_installed_for(kernel))
            || machine::has_driver(ctx.root, kernel)
            || machine::ubuntu_driver(ctx.root, kernel).is_some()
    };
    kernels
        .into_iter()
        .rev()
        .filter(|kernel| kernel != release && boot_kernel::real_time(ctx.root, kernel).is_none())
        .find(has)
}

/// How to boot the other kernel that has the driver. It ends with the reboot.
pub(super) fn boot_other(ctx: &Context<'_>, release: &str, rows: &[DkmsRow]) -> Option<Advice> {
    with_driver(ctx, release, rows).map(|kernel| boot_kernel::boot(ctx.root, &kernel).text(", then reboot."))
}

/// A real-time kernel (PREEMPT_RT), for which the build of the driver stops (open-gpu-kernel-modules#1240).
pub(super) fn on_real_time(ctx: &Context<'_>, release: &str, rows: &[DkmsRow]) -> Option<Judged> {
    let (source, line) = boot_kernel::real_time(ctx.root, release)?;
    if rows.iter().any(|row| row.is_driver() && row.is_installed_for(release)) || machine::has_driver(ctx.root, release)
    {
        return None;
    }
    let advice = boot_other(ctx, release, rows).unwrap_or_else(|| {
        "Install a kernel without PREEMPT_RT and its headers, build the driver for it, and boot it.".into()
    });
    let advice = if machine::packages::id(ctx.root) == "ubuntu" {
        advice
            .text(" If Ubuntu Pro brought the real-time kernel, run this before: ")
            .command("sudo pro disable realtime-kernel")
            .text(".")
    } else {
        advice
    };
    let judged =
        Judged::lack(CheckId::GpuPresent, format!("the NVIDIA driver does not support the real-time kernel {release}"))
            .found(source, line)
            .missing(Cost::Reboot, EVERY)
            .advice(advice);
    let row = rows.iter().find(|row| row.is_driver());
    Some(match row.and_then(|row| build_log::failed(ctx, &row.name, &row.version)) {
        Some(failed) => judged.found(failed.log, failed.line),
        None => judged,
    })
}
