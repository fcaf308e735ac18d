//! Safe bindings to libnixl_capi, the C interface of NVIDIA NIXL, for transfers between files and memory. The library is
//! loaded at run time.
//!
//! - [`Library`] finds and loads it: the file or directory in `GDS_TOP_NIXL`, the directories of the loader, Python
//!   wheels (`nixl_cu13`, `nixl_cu12`), and system directories. The error lists every name that was tried.
//! - [`Agent`] is a NIXL agent with at most one back end (a plugin: `GDS`, `GDS_MT`, `POSIX`).
//! - [`Registered`] memory, [`RegisteredFile`] and [`Transfer`] keep the objects that they need and release them in
//!   the right order.
//! - [`cufile_ffi::IoMemory`] is the destination memory. cuFile needs the same guarantee, so this crate depends on
//!   cufile-ffi.
//!
//! This is a separate crate because it wraps a different library, and only such crates contain `unsafe`. Nothing
//! panics, and the library is never unloaded. The functions and their types are those of NIXL 1.5
//! (src/bindings/rust/wrapper.h of ai-dynamo/nixl).

mod agent;
mod error;
mod library;
mod raw;
mod search;

pub use agent::{Agent, Memory, Operation, Part, Registered, RegisteredFile, Transfer};
pub use cufile_ffi::Tried;
pub use error::Error;
pub use library::Library;
pub use search::{ENV_NIXL, FILE, Search};
