//! A packaged driver for another kernel, which links in weak-updates offer to the running one.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, EVERY, Judged};
use crate::core::CheckId;
use crate::machine::{self, is_plain_name};

const ID: CheckId = CheckId::GpuPresent;

/// A driver package for a kernel that is no longer installed: its links in weak-updates point to nothing
/// (almalinux-deploy#271). The driver of another repository must not be installed on top of it.
pub(super) fn dangling(ctx: &Context<'_>, release: &str) -> Option<Judged> {
    let folder = format!("/lib/modules/{release}/weak-updates");
    let names = ctx.root.entries(&folder).ok()?;
    let (link, target, name) =
        names.into_iter().filter(|name| name.starts_with("nvidia") && is_plain_name(name)).find_map(|name| {
            let files = ctx.root.entries(format!("{folder}/{name}")).ok()?;
            let file = files.into_iter().find(|file| file.starts_with("nvidia.ko"))?;
            let link = format!("{folder}/{name}/{file}");
            Some((link.clone(), ctx.root.link(&link)?, name))
        })?;
    let target = target.to_string_lossy().into_owned();
    let kernel = target.split_once("/lib/modules/")?.1.split('/').next()?.to_owned();
    let kernel = Some(kernel).filter(|kernel| is_plain_name(kernel))?;
    let judged =
        Judged::lack(ID, format!("the packaged NVIDIA driver is built for {kernel}, but {release} is running"))
            .found(link, format!("link to {target}"))
            .missing(Cost::Install, EVERY)
            .by_hand();
    let package = format!("kmod-{name}");
    Some(
        judged.advice(match machine::packages::family(ctx.root) {
            machine::packages::Family::Suse => Advice::run("sudo zypper refresh && sudo zypper update")
                .text(format!(" for a driver package that is built for {release}, then reboot. Or boot {kernel}.")),
            _ => {
                let version = kernel.trim_end_matches(".x86_64").trim_end_matches(".aarch64");
                let dnf = machine::packages::dnf(ctx.root);
                let reinstall = format!("sudo {dnf} reinstall {package}");
                let other = format!(
                    "sudo {dnf} install kernel-{version} && {reinstall} && sudo grubby --set-default /boot/vmlinuz-{kernel}"
                );
                // The modules of one kernel fit the later ones of its minor release (kABI), so their files are enough.
                let first = if ctx.root.exists(&target) {
                    Advice::default().text("Run ")
                } else {
                    Advice::run(format!("{reinstall} && modinfo -F filename nvidia"))
                        .text(", then reboot. If modinfo finds no module, run ")
                };
                first
                    .command(format!("sudo {dnf} upgrade --refresh {package}"))
                    .text(" and reboot. If there is none for this kernel, boot the other one: ")
                    .command(format!("{other} && sudo reboot"))
                    .text(".")
            }
        }),
    )
}
