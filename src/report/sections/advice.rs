//! Advice, the most at stake first.

use crate::present::SessionAnalysis;
use crate::present::advice::sentence;
use crate::report::section::Section;

pub(super) fn section(analysis: &SessionAnalysis<'_>) -> Option<Section> {
    Section::list("Advice", analysis.lessons().map(sentence).collect())
}
