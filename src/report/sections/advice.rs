//! The advice, with the largest possible gain first.

use crate::present::SessionAnalysis;
use crate::present::advice::sentence;
use crate::report::section::Section;

/// Title of the section. Pages use it to find the section.
pub(in crate::report) const ADVICE: &str = "Advice";

pub(super) fn section(analysis: &SessionAnalysis<'_>) -> Option<Section> {
    Section::list(ADVICE, analysis.lessons().map(sentence).collect())
}
