//! gds-top tells whether GPUDirect Storage really works on this machine and for this path, what to fix and how, and what it buys for a
//! model, and it shows the load happening. The rooms and the arrows between them are described in `docs/architecture.md`.

pub mod domain;
pub mod session;
