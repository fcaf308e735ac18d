//! The measured ceilings, and the rate of each engine as a share of its ceiling.

use crate::present::ceilings::tables;
use crate::report::section::{Block, Cells, Section};
use crate::session::State;

pub(super) fn sections(state: &State) -> impl Iterator<Item = Section> {
    tables(state).into_iter().map(|table| {
        let mut section = Section::from(table);
        section.blocks = section.blocks.into_iter().map(without_empty_columns).collect();
        section
    })
}

fn without_empty_columns(block: Block) -> Block {
    match block {
        Block::Table(cells) => Block::Table(Cells::without_empty_columns(cells)),
        block => block,
    }
}
