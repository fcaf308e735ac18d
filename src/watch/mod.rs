//! Watches what GDS does in any program: starts it with the recording library, or looks at a running one, and makes a [`WatchReport`] of what it sees.
//!
//! [`WatchReport`]: crate::domain::WatchReport

mod error;
mod files;
mod launch;
mod library;
mod rings;
mod routes;
mod streams;
mod tally;

pub use error::WatchError;
pub use launch::{Launch, Watched, start};
