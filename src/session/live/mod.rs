//! A live session: it runs the checks and then the race, one run after another, while meters are read. It uses
//! separate threads and communicates through a [`Feed`](crate::session::Feed).

mod bus;
mod ceilings;
mod child;
mod examine;
mod explain;
mod follow;
mod gate;
mod grid;
mod lanes;
mod lines;
mod nixl;
mod outside;
mod plan;
mod process;
mod prove;
mod race;
mod race_plans;
mod run;
mod session;
mod started;
mod targets;
mod turns;
mod watch;

pub use child::probe_child;
#[doc(hidden)]
pub use outside::read_protocol;
pub use outside::{Loader, Python, keep, loaders, python, supervise};
pub use plan::{GpuChoice, GridRequest, SessionConfig, WorkloadPlan};
pub use prove::prove;
pub use race::goes_first;
pub use run::{SessionError, find, start};
pub use started::started;
pub use targets::missing_gpu;
pub use watch::{WatchSessionError, WatchTarget, watch};
