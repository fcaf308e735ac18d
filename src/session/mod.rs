//! Memory: owns threads, clock and order. Runs and replays produce events; [`State`] is what they add up to.

mod command;
mod state;

pub use command::Command;
pub use state::{Lane, LaneStatus, State, TimedSample};
