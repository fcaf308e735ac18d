//! Samples NVML and procfs on a schedule.
//!
//! One thread reads procfs at fixed times and hands out samples; NVML, whose PCIe counters block for some 40 ms and
//! whose driver calls may hang, has a separate thread, which exists only while a GPU is the target.

mod gpu_processes;
mod meters;
mod nvml;
mod processes;
mod sampler;
mod system;
pub mod tree;

pub use gpu_processes::GpuProcesses;
pub use meters::device_of;
pub use nvml::GpuRef;
pub use sampler::{Cost, Sampler, SamplerConfig};
pub use system::SystemWatch;
