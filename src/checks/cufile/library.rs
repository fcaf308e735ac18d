//! Checks whether libcufile exists, its version, and whether it opens.

use crate::checks::advice::Advice;
use crate::checks::container::surroundings;
use crate::checks::context::Context;
use crate::checks::cufile::config::{p2p_keys, refused_by_the_library, transport_key};
use crate::checks::cufile::dependencies::lacks_libraries;
use crate::checks::cufile::log::log_folder_is_missing;
use crate::checks::cufile::{cuda_errors, route_table, stub};
use crate::checks::gpu::driver::is_mismatched;
use crate::checks::gpu::state::{library_is_newer, must_recover};
use crate::checks::gpu::{device, present};
use crate::checks::judged::{Cost, EVERY, Judged, Scope};
use crate::checks::logs::signatures::explain_cufile;
use crate::checks::nvidia_fs::loaded;
use crate::checks::nvidia_fs::loaded::is_too_old;
use crate::core::{CheckId, FixId, Route};
use crate::machine::{self, FoundLibrary, LibcufileFacts, LibraryOwner};
use crate::text::quoted;
use std::path::Path;

fn found(ctx: &Context<'_>, facts: &LibcufileFacts) -> Judged {
    const ID: CheckId = CheckId::LibFound;
    let error = facts.error.clone().unwrap_or_else(|| "nothing found".to_owned());
    let mut judged = if facts.unasked {
        Judged::na(ID, "the probe of libcufile failed").found("probe", error).unknown(EVERY)
    } else if let Some((line, (summary, advice))) =
        rejected(facts).filter(|_| facts.found.is_empty() && facts.chosen.is_none())
    {
        Judged::lack(ID, format!("the dynamic loader rejects libcufile: {summary}"))
            .found("dynamic loader", line)
            .missing(Cost::Setting, EVERY)
            .by_hand()
            .advice(advice)
    } else if facts.found.is_empty() && facts.chosen.is_none() {
        Judged::lack(ID, "libcufile is not installed")
            .found("dynamic loader", error)
            .missing(Cost::Install, EVERY)
            .fix(FixId::LibcufileInstall)
            .advice({
                let (major, minor) = machine::cuda_packages(ctx.root);
                let wheel =
                    machine::cufile_wheel(major).map_or_else(String::new, |wheel| format!(", or pip install {wheel}"));
                format!(
                    "Install libcufile (the package libcufile-{major}-{minor}{wheel}), or set GDS_TOP_LIBCUFILE to its file."
                )
            })
    } else {
        let mut versions: Vec<&str> = facts.found.iter().filter_map(|f| f.version.as_deref()).collect();
        versions.sort_unstable();
        versions.dedup();
        let chosen = facts.chosen.as_deref().unwrap_or("the first one");
        // Several toolkits in their directories are usual. Python environments can hide a copy with other routes.
        let is_of_system = |path: &str| path.starts_with("/usr/") && !path.contains("-packages/");
        if versions.len() > 1 && facts.found.iter().all(|found| is_of_system(&found.path)) {
            Judged::info(ID, format!("{} versions of libcufile are installed; {chosen} is used", versions.len()))
        } else if versions.len() > 1 {
            Judged::warn(ID, format!("{} versions of libcufile are installed; {chosen} is used", versions.len()))
                .advice("Frameworks can load another copy; /proc/PID/maps shows it. Name the copy to examine in GDS_TOP_LIBCUFILE.")
        } else {
            Judged::pass(ID, format!("libcufile at {chosen}"))
        }
    };
    // If a container has the driver, containers have libcufile too.
    if facts.found.is_empty()
        && facts.chosen.is_none()
        && !facts.unasked
        && machine::driver_container(ctx.root).is_some()
    {
        judged = judged.fixes(None).cause(CheckId::GpuPresent);
        judged.advice = None;
    }
    for library in facts.found.iter().take(8) {
        judged =
            judged.found(&library.path, library.version.clone().unwrap_or_else(|| "version not reported".to_owned()));
    }
    judged
}

