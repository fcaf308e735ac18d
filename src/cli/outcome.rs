//! Saying things on the way out: results, errors, exit statuses.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

/// Fine.
pub(super) const FINE: u8 = 0;
/// The answer is bad.
pub(super) const BAD_ANSWER: u8 = 1;
/// The call or the input is wrong.
pub(super) const BAD_CALL: u8 = 2;
/// Nothing could be run.
pub(super) const NOTHING_RAN: u8 = 3;

/// A signal ended it in order.
pub(super) const INTERRUPTED: u8 = 130;

/// What a command came to: an exit status, or a sentence that says what is wrong with the call or the input (status 2).
pub(super) type Ran = Result<u8, String>;

/// Whether screens can be shown: standard input and output are a terminal.
pub(super) fn has_terminal() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// Says a sentence on standard error and hands back the exit status.
pub(super) fn fail(status: u8, sentence: &str) -> u8 {
    // A closed standard error leaves nobody to tell.
    note(sentence);
    status
}

/// Says a sentence on standard error.
pub(super) fn note(sentence: &str) {
    let line = format!("gds-top: {sentence}\n");
    let _ = io::stderr().write_all(&harmless(line.as_bytes()));
}

/// Prints a result. A broken pipe is quiet and fine.
pub(super) fn print(text: &[u8]) -> u8 {
    let mut out = io::stdout().lock();
    match out.write_all(&harmless(text)).and_then(|()| out.flush()) {
        Ok(()) => FINE,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => FINE,
        Err(error) => fail(BAD_CALL, &format!("the result could not be written to standard output: {error}")),
    }
}

/// The text without what would command a terminal: names, values and files of a captured machine are a stranger's words. Colours stay.
fn harmless(text: &[u8]) -> Cow<'_, [u8]> {
    let Ok(text) = std::str::from_utf8(text) else { return Cow::Borrowed(text) };
    if !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_control() && !matches!(c, '\n' | '\t')) {
        out.push_str(&rest[..at]);
        let from = &rest[at..];
        let colour = from.strip_prefix("\u{1b}[").and_then(|code| {
            let end = code.find(|c: char| !(c.is_ascii_digit() || c == ';'))?;
            code[end..].starts_with('m').then_some(end + 3)
        });
        let length = colour.unwrap_or_else(|| from.chars().next().map_or(1, char::len_utf8));
        if colour.is_some() || from.starts_with("\r\n") {
            out.push_str(&from[..length]);
        } else {
            out.push(char::REPLACEMENT_CHARACTER);
        }
        rest = &from[length..];
    }
    out.push_str(rest);
    Cow::Owned(out.into_bytes())
}

/// Prints a JSON value with a line end.
pub(super) fn print_json(value: &serde_json::Value) -> u8 {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print(format!("{text}\n").as_bytes()),
        Err(error) => fail(BAD_CALL, &format!("the result could not be written as JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn words_of_a_stranger_do_not_command_the_terminal() {
        for (text, shown) in [
            ("plain\tand ✔\n", "plain\tand ✔\n"),
            ("\u{1b}[1;31mred\u{1b}[0m\n", "\u{1b}[1;31mred\u{1b}[0m\n"),
            ("a\u{1b}]0;title\u{7}b", "a\u{fffd}]0;title\u{fffd}b"),
            ("\u{1b}[2J\u{9b}2J\u{8}\u{7f}", "\u{fffd}[2J\u{fffd}2J\u{fffd}\u{fffd}"),
            ("hidden\rshown\r\n", "hidden\u{fffd}shown\r\n"),
        ] {
            assert_eq!(harmless(text.as_bytes()), shown.as_bytes(), "{text:?}");
        }
    }
}
