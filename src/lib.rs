//! gds-top shows whether GPUDirect Storage works on this machine and for a path, fixes what blocks it, and measures
//! what a model gains. The modules and their permitted imports are described in `docs/architecture.md`.

pub mod analysis;
pub mod checks;
pub mod cli;
pub mod config;
pub mod core;
pub mod device;
pub mod engines;
pub mod explain;
pub mod fixes;
pub mod fleet;
pub mod headless;
pub mod machine;
pub mod models;
pub mod present;
pub mod report;
pub mod session;
pub mod telemetry;
pub mod text;
pub mod trust;
pub mod tui;
pub mod watch;
pub mod workloads;
