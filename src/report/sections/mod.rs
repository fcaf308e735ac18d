//! Lists the sections of a report.

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
mod next;
mod phases;
mod reproduce;
mod results;
mod setup;
mod together;
mod watch;
mod workload;

use super::section::Section;
use crate::present::SessionAnalysis;

pub(super) use answers::answers;
pub(super) use earlier::folder_name;

/// Selects the sections of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Only the tables, the reasons of failed runs and the advice.
    Brief,
    /// The answers, figures and advice, for a terminal at the end of a session.
    Terminal,
    /// Like `Terminal`, and in addition the machine, for a report as text.
    Text,
    /// All sections.
    Full,
}

/// The sections of a report after its answers, in order.
pub(super) fn sections(analysis: &SessionAnalysis<'_>, extent: Extent) -> Vec<Section> {
    let full = extent == Extent::Full;
    let state = analysis.state;
    let mut all = Vec::new();
    if extent == Extent::Brief {
        all.extend(results::sections(analysis, false));
        all.extend(failures::section(state));
        all.extend(together::sections(state));
        all.extend(ceilings::sections(state));
        all.extend(workload::sections(state, true, false));
        all.extend(grid::section(state));
        all.extend(watch::brief(state));
        all.extend(advice::section(analysis));
        return all;
    }
    // The text of 'check' has the steps below each verdict.
    all.extend(next::section(state).filter(|_| full));
    all.extend(advice::section(analysis));
    all.extend(results::sections(analysis, full));
    all.extend(together::sections(state));
    all.extend(ceilings::sections(state));
    all.extend(failures::section(state));
    all.extend(workload::sections(state, false, full));
    all.extend(grid::section(state));
    all.extend(watch::sections(state, full));
    if full {
        all.extend(machine::sections(state));
    }
    all.extend(phases::section(analysis).filter(|_| full));
    if full {
        all.extend(charts::sections(analysis));
    }
    all.extend(setup::sections(analysis, full));
    all.extend(cost::sections(analysis, full));
    all.extend(checks::section(state));
    all.extend(gaps::section(state));
    if extent == Extent::Text {
        all.extend(machine::sections(state));
    }
    all.extend(reproduce::section(state).filter(|_| extent != Extent::Terminal));
    all.extend(earlier::section(state).filter(|_| full));
    all
}
