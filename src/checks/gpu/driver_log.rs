//! Finds in the kernel log why the NVIDIA driver does not use a GPU.

use crate::checks::advice::Advice;
use crate::checks::context::{Context, LAST_PROPRIETARY};
use crate::checks::judged::{Cost, EVERY, Judged};
use crate::checks::kernel::signing;
use crate::core::{CheckId, FixId};
use crate::machine::{self, Architecture};

const ID: CheckId = CheckId::GpuPresent;

/// Why the driver does not use a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// The GPU has no system processor, which the open kernel modules need.
    NoGsp,
    /// The GPU needs the open kernel modules.
    NeedsOpen,
    /// The driver does not support the GPU.
    Unsupported,
    /// The GPU needs an older driver branch.
    Legacy,
    /// Another driver uses the GPU.
    Taken,
    /// The machine's firmware assigned no address space to the GPU.
    NoBar,
    /// Firmware files of the driver are missing.
    NoFirmware,
    /// The GPU does not answer on the bus.
    OffBus,
    /// The system processor did not start.
    Gsp,
    /// The GPU failed to start for another reason.
    NoStart,
    /// The module was built for another kernel.
    OtherKernel,
    /// Secure Boot or lockdown rejected the module.
    Key,
}

/// Parts of log lines in lower case. Causes are listed before their consequences. The driver wraps its messages, so
/// each part is within one line. The lines about signatures are those of `machine::is_signature_rejection`. Sources: NVIDIA/open-gpu-kernel-modules#322, #876, #943, #1230; NVIDIA/nvtrust#29,
/// #56.
const SIGNS: &[(Reason, &[&str])] = &[
    (Reason::NoGsp, &["nvrm", "is not supported by open"]),
    (Reason::NoGsp, &["does not include the required gpu"]),
    (Reason::NeedsOpen, &["nvrm", "use of the nvidia open"]),
    (Reason::Legacy, &["nvrm", "legacy driver"]),
    (Reason::Unsupported, &["nvrm", "is not supported by the"]),
    (Reason::Taken, &["nvrm", "probe routine was not called"]),
    (Reason::NoBar, &["pci i/o region assigned to your nvidia device"]),
    (Reason::NoFirmware, &["gsp_", ".bin failed with error"]),
    (Reason::NoFirmware, &["nvrm", "no firmware image found"]),
    (Reason::OffBus, &["nvrm", "fallen off the bus"]),
    (Reason::Gsp, &["nvrm", "cannot initialize gsp firmware"]),
    (Reason::Gsp, &["nvrm", "wpr2 already up"]),
    (Reason::NoStart, &["nvrm", "rminitadapter failed"]),
    (Reason::OtherKernel, &["nvidia: version magic"]),
    (Reason::OtherKernel, &["nvidia: disagrees about version of symbol"]),
    (Reason::OtherKernel, &["nvidia: unknown symbol"]),
    (Reason::Key, &[]),
];

/// The reason in the kernel log, and its line.
fn reason(ctx: &Context<'_>) -> Option<(Reason, String)> {
    let log = machine::kernel_log(ctx.root)?;
    let lower = log.to_ascii_lowercase();
    let is_loaded = machine::Driver::of(ctx.root).is_loaded();
    SIGNS
        .iter()
        // This line does not contain the name of a module. It is used only if the NVIDIA driver is not loaded.
        .filter(|(reason, _)| !(is_loaded && matches!(reason, Reason::Key | Reason::OtherKernel)))
        .filter(|(reason, _)| *reason != Reason::Key || is_installed(ctx))
        .find_map(|(reason, parts)| {
            let fits = |line: &str| match reason {
                Reason::Key => machine::is_signature_rejection(line),
                _ => parts.iter().all(|part| line.contains(part)),
            };
            let at = lower.lines().position(fits)?;
            Some((*reason, log.lines().nth(at)?.trim().to_owned()))
        })
}

/// Whether a driver is installed for the running kernel.
pub(crate) fn is_installed(ctx: &Context<'_>) -> bool {
    let release = machine::kernel_release(ctx.root).unwrap_or_default();
    machine::module_info(ctx.root, "nvidia").is_some()
        || machine::dkms_rows(ctx.root).iter().any(|row| row.name == "nvidia" && row.is_installed_for(&release))
}

