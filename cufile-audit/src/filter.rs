//! Notices when the program restricts its system calls (seccomp). The filter can end the program at a call that the program
//! itself does not make.

use crate::{mappings, system, uring};

/// `PR_SET_SECCOMP` of `prctl`, and the number of the `seccomp` call with its operations that set a mode.
const PR_SET_SECCOMP: usize = 22;
const SYS_SECCOMP: usize = if cfg!(target_arch = "x86_64") { 317 } else { 277 };
const SECCOMP_SET_MODE_FILTER: usize = 1;

/// Before a call of `prctl`.
pub(crate) fn before_prctl(option: usize) {
    if option as u32 as usize == PR_SET_SECCOMP {
        set();
    }
}

/// Before a call of `syscall`.
pub(crate) fn before_syscall(number: usize, operation: usize) {
    if number == SYS_SECCOMP && operation as u32 as usize <= SECCOMP_SET_MODE_FILTER {
        set();
    }
}

/// Records the facts that are otherwise recorded at the end of the process.
#[inline(never)]
#[cold]
fn set() {
    mappings::end();
    uring::end();
    system::set_filtered();
}
