//! The path of bytes in one line: stations with arrows between them. Each arrow has the measured rate, and dots move
//! along it while bytes move.

use crate::core::Status;
use crate::core::units::rate;
use crate::present::flow::{Flow, Hop};
use crate::tui::pen::{Pen, width};
use crate::tui::theme::Theme;
use ratatui::style::Style;

/// Minimum width of an arrow in columns.
const ARROW: usize = 8;
/// Distance between two dots in columns.
const APART: u64 = 5;

/// Number of columns of the stations with the shortest arrows.
pub(crate) fn least_columns(flow: &Flow) -> u16 {
    let arrow = |hop: &Hop| label(hop).map_or(ARROW, |label| width(&label) + 4);
    let hops: usize = flow.hops.iter().map(|hop| width(hop.from.name()) + 2 + arrow(hop)).sum();
    (hops + width(flow.to.name())) as u16
}

fn label(hop: &Hop) -> Option<String> {
    hop.bytes_per_s.map(|bytes_per_s| format!(" {} ", rate(bytes_per_s)))
}

/// Draws the path over the width of the pen. Nothing is drawn if the pen is too narrow. `frame` is the number of the
/// frame and determines the position of the dots.
pub(crate) fn draw(pen: &mut Pen<'_>, flow: &Flow, frame: u64, theme: &Theme) {
    let w = pen.width();
    let least = least_columns(flow);
    if least > w || flow.hops.is_empty() {
        return;
    }
    // The arrows share the remaining columns, up to a length that is easy to follow.
    let more = ((w - least) / flow.hops.len() as u16).min(12);
    let mut x = 0;
    for hop in &flow.hops {
        let warn = theme.status(Status::Warn);
        x = pen.text(x, 0, hop.from.name(), if hop.limits { warn } else { theme.strong }) + 1;
        let label = label(hop);
        let columns = label.as_ref().map_or(ARROW, |label| width(label) + 4) as u16 + more;
        arrow(&mut pen.part(x, 0, columns, 1), label.as_deref(), hop, flow.moves.then_some(frame), theme);
        x += columns + 1;
    }
    pen.text(x, 0, flow.to.name(), theme.strong);
}

fn arrow(pen: &mut Pen<'_>, label: Option<&str>, hop: &Hop, frame: Option<u64>, theme: &Theme) {
    let w = pen.width();
    let line: Style = match (hop.limits, hop.bytes_per_s) {
        (true, _) => theme.status(Status::Warn),
        (false, Some(_)) => theme.accent,
        (false, None) => theme.faint,
    };
    let glyph = if hop.limits { '━' } else { '─' };
    for x in 0..w - 1 {
        let dot = frame.is_some_and(|frame| {
            hop.bytes_per_s.is_some() && (u64::from(x) + APART - frame % APART).is_multiple_of(APART)
        });
        pen.cell(x, 0, if dot { '●' } else { glyph }, line);
    }
    pen.cell(w - 1, 0, '▶', line);
    if let Some(label) = label {
        let at = (w - 1).saturating_sub(width(label) as u16) / 2;
        pen.text(at, 0, label, if hop.limits { line } else { theme.text });
    }
}
