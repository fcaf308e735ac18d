//! Kernel modules that Secure Boot rejects, and what makes it accept them.

use crate::checks::context::Context;
use crate::checks::judged::{Cost, Judged};
use crate::checks::spec::CheckId;
use crate::core::{FixId, Route};
use crate::machine::{self, Signature};

/// A module that is built on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Module {
    /// The NVIDIA driver.
    Driver,
    /// nvidia-fs.
    NvidiaFs,
    /// The NVMe driver of DOCA.
    Nvme,
}

impl Module {
    /// The name in sentences, the name of the module, and its name in DKMS.
    const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Driver => ("NVIDIA driver", "nvidia", "nvidia"),
            Self::NvidiaFs => ("nvidia-fs", "nvidia_fs", "nvidia-fs"),
            Self::Nvme => ("NVMe driver of DOCA", "nvme", "mlnx-nvme"),
        }
    }
}

/// The finding for an installed module that Secure Boot rejects, with the line of the kernel log if there is one. Enrolling a key helps only a signed module; a module
/// without a signature must be built again with a key first.
pub(crate) fn rejected(ctx: &Context<'_>, id: CheckId, module: Module, line: Option<&str>, routes: &[Route]) -> Judged {
    let (name, file, package) = module.names();
    let is_in_dkms = machine::dkms_rows(ctx.root).iter().any(|row| row.name == package);
    let judged = |why: &str| Judged::lack(id, format!("Secure Boot rejects the installed {name}: {why}"));
    let judged = match (machine::signature(ctx.root, file), module) {
        (Some(Signature::None), _) if is_in_dkms => judged("it is not signed")
            .missing(Cost::Reboot, routes)
            .fix(FixId::SecureBootKey)
            .advice("Run `sudo gds-top fix secure-boot-key`: DKMS builds the module again and signs it; you enrol the key during the reboot."),
        (Some(Signature::None), Module::Driver) => judged("it is neither signed nor built by DKMS")
            .missing(Cost::Install, routes)
            .advice(match ctx.driver_fix() {
                Some(fix) => format!("Remove it (`sudo nvidia-uninstall`), then run `sudo gds-top fix {fix}`: DKMS signs the driver of the packages."),
                None => "Use a newer GPU: no driver with GPUDirect Storage supports this one.".to_owned(),
            }),
        (Some(Signature::None), _) => judged("it is neither signed nor built by DKMS")
            .missing(Cost::Install, routes)
            .fix(FixId::NvfsInstall)
            .advice("Run `sudo gds-top fix nvfs-install`: DKMS signs the module of the package, and you enrol the key during the reboot."),
        (Some(Signature::Other(signer)), _) => judged("the key of its signer is not enrolled")
            .found(format!("modinfo {file}"), format!("signer: {signer}"))
            .missing(Cost::Reboot, routes)
            .fix(FixId::SecureBootKey)
            .advice(format!("Enrol the certificate of \"{signer}\": `sudo mokutil --import FILE`, then reboot. Or install the package that DKMS builds.")),
        (Some(Signature::Dkms) | None, _) => judged("its signing key is not enrolled")
            .missing(Cost::Reboot, routes)
            .fix(FixId::SecureBootKey)
            .advice("Run `sudo gds-top fix secure-boot-key`. Do not install the module again; you enrol its key during the reboot."),
    };
    match line {
        Some(line) => judged.found(machine::KERNEL_LOG, line),
        None => judged,
    }
}
