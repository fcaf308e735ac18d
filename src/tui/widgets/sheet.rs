//! Sheets: scrollable text on top of the screen, with the available keys in the lower border.

use crate::tui::clicks::Spot;
use crate::tui::keys::bindings::Binding;
use crate::tui::pen::{Pen, Run, runs_width, width, wrap};
use crate::tui::theme::Theme;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws a sheet in the middle of the pen and returns its maximum scroll position. With `end`, the end of the text is
/// shown instead of `scroll`; this is for output that is still arriving.
pub(crate) fn draw(
    pen: &mut Pen<'_>,
    title: &[Run],
    lines: &[Vec<Run>],
    keys: &[Run],
    scroll: usize,
    widest: u16,
    theme: &Theme,
) -> usize {
    let Rect { x, y, width: w, height: h } = place(pen, lines.len(), widest);
    // Without colour, the accent is an underline. On the border it would also underline the title, so another style
    // is used.
    let edge = if theme.mono { theme.strong } else { theme.accent };
    let mut sheet = pen.part(x, y, w, h);
    sheet.wipe(theme.ground);
    let inner_height = {
        let mut inside = sheet.frame(title, edge);
        let (iw, ih) = (inside.width(), inside.height());
        let mut page = inside.part(2, 1, iw.saturating_sub(4), ih.saturating_sub(1));
        text(&mut page, lines, scroll, theme);
        page.height()
    };
    let room = runs_width(keys) as u16 + 2;
    if h >= 2 && room + 2 < w {
        let start = w.saturating_sub(room + 1);
        sheet.text(start, h - 1, " ", edge);
        let end = sheet.runs(start + 1, h - 1, keys);
        sheet.text(end, h - 1, " ", edge);
    }
    lines.len().saturating_sub(usize::from(inner_height))
}

/// The area of a sheet with this number of lines.
fn place(pen: &Pen<'_>, lines: usize, widest: u16) -> Rect {
    let w = widest.min(pen.width().saturating_sub(2)).max(pen.width().min(20));
    let h = (lines as u16).saturating_add(4).min(pen.height());
    Rect { x: pen.width().saturating_sub(w) / 2, y: pen.height().saturating_sub(h) / 2, width: w, height: h }
}

/// The page of a sheet, which is the area of its lines.
pub(crate) fn page<'p>(pen: &'p mut Pen<'_>, lines: usize, widest: u16) -> Pen<'p> {
    let Rect { x, y, width: w, height: h } = place(pen, lines, widest);
    pen.part(x + 3, y + 2, w.saturating_sub(6), h.saturating_sub(3))
}

/// The available keys for the lower border of a sheet.
pub(crate) fn keys(bindings: &[&Binding], theme: &Theme) -> Vec<Run> {
    let words = |b: &&Binding| [(b.label.clone(), theme.accent), (format!(" {}  ", b.short), theme.dim)];
    bindings.iter().flat_map(words).collect()
}

/// Makes the keys in the lower border of a sheet clickable.
pub(crate) fn click(pen: &Pen<'_>, lines: usize, widest: u16, bindings: &[&Binding]) {
    let Rect { x, y, width: w, height: h } = place(pen, lines, widest);
    let wide = |b: &&Binding| (width(&b.label) + width(b.short) + 3) as u16;
    let all: u16 = bindings.iter().map(wide).sum();
    if h < 2 || all + 4 >= w {
        return;
    }
    let mut at = x + w.saturating_sub(all + 2);
    for binding in bindings {
        pen.hit(y + h - 1, at, wide(binding).saturating_sub(2), Spot::Key(binding.action));
        at += wide(binding);
    }
}

/// Draws lines from `scroll`, with a scrollbar if not all fit. Returns the maximum scroll position.
pub(crate) fn text(pen: &mut Pen<'_>, lines: &[Vec<Run>], scroll: usize, theme: &Theme) -> usize {
    let height = usize::from(pen.height());
    let most = lines.len().saturating_sub(height);
    let scroll = scroll.min(most);
    for (y, line) in lines.iter().skip(scroll).take(height).enumerate() {
        pen.runs(0, y as u16, line);
    }
    if most > 0 && height > 1 {
        scrollbar(pen, lines.len(), scroll, theme);
    }
    most
}

/// Draws a bar on the right edge that shows the position of the visible lines among `total` lines.
pub(crate) fn scrollbar(pen: &mut Pen<'_>, total: usize, first: usize, theme: &Theme) {
    if total > usize::from(pen.height()) && pen.height() > 0 {
        pen.scrollbar(total, first, theme.accent, theme.faint);
    }
}

/// A label in a narrow left column, with text wrapped next to it.
pub(crate) fn labelled(label: &str, text: &str, room: u16, label_style: Style, style: Style) -> Vec<Vec<Run>> {
    labelled_in(8, label, text, room, label_style, style)
}

/// Like [`labelled`], with a label column of the given width.
pub(crate) fn labelled_in(
    columns: u16,
    label: &str,
    text: &str,
    room: u16,
    label_style: Style,
    style: Style,
) -> Vec<Vec<Run>> {
    wrap(text, room.saturating_sub(columns))
        .into_iter()
        .enumerate()
        .map(|(i, line)| {
            let head = if i == 0 { label } else { "" };
            vec![(format!("{head:<columns$}", columns = usize::from(columns)), label_style), (line, style)]
        })
        .collect()
}
