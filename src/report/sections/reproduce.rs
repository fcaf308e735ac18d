//! The commands that repeat the session, and the command that captures the machine for others.

use crate::present::reproduce::{EXPLANATION, commands};
use crate::report::section::{Block, Section};
use crate::session::State;

pub(super) fn section(state: &State) -> Option<Section> {
    let commands = commands(state);
    (!commands.is_empty()).then(|| Section::new("Reproduce").text(EXPLANATION).block(Block::Commands(commands)))
}
