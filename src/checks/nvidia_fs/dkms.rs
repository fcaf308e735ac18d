//! The state of nvidia-fs in DKMS.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, Judged};
use crate::checks::kernel::build_log;
use crate::checks::nvidia_fs::build_inputs::{build_inputs, zst_driver};
use crate::core::{CheckId, FixId, Route};
use crate::machine;

const NVFS: &[Route] = &[Route::Nvfs];

/// The package with the source of the module.
const PACKAGE: &str = "nvidia-fs-dkms";

pub(crate) fn dkms(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::NvfsDkms;
    let rows = machine::nvidia_fs_builds(ctx.root);
    let release = machine::kernel_release(ctx.root)?;
    let first = rows.first()?;
    let here: Vec<&machine::DkmsRow> =
        rows.iter().filter(|row| row.kernel.as_deref() == Some(release.as_str())).collect();
    let installed = here.iter().find(|row| row.state.starts_with("installed"));
    let others: Vec<&str> = rows.iter().filter_map(|row| row.kernel.as_deref()).collect();
    let loaded = machine::nvidia_fs_loaded(ctx.root) == Some(true);
    let has_headers = ctx.root.exists(format!("/lib/modules/{release}/build"));
    let again = |version: &str| {
        let install = format!("sudo dkms install nvidia-fs/{version} -k {release}");
        let advice = match machine::packages::install_headers(ctx.root, &release, false) {
            Some(headers) if !has_headers => Advice::run(format!("{headers} && {install}")),
            Some(_) => Advice::run(install),
            None => Advice::from("Install the headers of this kernel, then run ").command(install),
        };
        advice.text(" and ").command("sudo modprobe nvidia-fs")
    };
    // A prebuilt module needs no DKMS build. The same is true for one that a weak update links for this kernel.
    let elsewhere = || ctx.root.command(&["modinfo", "nvidia_fs"]).is_some_and(|output| output.exit_code == Some(0));
    let unused = loaded || (here.is_empty() && elsewhere());
    let needed = ctx
        .kernel()
        .and_then(oldest_for)
        .filter(|(oldest, _)| machine::version_numbers(&first.version) < oldest.to_vec() && !unused);
    // The precompiled streams of RHEL have no source, and DKMS needs it.
    let precompiled = machine::precompiled_driver(ctx.root);
    let lacking = |summary: String, version: &str| {
        if unused {
            Judged::info(ID, summary)
        } else if let Some(file) = &precompiled {
            Judged::lack(ID, format!("DKMS cannot build nvidia-fs {version}: the driver is precompiled, without source"))
                .missing(Cost::Install, NVFS)
                .explaining()
                .found("modinfo nvidia", file.clone())
                .fix(FixId::NvfsInstall)
                .advice("Switch the driver from its precompiled stream to DKMS (nvidia-driver:open-dkms), then build nvidia-fs. P2PDMA builds no module.")
        } else if let Some((oldest, kernel)) = needed {
            let oldest = oldest.map(|n| n.to_string()).join(".");
            let zst = zst_driver(ctx);
            let least = if zst.is_some() { "2.29" } else { oldest.as_str() };
            let judged = Judged::lack(ID, format!("nvidia-fs {version} does not build on Linux {kernel} and later"))
                .missing(Cost::Install, NVFS);
            if machine::is_half_configured(ctx.root, PACKAGE) {
                return judged.by_hand().found("dpkg", format!("{PACKAGE} is half-configured")).advice(
                    Advice::run(format!("sudo apt-get purge {PACKAGE}")).text(format!(
                        ": every apt-get tries its build again, which fails. The route nvfs needs nvidia-fs {least} or later, from NVIDIA's repository."
                    )),
                );
            }
            let judged = judged.fix(FixId::NvfsInstall);
            match zst {
                Some(file) => judged.found("modinfo nvidia", file).advice(format!(
                    "Install nvidia-fs {least} or later: {oldest} builds on this kernel, but does not load next to a driver in .ko.zst."
                )),
                None => judged
                    .advice(format!("Install nvidia-fs {least} or later, the first that builds on this kernel.")),
            }
        } else {
            Judged::lack(ID, summary).missing(Cost::Root, NVFS).explaining().advice(again(version))
        }
    };
    let mut judged = match (installed, here.first()) {
        (Some(row), _) if row.state.contains("WARNING") => {
            lacking(format!("another file replaced nvidia-fs {}, which DKMS had installed", row.version), &row.version)
        }
        (Some(row), _) => Judged::pass(ID, format!("nvidia-fs {} is built for this kernel", row.version)),
        (None, Some(row)) => {
            lacking(format!("nvidia-fs {} is {} for this kernel, not installed", row.version, row.state), &row.version)
        }
        (None, None) if others.is_empty() => {
            lacking(format!("DKMS has not built nvidia-fs {}", first.version), &first.version)
        }
        (None, None) => lacking(
            format!("nvidia-fs {} is built for {}, but {release} is running", first.version, others.join(", ")),
            &first.version,
        ),
    };
    for row in &rows {
        let kernel = row.kernel.as_deref().map_or(String::new(), |kernel| format!(", {kernel}"));
        judged = judged.found("dkms status", format!("nvidia-fs/{}{kernel}: {}", row.version, row.state));
    }
    if judged.stops(Route::Nvfs) {
        let has_inputs = !build_inputs(ctx).is_some_and(|inputs| inputs.stops(Route::Nvfs));
        // A build fails for other reasons only after it was started.
        let unbuilt = rows.iter().find(|row| !row.is_installed_for(&release)).unwrap_or(first);
        if let Some(failed) = build_log::failed(ctx, "nvidia-fs", &unbuilt.version) {
            if judged.finding.fix.is_none()
                && has_inputs
                && needed.is_none()
                && installed.is_none()
                && precompiled.is_none()
            {
                judged.finding.summary = format!("DKMS cannot build nvidia-fs {}: {}", unbuilt.version, failed.why);
                judged = if failed.needs_update {
                    judged.fix(FixId::NvfsInstall).advice(failed.advice)
                } else if failed.is_of_system {
                    judged.by_hand().advice(failed.advice.text(", then ").command("sudo modprobe nvidia-fs"))
                } else {
                    judged.advice(failed.advice.text(", then ").command("sudo modprobe nvidia-fs"))
                };
            }
            judged = judged.broken().found(failed.log, failed.line);
        }
        // The kernel rejects this version next to the proprietary modules, so a build of it has no use.
        let is_rejected = ctx.are_all_before_turing()
            && machine::Driver::of(ctx.root).is_open() == Some(false)
            && machine::version_numbers(&unbuilt.version) > vec![2, 17, 4];
        if is_rejected {
            judged = judged.fixes(None).cause(CheckId::GpuOpenCapable);
            judged.advice = None;
        } else if !has_inputs {
            judged = judged.cause(CheckId::NvfsBuildInputs);
        } else if !machine::Driver::of(ctx.root).is_loaded() {
            // The driver that the build needs is not loaded either.
            judged = judged.cause(CheckId::GpuPresent);
        }
    }
    Some(judged)
}

