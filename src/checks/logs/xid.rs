//! The errors of the GPU that the driver reports by a number (Xid). The check gpu-ecc and `gds-top explain` use this table.
//! Source: NVIDIA's list of Xid errors.

/// The remedy for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cure {
    /// The program that caused it must be corrected. The GPU works.
    Program,
    /// The GPU must be reset.
    Reset,
    /// The machine must be powered off and on.
    ColdBoot,
    /// The line itself names the action.
    Named,
    /// The GPU can be used, and the error must be examined.
    Examine,
}

/// An error of the GPU.
#[derive(Clone, Copy, Debug)]
pub struct Xid {
    pub(crate) number: u32,
    pub(crate) meaning: &'static str,
    pub(crate) cure: Cure,
    pub(crate) todo: &'static str,
}

const PROGRAM: &str = "A program caused it: run it with `compute-sanitizer PROGRAM`. If several programs cause it, run `sudo dcgmi diag -r 3`.";
const AFTER: &str = "Find the error before it: `sudo journalctl -k -b -o cat | grep Xid`.";
const RESET: &str = "End the programs on the GPU and run `sudo nvidia-smi --gpu-reset -i N`, or reboot. Replace the GPU if it happens again.";
const ROW: &str =
    "End the programs on the GPU and run `sudo nvidia-smi --gpu-reset -i N`, so that the row is replaced.";
const LINK: &str =
    "Run `nvidia-smi nvlink -e`. Reboot; if it happens again, have the NVLink connection or the GPU replaced.";
const GSP: &str = "Run `sudo nvidia-bug-report.sh` first. Then power the machine off and on. If it happens again, update the driver, then send the report to NVIDIA.";
const LOST: &str = "Stop its jobs, then run `sudo nvidia-bug-report.sh`, because a restart loses the state. Then power the machine off and on. If it happens again, check power, cooling and the slot, then replace the GPU.";
const REBOOT: &str = "Reboot. If it happens again, send the output of `sudo nvidia-bug-report.sh` to the GPU's vendor.";

const fn xid(number: u32, meaning: &'static str, cure: Cure, todo: &'static str) -> Xid {
    Xid { number, meaning, cure, todo }
}

#[rustfmt::skip]
const XIDS: &[Xid] = &[
    xid(13, "a kernel of a program made an invalid access", Cure::Program, PROGRAM),
    xid(31, "a program accessed GPU memory that is not mapped", Cure::Program, PROGRAM),
    xid(32, "a program's command stream is invalid, or the PCIe link is faulty", Cure::Examine, REBOOT),
    xid(38, "the firmware of the driver reported an error", Cure::Examine, REBOOT),
    xid(43, "a program's work on the GPU was stopped after a fault of the program", Cure::Program, PROGRAM),
    xid(45, "the driver ended a program's work, usually after another error", Cure::Program, AFTER),
    xid(48, "an uncorrectable memory error (ECC) occurred", Cure::Reset, RESET),
    xid(61, "the microcontroller of the GPU failed", Cure::Examine, REBOOT),
    xid(62, "the microcontroller of the GPU stopped", Cure::Examine, REBOOT),
    xid(63, "a faulty memory row was recorded for replacement", Cure::Examine, ROW),
    xid(64, "a faulty memory row could not be recorded", Cure::Examine, "Replace the GPU: send the output of `sudo nvidia-bug-report.sh` to its vendor."),
    xid(68, "the video decoder reported a fault of a program", Cure::Program, PROGRAM),
    xid(69, "a program made an invalid call of the graphics engine", Cure::Program, PROGRAM),
    xid(74, "NVLink reported an error", Cure::Examine, LINK),
    xid(79, "the GPU fell off the bus", Cure::ColdBoot, LOST),
    xid(92, "many correctable memory errors (ECC) occurred", Cure::Examine, RESET),
    xid(94, "an uncorrectable memory error was contained in one program", Cure::Examine, RESET),
    xid(95, "an uncorrectable memory error was not contained", Cure::Reset, RESET),
    xid(109, "a switch between programs on the GPU did not end in time", Cure::Examine, REBOOT),
    xid(119, "the GPU System Processor did not answer in time", Cure::ColdBoot, GSP),
    xid(120, "the GPU System Processor failed", Cure::ColdBoot, GSP),
    xid(136, "the training of an NVLink failed", Cure::Examine, LINK),
    xid(137, "NVLink reported an access of another GPU to memory that is not mapped", Cure::Program, PROGRAM),
    xid(140, "uncorrectable memory errors (ECC) occurred that were not recovered", Cure::Examine, RESET),
    xid(143, "the GPU did not start", Cure::ColdBoot, LOST),
    xid(149, "NVLink reported a fatal error", Cure::Examine, LINK),
    xid(154, "the driver reports how the GPU can be recovered", Cure::Named, "If the line names a reset, end the programs on the GPU and run `sudo nvidia-smi --gpu-reset -i N`. Otherwise reboot."),
];

