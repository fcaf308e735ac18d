//! Paragraphs and bold text for a terminal or a pipe.

use super::columns::indented;
use super::sanitise::sanitise_line;

/// Bold text if colours are on, otherwise the text itself.
#[must_use]
pub fn strong(text: &str, colour: bool) -> String {
    if colour { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Appends wrapped text after `head`. Further lines are indented by `indent` columns.
pub fn paragraph(out: &mut String, head: &str, indent: usize, text: &str, width: usize) {
    for line in indented(head, indent, &sanitise_line(text), width) {
        out.push_str(&line);
        out.push('\n');
    }
}
