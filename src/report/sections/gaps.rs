//! The notes of the runs, and missing measurements.

use crate::present::gaps::gaps;
use crate::report::section::Section;
use crate::session::State;

pub(super) fn section(state: &State) -> Option<Section> {
    Section::list("Notes and gaps", gaps(state))
}