/// The error with this number.
pub(crate) fn of(number: u32) -> Option<&'static Xid> {
    XIDS.iter().find(|xid| xid.number == number)
}

/// All numbers of the table.
pub fn numbers() -> impl Iterator<Item = u32> {
    XIDS.iter().map(|xid| xid.number)
}

/// The number in a line of the driver: `NVRM: Xid (PCI:0000:be:00): 79, …`.
#[must_use]
pub fn number(line: &str) -> Option<u32> {
    let lower = line.to_lowercase();
    let at = lower.find("xid")?;
    // An SXid is an error of an NVSwitch.
    if lower[..at].ends_with('s') {
        return None;
    }
    let rest = &lower[at + 3..];
    let rest = rest.split_once("):").map_or(rest, |(_, after)| after);
    let digits: String = rest.trim_start_matches([' ', ':', '=']).chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// An error that the driver of the NVSwitches reports (Fabric Manager User Guide, SXid errors).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchError {
    /// The number.
    pub number: u32,
    /// Whether the switches and GPUs must be reset.
    pub is_fatal: bool,
}

/// The remedy for a fatal error of an NVSwitch.
const SWITCH_RESET: &str = "Run `sudo nvidia-bug-report.sh` first. Stop all programs on GPUs, then reset all GPUs and NVSwitches, or reboot. If the error comes back, send the report to the vendor of the baseboard.";

/// The error in a line of this driver: `nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 24007, Fatal, Link 42 …`.
#[must_use]
pub fn switch_error(line: &str) -> Option<SwitchError> {
    let rest = line.split_once("SXid (")?.1.split_once("): ")?.1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(SwitchError { number: digits.parse().ok()?, is_fatal: rest.contains(", Fatal") })
}

impl SwitchError {
    /// The meaning and the remedy.
    #[must_use]
    pub const fn meaning(self) -> (&'static str, &'static str) {
        if self.is_fatal {
            ("an NVSwitch reported a fatal error, after which CUDA can fail with 802", SWITCH_RESET)
        } else {
            (
                "an NVSwitch reported an error",
                "A line with ', Fatal' requires a reset. For others, watch whether they come back, and run `nvidia-smi nvlink -e`.",
            )
        }
    }
}

/// The meaning and the remedy of a number. Numbers that are not in the table have general ones.
#[must_use]
pub fn meaning(number: u32) -> (&'static str, &'static str) {
    of(number).map_or(("the GPU reported an error", REBOOT), |xid| (xid.meaning, xid.todo))
}

/// Whether a line reports an error after which the GPU must be recovered.
pub(crate) fn must_recover(line: &str) -> bool {
    number(line).and_then(of).is_some_and(|xid| matches!(xid.cure, Cure::Reset | Cure::ColdBoot))
}

/// Whether the GPU no longer answers after this error, so that no command can ask it.
#[must_use]
pub fn is_lost(number: u32) -> bool {
    of(number).is_some_and(|xid| xid.cure == Cure::ColdBoot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_nvswitches_are_not_errors_of_gpus() {
        let fatal =
            "nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 24007, Fatal, Link 42 sourcetrack timeout error (First)";
        let other = "nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 11012, Non-fatal, Link 42 egress non-posted error";
        let gpu = "NVRM: Xid (PCI:0000:be:00): 79, pid=1, GPU has fallen off the bus.";
        let of = |line: &str| (switch_error(line).map(|error| (error.number, error.is_fatal)), number(line));
        assert_eq!(of(fatal), (Some((24007, true)), None));
        assert_eq!(of(other), (Some((11012, false)), None));
        assert_eq!(of(gpu), (None, Some(79)));
    }
}
