//! Loads models: one file per engine, the process of a run and its protocol, and verification.
//!
//! An engine gets a model and a device. It returns the memory with all tensors, records spans with one recorder per
//! thread, and counts the bytes on the target in one atomic. During transfers it does nothing else.

mod auto;
mod blocks;
mod cache;
pub mod ceilings;
mod clock;
mod context;
pub mod cufile;
mod cufile_files;
mod direct_io;
mod error;
mod files;
mod gate;
mod gds_batch;
mod gds_bounce;
mod gds_per_tensor;
mod gds_slab;
mod gds_stream;
mod host;
mod lane;
mod life_cycle;
mod load;
mod mmap;
mod nixl;
pub(crate) mod nixl_library;
pub(crate) mod nixl_requests;
mod nvfs;
mod odirect;
mod parent;
mod pread;
pub mod probe;
pub mod probe_read;
pub mod protocol;
mod readers;
mod room;
mod second_try;
mod settings;
mod slab;
mod verify;

#[doc(hidden)]
pub use clock::record_spans;
pub use context::{EngineContext, Loaded};
pub use error::LoadError;
pub use lane::run_lane;
pub use nvfs::nvfs_reads;
pub use parent::{ENV_SESSION, end_with_parent};
pub use pread::pread_settings;

// Parts from which other modules build their runs.
pub(crate) use crate::models::plan::Block;
pub(crate) use clock::{Clock, Recorder, What};
pub(crate) use context::{Counters, run_workers};
pub(crate) use direct_io::open_cufile;
pub(crate) use error::explain;
pub(crate) use files::raise_open_files;
pub(crate) use gds_stream::{STREAM_UNREGISTERED, stream_for};
pub(crate) use life_cycle::{
    Peaks, Sender, SetupParts, cpu_ns, lane_process, open_device, process, send_spans, verify as verify_run,
    with_progress,
};
pub(crate) use room::{check as check_room, pinned_shortage};
