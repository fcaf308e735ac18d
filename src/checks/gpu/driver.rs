//! The NVIDIA driver: version, flavour, and whether module and libraries match.

use crate::checks::context::Context;
use crate::checks::gpu::static_bar1::static_bar1;
use crate::checks::judged::{Cost, DIRECT, EVERY, Judged};
use crate::checks::spec::CheckId;
use crate::core::{FixId, Route};
use crate::machine;

const VERSION_FILE: &str = "/proc/driver/nvidia/version";

/// The remedy for a driver that is too old.
const NEWER: &str =
    "Install a newer driver with the open kernel modules, then reboot: `gds-top fix nvidia-driver-open` shows how.";

/// Checks that need no answer of NVML.
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
    const WHY: &str = "nvidia-fs takes the persistent peer-to-peer calls from driver 555 on; P2PDMA needs the open modules from 565.47 on.";
    let Some(version) = driver.version.as_deref() else {
        return Judged::na(ID, "the version of the loaded driver could not be read");
    };
    let numbers = machine::version_numbers(version);
    let judged = if numbers < vec![460] {
        Judged::lack(ID, format!("driver {version} is older than 460, the oldest that works with GDS"))
            .missing(Cost::Install, &[Route::Nvfs, Route::P2pdma, Route::C2c])
            .fixes(ctx.driver_fix())
            .advice(NEWER)
    } else if ctx.before_turing().next().is_some() {
        // P2PDMA, which needs a later one, is not for this GPU.
        Judged::pass(ID, format!("driver {version}"))
    } else if numbers < vec![555] {
        // On bare x86 nvidia-fs takes the persistent calls of such a driver, too.
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
    judged.found(VERSION_FILE, driver.line.clone().unwrap_or_else(|| version.to_owned())).why(WHY)
}

fn flavour(ctx: &Context<'_>, driver: &machine::Driver) -> Judged {
    const ID: CheckId = CheckId::DriverFlavour;
    const WHY: &str = "From nvidia-fs 2.17.5 on its symbols come from the open kernel modules only, and P2PDMA exists only there; with the \
                       proprietary modules nvidia-fs fails to load with 'Unknown symbol nvidia_p2p_…'.";
    let judged = match driver.is_open().or_else(|| installed_is_open(ctx, &driver.version)) {
        None => Judged::na(ID, "whether the open or the proprietary modules are loaded is not said").unknown(DIRECT),
        Some(true) => Judged::pass(ID, "open kernel modules"),
        Some(false) if ctx.before_turing().next().is_some() => {
            // The check gpu-open-capable has the consequences for the routes.
            Judged::pass(ID, "proprietary kernel modules, the only ones for a GPU before Turing")
        }
        Some(false) => {
            let nvfs = machine::nvidia_fs_installed(ctx.root);
            let old = nvfs.as_deref().is_some_and(|v| machine::version_numbers(v) <= vec![2, 17, 4]);
            let routes: &[Route] = if old { &[Route::P2pdma] } else { &[Route::Nvfs, Route::P2pdma] };
            let summary = match &nvfs {
                Some(version) if old => {
                    format!("proprietary kernel modules; enough for nvidia-fs {version}, not for P2PDMA")
                }
                Some(version) => format!("proprietary kernel modules do not go with nvidia-fs {version}"),
                None => "proprietary kernel modules: neither a current nvidia-fs nor P2PDMA works with them".to_owned(),
            };
            Judged::lack(ID, summary)
                .missing(Cost::Install, routes)
                .fix(FixId::NvidiaDriverOpen)
                .advice("Install the open kernel modules of the same driver (Turing GPUs and later), then reboot.")
        }
    };
    judged.found(VERSION_FILE, driver.line.clone().unwrap_or_else(|| "not readable".to_owned())).why(WHY)
}

/// Whether the loaded module and the libraries are of different versions.
pub(crate) fn is_mismatched(ctx: &Context<'_>) -> bool {
    mismatch(ctx).is_some_and(|judged| judged.in_the_way().next().is_some())
}

fn mismatch(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::DriverMismatch;
    const WHY: &str = "After a half-finished upgrade the loaded kernel module and the libraries differ, and everything of CUDA fails.";
    let driver = machine::Driver::of(ctx.root);
    let nvml = ctx.root.nvml();
    let refused = nvml.error.as_deref().filter(|e| e.to_lowercase().contains("mismatch"));
    let loaded = match (driver.version.clone(), refused) {
        (Some(version), _) => version,
        (None, Some(_)) => "not readable".to_owned(),
        (None, None) => return None,
    };
    let other = nvml.driver_version.as_deref().filter(|version| **version != loaded);
    let judged = if refused.is_some() || other.is_some() {
        Judged::lack(ID, format!("the loaded module is {loaded}, the libraries are of another version"))
            .found("NVML", refused.or(other).unwrap_or_default())
            .missing(Cost::Reboot, EVERY)
            .advice("Reboot, or unload and reload the nvidia modules, so that module and libraries are of one version.")
    } else {
        let installed = ctx.root.command(&["modinfo", "nvidia"]).filter(|o| o.exit_code == Some(0));
        let installed =
            installed.and_then(|o| Some(o.stdout.lines().find_map(|l| l.strip_prefix("version:"))?.trim().to_owned()));
        match installed.filter(|version| *version != loaded) {
            Some(version) => {
                Judged::warn(ID, format!("driver {loaded} is loaded, {version} is installed: the next boot changes it"))
                    .found("modinfo nvidia", version)
                    .advice("Reboot before measuring, so that what is measured is what stays.")
            }
            None if nvml.error.is_some() => return None,
            None => Judged::pass(ID, format!("module and libraries are both {loaded}")),
        }
    };
    Some(judged.found("/sys/module/nvidia/version", loaded).why(WHY))
}

/// Whether the module on disk is an open one, if it has the version of the loaded one.
fn installed_is_open(ctx: &Context<'_>, loaded: &Option<String>) -> Option<bool> {
    let installed = machine::module_info(ctx.root, "nvidia").filter(|installed| installed.version == *loaded)?;
    installed.is_open()
}
