//! Finds a crash of the kernel in a storage or GPU module.

use crate::checks::context::Context;
use crate::checks::judged::{Cost, DIRECT, Judged};
use crate::core::CheckId;
use crate::machine;

/// A crash of the kernel: the module in which it happened, the line that starts the report, and the line that names
/// the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crash {
    pub(crate) module: String,
    pub(crate) start: String,
    pub(crate) place: String,
}

/// Lines that start the report of a crash, in lower case. A warning (`WARNING: CPU: 3 PID: …`) has the same form, but
/// the module continues to work.
const STARTS: &[&str] = &[
    "kernel bug at ",
    "bug: unable to handle",
    "bug: kernel null pointer dereference",
    "unable to handle kernel ",
    "general protection fault",
    "internal error: ",
];

/// The modules that are part of a direct route, next to nvidia-fs.
const MODULES: &[&str] =
    &["nvidia", "nvidia_uvm", "nvidia_peermem", "nvme", "nvme_core", "nvme_rdma", "nvme_fabrics", "rpcrdma", "beegfs"];

/// The module in a line of a stack such as `RIP: 0010:nvfs_get_dma+0x2a5/0x3b0 [nvidia_fs]`. Lines with a question mark
/// are guesses of the kernel.
fn module_of(line: &str) -> Option<&str> {
    let line = line.trim_end();
    let (frame, module) = line.strip_suffix(']')?.rsplit_once(" [")?;
    let is_frame = frame.contains("+0x") && !frame.trim_start().starts_with("? ") && !frame.contains(" ? ");
    // Some kernels print the build id of the module behind its name.
    is_frame.then(|| module.split(' ').next().unwrap_or(module))
}

/// The last crash in one of these modules.
pub(crate) fn last_crash(log: &str, modules: &[&str]) -> Option<Crash> {
    let mut found = None;
    let mut start: Option<&str> = None;
    for line in log.lines() {
        let lower = line.to_ascii_lowercase();
        if STARTS.iter().any(|part| lower.contains(part)) {
            start = start.or(Some(line));
        } else if lower.contains("cut here ]") || lower.contains("end trace ") {
            start = None;
        } else if let (Some(first), Some(module)) = (start, module_of(line)) {
            // The first line with a module decides: the others are its callers.
            start = None;
            if modules.contains(&module) {
                let text = |line: &str| line.trim().to_owned();
                found = Some(Crash { module: module.to_owned(), start: text(first), place: text(line) });
            }
        }
    }
    found
}

/// Reports a crash in a module that direct reads need, other than nvidia-fs, which has its own check.
pub(crate) fn crash(ctx: &Context<'_>) -> Option<Judged> {
    let log = machine::kernel_log(ctx.root).filter(|_| ctx.gpu_on_bus())?;
    let crash = last_crash(&log, MODULES)?;
    Some(
        Judged::lack(CheckId::KernelLog, format!("the kernel crashed in the module {}", crash.module))
            .found(machine::KERNEL_LOG, crash.start)
            .found(machine::KERNEL_LOG, crash.place)
            .missing(Cost::Reboot, DIRECT)
            .advice(format!(
                "Reboot: after a crash, {} does not work reliably. If it happens again, update the module or the kernel.",
                crash.module
            )),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUG: &str = "------------[ cut here ]------------\nkernel BUG at /var/lib/dkms/nvidia-fs/2.26.6/build/nvfs-mmap.c:1383!\ninvalid opcode: 0000 [#1] PREEMPT SMP NOPTI\nModules linked in: nvidia_fs(OE) nvidia(OE) [last unloaded: x]\nRIP: 0010:nvfs_get_dma+0x2a5/0x3b0 [nvidia_fs]\n";

    #[test]
    fn crash_is_found_in_its_module() {
        let crash = last_crash(BUG, &["nvidia_fs"]);
        assert_eq!(
            crash.map(|crash| (crash.module, crash.start.contains("kernel BUG at"))),
            Some(("nvidia_fs".to_owned(), true))
        );
        assert_eq!(last_crash(BUG, MODULES), None, "the crash is not in another module");
        let arm = "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010\nInternal error: Oops: 0000000096000004 [#1] SMP\npc : nvme_rdma_queue_rq+0x10/0x20 [nvme_rdma]\n";
        assert_eq!(last_crash(arm, MODULES).map(|crash| crash.module), Some("nvme_rdma".to_owned()));
        // The crash is in the kernel, and a module called it.
        let called = "BUG: kernel NULL pointer dereference, address: 0000000000000000\nRIP: 0010:memcpy+0x1/0x20\nCall Trace:\n ? xfs_read+0x1/0x2 [xfs]\n nvfs_io_start_op+0x1/0x2 [nvidia_fs 0123abcd]\n";
        assert_eq!(last_crash(called, &["nvidia_fs"]).map(|crash| crash.module), Some("nvidia_fs".to_owned()));
    }

    #[test]
    fn warnings_and_crashes_of_other_modules_are_no_crash() {
        let warning = "------------[ cut here ]------------\nWARNING: CPU: 3 PID: 7 at nv.c:12 nv_map+0x1/0x2 [nvidia]\nRIP: 0010:nv_map+0x1/0x2 [nvidia]\n---[ end trace 0000000000000000 ]---\n";
        assert_eq!(last_crash(warning, MODULES), None);
        let other = "BUG: unable to handle page fault for address: 1\nRIP: 0010:amdgpu_x+0x1/0x2 [amdgpu]\nCall Trace:\n nv_map+0x1/0x2 [nvidia]\n";
        assert_eq!(last_crash(other, MODULES), None);
        let then_a_warning = format!(
            "BUG: unable to handle page fault for address: 1\nRIP: 0010:x+0x1/0x2\n---[ end trace 0 ]---\n{warning}"
        );
        assert_eq!(last_crash(&then_a_warning, MODULES), None);
    }
}
