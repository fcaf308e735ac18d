//! A timeline of slots: the spans of each worker in the colours of the phases, up to the current position of the
//! animation.

use crate::core::units::duration;
use crate::core::{PHASES, Phase, Span};
use crate::tui::pen::Pen;
use crate::tui::theme::Theme;

/// Draws the slots of `spans` within `window`, which is in nanoseconds since the clock started, and a line of times
/// below. `played` is the share of the window that is drawn. Returns the number of rows.
pub(crate) fn draw(pen: &mut Pen<'_>, spans: &[Span], window: (u64, u64), played: f64, theme: &Theme) -> u16 {
    let (w, h) = (usize::from(pen.width()), usize::from(pen.height()));
    let length = window.1.saturating_sub(window.0);
    if w < 8 || h < 2 || length == 0 {
        return 0;
    }
    let here = || spans.iter().filter(|s| s.end_ns > window.0 && s.start_ns < window.1);
    let mut slots: Vec<u16> = here().map(|s| s.slot).collect();
    slots.sort_unstable();
    slots.dedup();
    slots.truncate(h - 1);
    // The time of each phase in each cell.
    let mut cells = vec![[0_u64; PHASES.len()]; w * slots.len()];
    let edge = |column: usize| window.0 + (length as f64 * column as f64 / w as f64) as u64;
    for span in here() {
        let Some(row) = slots.iter().position(|slot| *slot == span.slot) else { continue };
        let (from, to) = (span.start_ns.max(window.0), span.end_ns.min(window.1));
        let column = |at: u64| (((at - window.0) as f64 / length as f64 * w as f64) as usize).min(w - 1);
        for x in column(from)..=column(to) {
            let overlap = to.min(edge(x + 1)).saturating_sub(from.max(edge(x)));
            cells[row * w + x][span.phase as usize] += overlap;
        }
    }
    let lengths: Vec<u64> = (0..w).map(|x| edge(x + 1) - edge(x)).collect();
    let drawn: Vec<Vec<Option<Phase>>> = cells.chunks(w).map(|slot| proportional(slot, &lengths)).collect();
    let head = (played.clamp(0.0, 1.0) * w as f64) as usize;
    for (row, slot) in drawn.iter().enumerate() {
        for (x, phase) in slot.iter().enumerate() {
            let (glyph, style) = match phase.map(|phase| theme.phase(phase)) {
                _ if x > head => ('·', theme.faint),
                _ if x == head && head < w => ('│', theme.accent),
                Some((style, fill)) => (fill, style),
                None => ('─', theme.faint),
            };
            pen.cell(x as u16, row as u16, glyph, style);
        }
    }
    let y = slots.len() as u16;
    let end = duration(length);
    pen.text(0, y, "0", theme.dim);
    pen.right(w as u16, y, &end, theme.dim);
    if head > 2 && head < w.saturating_sub(end.len() + 10) {
        let now = duration((length as f64 * played) as u64);
        pen.text(head as u16, y, &now, theme.accent);
    }
    y + 1
}

/// Assigns a phase to each cell of a slot, so that the number of cells of each phase is proportional to its time. A
/// cell often contains several phases, and drawing only the largest would hide the others. So the remaining part of
/// each phase is carried over to the next cell. `None` is time without a span.
fn proportional(cells: &[[u64; PHASES.len()]], lengths: &[u64]) -> Vec<Option<Phase>> {
    let mut owed = [0.0_f64; PHASES.len() + 1];
    let mut drawn = Vec::with_capacity(cells.len());
    for (cell, length) in cells.iter().zip(lengths) {
        let length = (*length).max(cell.iter().sum()).max(1) as f64;
        let mut rest = 1.0;
        for phase in PHASES {
            let share = cell[phase as usize] as f64 / length;
            owed[phase as usize] += share;
            rest -= share;
        }
        owed[PHASES.len()] += rest;
        let most = (0..owed.len()).max_by(|a, b| owed[*a].total_cmp(&owed[*b])).unwrap_or(PHASES.len());
        owed[most] -= 1.0;
        drawn.push(PHASES.into_iter().find(|phase| *phase as usize == most));
    }
    drawn
}

/// A time range near the middle of a load that contains a few tensors, from the spans of one slot. If the load is
/// shorter, it is the complete load.
pub(crate) fn few_tensors(spans: &[Span], wanted: usize) -> (u64, u64) {
    let end = spans.iter().map(|s| s.end_ns).max().unwrap_or(0);
    let mut starts: Vec<u64> = spans.iter().filter(|s| s.phase == Phase::RegisterBuffer).map(|s| s.start_ns).collect();
    starts.sort_unstable();
    let first = starts.len() / 3;
    match (starts.get(first), starts.get(first + wanted)) {
        (Some(from), Some(to)) if to > from => (*from, *to),
        _ => (0, end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(phase: Phase, start_ns: u64, end_ns: u64) -> Span {
        Span { slot: 0, phase, tensor: None, start_ns, end_ns, bytes: 0, offset: 0 }
    }

    #[test]
    fn each_phase_has_as_many_cells_as_it_has_time() {
        // Each cell has a registration of 3 parts, a transfer of 4 parts, and 3 parts without a span. So the transfer
        // is always the largest.
        let mut cell = [0; PHASES.len()];
        (cell[Phase::RegisterBuffer as usize], cell[Phase::Transfer as usize]) = (300, 400);
        let drawn = proportional(&[cell; 100], &[1_000; 100]);
        let count = |phase| drawn.iter().filter(|drawn| **drawn == phase).count();
        let counts = [Some(Phase::RegisterBuffer), Some(Phase::Transfer), None].map(count);
        assert!(counts.iter().zip([30_usize, 40, 30]).all(|(drawn, due)| drawn.abs_diff(due) <= 1), "{counts:?}");
    }

    #[test]
    fn the_stretch_begins_and_ends_with_a_registration() {
        let spans: Vec<Span> = (0..30).map(|i| span(Phase::RegisterBuffer, i * 100, i * 100 + 50)).collect();
        assert_eq!(few_tensors(&spans, 4), (1000, 1400));
        assert_eq!(few_tensors(&spans[..2], 4), (0, 150));
        assert_eq!(few_tensors(&[], 4), (0, 0));
    }
}
