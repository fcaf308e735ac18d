//! The process start-up before the clock, and the settings of the engines.

use crate::present::SessionAnalysis;
use crate::present::setup::{before_the_clock, settings};
use crate::report::section::Section;

pub(super) fn sections(analysis: &SessionAnalysis<'_>, full: bool) -> impl Iterator<Item = Section> {
    [before_the_clock(analysis), settings(analysis, full)].into_iter().flatten().map(Section::from)
}
