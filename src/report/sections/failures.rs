//! The section about failed runs.

use crate::core::Status;
use crate::present::failures::{FailedRuns, failed_runs};
use crate::report::section::{Block, Detail, Item, Section};
use crate::session::State;

pub(super) fn section(state: &State) -> Option<Section> {
    let failed = failed_runs(state);
    (!failed.is_empty())
        .then(|| Section::new("Runs that failed").block(Block::Items(failed.into_iter().map(item).collect())))
}

fn item(run: FailedRuns) -> Item {
    let line = |text| Detail { label: "Standard error", text, command: false, long: true };
    Item {
        status: Status::Fail,
        name: String::new(),
        text: run.sentence,
        details: run.stderr_tail.into_iter().map(line).collect(),
        folded: false,
        minor: false,
    }
}
