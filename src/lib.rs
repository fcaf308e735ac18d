//! gds-top tells whether GPUDirect Storage really works on this machine and for this path, what to fix and how, and what it buys for a
//! model, and it shows the load happening. The rooms and the arrows between them are described in `docs/architecture.md`.

pub mod analysis;
pub mod checks;
pub mod cli;
pub mod config;
pub mod device;
pub mod domain;
pub mod engines;
pub mod explain;
pub mod fixes;
pub mod fleet;
pub mod headless;
pub mod host;
pub mod iogrid;
pub mod kvcache;
pub mod present;
pub mod report;
pub mod session;
pub mod telemetry;
pub mod text;
pub mod trust;
pub mod tui;
pub mod watch;
pub mod weights;
