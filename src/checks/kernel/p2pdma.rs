//! Checks of the kernel release and its support of PCI P2PDMA.

use super::boot_kernel;
use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, DIRECT, Judged};
use crate::core::{CheckId, FixId, Route, Status};
use crate::machine;

const P2PDMA: &[Route] = &[Route::P2pdma];

pub(crate) fn version(ctx: &Context<'_>) -> Judged {
    const ID: CheckId = CheckId::KernelVersion;
    let Some(numbers) = ctx.kernel() else {
        return Judged::na(ID, "the kernel release could not be read");
    };
    let release = machine::kernel_release(ctx.root).unwrap_or_default();
    if let Some((source, text)) = gvisor(ctx, &release) {
        return Judged::lack(ID, "this is a gVisor sandbox: disks cannot reach a GPU")
            .found(source, text)
            .never(DIRECT)
            .advice("Run the program in a container without gVisor: remove `runtimeClassName: gvisor` from the pod, or start it with --runtime=runc. Otherwise use loaders without cuFile.");
    }
    let judged = if numbers < (4, 15) {
        Judged::lack(ID, format!("Linux {release} is older than 4.15"))
            .missing(Cost::System, &[Route::Nvfs, Route::P2pdma])
    } else if numbers < (6, 2) && carries_p2pdma_back(&release) {
        Judged::pass(ID, format!("Linux {release} has P2PDMA as a backport of Red Hat"))
    } else if numbers < (6, 2) {
        let judged =
            Judged::lack(ID, format!("Linux {release} is older than 6.2, the first with P2PDMA for user memory"))
                .missing(Cost::System, P2PDMA)
                .fix(FixId::KernelP2pdma);
        match (machine::kernel_with_p2pdma(ctx.root), newer_kernel(ctx)) {
            (Some(kernel), _) => judged.advice(boot_installed(ctx, &kernel)),
            // The additional effort: P2PDMA is preferred to nvidia-fs with its driver only if the kernel is the last step.
            (None, Some(package)) => {
                let install = Advice::from("Install the newer kernel of this release: ")
                    .command(format!("sudo apt-get update && sudo apt-get install --install-recommends {package}"));
                let advice = match boot_kernel::select_newest(ctx.root) {
                    Some(select) => install.and(select),
                    None => install,
                };
                judged.missing(Cost::Install, P2PDMA).advice(advice.text(", then reboot."))
            }
            (None, None) => judged.advice("Install Linux 6.2 or later, and boot it."),
        }
    } else {
        Judged::pass(ID, format!("Linux {release}"))
    };
    let judged = judged.found("/proc/sys/kernel/osrelease", release);
    // Reading the boot loader from the firmware is slow, so it is done only if needed.
    let is_old = judged.finding.status != Status::Pass;
    match is_old.then(|| machine::pinned_entry(ctx.root)).flatten() {
        Some(pinned) => judged.found(pinned.source, pinned.text),
        None => judged,
    }
}

/// How to boot an installed kernel with P2PDMA. DKMS may have built the driver for it.
fn boot_installed(ctx: &Context<'_>, kernel: &str) -> Advice {
    let rows = machine::dkms_rows(ctx.root);
    if rows.iter().any(|row| row.is_driver() && row.is_installed_for(kernel)) {
        return boot_kernel::boot(ctx.root, kernel).text(", then reboot.");
    }
    format!("Build the driver for {kernel}, which is installed and has P2PDMA, and boot it.").into()
}

/// The package with a kernel 6.2 or later of the same release: Ubuntu's HWE kernel.
pub(crate) fn newer_kernel(ctx: &Context<'_>) -> Option<String> {
    let release = machine::kernel_release(ctx.root)?;
    let flavour = release.splitn(3, '-').nth(2)?;
    let is_jammy = machine::packages::id(ctx.root) == "ubuntu" && machine::packages::release(ctx.root) == Some((22, 4));
    let has_hwe = ["generic", "generic-64k", "lowlatency", "lowlatency-64k"].contains(&flavour);
    (is_jammy && has_hwe).then(|| format!("linux-{flavour}-hwe-22.04"))
}

/// Whether the kernel release supports P2PDMA for user memory.
pub(crate) fn has_p2pdma(ctx: &Context<'_>) -> bool {
    let release = machine::kernel_release(ctx.root).unwrap_or_default();
    ctx.kernel().is_none_or(|numbers| numbers >= (6, 2) || carries_p2pdma_back(&release))
}

