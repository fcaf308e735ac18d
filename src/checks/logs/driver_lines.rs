//! Lines of the kernel log that show why the NVIDIA driver does not use a GPU, with meaning, proof and remedy. The check
//! gpu-present and `gds-top explain` use this table.

/// Why the driver does not use a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
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
    /// The GPU is in the power state D3cold and does not leave it.
    PowerState,
    /// The system processor did not start.
    Gsp,
    /// The GPU failed to start for another reason.
    NoStart,
    /// A line of the configuration excludes the module.
    Excluded,
    /// The module was built for another kernel.
    OtherKernel,
    /// Secure Boot or lockdown rejected the module.
    Key,
    /// No interrupts can be assigned to the GPU.
    NoInterrupt,
}

/// A line with its meaning.
#[derive(Clone, Copy, Debug)]
pub struct DriverLine {
    pub(crate) reason: Reason,
    /// Parts of the line in lower case and in order. The driver wraps its messages, so each part is within one line.
    pub(crate) pieces: &'static [&'static str],
    /// The meaning.
    pub(crate) meaning: &'static str,
    /// A command that shows the cause.
    pub(crate) look: &'static str,
    /// The remedy.
    pub(crate) todo: &'static str,
}

const fn line(
    reason: Reason,
    pieces: &'static [&'static str],
    meaning: &'static str,
    look: &'static str,
    todo: &'static str,
) -> DriverLine {
    DriverLine { reason, pieces, meaning, look, todo }
}

pub(crate) const COLD_BOOT: &str = "Stop its jobs, then run `sudo nvidia-bug-report.sh`, because a restart loses the state. Then power the machine off and on. If it happens again, check power, cooling and the slot.";
pub(crate) const WINDOW: &str =
    "Enable 'Above 4G Decoding' in the firmware. In a virtual machine, enlarge its 64-bit MMIO window.";
pub(crate) const POWER_STATE: &str = "Power the machine off and on. If it happens again, boot with pcie_port_pm=off. In a virtual machine, restart the host.";

const NVRM_LINES: &str = "sudo journalctl -k -b -o cat | grep -e NVRM -e Xid -e AER";
const OLD_GPU: &str = "Install the proprietary driver, branch 580: it is the last for Maxwell, Pascal and Volta.";
const DEVICE: &str = "lspci -nnk -d 10de:";

