//! The state of each thread: its ring, and whether it writes a record.

use core::cell::Cell;

/// The state of a thread. It is zero in a new thread.
#[repr(C)]
pub(crate) struct State {
    /// The address of its ring. 0 if it has none.
    pub(crate) ring: Cell<usize>,
    /// The process in which `ring` was acquired. It differs from the current process after a fork.
    pub(crate) process: Cell<u64>,
    /// Not 0 while a record is written, so that calls in a signal handler do not write to the same ring.
    pub(crate) busy: Cell<u64>,
}

// Stable Rust has no thread-local variables without the standard library, and those of the standard library allocate
// at the first access of each thread. The initial-exec model is used: glibc reserves space for it in every thread,
// and an access is a single addition.
core::arch::global_asm!(
    ".section .tbss.gds_top_audit_thread,\"awT\",@nobits",
    ".p2align 3",
    ".globl gds_top_audit_thread",
    ".hidden gds_top_audit_thread",
    ".type gds_top_audit_thread,@object",
    ".size gds_top_audit_thread,24",
    "gds_top_audit_thread:",
    ".zero 24",
    ".text",
);

/// The state of this thread.
pub(crate) fn state() -> &'static State {
    let address: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: this is the initial-exec sequence of the ABI. It reads the thread pointer and one word of the global
    // offset table.
    unsafe {
        core::arch::asm!(
            "mov {0}, qword ptr [rip + gds_top_audit_thread@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) address,
            options(nostack, pure, readonly),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "mrs {1}, tpidr_el0",
            "adrp {0}, :gottprel:gds_top_audit_thread",
            "ldr {0}, [{0}, :gottprel_lo12:gds_top_audit_thread]",
            "add {0}, {0}, {1}",
            out(reg) address,
            out(reg) _,
            options(nostack, pure, readonly),
        );
    }
    // SAFETY: these are 24 bytes, aligned to 8, zero at the start of each thread, and used only by this thread. The
    // reference is not kept after the call.
    unsafe { &*core::ptr::with_exposed_provenance::<State>(address) }
}
