//! How to allow a kernel module that a line of the configuration excludes.

use crate::checks::advice::{Advice, rebuild_initramfs};
use crate::checks::context::Context;
use crate::machine::modprobe::COMMAND_LINE;
use crate::machine::packages::{self, Family};
use crate::machine::{BootLoader, Excluded, ImageHost, boot_loader, image_host};

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

fn has_grubby(ctx: &Context<'_>) -> bool {
    boot_loader(ctx.root).is_none_or(|boot| boot.loader == BootLoader::Grub)
        && packages::known_family(ctx.root)
        && packages::family(ctx.root) == Family::RedHat
}

/// How to remove an argument from the kernel command line.
pub(crate) fn without_argument(ctx: &Context<'_>, argument: &str) -> Advice {
    let remove = |place: &str| Advice::from(format!("Remove '{argument}' from {place}, then reboot."));
    match image_host(ctx.root) {
        Some(ImageHost::Ostree) => {
            Advice::run(format!("sudo rpm-ostree kargs --delete={argument}")).text(", then reboot.")
        }
        Some(ImageHost::NixOs) => remove("boot.kernelParams in configuration.nix"),
        Some(ImageHost::OpenShift) => remove("spec.kernelArguments of the MachineConfig"),
        Some(ImageHost::Talos) => remove("the kernel arguments of Talos's image (Image Factory)"),
        None if has_grubby(ctx) => {
            Advice::run(format!("sudo grubby --update-kernel=ALL --remove-args={argument}")).text(", then reboot.")
        }
        _ => remove("the boot loader's configuration"),
    }
}

fn allow_on_command_line(ctx: &Context<'_>, argument: &str, module: &str) -> Advice {
    let (name, list) = argument.split_once('=').unwrap_or((argument, ""));
    let rest: Vec<&str> = list.split(',').filter(|word| !word.starts_with(module)).collect();
    let kept = (!rest.is_empty()).then(|| format!("{name}={}", rest.join(",")));
    let change = match &kept {
        Some(kept) => format!("Change '{argument}' to '{kept}'"),
        None => format!("Remove '{argument}'"),
    };
    if has_grubby(ctx) {
        let add = kept.map_or_else(String::new, |kept| format!(" --args={kept}"));
        return Advice::run(format!("sudo grubby --update-kernel=ALL --remove-args={argument}{add}"))
            .text(", then reboot. The module is installed.");
    }
    format!("{change} in the boot loader's configuration, then reboot. The module is installed.").into()
}
