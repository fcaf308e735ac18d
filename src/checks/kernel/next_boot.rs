//! The preparation of a reboot: the kernel of the next boot needs the NVIDIA driver and nvidia-fs. Each advice with a
//! reboot begins with it.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::gpu::libraries;
use crate::checks::judged::Judged;
use crate::checks::kernel::boot_kernel;
use crate::checks::verdict::commands::examined;
use crate::machine::{self, DkmsRow, DriverOrigin, Root, UnreadyKernel};

/// The commands that build or install the lacking modules, in order. Empty if they are not known.
pub(crate) fn build(root: &Root, unready: &UnreadyKernel) -> Vec<String> {
    let release = &unready.release;
    // The driver cannot be built for real-time kernels.
    if boot_kernel::real_time(root, release).is_some() {
        return Vec::new();
    }
    let has_headers = root.exists(format!("/lib/modules/{release}/build/Makefile"));
    let headers = || machine::packages::install_headers(root, release, false).filter(|_| !has_headers);
    if unready.lacks_driver {
        let prebuilt = machine::ubuntu_driver(root, &unready.running);
        if let Some(folder) = prebuilt.filter(|_| machine::packages::id(root) == "ubuntu") {
            let mut install =
                format!("sudo apt-get install linux-modules-{}-{release}", folder.replacen("srv", "-server", 1));
            if unready.lacks_nvidia_fs && release.contains("-nvidia") {
                install.push_str(&format!(" linux-modules-nvidia-fs-{release}"));
            }
            return vec!["sudo apt-get update".to_owned(), install];
        }
        if machine::driver_origin(root) == Some(DriverOrigin::RpmFusion) {
            let akmods = format!("sudo akmods --force --rebuild --kernels {release}");
            return headers().into_iter().chain([akmods]).collect();
        }
    }
    let driver = if unready.lacks_driver { driver_row(root) } else { None };
    if unready.lacks_driver && driver.is_none() {
        return Vec::new();
    }
    // nvidia-fs is built with the symbols of the driver, so the driver is built first.
    let builds = machine::nvidia_fs_builds(root);
    let is_built = builds.iter().any(|row| row.is_installed_for(release));
    let nvidia_fs = builds.into_iter().next().filter(|_| !is_built);
    let rows: Vec<DkmsRow> = driver.into_iter().chain(nvidia_fs).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let install = rows.iter().map(|row| format!("sudo dkms install {}/{} -k {release}", row.name, row.version));
    headers().into_iter().chain(install).collect()
}

/// The driver of DKMS that the next boot needs: the version that is installed now, or else that of the libraries, or else
/// the newest.
fn driver_row(root: &Root) -> Option<DkmsRow> {
    let rows: Vec<DkmsRow> = machine::dkms_rows(root).into_iter().filter(DkmsRow::is_driver).collect();
    let installed = machine::module_info(root, "nvidia").and_then(|module| module.version);
    let version = installed.or_else(|| libraries::installed_version(root));
    let wanted = rows.iter().find(|row| version.as_ref() == Some(&row.version)).cloned();
    wanted.or_else(|| rows.into_iter().max_by_key(|row| machine::version_numbers(&row.version)))
}

/// The command that makes the running kernel the default of the boot loader. `None` if the next boot starts it anyway, or
/// if the command is not known.
pub(crate) fn keep(root: &Root, unready: &UnreadyKernel) -> Option<String> {
    if unready.release == unready.running { None } else { boot_kernel::default_command(root, &unready.running) }
}

/// The advice before a reboot into a kernel that lacks a module.
pub(crate) fn prepare(root: &Root, unready: &UnreadyKernel) -> Advice {
    let (release, running, module) = (&unready.release, &unready.running, unready.lacking());
    let build = build(root, unready).join(" && ");
    let keep = keep(root, unready);
    let why = format!(": the next boot starts Linux {release}, which lacks {module}.");
    let before = |command: String| Advice::from("Before any reboot, run ").command(command).text(why.clone());
    match (build.is_empty(), keep) {
        (false, Some(keep)) => before(build).text(format!(" Or start {running} again: ")).command(keep).text("."),
        (false, None) => before(build),
        (true, Some(keep)) => before(keep),
        (true, None) if release != running => Advice::from(format!(
            "Before any reboot, install {module} for Linux {release}, which starts then, or choose {running} in the boot menu."
        )),
        (true, None) => Advice::from(format!(
            "Before any reboot, install {module} for Linux {release}: the disk has no module of it."
        )),
    }
}

/// The text to put before advice with a reboot, for the path with this number. `None` if the next boot has the modules, or
/// if the advice has the commands.
fn before(ctx: &Context<'_>, path: usize, text: &str) -> Option<(Advice, String)> {
    if !text.to_ascii_lowercase().contains("reboot") {
        return None;
    }
    let unready = machine::unready_kernel(ctx.root)?;
    let advice = prepare(ctx.root, &unready);
    let rendered = advice.render(&examined(ctx, path));
    let build = build(ctx.root, &unready).join(" && ");
    let has_commands = text.contains(&rendered) || (!build.is_empty() && text.contains(&build));
    (!has_commands).then_some((advice, rendered))
}

/// Puts the preparation of the next boot before the advice of a verdict, if that has a reboot.
pub(crate) fn prepared(ctx: &Context<'_>, path: usize, text: String) -> String {
    match before(ctx, path, &text) {
        Some((_, first)) if text.contains('\n') => format!("{first}\n{text}"),
        Some((_, first)) => format!("{first} {text}"),
        None => text,
    }
}

/// Puts the preparation of the next boot before each advice of a finding that has a reboot.
pub(crate) fn prepare_all(ctx: &Context<'_>, judged: &mut [Judged]) {
    for judged in judged {
        let Some(text) = judged.finding.advice.clone() else { continue };
        let Some((advice, first)) = before(ctx, 0, &text) else { continue };
        judged.finding.advice = Some(format!("{first} {text}"));
        // The command of a finding without a fix can be the reboot.
        if judged.finding.fix.is_none()
            && let Some(command) = &mut judged.finding.command
            && let Some(preparation) = advice.first_command()
        {
            *command = format!("{} && {command}", preparation.line(&examined(ctx, 0)));
        }
    }
}

/// The preparation of a reboot, so that the next boot has the driver. `None` if nothing is known to be missing.
#[must_use]
pub fn before_reboot(root: &Root) -> Option<String> {
    Some(prepare(root, &machine::unready_kernel(root)?).plain())
}
