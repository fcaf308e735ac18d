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

/// The width of the terminal on standard output in columns. Without a terminal it is the value of COLUMNS, or else 100.
pub(super) fn columns() -> u16 {
    columns_of(&io::stdout()).unwrap_or(WITHOUT_TERMINAL)
}

/// Like [`columns`], for standard error.
pub(super) fn error_columns() -> u16 {
    columns_of(&io::stderr()).unwrap_or(WITHOUT_TERMINAL)
}

/// The width at which text without a fixed width is wrapped on standard output. A pipe gets complete lines, unless
/// COLUMNS is set.
pub(super) fn edge() -> usize {
    columns_of(&io::stdout()).map_or(usize::MAX, usize::from)
}

/// Like [`edge`], for standard error.
pub(super) fn error_edge() -> usize {
    columns_of(&io::stderr()).map_or(usize::MAX, usize::from)
}

/// The width of a terminal. For another stream it is the value of COLUMNS, `None` without that variable.
fn columns_of(stream: &(impl IsTerminal + AsFd)) -> Option<u16> {
    let reported = || rustix::termios::tcgetwinsize(stream).map_or(0, |size| size.ws_col);
    width_of(stream.is_terminal().then(reported), std::env::var("COLUMNS").ok().as_deref())
}

/// The width for text on a stream, from the width that its terminal reports. A terminal that does not know its width,
/// such as a serial console, reports 0. Then it is the value of COLUMNS, or else 80. Without a terminal only COLUMNS
/// counts, as for `--help`.
fn width_of(reported: Option<u16>, variable: Option<&str>) -> Option<u16> {
    let named = || variable.and_then(|text| text.trim().parse::<u16>().ok()).filter(|columns| *columns > 0);
    let columns = reported.filter(|columns| *columns > 0).or_else(named).or(reported.map(|_| 80))?;
    Some(columns.clamp(40, 160))
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
            assert_eq!(width_of(Some(reported), variable), Some(width), "{reported} {variable:?}");
        }
    }

    #[test]
    fn a_pipe_has_a_width_only_with_columns() {
        for (variable, width) in [(Some("60"), Some(60)), (Some("7"), Some(40)), (Some("wide"), None), (None, None)] {
            assert_eq!(width_of(None, variable), width, "{variable:?}");
        }
    }
}
