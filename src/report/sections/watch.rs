//! The section about a watched program: facts, calls, files and advice.

use crate::analysis::SessionEnd;
use crate::core::WatchReport;
use crate::present::watch;
use crate::report::section::{Block, Section};
use crate::session::State;

pub(super) fn sections(state: &State, full: bool) -> Vec<Section> {
    let Some(report) = state.watch.as_deref() else { return Vec::new() };
    let mut sections =
        vec![Section::new("Program").block(Block::Facts(watch::facts(report, SessionEnd::of(state.ended, true))))];
    sections.extend(watch::tables(report, full).into_iter().map(Section::from));
    sections.extend(advice(report));
    sections
}

/// The tables and the advice.
pub(super) fn brief(state: &State) -> Vec<Section> {
    let Some(report) = state.watch.as_deref() else { return Vec::new() };
    let mut sections: Vec<Section> = watch::tables(report, false).into_iter().map(Section::from).collect();
    sections.extend(advice(report));
    sections
}

fn advice(report: &WatchReport) -> Option<Section> {
    let advice = watch::advice(report).into_iter().map(|(_, text, proof)| format!("{text} ({proof}.)")).collect();
    Section::list("Advice", advice)
}
