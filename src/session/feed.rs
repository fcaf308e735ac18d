//! A feed: events coming, commands going. Live sessions and replays look the same from here.

use super::command::Command;
use super::state::State;
use super::timeline::Timeline;
use crate::core::Event;
use crossbeam_channel::{Receiver, Sender, never};
use std::sync::{Arc, OnceLock};

/// A front's connection to a session. When `events` closes, the session is over.
#[derive(Clone, Debug)]
pub struct Feed {
    /// Events in order of time.
    pub events: Receiver<Event>,
    /// Requests to the session.
    pub commands: Sender<Command>,
    /// Whether the events come from a recording.
    pub replay: bool,
    /// Replay only: answers of the player, which are not events of the recording.
    pub player: Receiver<Played>,
    /// Why the recording was not read to its end although it has one: it exceeds a limit. Set before `events` closes.
    pub refused: Arc<OnceLock<String>>,
}

impl Feed {
    /// The feed of a live session, or of a replay without a player.
    #[must_use]
    pub fn new(events: Receiver<Event>, commands: Sender<Command>, replay: bool) -> Self {
        Self { events, commands, replay, player: never(), refused: Arc::default() }
    }
}

/// An answer of the player of a recording.
#[derive(Debug)]
pub enum Played {
    /// The length and the loads of the recording, once it was read to its end.
    Timeline(Arc<Timeline>),
    /// The answer to [`Command::Seek`]: the session as it was at that time, and the events from there on.
    Sought(Box<State>, Receiver<Event>),
}