/// The first libcufile with P2PDMA, that of CUDA 12.8 (Getting Started with GDS, GDS Installation).
const FIRST_WITH_P2PDMA: (u32, u32) = (1, 13);

/// A copy of libcufile with P2PDMA that is installed and not used, and its directory. The driver must support its CUDA
/// release: 1.15 and later belong to CUDA 13.
fn newer_copy<'a>(ctx: &Context<'_>, facts: &'a LibcufileFacts) -> Option<(&'a FoundLibrary, String)> {
    let served = ctx.root.nvml().cuda_version.as_deref().map(machine::version_numbers)?;
    let is_usable = |copy: &&FoundLibrary| {
        let version = copy.version.as_deref().map(machine::version_numbers).unwrap_or_default();
        version >= vec![FIRST_WITH_P2PDMA.0, FIRST_WITH_P2PDMA.1] && (version < vec![1, 15] || served >= vec![13])
    };
    let copy = facts.found.iter().filter(|copy| facts.chosen.as_ref() != Some(&copy.path)).find(is_usable)?;
    Some((copy, Path::new(&copy.path).parent()?.display().to_string()))
}

/// How to update a library without P2PDMA in its Python or conda environment. All releases before 1.15 are of CUDA 12.
fn update_in_environment(ctx: &Context<'_>, facts: &LibcufileFacts) -> Option<Advice> {
    let path = facts.chosen.as_deref()?;
    let update = Advice::run(machine::library_update(ctx.root, path, 12)?);
    Some(match machine::library_owner(ctx.root, path) {
        LibraryOwner::Wheel(_) => update.text(
            ". If pip reports a conflict, install a framework for CUDA 12.8 or later instead (PyTorch: cu128). LD_LIBRARY_PATH has no effect on it.",
        ),
        _ => update.text(" in the environment."),
    })
}

fn version(ctx: &Context<'_>, facts: &LibcufileFacts) -> Judged {
    const ID: CheckId = CheckId::LibVersion;
    let source = facts.chosen.clone().unwrap_or_else(|| "libcufile".to_owned());
    match (facts.version(), facts.version_numbers()) {
        (Some(text), Some(numbers)) if numbers < FIRST_WITH_P2PDMA && !ctx.is_aarch64() => {
            let summary = format!("libcufile {text} has no P2PDMA; 1.13 of CUDA 12.8 is the first");
            let judged = if numbers < (1, 7) { Judged::warn(ID, summary) } else { Judged::lack(ID, summary) };
            let judged = judged.found(source, text);
            let copy = newer_copy(ctx, facts);
            let judged = match &copy {
                Some((copy, _)) => judged.found(&copy.path, copy.version.clone().unwrap_or_default()),
                None => judged,
            };
            if let Some(update) = update_in_environment(ctx, facts) {
                return judged.missing(Cost::Install, &[Route::P2pdma]).fix(FixId::LibcufileInstall).advice(update);
            }
            if let Some((_, folder)) = copy {
                let is_set = ctx.root.variable("LD_LIBRARY_PATH").is_some_and(|value| !value.is_empty());
                let folder = quoted(&folder);
                let advice = if is_set {
                    cuda_errors::export(Advice::from("Run "), &format!("{folder}:$LD_LIBRARY_PATH"))
                } else {
                    Advice::run(format!("export LD_LIBRARY_PATH={folder}"))
                        .text(" in the shell that starts the program.")
                };
                return judged.by_hand().missing(Cost::Setting, &[Route::P2pdma]).advice(advice);
            }
            judged
                .missing(Cost::Install, &[Route::P2pdma])
                .fix(FixId::LibcufileInstall)
                .advice("Install libcufile 1.13 or later, of a CUDA release that the driver supports.")
        }
        (Some(text), Some(numbers)) if numbers < (1, 7) => {
            Judged::warn(ID, format!("libcufile {text} is older than 1.7"))
                .found(source, text)
                .advice("Install a current libcufile.")
        }
        (Some(text), Some(numbers)) if numbers < (1, 16) => {
            Judged::info(ID, format!("libcufile {text} does not report its routes; 1.16 and later do"))
                .found(source, text)
        }
        (Some(text), _) => Judged::pass(ID, format!("libcufile {text}")).found(source, text),
        (None, _) => Judged::na(ID, "the library does not report its version").found(source, "no cuFileGetVersion"),
    }
}

