//! A feed: events coming, commands going. Live sessions and replays look the same from here.

use super::command::Command;
use crate::core::Event;
use crossbeam_channel::{Receiver, Sender};

/// A front's connection to a session. When `events` closes, the session is over.
#[derive(Clone, Debug)]
pub struct Feed {
    /// Events in order of time.
    pub events: Receiver<Event>,
    /// Requests to the session.
    pub commands: Sender<Command>,
    /// Whether the events come from a recording.
    pub replay: bool,
}
