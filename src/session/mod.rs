//! Sessions: threads, clock and order of events. Live runs and replays produce events, and [`State`] is the result of
//! applying them.

mod ceilings;
mod command;
mod feed;
mod key_frames;
mod kinds;
mod lane;
pub mod live;
mod race_plans;
pub mod recording;
pub mod replay;
mod scenes;
pub mod shipped;
mod state;
mod timed;
mod timeline;
mod together;

pub use command::{Command, REAL_TIME};
pub use feed::{Feed, Played};
pub use lane::{Lane, LaneStatus};
pub use state::{CALLS_KEPT, CallCount, SYSTEM_HISTORY, State};
pub use timed::TimedSample;
pub use timeline::{LoadTime, Timeline};
pub use together::{Group, Together};
