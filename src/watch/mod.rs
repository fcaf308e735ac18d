//! Shows how any program uses GDS. It starts the program with the recording library, or reads procfs of a running
//! process, and creates a [`WatchReport`].
//!
//! [`WatchReport`]: crate::core::WatchReport

mod attach;
mod classes;
mod descriptors;
mod entry;
mod error;
mod files;
mod group;
mod hit_bytes;
mod hit_memory;
mod input;
mod kv_names;
mod late_registrations;
mod launch;
mod library;
mod losses;
mod mapped_library;
mod named_file;
mod not_loaded;
mod outside;
mod paces;
mod plain;
mod possible;
mod probe_thread;
mod probed_call;
mod probed_process;
mod probes;
mod process_files;
mod process_log;
mod ranges;
mod readings;
mod recent;
mod ring_bytes;
mod rings;
mod routes;
mod running;
mod settings;
mod starts;
mod streams;
mod symbols;
mod tally;

pub use attach::{Attached, attach};
pub use error::WatchError;
#[doc(hidden)]
pub use hit_bytes::read_hits;
pub use launch::{Launch, Output, Watched, start};
#[doc(hidden)]
pub use ring_bytes::read_ring;
pub use running::Running;
#[doc(hidden)]
pub use symbols::probed_functions;

use crate::core::{WatchReport, WatchedCall};

/// The program that a session watches.
#[derive(Debug)]
pub enum Source {
    /// A program that gds-top started.
    Launched(Box<Watched>),
    /// A process that was already running.
    Attached(Box<Attached>),
}

impl Source {
    /// Reads new data for a short time. Returns whether more data can follow.
    ///
    /// # Errors
    /// Fails if waiting for a started program fails.
    pub fn step(&mut self) -> Result<bool, WatchError> {
        match self {
            Self::Launched(watched) => watched.step(),
            Self::Attached(attached) => Ok(attached.look_again()),
        }
    }

    /// Takes new calls from the rings of a started program, so that they do not become full during other work.
    pub fn drain(&mut self) {
        if let Self::Launched(watched) = self {
            watched.drain_while_running();
        }
    }

    /// Reads the last numbers of a running process at the end of the session.
    pub fn finish(&mut self) {
        if let Self::Attached(attached) = self {
            attached.finish();
        }
    }

    /// The current report.
    #[must_use]
    pub fn report(&self) -> WatchReport {
        match self {
            Self::Launched(watched) => watched.report(),
            Self::Attached(attached) => attached.report(),
        }
    }

    /// The calls since the last report for timelines, and the number of further calls.
    pub fn take_calls(&mut self) -> (Vec<WatchedCall>, u64) {
        match self {
            Self::Launched(watched) => watched.take_calls(),
            Self::Attached(attached) => attached.take_calls(),
        }
    }

    /// The messages of a running process in its cufile.log. `None` if it has none that may be read.
    #[must_use]
    pub fn log_text(&self) -> Option<String> {
        match self {
            Self::Launched(_) => None,
            Self::Attached(attached) => attached.log_text(),
        }
    }

    /// The process id of a program that gds-top started.
    #[must_use]
    pub fn launched(&self) -> Option<u32> {
        match self {
            Self::Launched(watched) => Some(watched.process()),
            Self::Attached(_) => None,
        }
    }
}
