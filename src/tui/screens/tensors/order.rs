//! The order of the tensors. It is computed when the choice changes, and not in every frame.

use super::state::{OrderKey, Tensors};
use crate::session::Lane;
use crate::tui::jobs::tensor_rows::Sort;

pub(super) fn put_in_order(screen: &mut Tensors, lane: &Lane) {
    let rival = screen.rival.as_ref().map(|(id, _)| *id);
    let key = OrderKey {
        lane: lane.id,
        spans: lane.spans.len(),
        rival: rival.filter(|_| screen.sort == Sort::Difference),
        sort: screen.sort,
        reversed: screen.reversed,
        filter: screen.filter.to_lowercase(),
    };
    if screen.key.as_ref() == Some(&key) {
        return;
    }
    let kept = screen.key.as_ref().filter(|old| old.lane != key.lane).and(screen.tensor());
    let Some(sorted) = sorted(screen, &key) else { return };
    screen.order = if key.filter.is_empty() {
        sorted
    } else {
        let found = screen.names.containing(&key.filter);
        sorted.into_iter().filter(|tensor| found.get(*tensor as usize) == Some(&true)).collect()
    };
    if key.reversed {
        screen.order.reverse();
    }
    // After a change of the engine the same tensor stays selected. After a change of the order the first line is
    // selected.
    let moved = screen.key.as_ref().is_some_and(|old| (old.sort, old.reversed) != (key.sort, key.reversed));
    screen.at = match kept.and_then(|tensor| screen.order.iter().position(|t| *t == tensor)) {
        Some(at) => at,
        None if moved => 0,
        None => screen.at.min(screen.order.len().saturating_sub(1)),
    };
    screen.key = Some(key);
}

/// All tensors in the order of a key, without its filter and direction.
fn sorted(screen: &mut Tensors, key: &OrderKey) -> Option<Vec<u32>> {
    let count = screen.runs.get(&key.lane)?.rows.len();
    match key.sort {
        Sort::File => return Some((0..u32::try_from(count).unwrap_or(u32::MAX)).collect()),
        Sort::Name => return Some(screen.names.sorted(count).to_vec()),
        _ => {}
    }
    let run = screen.runs.get(&key.lane)?;
    if let Some(known) = run.known_order(key.sort, key.rival) {
        return Some(known.to_vec());
    }
    let order = run.ordered(key.sort, key.rival.and_then(|id| screen.runs.get(&id)));
    screen.runs.get_mut(&key.lane)?.keep_order(key.sort, key.rival, order.clone());
    Some(order)
}
