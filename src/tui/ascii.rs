//! The last drawing step for ASCII terminals: it replaces every other character by the ASCII character with the most
//! similar shape.

use ratatui::buffer::Buffer;

/// Replaces all characters in the buffer that are not ASCII.
pub(crate) fn flatten(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if !cell.symbol().is_ascii() {
            let glyph = cell.symbol().chars().next().map_or(' ', plain);
            cell.set_char(glyph);
        }
    }
}

fn plain(glyph: char) -> char {
    match glyph {
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
        '○' | '◌' | '▫' | '◎' => 'o',
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
        '²' => '2',
        '³' => '3',
        '⁰' => '0',
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
mod tests {
    use super::*;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    #[test]
    fn whatever_is_drawn_ends_as_ascii() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 1));
        buffer.set_string(0, 0, "╭✔①×⣿⠉⡀é漢", Style::new());
        flatten(&mut buffer);
        let shown: String = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
        assert!(shown.is_ascii(), "{shown}");
        assert!(shown.starts_with("++1x|'.??"), "{shown}");
    }
}
