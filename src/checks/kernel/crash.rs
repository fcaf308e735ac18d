//! Finds a crash of the kernel in a storage or GPU module.

use crate::checks::context::Context;
use crate::checks::judged::{Cost, DIRECT, Judged};
use crate::core::CheckId;
use crate::machine::{self, KernelLog, Source};

/// A crash of the kernel: the module in which it happened, the line that starts the report, and the line that names
/// the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crash {
    pub(crate) module: String,
    pub(crate) start: String,
    pub(crate) place: String,
}

/// The modules that are part of a direct route, next to nvidia-fs.
const MODULES: &[&str] =
    &["nvidia", "nvidia_uvm", "nvidia_peermem", "nvme", "nvme_core", "nvme_rdma", "nvme_fabrics", "rpcrdma", "beegfs"];

/// The module in a line of a stack such as `RIP: 0010:nvfs_get_dma+0x2a5/0x3b0 [nvidia_fs]`.
fn module_of(line: &str) -> Option<&str> {
    let (_, module) = line.strip_suffix(']')?.split_once("+0x")?.1.split_once(" [")?;
    // Some kernels print the build id of the module behind its name.
    Some(module.split(' ').next().unwrap_or(module))
}

/// The last crash in one of these modules. A warning (`WARNING: CPU: 3 PID: …`) has the same form, but the module
/// continues to work. Its first line is not a message of [`Source::Crash`].
pub(crate) fn last_crash(log: &KernelLog, modules: &[&str]) -> Option<Crash> {
    let mut found = None;
    let mut start: Option<&str> = None;
    for message in log.of(Source::Crash) {
        let line = message.line.as_str();
        if line.contains("cut here ]") || line.contains("end trace ") {
            start = None;
        } else if let Some(module) = module_of(line) {
            // The first line with a module decides: the others are its callers.
            if let Some(first) = start.take().filter(|_| modules.contains(&module)) {
                found = Some(Crash { module: module.to_owned(), start: first.to_owned(), place: line.to_owned() });
            }
        } else {
            start = start.or(Some(line));
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
        let crash = last_crash(&KernelLog::parse(BUG), &["nvidia_fs"]);
        assert_eq!(
            crash.map(|crash| (crash.module, crash.start.contains("kernel BUG at"))),
            Some(("nvidia_fs".to_owned(), true))
        );
        assert_eq!(last_crash(&KernelLog::parse(BUG), MODULES), None, "the crash is not in another module");
        let arm = "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010\nInternal error: Oops: 0000000096000004 [#1] SMP\npc : nvme_rdma_queue_rq+0x10/0x20 [nvme_rdma]\n";
        assert_eq!(last_crash(&KernelLog::parse(arm), MODULES).map(|crash| crash.module), Some("nvme_rdma".to_owned()));
        // The crash is in the kernel, and a module called it.
        let called = "BUG: kernel NULL pointer dereference, address: 0000000000000000\nRIP: 0010:memcpy+0x1/0x20\nCall Trace:\n ? xfs_read+0x1/0x2 [xfs]\n nvfs_io_start_op+0x1/0x2 [nvidia_fs 0123abcd]\n";
        assert_eq!(
            last_crash(&KernelLog::parse(called), &["nvidia_fs"]).map(|crash| crash.module),
            Some("nvidia_fs".to_owned())
        );
    }

    #[test]
    fn warnings_and_crashes_of_other_modules_are_no_crash() {
        let warning = "------------[ cut here ]------------\nWARNING: CPU: 3 PID: 7 at nv.c:12 nv_map+0x1/0x2 [nvidia]\nRIP: 0010:nv_map+0x1/0x2 [nvidia]\n---[ end trace 0000000000000000 ]---\n";
        assert_eq!(last_crash(&KernelLog::parse(warning), MODULES), None);
        let other = "BUG: unable to handle page fault for address: 1\nRIP: 0010:amdgpu_x+0x1/0x2 [amdgpu]\nCall Trace:\n nv_map+0x1/0x2 [nvidia]\n";
        assert_eq!(last_crash(&KernelLog::parse(other), MODULES), None);
        let then_a_warning = format!(
            "BUG: unable to handle page fault for address: 1\nRIP: 0010:x+0x1/0x2\n---[ end trace 0 ]---\n{warning}"
        );
        assert_eq!(last_crash(&KernelLog::parse(&then_a_warning), MODULES), None);
    }
}
