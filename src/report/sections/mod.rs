//! The content of a report, section by section.

mod advice;
mod answers;
mod ceilings;
mod charts;
mod checks;
mod cost;
mod earlier;
mod failures;
mod gaps;
mod grid;
mod machine;
mod phases;
mod results;
mod setup;
mod together;
mod watch;
mod workload;

use super::section::Section;
use crate::present::SessionAnalysis;

pub(super) use answers::answers;
pub(super) use earlier::folder_name;

/// How much a report has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The tables and the advice.
    Brief,
    /// For a terminal: the answers, the figures, the advice.
    Terminal,
    /// Everything.
    Full,
}

/// The sections of a report after its answers, in order.
pub(super) fn sections(analysis: &SessionAnalysis<'_>, extent: Extent) -> Vec<Section> {
    let full = extent == Extent::Full;
    let state = analysis.state;
    let mut all = Vec::new();
    if extent == Extent::Brief {
        all.extend(results::sections(analysis, false));
        all.extend(together::sections(state));
        all.extend(workload::sections(state, false));
        all.extend(grid::section(state));
        all.extend(advice::section(analysis));
        return all;
    }
    all.extend(machine::section(state).filter(|_| full));
    all.extend(results::sections(analysis, full));
    all.extend(together::sections(state));
    all.extend(ceilings::section(state));
    all.extend(failures::section(state));
    all.extend(workload::sections(state, full));
    all.extend(grid::section(state));
    all.extend(watch::sections(state, full));
    all.extend(phases::section(analysis).filter(|_| full));
    if full {
        all.extend(charts::sections(analysis));
    }
    all.extend(setup::sections(analysis, full));
    all.extend(cost::sections(analysis, full));
    all.extend(advice::section(analysis));
    all.extend(checks::section(state));
    all.extend(gaps::section(state));
    all.extend(earlier::section(state).filter(|_| full));
    all
}
