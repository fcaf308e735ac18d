//! How to allow a kernel module that a line of the configuration excludes, or that SUSE does not support.

use crate::checks::advice::{Advice, rebuild_initramfs};
use crate::checks::context::Context;
use crate::checks::kernel::arguments::change_argument;
use crate::machine::modprobe::{COMMAND_LINE, UNSUPPORTED, unsupported_modules};
use crate::machine::{Excluded, packages};

/// The advice for a module that this line excludes from loading. Modules of the same driver share the argument of the
/// kernel, so all names that begin with the module's name are removed from it.
pub(crate) fn allow(ctx: &Context<'_>, excluded: &Excluded, module: &str) -> Advice {
    if excluded.file == COMMAND_LINE {
        return allow_on_command_line(ctx, &excluded.line, module);
    }
    let Excluded { file, line, by_hand_too, .. } = excluded;
    // prime-select of Ubuntu writes this file, and writes it again after updates.
    if file.starts_with("/lib/modprobe.d/blacklist-nvidia") || file.starts_with("/usr/lib/modprobe.d/blacklist-nvidia")
    {
        return Advice::run("sudo prime-select nvidia")
            .text(format!(", which removes '{line}' from {file}, then reboot."));
    }
    let load = format!("sudo modprobe {module}");
    let lines = excluded.lines();
    if module == "nvidia" {
        // The initramfs can contain a copy of the file.
        let rebuild = rebuild_initramfs(ctx.root);
        return format!("Remove {lines}, {rebuild}, then reboot. The module is installed.").into();
    }
    if *by_hand_too {
        Advice::from(format!("Remove {lines}, then run ")).command(load).text(".")
    } else {
        Advice::run(load).text(format!(" for this boot, and remove {lines} for later ones."))
    }
}

fn allow_on_command_line(ctx: &Context<'_>, argument: &str, module: &str) -> Advice {
    let (name, list) = argument.split_once('=').unwrap_or((argument, ""));
    let rest: Vec<&str> = list.split(',').filter(|word| !word.starts_with(module)).collect();
    let kept = (!rest.is_empty()).then(|| format!("{name}={}", rest.join(",")));
    change_argument(ctx, Some(argument), kept.as_deref()).text(" The module is installed.")
}

/// How to load a module that SUSE does not support, if modprobe of SLES refuses it. The kernel logs nothing about it.
pub(crate) fn allow_unsupported(ctx: &Context<'_>, module: &str) -> Option<Advice> {
    const FILE: &str = "/etc/modprobe.d/10-unsupported-modules.conf";
    let is_sles = packages::id(ctx.root).starts_with("sles");
    (is_sles && unsupported_modules(ctx.root) == Some(false)).then(|| {
        Advice::from(format!("Write `{UNSUPPORTED} 1` into {FILE}, then run "))
            .command(format!("sudo modprobe {module}"))
    })
}
