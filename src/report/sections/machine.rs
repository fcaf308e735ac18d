//! The session, the machine, its storage, and the settings of libcufile.

use crate::present::Table;
use crate::present::machine::{cufile_settings, session_facts, storage_facts};
use crate::report::section::{Block, Cells, Section};
use crate::session::State;

pub(super) fn sections(state: &State) -> Vec<Section> {
    let machine = session_facts(state);
    let mut all = Vec::new();
    if !machine.is_empty() {
        all.push(Section::new("Machine").block(Block::Facts(machine)));
    }
    let storage = storage_facts(state);
    if !storage.is_empty() {
        let blocks = storage.into_iter().map(Block::Facts).collect();
        all.push(Section { title: "Storage".to_owned(), blocks, ..Section::default() });
    }
    all.extend(cufile_settings(state).map(|(set, defaults)| {
        let section = Section::from(set);
        let Table { title, heads, rows, .. } = defaults;
        if rows.is_empty() {
            return section;
        }
        section.block(Block::Folded(title, Cells { heads, rows, statuses: Vec::new() }))
    }));
    all
}
