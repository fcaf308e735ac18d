//! Why CUDA cannot open the files of the driver (304, 999). The checks and the pages of the codes have the same causes.

use crate::core::CheckId;

/// A cause of a CUDA error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaCause {
    /// The cause.
    pub text: &'static str,
    /// The check that finds it.
    pub check: Option<CheckId>,
    /// A command that shows it, if no check finds it.
    pub look: &'static str,
    /// The remedy, if no check has one.
    pub todo: &'static str,
}

/// A /proc without the files of the driver.
pub const HIDDEN_PROC: CudaCause = CudaCause {
    text: "/proc hides the files of the driver: a systemd unit with ProcSubset=pid, or a sandbox.",
    check: Some(CheckId::CtrProcSys),
    look: "",
    todo: "",
};

/// No nvidia_uvm.
pub const NO_UVM: CudaCause = CudaCause {
    text: "The module nvidia_uvm is not loaded, or its device does not exist.",
    check: None,
    look: "ls -l /dev/nvidia-uvm; lsmod | grep nvidia_uvm",
    todo: "sudo nvidia-modprobe -u -c=0",
};

/// Devices that a container lacks or may not open.
pub const NO_DEVICES: CudaCause = CudaCause {
    text: "A container lacks the devices of the GPU, or may not open them.",
    check: Some(CheckId::CtrDevices),
    look: "",
    todo: "",
};

/// A module that fails after the machine woke from suspend (pytorch#49081, pop-os/default-settings#64).
pub const RESUMED: CudaCause = CudaCause {
    text: "The module nvidia_uvm does not work since the machine woke from suspend.",
    check: None,
    look: "sudo journalctl -k -b -o cat | grep -e 'suspend exit' -e 'hibernation exit'",
    todo: "End all programs and containers that use the GPU. Then run sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm. If it fails, reboot.",
};

/// A driver that does not work.
pub const FAULTY: CudaCause = CudaCause {
    text: "The GPU or its driver is in a faulty state.",
    check: None,
    look: "sudo journalctl -k -b -o cat | grep -e NVRM -e Xid",
    todo: "Run gds-top explain with the line.",
};
