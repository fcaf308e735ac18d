//! Text inside HTML, SVG and XML.

use super::sanitise::sanitise_line;

/// Escapes text for the content of an element or for an attribute. Control characters are replaced.
#[must_use]
pub fn markup(text: &str) -> String {
    let clean = sanitise_line(text);
    let mut out = String::with_capacity(clean.len());
    for c in clean.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML does not allow these characters.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_has_no_character_with_a_meaning() {
        assert_eq!(markup("<a b='c' d=\"e\">&\u{ffff}"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;\u{fffd}");
        assert!(!markup("\x1b[31m\u{202e}").chars().any(crate::text::is_unsafe));
    }
}
