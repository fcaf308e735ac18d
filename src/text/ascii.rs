//! Text for terminals and locales without UTF-8.

use std::io::{self, Write};

/// Writes text. If `ascii` is set, other characters are replaced by [`ascii_of`]. Each call must write complete
/// characters, as `write!` does.
#[derive(Debug)]
pub struct TextWriter<W> {
    stream: W,
    ascii: bool,
}

impl<W> TextWriter<W> {
    /// A writer of text to `stream`.
    pub const fn new(stream: W, ascii: bool) -> Self {
        Self { stream, ascii }
    }

    /// Whether only ASCII characters are written.
    pub const fn is_ascii(&self) -> bool {
        self.ascii
    }
}

impl<W: Write> Write for TextWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.ascii || bytes.is_ascii() {
            return self.stream.write(bytes);
        }
        let text: String = String::from_utf8_lossy(bytes).chars().map(ascii_of).collect();
        self.stream.write_all(text.as_bytes()).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// The ASCII character with the most similar shape. ASCII characters are kept.
#[must_use]
pub fn ascii_of(glyph: char) -> char {
    match glyph {
        '\0'..='\u{7f}' => glyph,
        '─' | '━' | '┄' | '┈' | '–' | '—' | '╌' => '-',
        '═' => '=',
        '│' | '┆' | '┊' | '┤' | '├' | '▏' | '▕' | '▐' | '▌' | '▎' => '|',
        '╭' | '╮' | '╰' | '╯' | '┿' | '┬' | '┴' | '┼' | '┌' | '┐' | '└' | '┘' | '┶' => '+',
        '▘' | '▝' | '▀' => '\'',
        '▖' | '▗' => '.',
        '▞' | '▚' | '▛' | '▜' | '▙' | '▟' => ':',
        '█' | '▉' | '▊' | '▋' | '▆' | '┃' => '#',
        '▍' => '=',
        '▁' | '▂' => '_',
        '▃' | '▄' => '-',
        '▅' => '=',
        '◧' | '◨' => '|',
        '−' => '-',
        '▇' => '#',
        '▓' => '%',
        '▒' => '=',
        '░' => '.',
        '▶' | '▸' | '→' | '⇒' => '>',
        '◀' | '←' => '<',
        '▾' | '↓' | '▼' => 'v',
        '▴' | '↑' | '△' => '^',
        '✔' => '+',
        '✖' => 'x',
        '▲' => '!',
        '●' | '◉' | '▪' => '*',
        '○' | '◌' | '▫' | '◎' | '◦' => 'o',
        '▽' => 'v',
        '▷' => '>',
        '◁' => '<',
        '◊' => '&',
        '▣' => '%',
        '◐' => '@',
        '■' => '#',
        '◆' => '@',
        '◇' => '&',
        '★' | '☆' | '◈' => '$',
        '□' => '%',
        '×' => 'x',
        '≤' => '<',
        'µ' => 'u',
        '·' | '•' | '…' => '.',
        '╱' => '/',
        '‖' => '|',
        '↶' => '<',
        '±' => '~',
        '²' => '2',
        '³' => '3',
        '⁰' | '₀' => '0',
        '†' => '+',
        '‡' => '#',
        '⁹' => '9',
        '‘' | '’' => '\'',
        '“' | '”' => '"',
        '⏎' => '>',
        '\u{a0}' | '\u{202f}' | '\u{2009}' | '\u{2007}' => ' ',
        '①'..='⑨' => char::from_digit(glyph as u32 - '①' as u32 + 1, 10).unwrap_or('*'),
        '\u{2800}'..='\u{28ff}' => braille(glyph),
        _ => '?',
    }
}

/// The ASCII character for a braille pattern. It depends on the rows that have dots.
fn braille(glyph: char) -> char {
    let dots = glyph as u32 - 0x2800;
    if dots == 0 {
        return ' ';
    }
    // The bits of each row from the top, in both columns (Unicode chapter 21, braille patterns: dots 1-3 and 7, 4-6
    // and 8).
    let rows: Vec<bool> = [0b0000_1001, 0b0001_0010, 0b0010_0100, 0b1100_0000].iter().map(|m| dots & m != 0).collect();
    match rows.iter().filter(|touched| **touched).count() {
        3 | 4 => '|',
        _ if rows[0] => '\'',
        _ if rows[3] => '.',
        _ => '-',
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn written(text: &str, ascii: bool) -> String {
        let mut bytes = Vec::new();
        write!(TextWriter::new(&mut bytes, ascii), "{text}").unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn text_for_other_charsets_has_the_shapes_of_the_characters() {
        let text = "\u{1b}[31m✖\u{1b}[0m a – b ▲ 1.3× █░ 5 µs…\n漢";
        assert_eq!(written(text, true), "\u{1b}[31mx\u{1b}[0m a - b ! 1.3x #. 5 us.\n?");
        assert_eq!(written(text, false), text);
    }

    #[test]
    fn ascii_characters_are_kept() {
        assert!((0..0x80).map(char::from).all(|glyph| ascii_of(glyph) == glyph));
    }
}
