//! Checks for which driver version nvidia-fs was built.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, Judged};
use crate::checks::kernel::crash::last_crash;
use crate::checks::kernel::refusal::last;
use crate::checks::nvidia_fs::dkms::rebuilt;
use crate::core::{CheckId, FindingFact, FixId, Route};
use crate::machine::{self, KernelLog, Message, Source};

const ID: CheckId = CheckId::NvfsDkms;

/// The driver source that a build log of nvidia-fs names.
struct Built {
    driver: String,
    log: String,
    line: String,
}

/// The driver version for which the loaded nvidia-fs was built, from the DKMS log.
fn built_against(ctx: &Context<'_>) -> Option<Built> {
    const MARK: &str = "/usr/src/nvidia-";
    let version = machine::nvidia_fs_installed(ctx.root)?;
    let release = machine::kernel_release(ctx.root)?;
    let arch = if ctx.is_aarch64() { "aarch64" } else { "x86_64" };
    let log = format!("/var/lib/dkms/nvidia-fs/{version}/{release}/{arch}/log/make.log");
    let text = ctx.root.read_text(&log).ok()?;
    let line = text.lines().find(|line| line.contains("NVIDIA_SRC_DIR") && line.contains(MARK))?.trim();
    let rest = &line[line.find(MARK)? + MARK.len()..];
    let driver: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let driver = driver.trim_end_matches('.').to_owned();
    let line: String = line.chars().take(160).collect();
    (!driver.is_empty()).then_some(Built { driver, log, line })
}

/// The line of the kernel log about an unknown page table format, and whether nvidia-fs crashed. Some releases print the
/// name of the function in front of it, others `nvidia-fs:`.
fn met_other_tables(ctx: &Context<'_>) -> Option<(String, bool)> {
    let log = machine::kernel_log(ctx.root)?;
    let message = last(&log, &["incompatible page table version"])?;
    Some((message.line.clone(), last_crash(&log, MODULE).is_some() || bug(&log).is_some()))
}

/// The module in the report of a crash.
const MODULE: &[&str] = &["nvidia_fs"];

/// The last report of a failed assertion in the source of nvidia-fs.
fn bug(log: &KernelLog) -> Option<&Message> {
    let is_of_nvfs = |message: &&Message| message.text.starts_with("kernel BUG at ") && message.text.contains("nvfs-");
    log.of(Source::Crash).rev().find(is_of_nvfs)
}

/// The routes that the crash blocks. Compat mode also registers buffers, so it crashes too.
fn stopped(crashed: bool) -> &'static [Route] {
    if crashed { &[Route::Nvfs, Route::Compat] } else { &[Route::Nvfs] }
}

/// The fix and the advice. Without a row or a directory of DKMS there is no version to build.
fn remedied(ctx: &Context<'_>, judged: Judged) -> Judged {
    let judged = judged.fact(FindingFact::OtherDriverSource);
    match rebuilt(ctx) {
        (FixId::NvfsInstall, again) if !ctx.root.exists("/var/lib/dkms/nvidia-fs") => {
            judged.fix(FixId::NvfsInstall).advice(again.text(", then reboot."))
        }
        _ => judged.fix(FixId::NvfsDkms).advice(advice(ctx)),
    }
}

fn advice(ctx: &Context<'_>) -> Advice {
    let driver = machine::Driver::of(ctx.root).version.unwrap_or_else(|| "VERSION".to_owned());
    let module = machine::nvidia_fs_installed(ctx.root).unwrap_or_else(|| "VERSION".to_owned());
    let release = machine::kernel_release(ctx.root).unwrap_or_default();
    let by = |verb: &str| {
        format!(
            "sudo NVIDIA_SRC_DIR=/usr/src/nvidia-{driver}/nvidia dkms {verb} --force nvidia-fs/{module} -k {release}"
        )
    };
    Advice::run(format!("{} && {} && sudo reboot", by("build"), by("install"))).text(".")
}

/// Checks whether the loaded nvidia-fs was built for the loaded driver. `None` if there is no evidence. The page
/// table format is the same within one driver branch.
pub(crate) fn other_driver(ctx: &Context<'_>) -> Option<Judged> {
    if machine::nvidia_fs_loaded(ctx.root) != Some(true) {
        return None;
    }
    let built = built_against(ctx)?;
    let loaded = machine::Driver::of(ctx.root).version?;
    let branch = |version: &str| machine::version_numbers(version).first().copied();
    if branch(&built.driver) == branch(&loaded) {
        return None;
    }
    let summary = format!("nvidia-fs was built for driver {}, and {loaded} is loaded", built.driver);
    let judged = match met_other_tables(ctx) {
        Some((_, crashed)) => Judged::lack(ID, summary).missing(Cost::Reboot, stopped(crashed)).explaining(),
        None => Judged::warn(ID, summary),
    };
    let judged = judged.found(built.log, built.line).found("/sys/module/nvidia/version", loaded);
    Some(remedied(ctx, judged))
}

/// Reports a crash of nvidia-fs, or its message about unknown page tables, if it is in the kernel log.
pub(crate) fn crash(ctx: &Context<'_>) -> Option<Judged> {
    if machine::nvidia_fs_loaded(ctx.root) != Some(true) {
        return None;
    }
    let Some((line, crashed)) = met_other_tables(ctx) else { return other_crash(ctx) };
    let what = if crashed { "and a read crashed: reboot" } else { "and rejected a buffer" };
    let judged =
        Judged::lack(CheckId::NvfsErrors, format!("nvidia-fs was built for a driver with other page tables, {what}"))
            .found(machine::KERNEL_LOG, line)
            .missing(Cost::Reboot, stopped(crashed))
            .explaining();
    let judged = remedied(ctx, judged);
    Some(match other_driver(ctx) {
        Some(_) => judged.cause(ID),
        None => judged,
    })
}

/// A crash of nvidia-fs for another reason.
fn other_crash(ctx: &Context<'_>) -> Option<Judged> {
    let log = machine::kernel_log(ctx.root)?;
    let lines = match last_crash(&log, MODULE) {
        Some(crash) => vec![crash.start, crash.place],
        None => vec![bug(&log)?.line.clone()],
    };
    let judged = Judged::lack(CheckId::NvfsErrors, "the kernel crashed in nvidia-fs, which is unusable until a reboot")
        .missing(Cost::Reboot, stopped(true))
        .explaining()
        .advice(format!(
            "Reboot with modprobe.blacklist=nvidia_fs, because the next read would crash again. Then update nvidia-fs, build it for driver {}, and load it.",
            machine::Driver::of(ctx.root).version.unwrap_or_default()
        ));
    Some(lines.into_iter().fold(judged, |judged, line| judged.found(machine::KERNEL_LOG, line)))
}
