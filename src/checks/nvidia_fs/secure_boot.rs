//! Checks of Secure Boot and kernel lockdown.

use crate::checks::context::Context;
use crate::checks::judged::Judged;
use crate::checks::kernel::refusal::{Refusal, refusal};
use crate::checks::kernel::signing;
use crate::core::{CheckId, Route};
use crate::machine::{self, Signature};

const NVFS: &[Route] = &[Route::Nvfs];

pub(crate) fn secure_boot(ctx: &Context<'_>) -> Option<Judged> {
    const ID: CheckId = CheckId::NvfsSecureboot;
    let state = machine::secure_boot(ctx.root);
    let refusal = refusal(ctx);
    let signature = machine::signature(ctx.root, "nvidia_fs");
    let on = state.as_ref().map(|state| state.is_on);
    let judged = if let Some((Refusal::Key, line)) = &refusal {
        signing::rejected(ctx, ID, signing::Module::NvidiaFs, Some(line), NVFS).broken()
    } else if on == Some(true)
        && signature == Some(Signature::None)
        && machine::nvidia_fs_loaded(ctx.root) == Some(false)
        && refusal.is_none()
    {
        signing::rejected(ctx, ID, signing::Module::NvidiaFs, None, NVFS).found("modinfo nvidia_fs", "no signer")
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
