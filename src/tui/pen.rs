//! A pen for drawing into a part of the screen. It drops everything outside that part, so no terminal size and no
//! text can cause a panic.

use super::clicks::{Clicks, Spot};
use crate::text::{glyph_width, is_unsafe, truncate, visible};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Block, BorderType, Scrollbar, ScrollbarOrientation, ScrollbarState, StatefulWidget, Widget};

/// Text with one style.
pub(crate) type Run = (String, Style);

/// Draws into a part of a buffer with coordinates relative to that part. Everything outside is dropped.
pub(crate) struct Pen<'b> {
    buffer: &'b mut Buffer,
    area: Rect,
    /// The list of clickable areas.
    clicks: Option<&'b Clicks>,
}

impl<'b> Pen<'b> {
    pub(crate) fn new(buffer: &'b mut Buffer, area: Rect) -> Self {
        let area = area.intersection(buffer.area);
        Self { buffer, area, clicks: None }
    }

    /// The same pen, which also records clickable areas.
    pub(crate) fn with_clicks(self, clicks: &'b Clicks) -> Self {
        Self { clicks: Some(clicks), ..self }
    }

    pub(crate) const fn width(&self) -> u16 {
        self.area.width
    }

    pub(crate) const fn height(&self) -> u16 {
        self.area.height
    }

