//! Records the cuFile calls of any program, its large reads by libc and its copies by libcuda, as a library for `LD_AUDIT` of glibc.
//!
//! This crate has two products. Cargo builds [`layout`], the description of the shared memory, for the reader. The build script of gds-top compiles
//! [`SOURCES`] again, with `--cfg audit_library`, into the shared library that the dynamic linker loads into the program. It must be compiled apart:
//! it has no standard library, it aborts on a panic, and Cargo cannot yet use the cdylib of another package.
//!
//! Rules of the code that runs inside the program: no allocation, no lock, no panic, no call that can block. The library has its link namespace
//! and its libc, so it shares neither heap nor errno with the program.
#![no_std]
// The dynamic linker calls the entry points, the tests do not.
#![cfg_attr(test, allow(dead_code))]

#[cfg(any(audit_library, test))]
mod audit;
#[cfg(any(audit_library, test))]
mod calls;
#[cfg(any(audit_library, test))]
mod capture;
pub mod layout;
#[cfg(any(audit_library, test))]
mod linker;
#[cfg(any(audit_library, test))]
mod names;
#[cfg(any(audit_library, test))]
mod relocations;
#[cfg(any(audit_library, test))]
mod rings;
#[cfg(any(audit_library, test))]
mod system;

/// The files from which the library is compiled: name and content. `lib.rs` is the crate root.
#[cfg(not(audit_library))]
pub const SOURCES: [(&str, &str); 10] = [
    ("lib.rs", include_str!("lib.rs")),
    ("audit.rs", include_str!("audit.rs")),
    ("calls.rs", include_str!("calls.rs")),
    ("capture.rs", include_str!("capture.rs")),
    ("layout.rs", include_str!("layout.rs")),
    ("linker.rs", include_str!("linker.rs")),
    ("names.rs", include_str!("names.rs")),
    ("relocations.rs", include_str!("relocations.rs")),
    ("rings.rs", include_str!("rings.rs")),
    ("system.rs", include_str!("system.rs")),
];

/// No code of the library panics; the compiler asks for this function all the same.
#[cfg(all(audit_library, not(test)))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    system::abort()
}
