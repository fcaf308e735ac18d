//! Faults of a GPU that the driver reports in the kernel log (Xid), and how to recover the GPU.

use crate::checks::advice::Advice;
use crate::checks::context::Context;
use crate::checks::judged::{Cost, EVERY, Judged};
use crate::checks::logs::xid::{self, Cure};
use crate::core::CheckId;
use crate::machine::{self, Message, NvmlGpu, Source};

/// The start of a line about a fault, before the address of its GPU.
const XID: &str = "NVRM: Xid (PCI:";

/// Whether a fault is of the GPU at this address. The lines name it without the function: `0000:be:00`.
fn is_at(line: &str, address: &str) -> bool {
    line.split_once(XID).is_some_and(|(_, rest)| {
        let place = rest.split(')').next().unwrap_or_default().to_ascii_lowercase();
        address.to_ascii_lowercase().starts_with(&place)
    })
}

/// Whether a line of the kernel log reports a fault (Xid) of this GPU, or of a GPU that no longer exists.
pub(super) fn is_fault_of(ctx: &Context<'_>, nvml: &NvmlGpu, line: &str) -> bool {
    is_at(line, &nvml.pci_bus_id) || !ctx.root.nvml().gpus.iter().any(|gpu| is_at(line, &gpu.pci_bus_id))
}

/// Whether programs cause this Xid, not the GPU: exceptions and page faults of GPU kernels, ended channels, and the
/// actions that follow them.
pub(super) fn is_of_a_program(line: &str) -> bool {
    xid::number(line).and_then(xid::of).is_some_and(|known| known.cure == Cure::Program)
}

/// How to recover a GPU after an Xid that ends its use until then. `None` for other Xids.
pub(super) fn recovery(line: &str, address: &str) -> Option<Advice> {
    let known = xid::of(xid::number(line)?)?;
    let reset = || {
        Advice::from("Run `sudo nvidia-bug-report.sh` first, because a reset loses the state. End all programs on the GPU, then run ")
            .command(format!("sudo nvidia-smi --gpu-reset -i {address}"))
            .text(". If it fails, reboot.")
    };
    match known.cure {
        Cure::ColdBoot => Some(known.todo.into()),
        Cure::Reset => Some(reset()),
        Cure::Named => match line.rsplit_once(" to ")?.1 {
            action if action.contains("None") => None,
            action if action.contains("Reboot") => {
                Some(Advice::run("sudo reboot").text(": the driver reports that the machine must be rebooted."))
            }
            _ => Some(reset()),
        },
        Cure::Program | Cure::Examine => None,
    }
}

/// The last fault of a GPU on the PCI bus that NVML does not list.
pub(super) fn of_unlisted(ctx: &Context<'_>) -> Option<Judged> {
    let log = machine::kernel_log(ctx.root)?;
    let is_listed = |address: &str| {
        let listed = |gpu: &NvmlGpu| gpu.pci_bus_id.eq_ignore_ascii_case(address);
        ctx.root.nvml().gpus.iter().any(listed)
    };
    let mut unlisted = ctx.pci()?.iter().filter(|gpu| !gpu.is_lent() && !is_listed(&gpu.address));
    unlisted.find_map(|gpu| {
        let is_meant = |message: &&Message| is_at(&message.text, &gpu.address) && !is_of_a_program(&message.text);
        let last = log.of(Source::Xid).rev().find(is_meant)?;
        let number = xid::number(&last.text)?;
        let known = xid::of(number)?;
        let advice: Advice = match recovery(&last.text, &gpu.address) {
            // The driver recovered the GPU.
            None if known.cure == Cure::Named => return None,
            None => known.todo.into(),
            Some(advice) => advice,
        };
        // The action follows the fault that it is about.
        let is_cause = |message: &&Message| xid::number(&message.text).is_some_and(|other| other != 154);
        let fault = log.of(Source::Xid).rev().filter(is_meant).find(is_cause).unwrap_or(last);
        let meaning = xid::number(&fault.text).map_or(known.meaning, |number| xid::meaning(number).0);
        let judged = Judged::lack(CheckId::GpuPresent, format!("the GPU at {} failed (Xid): {meaning}", gpu.address))
            .missing(Cost::Root, EVERY)
            .advice(advice)
            .found(machine::KERNEL_LOG, &fault.line);
        Some(if fault == last { judged } else { judged.found(machine::KERNEL_LOG, &last.line) })
    })
}
