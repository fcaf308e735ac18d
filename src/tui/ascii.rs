//! The last drawing step for ASCII terminals: it replaces every other character by the ASCII character with the most
//! similar shape.

use crate::text::ascii_of;
use ratatui::buffer::Buffer;

/// Replaces all characters in the buffer that are not ASCII.
pub(crate) fn flatten(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if !cell.symbol().is_ascii() {
            let glyph = cell.symbol().chars().next().map_or(' ', ascii_of);
            cell.set_char(glyph);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    #[test]
    fn whatever_is_drawn_ends_as_ascii() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 1));
        buffer.set_string(0, 0, "╭✔①×⣿⠉⡀é漢", Style::new());
        flatten(&mut buffer);
        let shown: String = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
        assert!(shown.is_ascii(), "{shown}");
        assert!(shown.starts_with("++1x|'.??"), "{shown}");
    }
}