/// The finding for GPUs on the PCI bus that the driver does not use, if the kernel log contains the reason.
pub(crate) fn refused(ctx: &Context<'_>) -> Option<Judged> {
    let (reason, line) = reason(ctx)?;
    let version = machine::nvidia_driver(ctx.root).map_or_else(String::new, |version| format!(" {version}"));
    let is_old = ctx.before_turing().next().is_some();
    let confidential = machine::confidential_guest(ctx.root);
    let judged = match reason {
        // In a confidential virtual machine, the driver cannot identify a GPU without CC mode and reports it as
        // unsupported.
        Reason::NoGsp | Reason::Unsupported if confidential.is_some() && !is_old => {
            Judged::lack(ID, "the driver cannot use the GPU in this confidential virtual machine")
                .missing(Cost::System, EVERY)
                .advice("Switch the GPU to confidential computing mode on the host, or use a virtual machine without SEV-SNP or TDX.")
        }
        Reason::NoGsp if is_old => {
            Judged::lack(ID, "the open kernel modules do not support this GPU, which is older than Turing")
                .missing(Cost::Install, EVERY)
                .fixes(ctx.driver_fix())
                .advice(install(ctx))
        }
        Reason::NoGsp => Judged::lack(ID, "the open kernel modules do not recognise this GPU")
            .missing(Cost::System, EVERY)
            .advice("Power the machine off and on. In a virtual machine, check how the host passes the GPU through."),
        Reason::NeedsOpen => Judged::lack(ID, "this GPU needs the open kernel modules, but the proprietary ones are installed")
            .missing(Cost::Install, EVERY)
            .fix(FixId::NvidiaDriverOpen)
            .advice("Install the open kernel modules of the same driver version, then reboot."),
        Reason::Legacy | Reason::Unsupported if is_old => {
            Judged::lack(ID, format!("driver{version} no longer supports this GPU"))
                .missing(Cost::Install, EVERY)
                .fixes(ctx.driver_fix())
                .advice(install(ctx))
        }
        Reason::Legacy => Judged::lack(ID, "this GPU needs a legacy driver without GPUDirect Storage").never(EVERY),
        Reason::Unsupported => Judged::lack(ID, format!("driver{version} does not support this GPU"))
            .missing(Cost::Install, EVERY)
            .fixes(ctx.driver_fix())
            .advice("Install a driver release that lists this GPU. The GPU is newer than the installed driver."),
        Reason::Taken => Judged::lack(ID, "another driver uses the GPU")
            .missing(Cost::Reboot, EVERY)
            .advice("Unbind the other driver (nouveau or vfio-pci), rebuild the initramfs, then reboot."),
        Reason::NoBar => Judged::lack(ID, "the machine's firmware assigned no address space to the GPU")
            .missing(Cost::System, EVERY)
            .advice("Enable 'Above 4G Decoding' in the firmware. In a virtual machine, enlarge its 64-bit MMIO window."),
        Reason::NoFirmware => Judged::lack(ID, "the GPU does not start because the driver's GSP firmware is missing")
            .missing(Cost::Install, EVERY)
            .advice(format!("Install the firmware package of driver{version}, rebuild the initramfs, then reboot.")),
        Reason::OffBus => Judged::lack(ID, "the GPU fell off the bus and no longer answers")
            .missing(Cost::Reboot, EVERY)
            .advice("Power the machine off and on. If it happens again, check power, cooling and the slot."),
        Reason::Gsp => Judged::lack(ID, "the system processor of the GPU (GSP) did not start")
            .missing(Cost::Reboot, EVERY)
            .advice("Power the machine off and on. If it fails again, install driver and firmware of one version."),
        Reason::NoStart => Judged::lack(ID, "the driver is loaded, but the GPU does not start")
            .missing(Cost::Reboot, EVERY)
            .advice("Power the machine off and on. If it fails again, send the output of nvidia-bug-report.sh to NVIDIA."),
        Reason::OtherKernel => Judged::lack(ID, "the installed NVIDIA driver was built for another kernel")
            .missing(Cost::Root, EVERY)
            .advice(
                Advice::run(format!(
                    "sudo dkms autoinstall -k {}",
                    machine::kernel_release(ctx.root).unwrap_or_default()
                ))
                .text(", then ")
                .command("sudo modprobe nvidia"),
            ),
        Reason::Key => signing::rejected(ctx, ID, signing::Module::Driver, Some(&line), EVERY),
    };
    let judged = if reason == Reason::Key { judged } else { judged.found(machine::KERNEL_LOG, line) };
    Some(match confidential {
        Some((source, text)) => judged.found(source, text),
        None => judged,
    })
}

/// The driver to install.
pub(crate) fn install(ctx: &Context<'_>) -> String {
    match ctx.before_turing().max_by_key(|gpu| gpu.architecture) {
        None => "Install the NVIDIA driver with the open kernel modules.".to_owned(),
        Some(gpu) if gpu.architecture == Architecture::BeforeMaxwell => {
            "No driver with GPUDirect Storage supports this GPU.".to_owned()
        }
        Some(gpu) => format!(
            "Install the proprietary driver, branch {LAST_PROPRIETARY}, the last for {}. The open modules do not support this GPU.",
            gpu.architecture.name()
        ),
    }
}
