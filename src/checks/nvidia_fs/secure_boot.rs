//! Checks of Secure Boot and kernel lockdown.

use crate::checks::context::Context;
use crate::checks::judged::{Cost, Judged};
use crate::checks::kernel::refusal::{Refusal, refusal};
use crate::checks::spec::CheckId;
use crate::core::Route;
use crate::machine;

const NVFS: &[Route] = &[Route::Nvfs];

pub(crate) fn secure_boot(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::NvfsSecureboot;
    const ENROL: &str = "Run `sudo mokutil --import /var/lib/dkms/mok.pub` (on Ubuntu /var/lib/shim-signed/mok/MOK.der), reboot, then choose 'Enroll MOK' at the console.";
    let state = machine::secure_boot(ctx.root);
    let refusal = refusal(ctx);
    let modinfo = ctx.root.command(&["modinfo", "nvidia_fs"]).filter(|o| o.exit_code == Some(0));
    let signer = modinfo.as_ref().and_then(|o| o.stdout.lines().find_map(|l| l.strip_prefix("signer:")));
    let on = state.as_ref().map(|state| state.is_on);
    let judged = if let Some((Refusal::Key, line)) = &refusal {
        Judged::lack(ID, "Secure Boot rejects nvidia-fs: its signing key is not enrolled")
            .found(machine::KERNEL_LOG, line.clone())
            .missing(Cost::Reboot, NVFS)
            .advice(ENROL)
    } else if on == Some(true)
        && modinfo.is_some()
        && machine::nvidia_fs_loaded(ctx.root) == Some(false)
        && refusal.is_none()
        && signer.is_none()
    {
        Judged::lack(ID, "Secure Boot is on and nvidia-fs is not signed: the kernel will reject it")
            .found("modinfo nvidia_fs", "no signer")
            .missing(Cost::Reboot, NVFS)
            .advice(ENROL)
    } else {
        match on? {
            true if machine::nvidia_fs_loaded(ctx.root) == Some(true) => {
                Judged::pass(ID, "Secure Boot is on, and nvidia-fs is loaded")
            }
            true => Judged::info(ID, "Secure Boot is on: modules built here must be signed with an enrolled key"),
            false => Judged::pass(ID, "Secure Boot is off"),
        }
    };
    let judged = match state {
        Some(state) => judged.found(state.source, state.text),
        None => judged,
    };
    Some(judged)
}

pub(crate) fn lockdown(ctx: &Context<'_>) -> Option<Judged> {
    const FILE: &str = "/sys/kernel/security/lockdown";
    let text = ctx.root.read_text(FILE).ok()?;
    let mode = text.split('[').nth(1)?.split(']').next()?.to_owned();
    let judged = if mode == "none" {
        Judged::pass(CheckId::NvfsLockdown, "the kernel is not locked down")
    } else {
        Judged::info(
            CheckId::NvfsLockdown,
            format!("the kernel is locked down ({mode}): unsigned modules and setpci do not work"),
        )
    };
    Some(judged.found(FILE, text.trim()))
}
