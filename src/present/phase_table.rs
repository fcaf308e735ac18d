//! A table with the time of each run by phase.

use super::analysed::{AnalysedRun, SessionAnalysis};
use super::cost::{heads, named};
use super::labels::percent;
use super::phases::title;
use super::view::{Table, number};
use crate::core::{PHASES, Phase, RunResult, units};

/// The time of each run by phase. `None` if no phase was measured.
#[must_use]
pub fn table(analysis: &SessionAnalysis<'_>) -> Option<Table> {
    let runs = analysis.typical(|_| true);
    let several = runs.iter().any(|run| analysis.which(run).is_some());
    let seen = |phase: &Phase| runs.iter().any(|run| run.good().is_some_and(|run| run.phases.get(*phase) > 0));
    let shown: Vec<Phase> = PHASES.into_iter().filter(seen).collect();
    if shown.is_empty() {
        return None;
    }
    let mut heads = heads(several);
    heads.extend([number("time"), number("workers")]);
    heads.extend(shown.iter().map(|phase| number(title(*phase))));
    let row = |(analysed, run): (&AnalysedRun<'_>, &RunResult)| {
        let mut row = named(analysis, analysed, several);
        row.extend([units::duration(run.wall_ns), run.slots.to_string()]);
        row.extend(shown.iter().map(|phase| percent(run.phases.get(*phase), run.wall_ns)));
        row
    };
    Some(Table {
        title: "Time by phase".to_owned(),
        note: "Share of the wall time by phase, averaged over the workers, of the run with the median time.".to_owned(),
        heads,
        rows: runs.into_iter().filter_map(|run| Some((run, run.good()?))).map(row).collect(),
    })
}
