//! Run-time loaded, safe bindings to libnixl_capi, the C interface of NVIDIA NIXL, as far as reading files into memory needs it.
//!
//! - [`Library`] finds and loads it: the file or folder that `GDS_TOP_NIXL` names, the loader's own places, Python wheels (`nixl_cu13`,
//!   `nixl_cu12`), system folders. The error lists every name that was tried.
//! - [`Agent`] is a NIXL agent with at most one back end (a plugin: `GDS`, `GDS_MT`, `POSIX`).
//! - [`Registered`] memory, [`RegisteredFile`] and [`Transfer`] keep the objects that they need alive and are
//!   released in the right order.
//! - [`cufile_ffi::IoMemory`] is the destination memory. cuFile needs the same guarantee, so this crate depends on
//!   cufile-ffi.
//!
//! It is a separate crate because it wraps a different library, and `unsafe` is confined to such crates. Nothing
//! panics, and the library is never unloaded. The functions and their types are those of NIXL 1.5
//! (src/bindings/rust/wrapper.h of ai-dynamo/nixl).

mod agent;
mod error;
mod library;
mod raw;
mod search;

pub use agent::{Agent, Memory, Part, Registered, RegisteredFile, Transfer};
pub use cufile_ffi::Tried;
pub use error::Error;
pub use library::Library;
pub use search::{ENV_NIXL, FILE, Search};
