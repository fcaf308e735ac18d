//! Checks of the NVIDIA driver: version, open or proprietary modules, and whether module and libraries match.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::gpu::flavours::{choice, is_for_proprietary};
use crate::checks::gpu::static_bar1::{static_bar1, unset_keys};
use crate::checks::gpu::{libraries, providers};
use crate::checks::judged::{Cost, DIRECT, EVERY, Judged};
use crate::checks::kernel::next_boot;
use crate::core::{CheckId, FixId, Route};
use crate::machine;

const VERSION_FILE: &str = "/proc/driver/nvidia/version";

/// The first driver with P2PDMA.
pub(crate) const FIRST_WITH_P2PDMA: [u32; 2] = [565, 47];

/// The advice for a driver that is too old.
const NEWER: &str = "Install a newer driver with the open kernel modules, then reboot.";

/// Checks that do not need NVML.
pub(crate) fn quick(ctx: &Context<'_>) -> Vec<Judged> {
    let driver = machine::Driver::of(ctx.root);
    if !driver.is_loaded() {
        return [CheckId::DriverVersion, CheckId::DriverFlavour]
            .into_iter()
            .map(|id| {
                Judged::na(id, "no NVIDIA driver is loaded")
                    .unread(VERSION_FILE, &machine::Unread::Missing)
                    .cause(CheckId::GpuPresent)
            })
            .chain(unset_keys(ctx).filter(|_| !ctx.is_aarch64()))
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
    } else if ctx.are_all_before_turing() {
        // P2PDMA needs a later driver, but this GPU does not support P2PDMA.
        Judged::pass(ID, format!("driver {version}"))
    } else if numbers < vec![555] {
        // On x86 without virtualization, nvidia-fs also uses the persistent mapping functions of such a driver.
        newer(ctx, Judged::lack(ID, format!("driver {version} works with nvidia-fs, but is too old for P2PDMA")))
    } else if numbers < FIRST_WITH_P2PDMA.to_vec() {
        newer(ctx, Judged::lack(ID, format!("driver {version} is older than 565.47, the first with P2PDMA")))
    } else {
        Judged::pass(ID, format!("driver {version}"))
    };
    after_reboot(ctx, driver, judged).found(VERSION_FILE, driver.line.clone().unwrap_or_else(|| version.to_owned()))
}

/// Adds the newer driver to a finding about P2PDMA. If no driver serves all GPUs, the flavour decides about it.
fn newer(ctx: &Context<'_>, judged: Judged) -> Judged {
    let judged = judged.missing(Cost::Install, &[Route::P2pdma]);
    match choice(ctx) {
        Some(_) => judged.by_hand().cause(CheckId::DriverFlavour),
        None => judged.fix(FixId::NvidiaDriverOpen).advice(NEWER),
    }
}

/// The driver that the next boot loads, if it is another one than the loaded one.
fn next_driver(ctx: &Context<'_>, driver: &machine::Driver) -> Option<machine::ModuleInfo> {
    let loaded = driver.version.as_deref()?;
    let installed = machine::module_info(ctx.root, "nvidia").filter(|_| machine::container(ctx.root).is_none())?;
    (installed.version.as_deref()? != loaded).then_some(installed)
}

/// The routes that the installed driver has and the loaded one lacks.
fn gained(ctx: &Context<'_>, driver: &machine::Driver) -> Vec<Route> {
    let Some(next) = next_driver(ctx, driver) else { return Vec::new() };
    let is_open = |open: Option<bool>| open != Some(false);
    let has_p2pdma = |version: &Option<String>, open: Option<bool>| {
        is_open(open) && version.as_deref().is_some_and(|v| machine::version_numbers(v) >= FIRST_WITH_P2PDMA.to_vec())
    };
    let mut routes = Vec::new();
    if is_open(next.is_open()) && !is_open(driver.is_open()) {
        routes.push(Route::Nvfs);
    }
    if has_p2pdma(&next.version, next.is_open()) && !has_p2pdma(&driver.version, driver.is_open()) {
        routes.push(Route::P2pdma);
    }
    routes
}

/// A problem of the loaded driver that the installed one does not have: only the reboot is left.
fn after_reboot(ctx: &Context<'_>, driver: &machine::Driver, judged: Judged) -> Judged {
    let gained = gained(ctx, driver);
    let is_gained = judged.in_the_way().next().is_some() && judged.in_the_way().all(|route| gained.contains(&route));
    if is_gained { Judged { advice: None, ..judged.fixes(None).cause(CheckId::DriverMismatch) } } else { judged }
}

