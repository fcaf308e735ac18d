//! Screen 2 for a watched program: rates, latencies by size, a timeline for each thread, and the files with the most
//! bytes.

mod layout;
mod view;

pub(crate) use view::draw;

use crate::present::calls;
use crate::session::State;
use crate::tui::words::headline_in;

/// Whether a page contains a watched program.
pub(crate) fn is_shown(page: &State) -> bool {
    page.watch.is_some() && page.lanes.is_empty()
}

/// The answer, for the clipboard.
pub(crate) fn copied(page: &State, is_over: bool) -> String {
    headline_in(&calls::answers(page, is_over), u16::MAX, 1).text
}
