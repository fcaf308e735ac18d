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
    (hops + width(flow.to.name()) + width(&end(flow))) as u16
}

/// The words after the last station.
fn end(flow: &Flow) -> String {
    flow.unknown.map_or_else(String::new, |unknown| format!(" ({unknown})"))
}

/// The rate, and of the hop that limits the run that it does, because colour alone has no meaning.
fn label(hop: &Hop) -> Option<String> {
    let link = hop.link.map(|link| format!("{link} ")).unwrap_or_default();
    let mark = if hop.limits { "bottleneck " } else { "" };
    hop.bytes_per_s.map(|bytes_per_s| format!(" {link}{} {mark}", rate(bytes_per_s)))
}

/// Draws the path over the width of the pen. Nothing is drawn if the pen is too narrow. `frame` is the number of the
/// frame; with the rates it determines the position of the dots.
pub(crate) fn draw(pen: &mut Pen<'_>, flow: &Flow, frame: u64, theme: &Theme) {
    let w = pen.width();
    let least = least_columns(flow);
    if least > w || flow.hops.is_empty() {
        return;
    }
    // The arrows share the remaining columns, up to a length that is easy to follow.
    let more = ((w - least) / flow.hops.len() as u16).min(12);
    let fastest = flow.hops.iter().filter_map(|hop| hop.bytes_per_s).fold(0.0, f64::max);
    let mut x = 0;
    for hop in &flow.hops {
        let warn = theme.status(Status::Warn);
        x = pen.text(x, 0, hop.from.name(), if hop.limits { warn } else { theme.strong }) + 1;
        let label = label(hop);
        let columns = label.as_ref().map_or(ARROW, |label| width(label) + 4) as u16 + more;
        // Dots of the fastest hop move a column per frame, those of the others slower in the ratio of the rates.
        let speed = hop.bytes_per_s.filter(|_| flow.moves && fastest > 0.0).map(|rate| rate / fastest);
        let moved = speed.filter(|speed| *speed > 0.0).map(|speed| (frame as f64 * speed) as u64);
        arrow(&mut pen.part(x, 0, columns, 1), label.as_deref(), hop, moved, theme);
        x += columns + 1;
    }
    let x = pen.text(x, 0, flow.to.name(), theme.strong);
    pen.text(x, 0, &end(flow), theme.dim);
}

/// Draws an arrow. `moved` is the number of columns by which its dots have moved; `None` if it has no dots.
fn arrow(pen: &mut Pen<'_>, label: Option<&str>, hop: &Hop, moved: Option<u64>, theme: &Theme) {
    let w = pen.width();
    let line: Style = match (hop.limits, hop.bytes_per_s) {
        (true, _) => theme.status(Status::Warn),
        (false, Some(_)) => theme.accent,
        (false, None) => theme.faint,
    };
    let glyph = if hop.limits { '━' } else { '─' };
    for x in 0..w - 1 {
        let dot = moved.is_some_and(|moved| (u64::from(x) + APART - moved % APART).is_multiple_of(APART));
        pen.cell(x, 0, if dot { '●' } else { glyph }, line);
    }
    pen.cell(w - 1, 0, '▶', line);
    if let Some(label) = label {
        let at = (w - 1).saturating_sub(width(label) as u16) / 2;
        pen.text(at, 0, label, if hop.limits { line } else { theme.text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Taste;
    use crate::present::flow::Station;
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;

    fn drawn(frame: u64, moves: bool) -> String {
        let hop =
            |from, bytes_per_s, limits| Hop { from, link: None, bytes_per_s: Some(bytes_per_s), share: None, limits };
        let flow = Flow {
            hops: vec![hop(Station::Storage, 1e9, true), hop(Station::PinnedMemory, 4e9, false)],
            to: Station::Gpu,
            unknown: moves.then_some("page cache not known"),
            moves,
        };
        let area = Rect::new(0, 0, 100, 1);
        let mut buffer = Buffer::empty(area);
        draw(&mut Pen::new(&mut buffer, area), &flow, frame, &Theme::new(Taste::default()));
        buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect()
    }

    #[test]
    fn the_dots_of_a_slower_hop_move_less_and_the_bottleneck_is_named() {
        let arrows = |frame| {
            let line = drawn(frame, true);
            let (first, second) = line.split_once("pinned memory").unwrap_or_default();
            (first.to_owned(), second.to_owned())
        };
        assert_eq!(arrows(0).0, arrows(3).0, "three quarters of a column");
        assert_ne!(arrows(0).1, arrows(3).1);
        assert_ne!(arrows(0).0, arrows(4).0);
        assert_eq!(drawn(0, true).matches("bottleneck").count(), 1);
        assert_eq!(drawn(7, false), drawn(0, false), "nothing moves");
        assert!(drawn(0, true).contains("GPU (page cache not known)"));
    }
}
