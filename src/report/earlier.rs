//! Plans that ran in the same session before the one that a report is of: a line each, and where the whole of it is.

use super::export::page_name;
use super::words::plain;
use crate::session::{LaneStatus, State};

/// The lines, in order; none where there was no other plan.
pub(super) fn lines(state: &State) -> Vec<String> {
    let one = |(number, page): (usize, &std::sync::Arc<State>)| {
        let title = page.race_title();
        let good = page.lanes.iter().filter(|lane| lane.status == LaneStatus::Done).count();
        let measured = match &page.grid {
            Some(grid) => format!("{} of {} cells", grid.done(), grid.plan.cells.len()),
            None => format!("{good} of {} runs without a failure", page.lanes.len()),
        };
        format!("{}: {measured}; an export has its whole report in {}/", plain(&title), page_name(number, &title))
    };
    state.earlier.iter().enumerate().map(one).collect()
}
