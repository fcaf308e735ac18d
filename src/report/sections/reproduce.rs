//! The commands that repeat the session, and the command that captures the machine for others.

use crate::present::reproduce::commands;
use crate::report::section::{Block, Section};
use crate::session::State;

pub(super) fn section(state: &State) -> Option<Section> {
    let (explanation, commands) = commands(state)?;
    Some(Section::new("Reproduce").text(explanation).block(Block::Commands(commands)))
}
