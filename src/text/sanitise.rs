//! The one rule for untrusted text on a terminal, such as file names, values of a captured machine and output of
//! commands.

use std::borrow::Cow;

/// The replacement for an unsafe character. It is visible, so that the reader notices the removed character.
const REPLACEMENT: &str = "\u{fffd}";

/// The line end on Windows.
const CRLF: &str = "\r\n";

/// Whether a character is unsafe. Control characters can send commands to a terminal; escape sequences begin with
/// one. Characters of Unicode's property `Bidi_Control` change the direction of text, so that it reads like another
/// text. U+2028 and U+2029 end a line in JavaScript and in many editors. Line ends and tabs are safe.
#[must_use]
pub fn is_unsafe(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => c.is_control(),
    }
}

/// Replaces each unsafe character. Line ends are kept. A carriage return is safe only before a line feed.
#[must_use]
pub fn sanitise(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<String> = text.split(CRLF).map(|line| line.replace(is_unsafe, REPLACEMENT)).collect();
    Cow::Owned(lines.join(CRLF))
}

/// Like [`sanitise`], but on one line: line ends and tabs become spaces.
#[must_use]
pub fn sanitise_line(text: &str) -> Cow<'_, str> {
    let text = sanitise(text);
    if text.contains(['\n', '\t']) { Cow::Owned(text.replace(CRLF, " ").replace(['\n', '\t'], " ")) } else { text }
}

/// Line ends and tabs, and the symbols for them. [`sanitise_name`] changes all of them.
pub const CHANGED_IN_NAMES: [char; 5] = ['\n', '\t', '\u{2409}', '\u{240a}', '\u{240d}'];

/// Like [`sanitise`], but for a name or value on one line: line ends and tabs become visible symbols. So names that
/// differ stay different, and a backslash in a command keeps its meaning. Symbols that are in the text are replaced like
/// unsafe characters, so they look different from a line end. The result must not be passed to this function again.
#[must_use]
pub fn sanitise_name(text: &str) -> Cow<'_, str> {
    let text = sanitise(text);
    let shown = |c: char| {
        if matches!(c, '\u{2409}' | '\u{240a}' | '\u{240d}') { char::REPLACEMENT_CHARACTER } else { visible(c) }
    };
    if text.contains(CHANGED_IN_NAMES) { Cow::Owned(text.chars().map(shown).collect()) } else { text }
}

/// The symbol for a line end or a tab. Other characters stay.
#[must_use]
pub const fn visible(c: char) -> char {
    match c {
        '\t' => '\u{2409}',
        '\n' => '\u{240a}',
        '\r' => '\u{240d}',
        other => other,
    }
}

/// Like [`sanitise`], but for text that this program coloured: colour codes are kept.
#[must_use]
pub fn sanitise_coloured(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_unsafe) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let kept = if from.starts_with(CRLF) { Some(CRLF.len()) } else { colour_code(from) };
        let length = kept.unwrap_or_else(|| from.chars().next().map_or(1, char::len_utf8));
        if kept.is_some() {
            out.push_str(&from[..length]);
        } else {
            out.push_str(REPLACEMENT);
        }
        rest = &from[length..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The length in bytes of the colour code at the beginning of a text, for example `ESC [ 1 ; 31 m`.
fn colour_code(text: &str) -> Option<usize> {
    let code = text.strip_prefix("\u{1b}[")?;
    let end = code.find(|c: char| !(c.is_ascii_digit() || c == ';'))?;
    code[end..].starts_with('m').then_some(end + 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_terminal_gets_no_command_and_text_is_not_turned() {
        assert_eq!(sanitise("plain é ✔\n\tx"), "plain é ✔\n\tx");
        assert_eq!(
            sanitise("a\u{1b}]0;title\u{7}b\u{1b}[31mc\u{9b}2J\u{202e}d\u{61c}"),
            "a\u{fffd}]0;title\u{fffd}b\u{fffd}[31mc\u{fffd}2J\u{fffd}d\u{fffd}"
        );
        assert_eq!(sanitise("shown\r+ hidden\r\n"), "shown\u{fffd}+ hidden\r\n");
        assert_eq!(sanitise("one\u{2028}line\u{2029}"), "one\u{fffd}line\u{fffd}");
        assert_eq!(sanitise_line("a\nb\tc\r\nd\u{0}"), "a b c d\u{fffd}");
    }

    #[test]
    fn names_that_differ_in_line_ends_and_tabs_stay_different() {
        let names = ["n b", "n\nb", "n\tb", "n\r\nb", "n\\nb", "n\\tb", "nb", "n b\n", "n␊b"];
        let shown: std::collections::BTreeSet<_> = names.iter().map(|name| sanitise_name(name)).collect();
        assert_eq!(shown.len(), names.len(), "{shown:?}");
        assert_eq!(sanitise_name("a\nb\tc\r\nd\u{0}"), "a␊b␉c␍␊d\u{fffd}");
        assert_eq!(sanitise_name("a␊b␉c␍d\n"), "a\u{fffd}b\u{fffd}c\u{fffd}d␊");
    }

    #[test]
    fn only_colours_of_the_program_stay() {
        assert_eq!(sanitise_coloured("\u{1b}[1;31mred\u{1b}[0m\r\n"), "\u{1b}[1;31mred\u{1b}[0m\r\n");
        assert_eq!(sanitise_coloured("a\u{1b}[2Jb\rc\u{1b}["), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}[");
    }

    proptest! {
        #[test]
        fn nothing_unsafe_is_left(text in "(?s)[\\x00-\\x1f\\x7f-\\x9f\u{61c}\u{200e}\u{2028}-\u{202e}\u{2066}a\\[0-9;m]{0,40}") {
            prop_assert!(!sanitise(&text).replace(CRLF, "").contains(is_unsafe));
            prop_assert!(!sanitise_line(&text).contains(char::is_control));
            prop_assert!(!sanitise_name(&text).contains(char::is_control));
            let coloured = sanitise_coloured(&text).replace(CRLF, "");
            prop_assert!(coloured.match_indices(is_unsafe).all(|(at, _)| colour_code(&coloured[at..]).is_some()));
        }
    }
}
