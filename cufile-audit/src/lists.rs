//! Replaces `execl`, `execlp`, `execle` and `syscall`.
//!
//! These functions have any number of arguments. Stable Rust cannot define such functions, so the replacements are in
//! assembler. They store the argument registers in an array, and pass this array and the further arguments, which are
//! on the stack.

use crate::layout::Function;
use crate::originals::real;
use crate::{children, filter};

/// The number of argument registers.
const REGISTERS: usize = if cfg!(target_arch = "x86_64") { 6 } else { 8 };

/// The replacement of function `F`. If [`start`] returns 0, the program could not be started. Otherwise the original
/// function is called with the arguments of this call.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn replacement<const V: usize, const F: usize>() {
    core::arch::naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "sub rsp, 48",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], rcx",
        "mov [rsp + 32], r8",
        "mov [rsp + 40], r9",
        "mov rdi, rsp",
        "lea rsi, [rbp + 16]",
        "call {start}",
        "mov r11, rax",
        "mov rdi, [rsp]",
        "mov rsi, [rsp + 8]",
        "mov rdx, [rsp + 16]",
        "mov rcx, [rsp + 24]",
        "mov r8, [rsp + 32]",
        "mov r9, [rsp + 40]",
        "leave",
        "test r11, r11",
        "jz 2f",
        // The number of vector registers with arguments.
        "xor eax, eax",
        "jmp r11",
        "2:",
        "mov eax, -1",
        "ret",
        start = sym start::<V, F>,
    )
}

/// As above.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn replacement<const V: usize, const F: usize>() {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-80]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "stp x6, x7, [sp, #64]",
        "add x0, sp, #16",
        "add x1, sp, #80",
        "bl {start}",
        "mov x16, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x2, x3, [sp, #32]",
        "ldp x4, x5, [sp, #48]",
        "ldp x6, x7, [sp, #64]",
        "ldp x29, x30, [sp], #80",
        "cbz x16, 2f",
        "br x16",
        "2:",
        "mov w0, #-1",
        "ret",
        start = sym start::<V, F>,
    )
}

/// Starts the program. Returns the original function if it must be called, and 0 if the program could not be started.
unsafe extern "C" fn start<const V: usize, const F: usize>(registers: *const usize, stack: *const usize) -> usize {
    // SAFETY: the replacement passes an array of the registers and the place of the further arguments. The caller of
    // the replacement ends its arguments with a null pointer.
    unsafe {
        let argument = |number: usize| match number.checked_sub(REGISTERS) {
            None => *registers.add(number),
            Some(number) => *stack.add(number),
        };
        if F == Function::LibcSyscall as usize {
            // The original function is called without a frame of this library, as the child of `vfork` needs it.
            filter::before_syscall(argument(0), argument(1));
            return real::<V, F>();
        }
        children::start_list::<F>(real::<V, F>(), argument)
    }
}
