//! The machine and the model.

use crate::present::machine::facts;
use crate::report::section::{Block, Section};
use crate::session::State;

pub(super) fn section(state: &State) -> Option<Section> {
    let facts = facts(state);
    (!facts.is_empty()).then(|| Section::new("Machine").block(Block::Facts(facts)))
}
