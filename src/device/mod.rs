//! Targets: CUDA memory or host memory, and the pinned staging buffers. The module opens no files.
//!
//! Outside of the FFI crates, this module has all `unsafe` code of the package. Its types cannot be used to access
//! memory that is freed or that the device still reads: a copy or a read takes ownership of its slot and returns it
//! when it has finished.

mod cuda;

pub mod endings;
mod error;
mod extents;
mod group;
pub mod heap;
mod mapping;
mod memory;
mod perf;
mod perf_keeper;
mod scatter;
mod shared;
pub mod signals;
mod staging;
mod stream;
mod target;
mod truncated;
mod uring;
mod variables;

pub use cuda::{CudaAttributes, CudaDevice, CudaInfo, list_cuda_attributes, list_cuda_devices};
pub use error::DeviceError;
pub use extents::{UnfinishedExtents, unfinished_bytes};
pub use group::GroupEnd;
pub use mapping::{FileMapping, resident_bytes};
pub use memory::{DeviceMemory, HostPart, MemoryPart};
pub use perf::{Hit, Probe, Probes};
pub use scatter::Piece;
pub use shared::SharedWords;
pub use staging::{CopyQueue, InFlight, Slot, Staging};
pub use stream::IoQueue;
pub use target::Device;
pub use uring::{Completed, ReadBuffer, ReadRing};
pub use variables::take_variable;