/// Whether a code of CUDA excludes that libcufile is too new, which is error 35.
const fn has_another_cause(code: Option<i32>) -> bool {
    matches!(code, Some(100 | 101 | 802 | 803 | 804))
}

fn opens(ctx: &Context<'_>, facts: &LibcufileFacts) -> Judged {
    const ID: CheckId = CheckId::LibOpenProbe;
    let modules = ctx.root.read_bytes("/proc/modules").err();
    let spins = facts.version_numbers().is_none_or(|v| v >= (1, 16));
    let said = |judged: Judged| match facts.open.as_ref().map(|open| open.stderr.trim()).filter(|text| !text.is_empty())
    {
        Some(text) => judged.found("stderr of the library", text.lines().take(4).collect::<Vec<_>>().join("; ")),
        None => judged,
    };
    let judged = match &facts.open {
        Some(open) if open.code == Some(0) => {
            let judged = Judged::pass(ID, "libcufile opens").found("cuFileDriverOpen", "0");
            match &facts.p2p_flags {
                Some(flags) if !flags.is_empty() => judged.found("cuFileDriverGetP2PFlags", describe(flags)),
                _ => judged,
            }
        }
        Some(open) if open.timed_out || open.code.is_none() => {
            let how = if open.timed_out { "it did not return within the time limit" } else { "its process died" };
            let judged = Judged::lack(ID, format!("libcufile does not open: {how}"))
                .missing(Cost::System, EVERY)
                .found("cuFileDriverOpen", how);
            match &modules {
                _ if machine::wsl(ctx.root).is_some() => judged.cause(CheckId::Wsl),
                Some(why) if spins => judged.unread("/proc/modules", why).cause(CheckId::CtrProcSys),
                _ if loader_error(&open.stderr).is_some() => {
                    let (summary, advice) = loader_error(&open.stderr).unwrap_or_default();
                    Judged::lack(ID, format!("libcufile does not open: {summary}"))
                        .missing(Cost::Setting, EVERY)
                        .found("cuFileDriverOpen", how)
                        .advice(advice)
                }
                _ => judged.advice(
                    Advice::run("gds-top check -v")
                        .text(" to see its output. Try another libcufile with GDS_TOP_LIBCUFILE."),
                ),
            }
        }
        Some(open) => {
            let code = open.code.unwrap_or(0);
            let cuda = open.cuda_code.filter(|c| *c != 0).map_or(String::new(), |c| format!(", CUDA {c}"));
            let judged = Judged::lack(ID, format!("libcufile does not open: error {code}{cuda}"))
                .found("cuFileDriverOpen", format!("{code}{cuda}"))
                .missing(Cost::Root, EVERY);
            let explained = explain_cufile(&open.stderr);
            let says = |check: CheckId| explained.iter().any(|cause| cause.check == Some(check));
            if machine::wsl(ctx.root).is_some() {
                judged.cause(CheckId::Wsl)
            } else if matches!(code, 5002 | -22 | 5030) && ctx.config().is_fatal() {
                judged.cause(CheckId::CfgParse)
            } else if let Some(refused) = refused_by_the_library(ctx, facts) {
                judged.cause(refused.id)
            } else if matches!(code, 5011 | 5033) && machine::proc_of_processes(ctx.root).is_some() {
                judged.cause(CheckId::CtrProcSys)
            } else if open.cuda_code == Some(802) && ctx.has_fabric() {
                judged.cause(CheckId::GpuFabric)
            } else if (code == 5004 || says(CheckId::NvfsVersion)) && is_too_old(ctx) {
                judged.cause(CheckId::NvfsVersion)
            } else if (code == 5025 || says(CheckId::NvfsDevnodes)) && loaded::lacks_devices(ctx) {
                judged.cause(CheckId::NvfsDevnodes)
            } else if matches!(code, 5002 | -22) && log_folder_is_missing(ctx) {
                judged.cause(CheckId::LogLocation)
            } else if matches!(code, 5011 | 5033) && !has_another_cause(open.cuda_code) && library_is_newer(ctx) {
                judged.cause(CheckId::CudaDriverRuntime)
            } else if matches!(code, 5011 | 5033) && is_mismatched(ctx) {
                judged.cause(CheckId::DriverMismatch)
            } else if matches!(code, 5011 | 5033) && surroundings::lacks_devices(ctx) {
                judged.cause(CheckId::CtrDevices)
            } else if must_recover(ctx) {
                judged.cause(CheckId::GpuEcc)
            } else if matches!(code, 5007 | 5011) && device::is_before_pascal(ctx) {
                judged.cause(CheckId::GpuComputeCap)
            } else if code == 5033 && !ctx.root.nvml().gpus.is_empty() {
                // NVML reports a GPU, so the driver works; releases up to 1.15 need libcuda.so.1 to open.
                judged.advice(cuda_errors::bring_libcuda(ctx.root))
            } else if matches!(open.cuda_code, Some(100 | 101)) && present::is_out_of_sight(ctx) {
                judged.cause(CheckId::GpuPresent)
            } else if code == 5011 && present::blocks_all(ctx) {
                // CUDA cannot start without a GPU that answers.
                judged.cause(CheckId::GpuPresent)
            } else if let Some(id) = device::explains(ctx, open.cuda_code) {
                judged.cause(id)
            } else if lacks_libraries(ctx) {
                judged.cause(CheckId::LibDeps)
            } else if code == 5033 || (code == 5011 && !ctx.has_gpu()) {
                judged.cause(CheckId::GpuPresent)
            } else if code == 5001 && is_not_loaded(ctx) {
                judged.cause(CheckId::NvfsLoaded)
            } else if code == 5001 && !ctx.config().switch("properties.allow_compat_mode", true).0 {
                judged.cause(CheckId::CfgCompat)
            } else if code == 5001 && machine::nvidia_fs_loaded(ctx.root) == Some(false) {
                judged.cause(CheckId::NvfsLoaded)
            } else {
                let remedy = open.cuda_code.and_then(|code| cuda_errors::remedy(ctx.root, code, library_is_newer(ctx)));
                let judged = match open.cuda_code.and_then(|code| cuda_errors::resumed(ctx.root, code)) {
                    Some(line) => judged.found(machine::KERNEL_LOG, line),
                    None => judged,
                };
                let judged = if open.cuda_code == Some(34) { of_stub(ctx, judged) } else { judged };
                let named = open.cuda_code.filter(|code| *code != 0).unwrap_or(code);
                let is_of_driver = remedy.is_none() || matches!(open.cuda_code, Some(3 | 304 | 999));
                let judged = match cuda_errors::logged(ctx.root).filter(|_| is_of_driver) {
                    Some(line) => judged.found(machine::KERNEL_LOG, line),
                    None => judged,
                };
                judged.advice(remedy.unwrap_or_else(|| {
                    Advice::run(format!("gds-top explain {named}")).text(" for the causes of this error.")
                }))
            }
        }
        None => match &modules {
            Some(why) if spins => Judged::lack(ID, "libcufile was not opened: this version would loop forever here")
                .unread("/proc/modules", why)
                .missing(Cost::System, EVERY)
                .cause(CheckId::CtrProcSys),
            _ if facts.left_closed => Judged::na(ID, "libcufile was found and not opened because of --no-probe")
                .found("cuFileDriverOpen", "not called, because it initialises CUDA")
                .advice(
                    Advice::run("gds-top check")
                        .text(" without --no-probe to open it in a child process and prove the route by a read."),
                ),
            _ if lacks_libraries(ctx) => {
                Judged::lack(ID, "libcufile was not opened, and libraries are missing that it needs")
                    .found("cuFileDriverOpen", "not called")
                    .missing(Cost::Install, EVERY)
                    .cause(CheckId::LibDeps)
            }
            _ => Judged::na(ID, "libcufile was found, but not opened")
                .found("cuFileDriverOpen", "not called")
                .unknown(EVERY),
        },
    };
    said(judged)
}

