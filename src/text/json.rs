//! Writes JSON that is safe for a terminal. Unsafe characters are escaped (`\u202e`), so the data does not change.

use super::sanitise::is_unsafe;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Writes a value without spaces, in a streaming way.
///
/// # Errors
/// Fails if `out` cannot be written, or if the value contains a map with keys that are not strings.
pub fn write_json(out: impl Write, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, Escaping)).map_err(io::Error::from)
}

/// Formats a value on several lines.
///
/// # Errors
/// Fails if the value contains a map with keys that are not strings.
pub fn pretty_json(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(escaped(&serde_json::to_string_pretty(value)?))
}

/// An upper bound for the number of JSON values in a text. It counts characters that can also occur in strings. An
/// empty value takes two bytes of text and up to 100 bytes of memory, so a limit on the size of the text is not
/// enough.
#[must_use]
pub fn json_values(text: &[u8]) -> u64 {
    text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() as u64
}

/// The formatter of [`write_json`].
struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        if fragment.contains(is_unsafe) {
            out.write_all(escaped(fragment).as_bytes())
        } else {
            out.write_all(fragment.as_bytes())
        }
    }
}

/// Escapes unsafe characters, which occur only in strings. serde_json already escapes characters below U+0020.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unsafe(c) {
            // All unsafe characters are below U+10000, so four digits are enough.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn unsafe_characters_are_escaped_and_the_data_stays_the_same() {
        let value = json!({"a\u{202e}": ["\u{2028}\u{2029}\u{1b}[8m\u{9b}2J\u{7f}\u{61c}\u{2066}\n\t\"é漢", 1, null]});
        let mut compact = Vec::new();
        write_json(&mut compact, &value).unwrap();
        let compact = String::from_utf8(compact).unwrap();
        for text in [compact, pretty_json(&value).unwrap()] {
            assert!(!text.contains(is_unsafe), "{text:?}");
            assert!(text.contains("\\u202e") && text.contains("\\u009b"), "{text}");
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }
}
