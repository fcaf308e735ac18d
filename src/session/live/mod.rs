//! A live session: checks, then the race, lane after lane, with meters read beside it. It lives on threads of its own and speaks through a
//! [`Feed`](crate::session::Feed).

mod bus;
mod child;
mod examine;
mod explain;
mod grid;
mod lanes;
mod plan;
mod prove;
mod run;

pub use child::probe_child;
pub use grid::GridRequest;
pub use plan::{GpuChoice, SessionConfig};
pub use prove::prove;
pub use run::{SessionError, start};
