//! Advice, the most at stake first.

use crate::present::SessionAnalysis;
use crate::present::advice::sentence;
use crate::report::section::Section;

/// The title, by which a page finds the section.
pub(in crate::report) const ADVICE: &str = "Advice";

pub(super) fn section(analysis: &SessionAnalysis<'_>) -> Option<Section> {
    Section::list(ADVICE, analysis.lessons().map(sentence).collect())
}
