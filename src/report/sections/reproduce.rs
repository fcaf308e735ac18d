//! The commands that repeat the session, and the command that captures the machine for others.

use crate::present::reproduce::commands;
use crate::report::section::{Block, Section};
use crate::session::State;

pub(super) fn section(state: &State) -> Option<Section> {
    let commands = commands(state);
    (!commands.is_empty()).then(|| {
        Section::new("Reproduce")
            .text("The first commands repeat this session. The last one writes what the checks read, without names, addresses and serial numbers.")
            .block(Block::Commands(commands))
    })
}