/// The evidence of gVisor: the name of its release, or the build string of its first releases.
fn gvisor(ctx: &Context<'_>, release: &str) -> Option<(&'static str, String)> {
    if release.contains("gvisor") {
        return Some(("/proc/sys/kernel/osrelease", release.to_owned()));
    }
    let version = ctx.root.read_text("/proc/version").ok()?;
    version
        .contains("Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016")
        .then(|| ("/proc/version", version.trim().to_owned()))
}

/// Whether this is a sandbox of gVisor, which has its own kernel.
pub(crate) fn is_gvisor(ctx: &Context<'_>) -> bool {
    gvisor(ctx, &machine::kernel_release(ctx.root).unwrap_or_default()).is_some()
}

/// RHEL 9.6 and later backport P2PDMA to kernel 5.14 (NVIDIA's steps for P2PDMA name 9.6 and 10). RHEL 9.5 does not
/// work and has a separate check. The kernel's build is compared, because RHEL CoreOS and CentOS Stream have other
/// version numbers: 9.4 has build 427, 9.5 has 503, 9.6 has 570.
fn carries_p2pdma_back(release: &str) -> bool {
    let build = release.strip_prefix("5.14.0-").and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    release.contains(".el9") && build.is_some_and(|build| build >= 503)
}

pub(crate) fn p2pdma(ctx: &Context<'_>) -> Judged {
    const ID: CheckId = CheckId::KernelP2pdma;
    const SYMBOL: &str = "pci_p2pdma_add_resource";
    let release = machine::kernel_release(ctx.root).unwrap_or_default();
    match machine::kernel_config(ctx.root, &release) {
        Ok(config) => {
            let line = config.line("CONFIG_PCI_P2PDMA");
            let on = config.value("CONFIG_PCI_P2PDMA") == Some("y");
            // The symbol list is long, so it is used only in captures.
            let part = on
                && !ctx.root.is_live()
                && ctx.root.symbols().is_ok_and(|s| s.contains("p2pdma_pgmap_ops") && !s.contains(SYMBOL));
            if part {
                Judged::lack(ID, "the kernel was built with PCI P2PDMA, but only a part is visible")
                    .found(config.source, line)
                    .found("/proc/kallsyms", format!("p2pdma_pgmap_ops, but no {SYMBOL}"))
                    .missing(Cost::System, P2PDMA)
                    .only_warn()
            } else if on {
                Judged::pass(ID, "the kernel has PCI P2PDMA").found(config.source, line)
            } else {
                lacking(ctx, Judged::lack(ID, "the kernel was built without PCI P2PDMA")).found(config.source, line)
            }
        }
        Err(tried) => match ctx.root.symbols() {
            Ok(symbols) if symbols.contains(SYMBOL) => {
                Judged::pass(ID, "the kernel has PCI P2PDMA").found("/proc/kallsyms", SYMBOL)
            }
            Ok(symbols) if symbols.contains("p2pdma_pgmap_ops") => {
                Judged::warn(ID, "only a part of PCI P2PDMA is visible in the kernel")
                    .found("/proc/kallsyms", format!("p2pdma_pgmap_ops, but no {SYMBOL}"))
                    .missing(Cost::System, P2PDMA)
            }
            Ok(_) => lacking(ctx, Judged::lack(ID, "the kernel has no PCI P2PDMA"))
                .found("/proc/kallsyms", format!("no {SYMBOL}")),
            Err(why) => {
                let mut judged = Judged::na(ID, "the kernel's configuration could not be read").unknown(P2PDMA);
                for (path, why) in &tried {
                    judged = judged.unread(path, why);
                }
                judged.unread("/proc/kallsyms", &why)
            }
        },
    }
}

fn lacking(ctx: &Context<'_>, judged: Judged) -> Judged {
    // One kernel brings both, so its effort counts once.
    if !has_p2pdma(ctx) && newer_kernel(ctx).is_some() {
        return judged.missing(Cost::System, P2PDMA).cause(CheckId::KernelVersion);
    }
    judged.missing(Cost::System, P2PDMA).advice(match machine::kernel_with_p2pdma(ctx.root) {
        Some(kernel) => format!("Boot {kernel}, which is installed and has CONFIG_PCI_P2PDMA."),
        None => "Boot a kernel with CONFIG_PCI_P2PDMA (6.2 or later).".to_owned(),
    })
}