fn flavour(ctx: &Context<'_>, driver: &machine::Driver) -> Judged {
    const ID: CheckId = CheckId::DriverFlavour;
    let judged = match driver.is_open().or_else(|| installed_is_open(ctx, &driver.version)) {
        None => Judged::na(ID, "the flavour of the loaded kernel modules is not known").unknown(DIRECT),
        Some(true) => Judged::pass(ID, "open kernel modules"),
        Some(false) if ctx.is_divided() || ctx.are_all_before_turing() => {
            // The check gpu-open-capable reports which routes this blocks, and `flavours` those of newer GPUs.
            Judged::pass(ID, "proprietary kernel modules, as a GPU before Turing needs them")
        }
        Some(false) => {
            let nvfs = machine::nvidia_fs_installed(ctx.root);
            let old = nvfs.as_deref().is_some_and(|v| is_for_proprietary(ctx, v));
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
    let has_open = judged.in_the_way().next().is_some()
        && providers::hidden(ctx).is_some_and(|hidden| hidden.is_open())
        && is_mismatched(ctx);
    let judged = if has_open {
        // The modules that DKMS has installed are open ones. The mismatch is resolved by them.
        Judged { advice: None, ..judged.fixes(None).cause(CheckId::DriverMismatch) }
    } else {
        judged
    };
    after_reboot(ctx, driver, judged)
        .found(VERSION_FILE, driver.line.clone().unwrap_or_else(|| "not readable".to_owned()))
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
    let installed = machine::module_info(ctx.root, "nvidia").and_then(|installed| installed.version);
    let judged = if (refused.is_some() || other.is_some())
        && installed.as_ref() == Some(&loaded)
        && machine::container(ctx.root).is_none()
    {
        // The next boot loads the same module again.
        let of_libraries = other.map(str::to_owned).or_else(|| libraries::installed_version(ctx.root));
        let judged = match providers::hidden(ctx) {
            Some(hidden) => {
                let summary = format!(
                    "two providers of nvidia.ko: {loaded} is loaded, and DKMS has installed {}",
                    hidden.row.version
                );
                Judged::lack(ID, summary)
                    .found("dkms status", format!("{}/{}: {}", hidden.row.name, hidden.row.version, hidden.row.state))
                    .advice(providers::keep(ctx, &hidden))
                    .by_hand()
            }
            None => Judged::lack(ID, providers::which_is_newer(&loaded, of_libraries.as_deref()))
                .advice(module_of_libraries(ctx, &loaded, of_libraries)),
        };
        let file = machine::module_info(ctx.root, "nvidia").and_then(|module| module.file).unwrap_or_default();
        judged
            .found("NVML", refused.or(other).unwrap_or_default())
            .found("modinfo nvidia", format!("{loaded} {file}").trim_end())
            .missing(Cost::Install, EVERY)
    } else if let Some(container) = machine::container(ctx.root).filter(|_| refused.is_some() || other.is_some()) {
        let found = driver.version.as_deref().and_then(|loaded| libraries::foreign(ctx.root, loaded));
        let version = other.or_else(|| found.as_ref().map(|found| found.version.as_str()));
        let libraries = version.unwrap_or("another version").to_owned();
        let judged =
            Judged::lack(ID, format!("the host has driver {loaded}, and the libraries in this container {libraries}"))
                .found("NVML", refused.or(other).unwrap_or_default())
                .missing(Cost::Install, EVERY)
                .advice(libraries::of_container(ctx, &container, &loaded, found.as_ref()));
        match found {
            Some(found) => judged.found(found.file, found.source.name()),
            None => judged,
        }
    } else if refused.is_some() || other.is_some() {
        let judged = Judged::lack(ID, format!("the loaded module is {loaded}, and the libraries have another version"))
            .found("NVML", refused.or(other).unwrap_or_default());
        match unbuilt(ctx) {
            Some(build) => judged
                .missing(Cost::Install, EVERY)
                .found("modinfo nvidia", "no such module")
                .advice(Advice::from("Build the module of the new version: ").command(build).text(", then reboot.")),
            None => judged
                .missing(Cost::Reboot, EVERY)
                .advice(Advice::run("sudo reboot").text(", so that module and libraries have one version.")),
        }
    } else {
        match installed.filter(|version| *version != loaded) {
            Some(version) => Judged::warn(
                ID,
                format!("driver {loaded} is loaded, but {version} is installed and is used after a reboot"),
            )
            .found("modinfo nvidia", version)
            .missing(Cost::Reboot, &gained(ctx, &driver))
            .advice(Advice::run("sudo reboot").text(", so that the installed driver is loaded.")),
            None if nvml.error.is_some() => return None,
            None => Judged::pass(ID, format!("module and libraries have version {loaded}")),
        }
    };
    Some(judged.found("/sys/module/nvidia/version", loaded))
}

/// The command that builds the driver for the running kernel, if an update removed its module and left none.
fn unbuilt(ctx: &Context<'_>) -> Option<String> {
    let unready = machine::unready_kernel(ctx.root).filter(|one| one.lacks_driver && one.release == one.running)?;
    let build = next_boot::build(ctx.root, &unready);
    (!build.is_empty()).then(|| build.join(" && "))
}

/// How to install the kernel module of the version that the libraries have.
fn module_of_libraries(ctx: &Context<'_>, loaded: &str, libraries: Option<String>) -> Advice {
    let release = machine::kernel_release(ctx.root).unwrap_or_default();
    let is_wanted = |version: &String| libraries.as_ref().is_none_or(|libraries| libraries == version);
    let unbuilt = machine::dkms_rows(ctx.root)
        .into_iter()
        .find(|row| row.is_driver() && is_wanted(&row.version) && !row.is_installed_for(&release));
    match unbuilt {
        Some(row) => {
            let build = format!("sudo dkms install {}/{} -k {release}", row.name, row.version);
            Advice::from("Build the module of the new version: ").command(build).text(", then reboot.")
        }
        None => packaged_module(ctx, &release, loaded, libraries.as_deref()).unwrap_or_else(|| {
            Advice::from(format!(
                "Install the kernel modules of {} for Linux {release}, then reboot. A reboot alone loads the old module again.",
                libraries.map_or_else(|| "the libraries' version".to_owned(), |version| format!("driver {version}"))
            ))
        }),
    }
}

/// How to update modules that a distribution built, or how to go back to libraries of their version.
fn packaged_module(ctx: &Context<'_>, release: &str, loaded: &str, libraries: Option<&str>) -> Option<Advice> {
    const AGAIN: &str = ", then reboot. A reboot alone loads the old module again.";
    let to = libraries.map_or_else(String::new, |version| format!(" to {version}"));
    match machine::driver_origin(ctx.root)? {
        machine::DriverOrigin::Suse => {
            // The name of the package ends with the variant of the kernel.
            let variant =
                release.rsplit('-').next().filter(|v| v.starts_with(|c: char| c.is_ascii_alphabetic() || c == '6'));
            let variant = variant.unwrap_or("default");
            Some(
                Advice::from(format!("Update the modules{to}: "))
                    .command(format!(
                        "sudo zypper refresh && sudo zypper update nvidia-open-driver-G06-signed-cuda-kmp-{variant}"
                    ))
                    .text(format!("{AGAIN} If zypper has none, use libraries of {loaded}: "))
                    .command(format!(
                        "sudo zypper install --oldpackage nvidia-compute-G06={loaded} nvidia-compute-utils-G06={loaded}"
                    ))
                    .text("."),
            )
        }
        machine::DriverOrigin::Ubuntu(driver) if driver.is_prebuilt => {
            let branch = libraries.unwrap_or(loaded).split('.').next()?.to_owned();
            let server = if driver.is_server { "-server" } else { "" };
            let is_open = machine::module_info(ctx.root, "nvidia").and_then(|module| module.is_open()) == Some(true);
            let open = if is_open { "-open" } else { "" };
            Some(
                Advice::from(format!("Update the modules{to}: "))
                    .command(format!(
                        "sudo apt-get update && sudo apt-get install linux-modules-nvidia-{branch}{server}{open}-{release}"
                    ))
                    .text(AGAIN),
            )
        }
        // akmods builds the version of its source only.
        machine::DriverOrigin::RpmFusion if libraries.is_some_and(|version| !providers::akmods_has(ctx.root, version)) => {
            Some(
                Advice::from("Bring modules and libraries to one version: ")
                    .command(format!(
                        "sudo dnf upgrade --refresh akmod-nvidia 'xorg-x11-drv-nvidia*' && sudo akmods --force --rebuild --kernels {release}"
                    ))
                    .text(AGAIN),
            )
        }
        machine::DriverOrigin::RpmFusion => Some(
            Advice::from(format!("Build the modules{to}: "))
                .command(format!("sudo akmods --force --rebuild --kernels {release}"))
                .text(AGAIN),
        ),
        _ => None,
    }
}

/// Whether the installed module is open. `None` if its version differs from the loaded module.
fn installed_is_open(ctx: &Context<'_>, loaded: &Option<String>) -> Option<bool> {
    let installed = machine::module_info(ctx.root, "nvidia").filter(|installed| installed.version == *loaded)?;
    installed.is_open()
}
