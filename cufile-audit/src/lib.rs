//! Records the cuFile calls of any program, its large reads with libc and its copies with libcuda. It is a library
//! for `LD_AUDIT` of glibc.
//!
//! This crate has two products. Cargo builds [`layout`], the description of the shared memory, for the reader. The
//! build script of gds-top compiles [`SOURCES`] again with `--cfg audit_library`, into the shared library that the
//! dynamic linker loads into the program. The second product is compiled separately, because it has no standard
//! library, it aborts on a panic, and Cargo cannot use the cdylib of another package.
//!
//! The code that runs inside the program must not allocate, lock, panic or block. The library has its own link
//! namespace and libc, so it shares neither heap nor errno with the program.
#![no_std]
// Only the dynamic linker calls the entry points, not the tests.
#![cfg_attr(test, allow(dead_code))]

#[cfg(any(audit_library, test))]
mod aio;
#[cfg(any(audit_library, test))]
mod audit;
#[cfg(any(audit_library, test))]
mod calls;
#[cfg(any(audit_library, test))]
mod capture;
#[cfg(any(audit_library, test))]
mod children;
#[cfg(any(audit_library, test))]
mod filter;
pub mod layout;
#[cfg(any(audit_library, test))]
mod linker;
#[cfg(any(audit_library, test))]
mod lists;
#[cfg(any(audit_library, test))]
mod mappings;
#[cfg(any(audit_library, test))]
mod names;
#[cfg(any(audit_library, test))]
mod originals;
#[cfg(any(audit_library, test))]
mod pages;
#[cfg(any(audit_library, test))]
mod plain;
#[cfg(any(audit_library, test))]
mod relocations;
#[cfg(any(audit_library, test))]
mod rings;
#[cfg(any(audit_library, test))]
mod stat;
#[cfg(any(audit_library, test))]
mod statistics;
#[cfg(any(audit_library, test))]
mod system;
#[cfg(any(audit_library, test))]
mod thread;
#[cfg(any(audit_library, test))]
mod uring;

/// The names and contents of the files from which the library is compiled. `lib.rs` is the crate root.
#[cfg(not(audit_library))]
pub const SOURCES: [(&str, &str); 22] = [
    ("lib.rs", include_str!("lib.rs")),
    ("aio.rs", include_str!("aio.rs")),
    ("audit.rs", include_str!("audit.rs")),
    ("calls.rs", include_str!("calls.rs")),
    ("capture.rs", include_str!("capture.rs")),
    ("children.rs", include_str!("children.rs")),
    ("filter.rs", include_str!("filter.rs")),
    ("layout.rs", include_str!("layout.rs")),
    ("linker.rs", include_str!("linker.rs")),
    ("lists.rs", include_str!("lists.rs")),
    ("mappings.rs", include_str!("mappings.rs")),
    ("names.rs", include_str!("names.rs")),
    ("originals.rs", include_str!("originals.rs")),
    ("pages.rs", include_str!("pages.rs")),
    ("plain.rs", include_str!("plain.rs")),
    ("relocations.rs", include_str!("relocations.rs")),
    ("rings.rs", include_str!("rings.rs")),
    ("stat.rs", include_str!("stat.rs")),
    ("statistics.rs", include_str!("statistics.rs")),
    ("system.rs", include_str!("system.rs")),
    ("thread.rs", include_str!("thread.rs")),
    ("uring.rs", include_str!("uring.rs")),
];

/// The library never panics, but the compiler requires this function.
#[cfg(all(audit_library, not(test)))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    system::abort()
}