/// The finding if the stub of libcuda was loaded, with its place.
fn of_stub(ctx: &Context<'_>, mut judged: Judged) -> Judged {
    "libcufile does not open: it loads the stub of libcuda (CUDA 34)".clone_into(&mut judged.finding.summary);
    match stub::loaded(ctx.root) {
        Some((source, library)) => judged.found(source, library),
        None => judged,
    }
}

/// Whether nvidia-fs is installed but not loaded. The library opens as soon as it is, also if compat mode is forbidden.
fn is_not_loaded(ctx: &Context<'_>) -> bool {
    machine::nvidia_fs_loaded(ctx.root) == Some(false) && machine::nvidia_fs_installed(ctx.root).is_some()
}

/// The meaning of an error of the dynamic loader, and the advice.
fn loader_error(stderr: &str) -> Option<(String, String)> {
    const PRELOAD: &str = "Start programs with LD_PRELOAD=librt.so.1. The wheel of libcufile is not linked with librt, which has shm_open before glibc 2.34. The libcufile of the CUDA toolkit and images with a later glibc do not need it.";
    let after = |text: &'static str| stderr.lines().find_map(|line| Some(line.split_once(text)?.1.trim().to_owned()));
    let symbol = after("undefined symbol: ").and_then(|rest| rest.split([' ', ',']).next().map(str::to_owned));
    if let Some(symbol) = symbol {
        let advice = if symbol.starts_with("shm_") {
            PRELOAD.to_owned()
        } else {
            "Use the libcufile of the same CUDA release as its other libraries, without older ones in LD_LIBRARY_PATH."
                .to_owned()
        };
        return Some((format!("no library has {symbol}"), advice));
    }
    let version = after("version `GLIBC_").and_then(|rest| rest.split('\'').next().map(str::to_owned));
    if let Some(version) = version {
        return Some((
            format!("it needs glibc {version}"),
            format!("Use an image or a distribution with glibc {version} or later, or an older libcufile."),
        ));
    }
    let is_foreign =
        ["wrong ELF class", "ELF file OS ABI invalid", "cannot open shared object file: Exec format error"];
    if is_foreign.iter().any(|words| stderr.contains(words)) {
        let advice = "Install the libcufile of this machine's architecture; this file is of another one.";
        return Some(("it is for another architecture".to_owned(), advice.to_owned()));
    }
    let is_broken =
        ["invalid ELF header", "file too short", "ELF load command"].iter().any(|words| stderr.contains(words));
    is_broken.then(|| ("the file is not a complete library".to_owned(), "Install libcufile again.".to_owned()))
}

