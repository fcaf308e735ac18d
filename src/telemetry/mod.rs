//! Samples NVML and procfs at fixed intervals.
//!
//! One thread reads procfs and sends the samples. NVML has a separate thread, because its PCIe counters block for
//! about 40 ms and its driver calls may hang. That thread exists only while the target is a GPU.

mod access;
mod gpu_processes;
mod meters;
mod nvml;
mod processes;
mod sampler;
mod system;
pub mod tree;

pub use gpu_processes::GpuProcesses;
pub use meters::{cpu_pressure_percent, device_of};
pub use nvml::GpuRef;
pub use sampler::{Cost, Sampler, SamplerConfig};
pub use system::SystemWatch;
