//! A pen that cannot draw outside its paper: every drawing goes through it, so no size of terminal and no string from a machine can panic.

use super::clicks::{Clicks, Spot};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use unicode_width::UnicodeWidthChar;

/// Text in one style.
pub(crate) type Run = (String, Style);

/// Draws into a part of a buffer, in that part's own coordinates, and drops what falls outside.
pub(crate) struct Pen<'b> {
    buffer: &'b mut Buffer,
    area: Rect,
    /// Where to remember what can be clicked.
    clicks: Option<&'b Clicks>,
}

impl<'b> Pen<'b> {
    pub(crate) fn new(buffer: &'b mut Buffer, area: Rect) -> Self {
        let area = area.intersection(buffer.area);
        Self { buffer, area, clicks: None }
    }

    /// The same, with places that can be clicked.
    pub(crate) fn with_clicks(self, clicks: &'b Clicks) -> Self {
        Self { clicks: Some(clicks), ..self }
    }

    pub(crate) const fn width(&self) -> u16 {
        self.area.width
    }

    pub(crate) const fn height(&self) -> u16 {
        self.area.height
    }

    /// A pen for a part, given in this pen's coordinates.
    pub(crate) fn part(&mut self, x: u16, y: u16, width: u16, height: u16) -> Pen<'_> {
        let part = Rect { x: self.area.x.saturating_add(x), y: self.area.y.saturating_add(y), width, height };
        let area = part.intersection(self.area);
        Pen { buffer: self.buffer, area, clicks: self.clicks }
    }

    /// Remembers that a stretch of a row stands for something when it is clicked.
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

    /// The glyph that stands there.
    pub(crate) fn glyph(&self, x: u16, y: u16) -> Option<char> {
        let inside = x < self.area.width && y < self.area.height;
        inside.then(|| self.buffer.cell((self.area.x + x, self.area.y + y))?.symbol().chars().next()).flatten()
    }

    /// Adds a style to what is there.
    pub(crate) fn restyle(&mut self, x: u16, y: u16, width: u16, height: u16, style: Style) {
        let area = self.part(x, y, width, height).area;
        self.buffer.set_style(area, style);
    }

    /// Empties the paper, also of colours.
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

    /// Takes what is drawn back behind what will lie over it.
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

    /// Writes text and returns the column after it. Control characters become spaces: a machine's own strings must not steer the terminal.
    pub(crate) fn text(&mut self, x: u16, y: u16, text: &str, style: Style) -> u16 {
        let mut column = x;
        for glyph in text.chars() {
            let glyph = if glyph.is_control() { ' ' } else { glyph };
            let width = UnicodeWidthChar::width(glyph).unwrap_or(0) as u16;
            if width == 0 {
                continue;
            }
            if column.saturating_add(width) > self.area.width {
                return self.area.width;
            }
            self.cell(column, y, glyph, style);
            if width == 2 {
                // The second half of a wide character must be an empty symbol, or the terminal and the buffer disagree.
                if let Some(cell) = self.buffer.cell_mut((self.area.x + column + 1, self.area.y.saturating_add(y))) {
                    cell.set_symbol(" ").set_style(style);
                }
            }
            column += width;
        }
        column
    }

    /// Writes text of at most `room` columns, with an ellipsis where it was cut.
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

    /// Writes runs one after another and returns the column after them.
    pub(crate) fn runs(&mut self, x: u16, y: u16, runs: &[Run]) -> u16 {
        runs.iter().fold(x, |column, (text, style)| self.text(column, y, text, *style))
    }

    /// A rounded border with a title; returns the pen for the inside.
    pub(crate) fn frame(&mut self, title: &[Run], border: Style) -> Pen<'_> {
        let (w, h) = (self.area.width, self.area.height);
        if w < 2 || h < 2 {
            return self.part(0, 0, 0, 0);
        }
        for x in 1..w - 1 {
            self.cell(x, 0, '─', border);
            self.cell(x, h - 1, '─', border);
        }
        for y in 1..h - 1 {
            self.cell(0, y, '│', border);
            self.cell(w - 1, y, '│', border);
        }
        for (x, y, glyph) in [(0, 0, '╭'), (w - 1, 0, '╮'), (0, h - 1, '╰'), (w - 1, h - 1, '╯')] {
            self.cell(x, y, glyph, border);
        }
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

/// Columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(|c| if c.is_control() { 1 } else { UnicodeWidthChar::width(c).unwrap_or(0) }).sum()
}

/// Columns that runs take.
pub(crate) fn runs_width(runs: &[Run]) -> usize {
    runs.iter().map(|(text, _)| width(text)).sum()
}

/// The text cut to `room` columns, ending in an ellipsis where something is missing.
pub(crate) fn cut(text: &str, room: u16) -> String {
    let room = usize::from(room);
    if width(text) <= room {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for glyph in text.chars() {
        let columns = if glyph.is_control() { 1 } else { UnicodeWidthChar::width(glyph).unwrap_or(0) };
        if used + columns + 1 > room {
            break;
        }
        out.push(glyph);
        used += columns;
    }
    if room > 0 {
        out.push('…');
    }
    out
}

/// Lines of at most `room` columns, broken between words; a word longer than a line is broken where it must be.
pub(crate) fn wrap(text: &str, room: u16) -> Vec<String> {
    let room = usize::from(room.max(1));
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        let mut used = 0;
        let before = lines.len();
        let mut words = paragraph.split_whitespace().peekable();
        while let Some(word) = words.next() {
            let mut word = word.to_owned();
            // An equation is one word: `n = 3`.
            while let Some(next) = words.next_if(|next| *next == "=" || word.ends_with(" =")) {
                word.push(' ');
                word.push_str(next);
            }
            loop {
                let gap = usize::from(used > 0);
                let needs = width(&word);
                if used + gap + needs <= room {
                    if gap == 1 {
                        line.push(' ');
                    }
                    line.push_str(&word);
                    used += gap + needs;
                    break;
                }
                if used > 0 {
                    lines.push(std::mem::take(&mut line));
                    used = 0;
                    continue;
                }
                let mut split = 0;
                let mut columns = 0;
                for (at, glyph) in word.char_indices() {
                    let w = UnicodeWidthChar::width(glyph).unwrap_or(1);
                    if columns + w > room && at > 0 {
                        break;
                    }
                    columns += w;
                    split = at + glyph.len_utf8();
                }
                let rest = word.split_off(split);
                lines.push(std::mem::replace(&mut word, rest));
                if word.is_empty() {
                    break;
                }
            }
        }
        if used > 0 || lines.len() == before {
            lines.push(line);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_wrap_at_the_width_and_long_ones_are_broken() {
        assert_eq!(wrap("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrap("/very/long/path x", 6), ["/very/", "long/p", "ath x"]);
        assert_eq!(wrap("one\n\ntwo", 10), ["one", "", "two"]);
        assert_eq!(wrap("漢字", 1), ["漢", "字"]);
        assert_eq!(wrap("cold, n = 3, verified", 10), ["cold,", "n = 3,", "verified"]);
    }

    #[test]
    fn a_cut_text_says_so_and_fits() {
        assert_eq!(cut("mmap", 4), "mmap");
        assert_eq!(cut("gds-slab", 5), "gds-…");
        assert_eq!(cut("x", 0), "");
        assert_eq!(cut("漢字漢", 4), "漢…");
    }

    #[test]
    fn nothing_is_drawn_outside_and_control_characters_do_not_reach_the_terminal() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 6, 2));
        Pen::new(&mut buffer, Rect::new(2, 0, 99, 99)).text(1, 0, "a\u{1b}[2Jlong", Style::new());
        Pen::new(&mut buffer, Rect::new(2, 0, 3, 1)).text(0, 5, "no", Style::new());
        Pen::new(&mut buffer, Rect::new(9, 9, 3, 1)).frame(&[], Style::new());
        let shown: String = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
        assert_eq!(shown, "   a [      ");
    }
}
