//! The section about the time of each run by phase.

use crate::present::SessionAnalysis;
use crate::present::phase_table::table;
use crate::report::section::Section;

pub(super) fn section(analysis: &SessionAnalysis<'_>) -> Option<Section> {
    table(analysis).map(Section::from)
}
