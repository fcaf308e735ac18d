//! The advice, with the largest possible gain first.

use crate::present::SessionAnalysis;
use crate::present::advice::sentence;
use crate::report::section::Section;

pub(super) fn section(analysis: &SessionAnalysis<'_>) -> Option<Section> {
    let list = Section::list("Advice", analysis.lessons().map(sentence).collect())?;
    Some(Section { leads: true, ..list })
}
