//! The headline of a screen: the mark of the status and the answer.

use crate::tui::pen::{Pen, wrap};
use crate::tui::theme::Theme;
use crate::tui::words::Headline;

/// Draws the mark and the answer. Returns the number of rows.
pub(crate) fn draw(pen: &mut Pen<'_>, headline: &Headline, theme: &Theme) -> u16 {
    let lines = wrap(&headline.text, pen.width().saturating_sub(6));
    let shown = lines.len().min(usize::from(pen.height())).max(1);
    pen.text(1, 0, &headline.status.mark().to_string(), theme.status(headline.status));
    for (y, line) in lines.iter().take(shown).enumerate() {
        let more = y + 1 == shown && lines.len() > shown;
        let line = if more { format!("{line} …") } else { line.clone() };
        pen.text(3, y as u16, &line, theme.strong);
    }
    shown as u16
}