/// The error with which the dynamic loader rejected a libcufile that it found, and its meaning.
fn rejected(facts: &LibcufileFacts) -> Option<(String, (String, String))> {
    let mut errors = facts.tried.iter().filter_map(|tried| tried.get("error")?.as_str()).chain(facts.error.as_deref());
    errors.find_map(|error| Some((error.to_owned(), loader_error(error)?)))
}

/// The masks in words: `nvme: p2pdma nvfs`.
fn describe(flags: &std::collections::BTreeMap<String, u64>) -> String {
    let words = route_table::words;
    flags.iter().map(|(transport, mask)| format!("{transport}: {}", words(*mask))).collect::<Vec<_>>().join(", ")
}

/// Checks that wait for the probe of libcufile.
pub(crate) fn slow(ctx: &Context<'_>) -> Vec<Judged> {
    let facts = ctx.root.libcufile();
    let mut out = vec![found(ctx, facts)];
    out.extend(refused_by_the_library(ctx, facts));
    if facts.chosen.is_some() || facts.open.is_some() {
        out.extend([version(ctx, facts), opens(ctx, facts)]);
    }
    if ctx.subjects.is_empty() {
        out.push(p2p_keys(ctx, facts, "block.nvme.use_pci_p2pdma"));
    }
    for (number, subject) in ctx.subjects.iter().enumerate() {
        out.push(p2p_keys(ctx, facts, transport_key(subject.facts.as_ref())).of(Scope::Path(number)));
    }
    out
}
