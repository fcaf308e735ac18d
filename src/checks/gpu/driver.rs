//! Checks of the NVIDIA driver: version, open or proprietary modules, and whether module and libraries match.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::gpu::static_bar1::static_bar1;
use crate::checks::judged::{Cost, DIRECT, EVERY, Judged};
use crate::core::{CheckId, FixId, Route};
use crate::machine;

const VERSION_FILE: &str = "/proc/driver/nvidia/version";

/// The advice for a driver that is too old.
const NEWER: &str = "Install a newer driver with the open kernel modules, then reboot.";

/// Checks that do not need NVML.
pub(crate) fn quick(ctx: &Context<'_>) -> Vec<Judged> {
    let driver = machine::Driver::of(ctx.root);
    if !driver.is_loaded() {
        return [CheckId::DriverVersion, CheckId::DriverFlavour]
            .into_iter()
            .map(|id| Judged::na(id, "no NVIDIA driver is loaded").unread(VERSION_FILE, &machine::Unread::Missing))
            .collect();
    }
    let mut out = Vec::new();
    if !ctx.is_aarch64() {
        out.push(static_bar1(ctx));
    }
    out
}

/// Checks that wait for NVML.
pub(crate) fn slow(ctx: &Context<'_>) -> Vec<Judged> {
    let mut out: Vec<Judged> = mismatch(ctx).into_iter().collect();
    let driver = machine::Driver::of(ctx.root);
    if driver.is_loaded() {
        out.extend([version(ctx, &driver), flavour(ctx, &driver)]);
    }
    out
}

fn version(ctx: &Context<'_>, driver: &machine::Driver) -> Judged {
    const ID: CheckId = CheckId::DriverVersion;
    let Some(version) = driver.version.as_deref() else {
        return Judged::na(ID, "the version of the loaded driver could not be read");
    };
    let numbers = machine::version_numbers(version);
    let judged = if numbers < vec![460] {
        Judged::lack(ID, format!("driver {version} is older than 460, the oldest with GDS"))
            .missing(Cost::Install, &[Route::Nvfs, Route::P2pdma, Route::C2c])
            .fixes(ctx.driver_fix())
            .advice(NEWER)
    } else if ctx.before_turing().next().is_some() {
        // P2PDMA needs a later driver, but this GPU does not support P2PDMA.
        Judged::pass(ID, format!("driver {version}"))
    } else if numbers < vec![555] {
        // On x86 without virtualization, nvidia-fs also uses the persistent mapping functions of such a driver.
        Judged::lack(ID, format!("driver {version} works with nvidia-fs, but is too old for P2PDMA"))
            .missing(Cost::Install, &[Route::P2pdma])
            .fix(FixId::NvidiaDriverOpen)
            .advice(NEWER)
    } else if numbers < vec![565, 47] {
        Judged::lack(ID, format!("driver {version} is older than 565.47, the first with P2PDMA"))
            .missing(Cost::Install, &[Route::P2pdma])
            .fix(FixId::NvidiaDriverOpen)
            .advice(NEWER)
    } else {
        Judged::pass(ID, format!("driver {version}"))
    };
    judged.found(VERSION_FILE, driver.line.clone().unwrap_or_else(|| version.to_owned()))
}

fn flavour(ctx: &Context<'_>, driver: &machine::Driver) -> Judged {
    const ID: CheckId = CheckId::DriverFlavour;
    let judged = match driver.is_open().or_else(|| installed_is_open(ctx, &driver.version)) {
        None => Judged::na(ID, "the flavour of the loaded kernel modules is not known").unknown(DIRECT),
        Some(true) => Judged::pass(ID, "open kernel modules"),
        Some(false) if ctx.before_turing().next().is_some() => {
            // The check gpu-open-capable reports which routes this blocks.
            Judged::pass(ID, "proprietary kernel modules, as a GPU before Turing needs them")
        }
        Some(false) => {
            let nvfs = machine::nvidia_fs_installed(ctx.root);
            let old = nvfs.as_deref().is_some_and(|v| machine::version_numbers(v) <= vec![2, 17, 4]);
            let routes: &[Route] = if old { &[Route::P2pdma] } else { &[Route::Nvfs, Route::P2pdma] };
            let summary = match &nvfs {
                Some(version) if old => {
                    format!("proprietary kernel modules work with nvidia-fs {version}, but not with P2PDMA")
                }
                Some(version) => format!("proprietary kernel modules do not work with nvidia-fs {version}"),
                None => "proprietary kernel modules work neither with a current nvidia-fs nor with P2PDMA".to_owned(),
            };
            Judged::lack(ID, summary)
                .missing(Cost::Install, routes)
                .fix(FixId::NvidiaDriverOpen)
                .advice("Install the open kernel modules of the same driver (Turing GPUs and later), then reboot.")
        }
    };
    judged.found(VERSION_FILE, driver.line.clone().unwrap_or_else(|| "not readable".to_owned()))
}

/// Whether the loaded kernel module and the libraries have different versions.
pub(crate) fn is_mismatched(ctx: &Context<'_>) -> bool {
    mismatch(ctx).is_some_and(|judged| judged.in_the_way().next().is_some())
}

fn mismatch(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::DriverMismatch;
    let driver = machine::Driver::of(ctx.root);
    let nvml = ctx.root.nvml();
    let refused = nvml.error.as_deref().filter(|_| nvml.is_mismatched());
    let loaded = match (driver.version.clone(), refused) {
        (Some(version), _) => version,
        (None, Some(_)) => "not readable".to_owned(),
        (None, None) => return None,
    };
    let other = nvml.driver_version.as_deref().filter(|version| **version != loaded);
    let judged = if refused.is_some() || other.is_some() {
        Judged::lack(ID, format!("the loaded module is {loaded}, and the libraries have another version"))
            .found("NVML", refused.or(other).unwrap_or_default())
            .missing(Cost::Reboot, EVERY)
            .advice(Advice::run("sudo reboot").text(", so that module and libraries have one version."))
    } else {
        let installed = ctx.root.command(&["modinfo", "nvidia"]).filter(|o| o.exit_code == Some(0));
        let installed =
            installed.and_then(|o| Some(o.stdout.lines().find_map(|l| l.strip_prefix("version:"))?.trim().to_owned()));
        match installed.filter(|version| *version != loaded) {
            Some(version) => Judged::warn(
                ID,
                format!("driver {loaded} is loaded, but {version} is installed and is used after a reboot"),
            )
            .found("modinfo nvidia", version)
            .advice("Reboot before you measure."),
            None if nvml.error.is_some() => return None,
            None => Judged::pass(ID, format!("module and libraries have version {loaded}")),
        }
    };
    Some(judged.found("/sys/module/nvidia/version", loaded))
}

/// Whether the installed module is open. `None` if its version differs from the loaded module.
fn installed_is_open(ctx: &Context<'_>, loaded: &Option<String>) -> Option<bool> {
    let installed = machine::module_info(ctx.root, "nvidia").filter(|installed| installed.version == *loaded)?;
    installed.is_open()
}
