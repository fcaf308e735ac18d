//! The next steps to a direct route, which the verdicts name.

use crate::present::verdict::next_steps;
use crate::report::section::Section;
use crate::session::State;

pub(super) fn section(state: &State) -> Option<Section> {
    let list = Section::list("Next steps", next_steps(state))?;
    Some(Section { leads: true, ..list })
}
