//! Memory: owns threads, clock and order. Runs and replays produce events; [`State`] is what they add up to.

mod command;
mod feed;
pub mod live;
pub mod recording;
pub mod replay;
mod state;

pub use command::Command;
pub use feed::Feed;
pub use state::{Lane, LaneStatus, State, TimedSample};
