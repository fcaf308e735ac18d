//! A timeline of slots: the spans of each worker in the colours of the phases, up to the time that was played.

use crate::core::units::duration;
use crate::core::{PHASES, Phase, Span};
use crate::tui::pen::Pen;
use crate::tui::theme::Theme;

/// Draws the slots of `spans` within `window` (nanoseconds on the load's clock) and a line of times below; `played` is the share of the window
/// that is shown. Returns the rows taken.
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
    // The phase with the greatest part of a cell gives it its colour.
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
    // A single slot would be a thin line.
    let thick = ((h - 1) / slots.len().max(1)).clamp(1, 3);
    let head = (played.clamp(0.0, 1.0) * w as f64) as usize;
    for row in 0..slots.len() * thick {
        for x in 0..w {
            let cell = &cells[row / thick * w + x];
            let (phase, most) =
                PHASES.iter().map(|p| (*p, cell[*p as usize])).max_by_key(|(_, ns)| *ns).unwrap_or((Phase::Idle, 0));
            let covered = cell.iter().sum::<u64>();
            let (style, fill) = theme.phase(phase);
            if x > head {
                pen.cell(x as u16, row as u16, '·', theme.faint);
            } else if x == head && head < w {
                pen.cell(x as u16, row as u16, '│', theme.accent);
            } else if most > 0 && covered * 4 >= edge(x + 1) - edge(x) {
                pen.cell(x as u16, row as u16, fill, style);
            } else {
                pen.cell(x as u16, row as u16, '─', theme.faint);
            }
        }
    }
    let y = (slots.len() * thick) as u16;
    let end = duration(length);
    pen.text(0, y, "0", theme.dim);
    pen.right(w as u16, y, &end, theme.dim);
    if head > 2 && head < w.saturating_sub(end.len() + 10) {
        let now = duration((length as f64 * played) as u64);
        pen.text(head as u16, y, &now, theme.accent);
    }
    y + 1
}

/// A part of a load with a few tensors from near its middle, by the spans of one slot; the complete load if it is
/// shorter.
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
    fn the_stretch_begins_and_ends_with_a_registration() {
        let spans: Vec<Span> = (0..30).map(|i| span(Phase::RegisterBuffer, i * 100, i * 100 + 50)).collect();
        assert_eq!(few_tensors(&spans, 4), (1000, 1400));
        assert_eq!(few_tensors(&spans[..2], 4), (0, 150));
        assert_eq!(few_tensors(&[], 4), (0, 0));
    }
}
