//! A drawing of the path of the bytes: stations and arrows. A double line means that no bytes are copied through host
//! memory.

use crate::core::Route;
use crate::tui::pen::{Pen, width};
use crate::tui::theme::Theme;
use ratatui::style::Style;

/// The path to draw.
pub(crate) struct DrawnPath {
    /// The route.
    pub(crate) route: Route,
    /// Whether the path ends at a GPU.
    pub(crate) gpu: bool,
    /// The name of the host memory on the path, with at most eleven characters.
    pub(crate) through: &'static str,
}

/// The default name of host memory.
pub(crate) const HOST_MEMORY: &str = "host memory";

/// Width of the drawing in columns.
pub(crate) const COLUMNS: u16 = 47;

/// Draws a path from column `x`. All paths on a screen end at the same column.
pub(crate) fn draw(pen: &mut Pen<'_>, x: u16, y: u16, path: &DrawnPath, theme: &Theme) {
    draw_as(pen, (x, y), path, true, theme);
}

/// Like [`draw`]. Without `filled`, the stations are words, because filled blocks on adjacent lines would merge.
pub(crate) fn draw_as(pen: &mut Pen<'_>, (x, y): (u16, u16), path: &DrawnPath, filled: bool, theme: &Theme) {
    let station = |pen: &mut Pen<'_>, x, y, name: &str, style| station(pen, (x, y), name, style, filled, theme);
    let plain = theme.text;
    let end = x + COLUMNS;
    let last = if path.gpu { "GPU" } else { "host memory" };
    let at_last = end.saturating_sub(width(last) as u16 + 4);
    let after_first = station(pen, x, y, "storage", theme.accent);
    match path.route {
        Route::Compat => {
            let at_middle = x + 17;
            arrow(pen, after_first, at_middle, y, '─', plain);
            let after = station(pen, at_middle, y, path.through, theme.status(crate::core::Status::Warn));
            arrow(pen, after, at_last, y, '─', plain);
        }
        Route::None if path.gpu => {
            let stop = x + 24;
            let fail = theme.status(crate::core::Status::Fail);
            for column in after_first + 1..stop {
                pen.cell(column, y, '─', fail);
            }
            pen.cell(stop + 1, y, '✖', fail);
        }
        Route::None => arrow(pen, after_first, at_last, y, '─', plain),
        direct => {
            let pass = theme.status(crate::core::Status::Pass);
            arrow(pen, after_first, at_last, y, '═', pass);
            let label = format!(" {} ", direct);
            let middle = (after_first + at_last).saturating_sub(width(&label) as u16) / 2;
            pen.text(middle, y, &label, pass);
        }
    }
    station(pen, at_last, y, last, theme.accent);
}

fn station(pen: &mut Pen<'_>, (x, y): (u16, u16), name: &str, style: Style, filled: bool, theme: &Theme) -> u16 {
    if theme.mono || theme.ascii {
        let style = theme.strong;
        return pen.text(x, y, &format!("[ {name} ]"), style);
    }
    if !filled {
        return pen.text(x, y, &format!("  {name}  "), style);
    }
    let fill = Style { add_modifier: ratatui::style::Modifier::empty(), ..style };
    let after = pen.text(x, y, "▐", fill);
    let after = pen.text(after, y, &format!(" {name} "), theme.on_accent(fill));
    pen.text(after, y, "▌", fill)
}

fn arrow(pen: &mut Pen<'_>, from: u16, to: u16, y: u16, line: char, style: Style) {
    for column in from + 1..to.saturating_sub(2) {
        pen.cell(column, y, line, style);
    }
    pen.cell(to.saturating_sub(2), y, '▶', style);
}
