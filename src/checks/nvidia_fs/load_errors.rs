//! Reports why the kernel did not load nvidia-fs, and the check that explains it.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, Judged};
use crate::checks::kernel::refusal::{Refusal, last, refusal, symbol};
use crate::checks::nvidia_fs::build_inputs::build_inputs;
use crate::checks::nvidia_fs::dkms::{dkms, rebuilt};
use crate::core::{CheckId, FixId, Route};
use crate::machine::{self, KernelLog, Message, Source};

/// The check that explains this reason. `None` if there is none.
pub(crate) fn behind(ctx: &Context<'_>, kind: Refusal) -> Option<CheckId> {
    let stops = |judged: Option<Judged>| judged.is_some_and(|j| j.stops(Route::Nvfs));
    match kind {
        // Proprietary modules explain the message only if they are still loaded.
        Refusal::Proprietary if ctx.are_all_before_turing() => Some(CheckId::GpuOpenCapable),
        Refusal::Proprietary => {
            (machine::Driver::of(ctx.root).is_open() == Some(false)).then_some(CheckId::DriverFlavour)
        }
        Refusal::Key => Some(CheckId::NvfsSecureboot),
        Refusal::NoVersions | Refusal::OtherDriver => stops(build_inputs(ctx)).then_some(CheckId::NvfsBuildInputs),
        Refusal::OtherKernel => stops(dkms(ctx)).then_some(CheckId::NvfsDkms),
        Refusal::TooEarly | Refusal::LacksSymbol => None,
    }
}

/// The fix for this reason. `None` if it depends on the GPU.
fn fix_of(ctx: &Context<'_>, kind: Refusal) -> Option<FixId> {
    match kind {
        Refusal::Proprietary => Some(FixId::NvidiaDriverOpen),
        Refusal::NoVersions | Refusal::OtherDriver | Refusal::OtherKernel => Some(rebuilt(ctx).0),
        Refusal::Key => Some(FixId::SecureBootKey),
        Refusal::TooEarly => Some(FixId::NvfsLoad),
        Refusal::LacksSymbol => None,
    }
}

const NVFS: &[Route] = &[Route::Nvfs];

/// The line about missing symbol versions of the loaded module. The kernel prints it once per boot, so after a second
/// load it can be about an earlier build.
fn without_versions(log: &KernelLog) -> Option<&Message> {
    let message = last(log, &["nvidia_fs", "no symbol version for nvidia_p2p_"])?;
    let after = log.of(Source::NvidiaFs).skip_while(|other| *other != message);
    (after.filter(|other| other.text.contains("Initializing nvfs driver")).count() < 2).then_some(message)
}

/// Messages of the kernel about loading the module.
pub(crate) fn load_errors(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::NvfsLoadErrors;
    let loaded = machine::nvidia_fs_loaded(ctx.root);
    let Some(log) = machine::kernel_log(ctx.root) else {
        let installed = machine::nvidia_fs_installed(ctx.root).is_some() || machine::nvidia_fs_known(ctx.root);
        return (installed && loaded == Some(false)).then(|| {
            Judged::na(ID, "the kernel log could not be read")
                .found(machine::KERNEL_LOG, "not available to this user")
                .advice(Advice::run("sudo journalctl -k -b -o cat | grep -i -e nvidia_fs -e nvidia-fs"))
        });
    };
    if loaded == Some(true) {
        let judged = if let Some(message) = last(&log, &["nvfs modules probe failed"]) {
            Judged::warn(ID, "nvidia-fs could not register with the storage drivers")
                .found(machine::KERNEL_LOG, &message.line)
        } else if let Some(message) = without_versions(&log) {
            // The kernel loads such a module. Whether it fits the driver is unknown (gds-nvidia-fs#72).
            Judged::warn(ID, "nvidia-fs was built without the driver's symbol versions, so a mismatch is not detected")
                .found(machine::KERNEL_LOG, &message.line)
                .unknown(NVFS)
                .fix(FixId::NvfsInstall)
                .advice(
                    rebuilt(ctx)
                        .1
                        .text(" after the storage drivers are installed. If the message stays, install nvidia-fs 2.29 or later, which reads the driver's Module.symvers."),
                )
        } else {
            let message = last(&log, &["nvidia_fs", "registered correctly"])?;
            Judged::pass(ID, "the kernel registered nvidia-fs").found(machine::KERNEL_LOG, &message.line)
        };
        return Some(judged);
    }
    let (kind, line) = refusal(ctx)?;
    let again = || rebuilt(ctx).1.text(".");
    let (summary, cost, advice): (_, _, Advice) = match kind {
        Refusal::Proprietary => (
            "the kernel rejected nvidia-fs: its symbols are in proprietary modules",
            Cost::Install,
            "Install the open kernel modules.".into(),
        ),
        Refusal::NoVersions => (
            "nvidia-fs was built without the symbol versions of the NVIDIA driver",
            Cost::Root,
            again().text(" If the error stays, install nvidia-fs 2.29 or later."),
        ),
        Refusal::OtherDriver => ("nvidia-fs was built against another driver version", Cost::Root, again()),
        Refusal::Key => {
            ("Secure Boot rejected nvidia-fs", Cost::Reboot, "Sign it and enrol the key during a reboot.".into())
        }
        Refusal::TooEarly => (
            "nvidia-fs found no nvidia_p2p symbols: it was loaded before the NVIDIA driver",
            Cost::Root,
            "Load the NVIDIA driver first: `softdep nvidia_fs pre: nvidia nvme`.".into(),
        ),
        Refusal::LacksSymbol => (
            "the loaded NVIDIA driver is too old: nvidia-fs needs a symbol that it lacks",
            Cost::Install,
            // The driver is first, so the build is not the command of this finding.
            format!("Install a current driver with the open kernel modules, and reboot. {}", again().plain()).into(),
        ),
        Refusal::OtherKernel => ("nvidia-fs was built for another kernel", Cost::Root, again()),
    };
    let lacking = (kind == Refusal::LacksSymbol).then(|| symbol(&line).unwrap_or_default().to_owned());
    let judged = Judged::lack(ID, summary).found(machine::KERNEL_LOG, line).missing(cost, NVFS).advice(advice);
    let judged = match lacking {
        Some(symbol) => judged.found("/proc/kallsyms", format!("no {symbol}")).fixes(ctx.driver_fix()),
        None => judged,
    };
    // If another finding is the cause, its fix also resolves this one.
    let judged = match (behind(ctx, kind), fix_of(ctx, kind)) {
        (Some(cause), _) => {
            let mut judged = judged.fixes(None).cause(cause);
            judged.advice = None;
            judged
        }
        (None, Some(fix)) => judged.fix(fix),
        (None, None) => judged,
    };
    Some(judged)
}
