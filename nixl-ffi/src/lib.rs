//! Run-time loaded, safe bindings to libnixl_capi, the C interface of NVIDIA NIXL, as far as reading files into memory needs it.
//!
//! - [`Library`] finds and loads it: the file or folder that `GDS_TOP_NIXL` names, the loader's own places, Python wheels (`nixl_cu13`,
//!   `nixl_cu12`), system folders. Every name that was tried is told.
//! - [`Agent`] is a NIXL agent with at most one back end (a plugin: `GDS`, `GDS_MT`, `POSIX`).
//! - [`Registered`] memory, [`RegisteredFile`] and [`Transfer`] keep what they need alive and are given back in the right order.
//! - [`cufile_ffi::IoMemory`] is the memory read into, the same promise that cuFile needs; that is why this crate stands on cufile-ffi.
//!
//! A crate of its own beside cufile-ffi, because it wraps another library and `unsafe` is kept to such crates. Nothing panics, and the library is
//! never unloaded. The functions and their types are those of NIXL 1.5 (src/bindings/rust/wrapper.h of ai-dynamo/nixl).

mod agent;
mod error;
mod library;
mod raw;
mod search;

pub use agent::{Agent, Memory, Registered, RegisteredFile, Transfer};
pub use cufile_ffi::Tried;
pub use error::Error;
pub use library::Library;
pub use search::{ENV_NIXL, FILE, Search};