/// The lines, causes before their consequences. Sources: NVIDIA/open-gpu-kernel-modules#322, #876, #943, #1230;
/// NVIDIA/nvtrust#29, #56; NVIDIA/gpu-operator#492.
#[rustfmt::skip]
pub(crate) const LINES: &[DriverLine] = &[
    line(Reason::Excluded, &["module nvidia is blacklisted"], "an argument of the kernel command line excludes the NVIDIA driver", "grep -o '[^ ]*blacklist=[^ ]*' /proc/cmdline", "Remove nvidia from that argument in the boot loader's configuration, then reboot."),
    line(Reason::NoGsp, &["nvrm", "is not supported by open"], "the open kernel modules do not support this GPU", DEVICE, OLD_GPU),
    line(Reason::NoGsp, &["does not include the required gpu"], "the open kernel modules do not support this GPU", DEVICE, OLD_GPU),
    line(Reason::NeedsOpen, &["nvrm", "use of the nvidia open"], "the GPU needs the open kernel modules", DEVICE, "Install the open kernel modules of the same driver version, then reboot."),
    line(Reason::Legacy, &["nvrm", "legacy driver"], "this driver no longer supports the GPU", DEVICE, OLD_GPU),
    line(Reason::Unsupported, &["nvrm", "is not supported by the"], "the driver does not support this GPU", DEVICE, "In a virtual machine, a known model is a vGPU: install the guest driver of the host's vGPU release. Otherwise install a driver release that lists this GPU."),
    line(Reason::Taken, &["already bound to vfio"], "the GPU is reserved for virtual machines by vfio-pci", "lspci -nnk -d 10de:; grep -rn vfio /etc/modprobe.d /proc/cmdline", "If no virtual machine uses the GPU, remove its ids from the line of vfio-pci in /etc/modprobe.d or the kernel command line. Rebuild the initramfs, then reboot."),
    line(Reason::Taken, &["nvrm", "probe routine was not called"], "another driver uses the GPU", DEVICE, "Exclude that driver (nouveau, nova_core or vfio-pci) in /etc/modprobe.d, rebuild the initramfs, then reboot."),
    line(Reason::PowerState, &["nvidia", "from d3cold to d0"], "the GPU does not leave the power state D3cold", "cat /sys/bus/pci/devices/*/power_state", POWER_STATE),
    line(Reason::NoBar, &["pci i/o region assigned to your nvidia device"], "the machine's firmware assigned no address space to the GPU", "sudo lspci -vv -d 10de: | grep Region", WINDOW),
    line(Reason::NoBar, &["nvrm", "bar", " is 0m @"], "the machine's firmware assigned no address space to the GPU", "sudo lspci -vv -d 10de: | grep Region", WINDOW),
    line(Reason::NoFirmware, &["gsp_", ".bin failed with error"], "the driver's GSP firmware is missing", "ls /lib/firmware/nvidia; modinfo -F version nvidia", "Install the firmware package of the driver's version, rebuild the initramfs, then reboot."),
    line(Reason::NoFirmware, &["nvrm", "no firmware image found"], "the driver's GSP firmware is missing", "ls /lib/firmware/nvidia; modinfo -F version nvidia", "Install the firmware package of the driver's version, rebuild the initramfs, then reboot."),
    line(Reason::OffBus, &["nvrm", "fallen off the bus"], "the GPU fell off the bus and no longer answers", NVRM_LINES, COLD_BOOT),
    line(Reason::NoInterrupt, &["nvrm", "can't find an irq for your nvidia card"], "no interrupt can be assigned to the GPU", "grep -o -e pci=[^ ]* -e noapic /proc/cmdline", "Remove pci=nomsi and noapic from the kernel command line. In a virtual machine, check how the host passes the GPU through."),
    line(Reason::Gsp, &["nvrm", "cannot initialize gsp firmware"], "the system processor of the GPU (GSP) did not start", NVRM_LINES, "Power the machine off and on. If it fails again, install driver and firmware of one version."),
    line(Reason::Gsp, &["nvrm", "wpr2 already up"], "the system processor of the GPU (GSP) did not start", NVRM_LINES, "Power the machine off and on: a reset of the GPU was not complete."),
    line(Reason::Gsp, &["nvrm", "gsp_", "timeout"], "the system processor of the GPU (GSP) did not answer", NVRM_LINES, "Power the machine off and on. If it fails again, install driver and firmware of one version."),
    line(Reason::NoStart, &["nvrm", "rminitadapter failed"], "the driver could not start the GPU", NVRM_LINES, "Power the machine off and on. If it fails again, send the output of nvidia-bug-report.sh to NVIDIA."),
    line(Reason::NoStart, &["nvrm", "rm_init_adapter failed"], "the driver could not start the GPU", NVRM_LINES, "Power the machine off and on. If it fails again, send the output of nvidia-bug-report.sh to NVIDIA."),
    line(Reason::NoStart, &["nvrm", "probe routine failed for"], "the driver rejected a GPU; the lines before it have the reason", NVRM_LINES, "Run `gds-top explain` with the lines before it."),
    line(Reason::OtherKernel, &["nvidia: version magic"], "the NVIDIA driver was built for another kernel", "modinfo -F vermagic nvidia; uname -r", "Build it for the running kernel: `sudo dkms autoinstall`, or install the driver again."),
    line(Reason::OtherKernel, &["nvidia: disagrees about version of symbol"], "the NVIDIA driver was built for another kernel", "modinfo -F vermagic nvidia; uname -r", "Build it for the running kernel: `sudo dkms autoinstall`, or install the driver again."),
    line(Reason::OtherKernel, &["nvidia: unknown symbol"], "the NVIDIA driver was built for another kernel", "modinfo -F vermagic nvidia; uname -r", "Build it for the running kernel: `sudo dkms autoinstall`, or install the driver again."),
];

/// The first known line of this table in a text.
#[must_use]
pub fn driver_line(text: &str) -> Option<&'static DriverLine> {
    let lower = text.to_ascii_lowercase();
    LINES.iter().find(|known| crate::text::contains_in_order(&lower, known.pieces))
}

impl DriverLine {
    /// The meaning.
    #[must_use]
    pub const fn meaning(&self) -> &'static str {
        self.meaning
    }

    /// A command that shows the cause.
    #[must_use]
    pub const fn look(&self) -> &'static str {
        self.look
    }

    /// The remedy.
    #[must_use]
    pub const fn todo(&self) -> &'static str {
        self.todo
    }
}
