//! Builds of storage drivers of DOCA or MLNX_OFED for the running kernel, and builds that failed.

use crate::checks::advice::{Advice, rebuild_initramfs};
use crate::checks::context::Context;
use crate::checks::judged::{Cost, Judged};
use crate::checks::kernel::build_log;
use crate::core::{CheckId, Route};
use crate::machine;

/// The command that builds nvidia-fs again after a storage driver, with whose symbols it is built. `None` if DKMS has
/// none.
fn nvidia_fs(ctx: &Context<'_>, release: &str) -> Option<String> {
    let row = machine::nvidia_fs_builds(ctx.root).into_iter().next()?;
    Some(machine::build_again(&row.name, &row.version, release))
}

/// The command line that builds these modules for a kernel, and then nvidia-fs.
pub(super) fn builds(ctx: &Context<'_>, modules: &[(String, String)], release: &str) -> String {
    let headers = machine::packages::install_headers(ctx.root, release, false);
    let of = |(name, version): &(String, String)| format!("sudo dkms install {name}/{version} -k {release}");
    headers.into_iter().chain(modules.iter().map(of)).chain(nvidia_fs(ctx, release)).collect::<Vec<_>>().join(" && ")
}

/// The finding for the first of these modules whose build failed. Another build fails again, so it is not advised.
/// `instead` names another route, and can be empty.
pub(super) fn failed(
    ctx: &Context<'_>,
    id: CheckId,
    modules: &[(String, String)],
    instead: &'static str,
) -> Option<Judged> {
    let release = machine::kernel_release(ctx.root)?;
    let (at, failed) = modules
        .iter()
        .enumerate()
        .find_map(|(at, (name, version))| Some((at, build_log::failed(ctx, name, version)?)))?;
    let (name, version) = &modules[at];
    let judged = Judged::lack(id, format!("DKMS cannot build {name}: {}", failed.why))
        .found(failed.log, failed.line)
        .found("dkms status", format!("{name}/{version} is not installed for {release}"));
    if failed.needs_update {
        let rows = machine::dkms_rows(ctx.root).into_iter();
        let mut others = rows.filter(|row| row.name == *name && row.state.starts_with("installed"));
        let other = others.find_map(|row| row.kernel);
        let source = match machine::mlnx_ofed(ctx.root) {
            Some(ofed) => Advice::from(instead)
                .text(format!("For the route nvfs, replace {} by DOCA: remove it with ", ofed.release))
                .command("sudo /usr/sbin/ofed_uninstall.sh --force")
                .text(", reboot, and install the driver from DOCA's repository."),
            None => {
                Advice::from(instead).text("For the route nvfs, update DOCA to a release that supports this kernel.")
            }
        };
        let advice = match other {
            Some(kernel) => source.text(format!(" Or boot kernel {kernel}, for which the driver is built.")),
            None => source,
        };
        return Some(judged.missing(Cost::System, &[Route::Nvfs]).by_hand().advice(advice));
    }
    let rest: Vec<String> = modules[at + 1..]
        .iter()
        .map(|(name, version)| format!("sudo dkms install {name}/{version} -k {release}"))
        .chain(nvidia_fs(ctx, &release))
        .collect();
    let advice = if rest.is_empty() {
        failed.advice.text(format!(", {}, then reboot.", rebuild_initramfs(ctx.root)))
    } else {
        failed.advice.text(". Then run ").command_and_initramfs(ctx.root, &rest.join(" && ")).text(", then reboot.")
    };
    Some(judged.missing(Cost::Reboot, &[Route::Nvfs]).by_hand().advice(advice))
}