    /// A pen for a smaller part. Its position is relative to this pen.
    pub(crate) fn part(&mut self, x: u16, y: u16, width: u16, height: u16) -> Pen<'_> {
        let part = Rect { x: self.area.x.saturating_add(x), y: self.area.y.saturating_add(y), width, height };
        let area = part.intersection(self.area);
        Pen { buffer: self.buffer, area, clicks: self.clicks }
    }

    /// Makes a part of a row clickable.
    pub(crate) fn hit(&self, y: u16, x: u16, width: u16, spot: Spot) {
        if let Some(clicks) = self.clicks.filter(|_| y < self.area.height) {
            let row = Rect { x: self.area.x.saturating_add(x), y: self.area.y.saturating_add(y), width, height: 1 };
            clicks.add(row.intersection(self.area), spot);
        }
    }

    pub(crate) fn cell(&mut self, x: u16, y: u16, glyph: char, style: Style) {
        if x < self.area.width
            && y < self.area.height
            && let Some(cell) = self.buffer.cell_mut((self.area.x + x, self.area.y + y))
        {
            cell.set_char(glyph).set_style(style);
        }
    }

    /// The character of a cell.
    pub(crate) fn glyph(&self, x: u16, y: u16) -> Option<char> {
        let inside = x < self.area.width && y < self.area.height;
        inside.then(|| self.buffer.cell((self.area.x + x, self.area.y + y))?.symbol().chars().next()).flatten()
    }

    /// Adds a style to the cells of an area.
    pub(crate) fn restyle(&mut self, x: u16, y: u16, width: u16, height: u16, style: Style) {
        let area = self.part(x, y, width, height).area;
        self.buffer.set_style(area, style);
    }

    /// Clears all cells, including their colours.
    pub(crate) fn wipe(&mut self, style: Style) {
        for y in 0..self.area.height {
            for x in 0..self.area.width {
                if let Some(cell) = self.buffer.cell_mut((self.area.x + x, self.area.y + y)) {
                    cell.reset();
                    cell.set_style(style);
                }
            }
        }
    }

    /// Dims the screen behind a sheet.
    pub(crate) fn fade(&mut self, style: Style) {
        for y in 0..self.area.height {
            for x in 0..self.area.width {
                if let Some(cell) = self.buffer.cell_mut((self.area.x + x, self.area.y + y)) {
                    cell.modifier = Modifier::empty();
                    cell.set_style(style);
                }
            }
        }
    }

    /// Writes text and returns the column after it. The text is sanitised, because it may be untrusted.
    pub(crate) fn text(&mut self, x: u16, y: u16, text: &str, style: Style) -> u16 {
        let mut column = x;
        for glyph in text.chars() {
            let glyph = if is_unsafe(glyph) { char::REPLACEMENT_CHARACTER } else { visible(glyph) };
            let width = glyph_width(glyph) as u16;
            if width == 0 {
                continue;
            }
            if column.saturating_add(width) > self.area.width {
                return self.area.width;
            }
            self.cell(column, y, glyph, style);
            if width == 2 {
                // The second half of a wide character must be an empty symbol. Otherwise the terminal and the buffer
                // would differ.
                if let Some(cell) = self.buffer.cell_mut((self.area.x + column + 1, self.area.y.saturating_add(y))) {
                    cell.set_symbol(" ").set_style(style);
                }
            }
            column += width;
        }
        column
    }

    /// Writes text in at most `room` columns. Cut text ends with an ellipsis.
    pub(crate) fn fit(&mut self, x: u16, y: u16, room: u16, text: &str, style: Style) -> u16 {
        let room = room.min(self.area.width.saturating_sub(x));
        if width(text) <= usize::from(room) {
            self.text(x, y, text, style)
        } else {
            self.text(x, y, &cut(text, room), style)
        }
    }

    /// Writes text that ends before column `end`.
    pub(crate) fn right(&mut self, end: u16, y: u16, text: &str, style: Style) {
        let start = end.saturating_sub(width(text) as u16);
        self.text(start, y, text, style);
    }

    /// Writes several styled texts one after another and returns the column after them.
    pub(crate) fn runs(&mut self, x: u16, y: u16, runs: &[Run]) -> u16 {
        runs.iter().fold(x, |column, (text, style)| self.text(column, y, text, *style))
    }

    /// Draws a bar on the right edge that shows the position of the visible lines among `total` lines.
    pub(crate) fn scrollbar(&mut self, total: usize, first: usize, thumb: Style, track: Style) {
        let height = usize::from(self.area.height);
        // The position counts the first lines that are possible.
        let mut state =
            ScrollbarState::new((total + 1).saturating_sub(height)).position(first).viewport_content_length(height);
        Scrollbar::new(ScrollbarOrientation::VerticalRight)
            .begin_symbol(None)
            .end_symbol(None)
            .track_symbol(Some("│"))
            .track_style(track)
            .thumb_symbol("┃")
            .thumb_style(thumb)
            .render(self.area, self.buffer, &mut state);
    }

    /// Draws a rounded border with a title. Returns the pen for the inside.
    pub(crate) fn frame(&mut self, title: &[Run], border: Style) -> Pen<'_> {
        let (w, h) = (self.area.width, self.area.height);
        if w < 2 || h < 2 {
            return self.part(0, 0, 0, 0);
        }
        Block::bordered().border_type(BorderType::Rounded).border_style(border).render(self.area, self.buffer);
        if !title.is_empty() && w > 6 {
            let mut head = self.part(1, 0, w - 2, 1);
            head.text(0, 0, " ", border);
            let mut end = 1;
            let mut room = w - 5;
            for (text, style) in title {
                if width(text) > usize::from(room) {
                    end = head.text(end, 0, &cut(text, room), *style);
                    break;
                }
                end = head.text(end, 0, text, *style);
                room -= width(text) as u16;
            }
            head.text(end, 0, " ", border);
        }
        self.part(1, 1, w - 2, h - 2)
    }
}

pub(crate) use crate::text::width;

/// Total width of styled texts in columns.
pub(crate) fn runs_width(runs: &[Run]) -> usize {
    runs.iter().map(|(text, _)| width(text)).sum()
}

/// Text in at most `room` columns. Cut text ends with an ellipsis.
pub(crate) fn cut(text: &str, room: u16) -> String {
    truncate(text, room.into()).into_owned()
}

/// Text wrapped into lines of at most `room` columns.
pub(crate) fn wrap(text: &str, room: u16) -> Vec<String> {
    crate::text::wrap(text, room.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_drawn_outside_and_control_characters_do_not_reach_the_terminal() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 6, 2));
        Pen::new(&mut buffer, Rect::new(2, 0, 99, 99)).text(1, 0, "a\u{1b}[2Jlong", Style::new());
        Pen::new(&mut buffer, Rect::new(2, 0, 3, 1)).text(0, 5, "no", Style::new());
        Pen::new(&mut buffer, Rect::new(9, 9, 3, 1)).frame(&[], Style::new());
        let shown: String = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
        assert_eq!(shown, "   a\u{fffd}[      ");
    }
}
