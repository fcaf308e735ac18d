//! Standard output and standard error for text: their width and their characters.

use crate::config::Taste;
use crate::text::TextWriter;
use std::io::{self, IsTerminal, Stderr, Stdout};
use std::os::fd::AsFd;
use std::sync::OnceLock;

/// Whether the settings ask for ASCII characters.
static ASCII: OnceLock<bool> = OnceLock::new();

/// The width of text on a stream that is not a terminal.
const WITHOUT_TERMINAL: u16 = 100;

/// Uses or avoids ASCII characters, whatever the terminal and the locale are.
pub(super) fn choose_ascii(ascii: bool) {
    // This is called once, when the settings are read.
    let _ = ASCII.set(ascii);
}

/// Standard output for text.
pub(super) fn out() -> TextWriter<Stdout> {
    text(io::stdout())
}

/// Standard output for a result, which is JSON or text. JSON is always UTF-8.
pub(super) fn result(json: bool) -> TextWriter<Stdout> {
    if json { TextWriter::new(io::stdout(), false) } else { out() }
}

/// Standard error for text.
pub(super) fn err() -> TextWriter<Stderr> {
    text(io::stderr())
}

fn text<S: IsTerminal>(stream: S) -> TextWriter<S> {
    let is_terminal = stream.is_terminal();
    let detected = || Taste::text_is_ascii(is_terminal, |name| std::env::var(name).ok());
    TextWriter::new(stream, ASCII.get().copied().unwrap_or_else(detected))
}

/// The width of the terminal on standard output in columns. It is 100 without a terminal.
pub(super) fn columns() -> u16 {
    columns_of(&io::stdout()).unwrap_or(WITHOUT_TERMINAL)
}

/// Like [`columns`], for standard error.
pub(super) fn error_columns() -> u16 {
    columns_of(&io::stderr()).unwrap_or(WITHOUT_TERMINAL)
}

/// The width at which text without a fixed width is wrapped on standard output. A pipe gets complete lines.
pub(super) fn edge() -> usize {
    columns_of(&io::stdout()).map_or(usize::MAX, usize::from)
}

/// Like [`edge`], for standard error.
pub(super) fn error_edge() -> usize {
    columns_of(&io::stderr()).map_or(usize::MAX, usize::from)
}

/// The width of a terminal; `None` if the stream is not a terminal.
fn columns_of(stream: &(impl IsTerminal + AsFd)) -> Option<u16> {
    let reported = || rustix::termios::tcgetwinsize(stream).map_or(0, |size| size.ws_col);
    stream.is_terminal().then(|| width_of(reported(), std::env::var("COLUMNS").ok().as_deref()))
}

/// The width for text on a terminal. A terminal that does not know its width, such as a serial console, reports 0. Then
/// it is the value of COLUMNS, or else 80.
fn width_of(reported: u16, variable: Option<&str>) -> u16 {
    let named = || variable.and_then(|text| text.trim().parse::<u16>().ok()).filter(|columns| *columns > 0);
    let columns = Some(reported).filter(|columns| *columns > 0).or_else(named).unwrap_or(80);
    columns.clamp(40, 160)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_without_a_width_uses_columns_or_80() {
        for (reported, variable, width) in [
            (120, None, 120),
            (120, Some("60"), 120),
            (0, Some("120"), 120),
            (0, Some("0"), 80),
            (0, Some("wide"), 80),
            (0, Some("900"), 160),
            (0, None, 80),
            (7, Some("120"), 40),
        ] {
            assert_eq!(width_of(reported, variable), width, "{reported} {variable:?}");
        }
    }
}
