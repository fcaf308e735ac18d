//! Runs that loaded together, with a table of the parts of each group.

use crate::present::together::tables;
use crate::report::section::Section;
use crate::session::State;

pub(super) fn sections(state: &State) -> impl Iterator<Item = Section> {
    tables(state).into_iter().map(Section::from)
}