/// How to build an installed nvidia-fs again: its fix, and its advice up to the full stop. Without a row of DKMS there is
/// no version to build, so the package is installed again.
pub(crate) fn rebuilt(ctx: &Context<'_>) -> (FixId, Advice) {
    let rows = machine::nvidia_fs_builds(ctx.root);
    match (rows.first(), machine::kernel_release(ctx.root)) {
        (Some(row), Some(kernel)) => {
            let is_loaded = machine::nvidia_fs_loaded(ctx.root) == Some(true);
            let load = if is_loaded { "sudo modprobe -r nvidia-fs && " } else { "" };
            let build = machine::build_again(&row.name, &row.version, &kernel);
            (FixId::NvfsDkms, Advice::run(format!("{build} && {load}sudo modprobe nvidia-fs")))
        }
        _ => (FixId::NvfsInstall, Advice::from(format!("Install {PACKAGE} again, so that DKMS builds the module"))),
    }
}

/// The oldest nvidia-fs that builds on a kernel, and the first such kernel (ChangeLog of nvidia-fs, gds-nvidia-fs#35
/// and #53).
fn oldest_for(kernel: (u32, u32)) -> Option<([u32; 3], &'static str)> {
    [
        ((6, 17), [2, 28, 2], "6.17"),
        ((6, 11), [2, 26, 6], "6.11"),
        ((6, 5), [2, 19, 6], "6.5"),
        ((6, 2), [2, 18, 3], "6.2"),
        ((6, 0), [2, 17, 0], "6.0"),
    ]
    .into_iter()
    .find(|(from, ..)| kernel >= *from)
    .map(|(_, oldest, text)| (oldest, text))
}
