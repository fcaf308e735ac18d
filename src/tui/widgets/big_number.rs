//! A percentage in digits of three rows, for the one number that a screen is about.

use crate::tui::pen::Pen;
use ratatui::style::Style;

/// Rows of the digits.
pub(crate) const ROWS: u16 = 3;
/// The digits 0 to 9, row by row.
const DIGITS: [[&str; 3]; 10] = [
    ["█▀█", "█ █", "▀▀▀"],
    ["▀█ ", " █ ", "▀▀▀"],
    ["▀▀█", "█▀▀", "▀▀▀"],
    ["▀▀█", " ▀█", "▀▀▀"],
    ["█ █", "▀▀█", "  ▀"],
    ["█▀▀", "▀▀█", "▀▀▀"],
    ["█▀▀", "█▀█", "▀▀▀"],
    ["▀▀█", "  █", "  ▀"],
    ["█▀█", "█▀█", "▀▀▀"],
    ["█▀█", "▀▀█", "▀▀▀"],
];
const PERCENT: [&str; 3] = ["▀ █", " █ ", "█ ▄"];

/// Columns of a percentage of three digits, which all smaller ones have too, so that nothing moves.
pub(crate) const COLUMNS: u16 = 15;

/// Draws a percentage, right-aligned, in the upper rows of the pen.
pub(crate) fn draw(pen: &mut Pen<'_>, percent: u32, style: Style) {
    let digits = percent.min(999).to_string();
    let glyphs = digits.bytes().filter_map(|digit| DIGITS.get(usize::from(digit.wrapping_sub(b'0')))).chain([&PERCENT]);
    let mut x = COLUMNS.saturating_sub(digits.len() as u16 * 4 + 3);
    for glyph in glyphs {
        for (y, row) in (0..ROWS).zip(glyph) {
            for (dx, cell) in (0..).zip(row.chars()) {
                pen.cell(x + dx, y, cell, style);
            }
        }
        x += 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;

    #[test]
    fn a_percentage_ends_at_the_last_column() {
        let area = Rect::new(0, 0, COLUMNS, ROWS);
        for (percent, drawn) in [
            (8, ["        █▀█ ▀ █", "        █▀█  █ ", "        ▀▀▀ █ ▄"]),
            (75, ["    ▀▀█ █▀▀ ▀ █", "      █ ▀▀█  █ ", "      ▀ ▀▀▀ █ ▄"]),
            (100, ["▀█  █▀█ █▀█ ▀ █", " █  █ █ █ █  █ ", "▀▀▀ ▀▀▀ ▀▀▀ █ ▄"]),
        ] {
            let mut buffer = Buffer::empty(area);
            draw(&mut Pen::new(&mut buffer, area), percent, Style::default());
            let rows: Vec<String> = buffer
                .content()
                .chunks(usize::from(COLUMNS))
                .map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect())
                .collect();
            assert_eq!(rows, drawn, "{percent}");
        }
    }
}
