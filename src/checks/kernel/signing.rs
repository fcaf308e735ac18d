//! Kernel modules that Secure Boot rejects, and the remedies.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, Judged};
use crate::checks::kernel::arguments::without_argument;
use crate::core::{CheckId, FixId, Route};
use crate::machine::{self, Enforcer, ImageHost, Signature, image_host};
use crate::text::quoted;

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
    if let Some(judged) = by_kernel(ctx, id, name, routes) {
        return match line {
            Some(line) => judged.found(machine::KERNEL_LOG, line),
            None => judged,
        };
    }
    let is_in_dkms = machine::dkms_rows(ctx.root).iter().any(|row| row.name == package);
    let judged = |why: &str| Judged::lack(id, format!("Secure Boot rejects the installed {name}: {why}"));
    let judged = match (machine::signature(ctx.root, file), module) {
        (Some(Signature::None), _) if is_in_dkms => judged("it is not signed")
            .missing(Cost::Reboot, routes)
            .fix(FixId::SecureBootKey)
            .advice("Build the module again with DKMS, which signs it, and enrol the key during the reboot."),
        (Some(Signature::None), Module::Driver) if machine::is_of_akmods(ctx.root, file) => judged("it is not signed")
            .missing(Cost::Reboot, routes)
            .fix(FixId::SecureBootKey)
            .advice("Create a key for akmods, build the module again with it, and enrol the key during the reboot."),
        (Some(Signature::None), Module::Driver) => judged("it is neither signed nor built by DKMS")
            .missing(Cost::Reboot, routes)
            .fixes(ctx.driver_fix().map(|_| FixId::SecureBootKey))
            .advice(unsigned_driver(ctx)),
        (Some(Signature::None), _) => judged("it is neither signed nor built by DKMS")
            .missing(Cost::Install, routes)
            .fix(FixId::NvfsInstall)
            .advice(
                "Install the package of nvidia-fs: DKMS signs its module, and you enrol the key during the reboot.",
            ),
        (Some(Signature::Akmods), _) => {
            judged("the key of akmods is not enrolled").missing(Cost::Reboot, routes).fix(FixId::SecureBootKey).advice(
                Advice::run(format!("sudo mokutil --import {}", machine::AKMODS_CERTIFICATE))
                    .text(", reboot, and choose 'Enroll MOK' at the console. Do not install the driver again."),
            )
        }
        (Some(Signature::Other(signer)), _) => judged("the key of its signer is not enrolled")
            .found(format!("modinfo {file}"), format!("signer: {signer}"))
            .missing(Cost::Reboot, routes)
            .fix(FixId::SecureBootKey)
            .advice(
                Advice::from(format!("Find the certificate of \"{signer}\": "))
                    .command(format!(
                        "sudo grep -rlasF --include='*.der' --include='*.cer' --include='*.crt' --include='*.pub' {} /var/lib/shim-signed/mok /var/lib/dkms /etc/pki /etc/uefi/certs",
                        quoted(&signer)
                    ))
                    .text(". Import this FILE with `sudo mokutil --import FILE`, then reboot and choose 'Enroll MOK'. Or install the package that DKMS builds."),
            ),
        (Some(Signature::Dkms) | None, _) => judged("its signing key is not enrolled")
            .missing(Cost::Reboot, routes)
            .fix(FixId::SecureBootKey)
            .advice(
                Advice::run(format!("sudo mokutil --import {}", machine::dkms_certificate(ctx.root)))
                    .text(", reboot, and choose 'Enroll MOK' at the console. The module needs no new installation."),
            ),
    };
    match line {
        Some(line) => judged.found(machine::KERNEL_LOG, line),
        None => judged,
    }
}

/// The finding for a module that the kernel rejects although Secure Boot does not ask for it. An enrolled key does not help
/// there.
fn by_kernel(ctx: &Context<'_>, id: CheckId, name: &str, routes: &[Route]) -> Option<Judged> {
    let argument = |name: &str| {
        let line = ctx.root.read_text("/proc/cmdline").unwrap_or_default();
        line.split_whitespace().find(|word| word.split('=').next() == Some(name)).unwrap_or(name).to_owned()
    };
    let (why, cost, advice) = match machine::enforcer(ctx.root) {
        Enforcer::SecureBoot => return None,
        Enforcer::Argument => (
            "module.sig_enforce requires a signature".to_owned(),
            Cost::Reboot,
            without_argument(ctx, &argument("module.sig_enforce")),
        ),
        // Bottlerocket links the modules of its NVIDIA variants at boot, so they have no signature
        // (github.com/bottlerocket-os/bottlerocket/issues/4218).
        Enforcer::Lockdown(by) if image_host(ctx.root) == Some(ImageHost::Bottlerocket) => (
            format!("kernel lockdown is on (from {by})"),
            Cost::Reboot,
            Advice::run("apiclient set kernel.lockdown=none")
                .text(", then ")
                .command("apiclient reboot")
                .text(". For new nodes, set lockdown = \"none\" below [settings.kernel] in the user data."),
        ),
        Enforcer::Lockdown(by) if by.eq_ignore_ascii_case("command line") => (
            "lockdown= is on the kernel command line".to_owned(),
            Cost::Reboot,
            without_argument(ctx, &argument("lockdown")),
        ),
        Enforcer::Lockdown(by) if by.eq_ignore_ascii_case("kernel configuration") => (
            "the kernel was built with lockdown".to_owned(),
            Cost::System,
            "Use a kernel without CONFIG_LOCK_DOWN_KERNEL_FORCE, or a driver that its vendor signed.".into(),
        ),
        Enforcer::Lockdown(by) => (
            format!("kernel lockdown is on (from {by})"),
            Cost::Reboot,
            "Disable the service that writes to /sys/kernel/security/lockdown at boot, then reboot.".into(),
        ),
    };
    let summary = format!("the kernel rejects the installed {name}: {why}");
    Some(Judged::lack(id, summary).missing(cost, routes).advice(advice).by_hand())
}

/// How to start an unsigned driver that DKMS did not build. On a managed node nobody can enrol a key, because that needs
/// the console at boot.
fn unsigned_driver(ctx: &Context<'_>) -> String {
    if ctx.driver_fix().is_none() {
        return "Use a newer GPU: no driver with GPUDirect Storage supports this one.".to_owned();
    }
    let kernel = machine::kernel_release(ctx.root).unwrap_or_default();
    if kernel.ends_with("-gke") {
        return "Create the node pool without Secure Boot (--no-shielded-secure-boot), or sign the driver in the node's image. The key of a machine can be enrolled only at its console.".to_owned();
    }
    let version = machine::nvidia_driver(ctx.root).unwrap_or_default();
    let branch = version.trim().split('.').next().filter(|branch| !branch.is_empty()).unwrap_or("BRANCH");
    let signed = match machine::packages::id(ctx.root).as_str() {
        "ubuntu" => format!(
            ", or install the driver that Canonical signed (linux-modules-nvidia-{branch}-server-open-{kernel}) in its place"
        ),
        name if name.starts_with("sle") || name.starts_with("opensuse") => {
            ", or install the driver that SUSE signed (nvidia-open-driver-G06-signed-cuda-kmp-default) in its place"
                .to_owned()
        }
        _ => String::new(),
    };
    format!(
        "Sign it and enrol the key during the reboot, at the console{signed}. Or disable Secure Boot in the firmware or in the settings of the virtual machine."
    )
}
