//! The connection between a front end and a session: events in one direction, commands in the other. It is the same
//! for live sessions and replays.

use super::command::Command;
use super::state::State;
use super::timeline::Timeline;
use crate::core::Event;
use crossbeam_channel::{Receiver, Sender, never};
use std::sync::{Arc, OnceLock};

/// A front end's connection to a session. The session is over when `events` closes.
#[derive(Clone, Debug)]
pub struct Feed {
    /// Events in order of time.
    pub events: Receiver<Event>,
    /// Commands for the session.
    pub commands: Sender<Command>,
    /// Whether the events come from a recording.
    pub replay: bool,
    /// Replay only: messages of the player, which are not events of the recording.
    pub player: Receiver<Played>,
    /// The reason why the recording was not read to its end: it exceeds a limit. It is set before `events` closes.
    pub refused: Arc<OnceLock<String>>,
    /// The reason why the recording of a live session is not complete. It is set before `events` closes.
    pub unrecorded: Arc<OnceLock<String>>,
}

impl Feed {
    /// Creates the feed of a live session, or of a replay without a player.
    #[must_use]
    pub fn new(events: Receiver<Event>, commands: Sender<Command>, replay: bool) -> Self {
        Self { events, commands, replay, player: never(), refused: Arc::default(), unrecorded: Arc::default() }
    }
}

/// A message of the player of a recording.
#[derive(Debug)]
pub enum Played {
    /// The length and the loads of the recording, after it was read to its end.
    Timeline(Arc<Timeline>),
    /// The result of [`Command::Seek`]: the state at that time, and the events after it.
    Sought(Box<State>, Receiver<Event>),
}
