//! How to change the kernel command line.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::machine::{ImageHost, argument_command, image_host};

/// How to replace an argument of the kernel. Without `new` it is removed, without `old` one is added.
pub(crate) fn change_argument(ctx: &Context<'_>, old: Option<&str>, new: Option<&str>) -> Advice {
    if let Some(command) = argument_command(ctx.root, old, new) {
        return Advice::run(command).text(", then reboot.");
    }
    let change = match (old, new) {
        (Some(old), Some(new)) => format!("Change '{old}' to '{new}' in"),
        (Some(old), None) => format!("Remove '{old}' from"),
        (None, new) => format!("Add '{}' to", new.unwrap_or_default()),
    };
    let place = match image_host(ctx.root) {
        Some(ImageHost::NixOs) => "boot.kernelParams in configuration.nix",
        Some(ImageHost::OpenShift) => "spec.kernelArguments of the MachineConfig",
        Some(ImageHost::Talos) => "the kernel arguments of Talos's image (Image Factory)",
        _ => "the boot loader's configuration",
    };
    format!("{change} {place}, then reboot.").into()
}

/// How to remove an argument of the kernel.
pub(crate) fn without_argument(ctx: &Context<'_>, argument: &str) -> Advice {
    change_argument(ctx, Some(argument), None)
}
