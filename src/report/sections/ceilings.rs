//! The measured ceilings, and the rate of each engine as a share of its ceiling.

use crate::present::ceilings::sentences;
use crate::report::section::Section;
use crate::session::State;

pub(super) fn section(state: &State) -> Option<Section> {
    Section::list("Ceilings measured in this session", sentences(state))
}
