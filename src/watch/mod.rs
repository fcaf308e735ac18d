//! Shows how any program uses GDS: starts it with the recording library, or reads procfs of a running one, and makes
//! a [`WatchReport`].
//!
//! [`WatchReport`]: crate::core::WatchReport

mod attach;
mod error;
mod files;
mod kv_names;
mod launch;
mod library;
mod outside;
mod plain;
mod probes;
mod recent;
mod ring_bytes;
mod rings;
mod routes;
mod streams;
mod symbols;
mod tally;

pub use attach::{Attached, attach};
pub use error::WatchError;
pub use launch::{Launch, Output, Watched, start};
#[doc(hidden)]
pub use ring_bytes::read_ring;

use crate::core::{WatchReport, WatchedCall};

/// The program that a session watches.
#[derive(Debug)]
pub enum Source {
    /// A program that was started for this.
    Launched(Box<Watched>),
    /// A process that ran already.
    Attached(Box<Attached>),
}

impl Source {
    /// Takes in what is new, for a moment; whether there is more to see.
    ///
    /// # Errors
    /// If a program that was started cannot be waited for.
    pub fn step(&mut self) -> Result<bool, WatchError> {
        match self {
            Self::Launched(watched) => watched.step(),
            Self::Attached(attached) => Ok(attached.look_again()),
        }
    }

    /// The report so far.
    #[must_use]
    pub fn report(&self) -> WatchReport {
        match self {
            Self::Launched(watched) => watched.report(),
            Self::Attached(attached) => attached.report(),
        }
    }

    /// Calls since the last time for timelines, and how many more there were.
    pub fn take_calls(&mut self) -> (Vec<WatchedCall>, u64) {
        match self {
            Self::Launched(watched) => watched.take_calls(),
            Self::Attached(attached) => attached.take_calls(),
        }
    }

    /// The process that was started for this.
    #[must_use]
    pub fn launched(&self) -> Option<u32> {
        match self {
            Self::Launched(watched) => Some(watched.process()),
            Self::Attached(_) => None,
        }
    }
}
