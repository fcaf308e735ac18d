//! The selected entry on the measurement screens.

use super::context::Context;
use crate::present::{EngineRow, row_groups};
use crate::session::State;

/// Number of entries, over all groups.
pub(crate) fn entry_count(state: &State) -> usize {
    row_groups(state).iter().map(|h| h.rows.len()).sum()
}

/// The selected entry: the user's choice, or else the running one, or else the fastest, or else the first.
pub(crate) fn selected_entry(state: &State, ctx: &Context) -> Option<usize> {
    let groups = row_groups(state);
    let entries: Vec<&EngineRow<'_>> = groups.iter().flat_map(|h| &h.rows).collect();
    if entries.is_empty() {
        return None;
    }
    if let Some(chosen) = ctx.entry {
        return Some(chosen.min(entries.len() - 1));
    }
    entries
        .iter()
        .position(|e| e.running().is_some())
        .or_else(|| (0..entries.len()).filter(|i| entries[*i].n() > 0).min_by_key(|i| entries[*i].wall_ns()))
        .or(Some(0))
}
