//! Converts a frame to an SVG picture, so that pictures of the screens are never drawn by hand.
//!
//! Lines, blocks and braille dots become shapes, because fonts would draw them with gaps. Other characters become
//! text, which is stretched to its cells. The file has no external references.

use crate::text::markup;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Width and height of a cell in SVG units.
const CELL: (f64, f64) = (8.4, 18.0);
/// Margin around the frame in SVG units.
const MARGIN: f64 = 14.0;
/// The colours that replace the background and the text colour of the terminal.
const PAPER: &str = "#0f1117";
const INK: &str = "#d3d7df";

/// The picture. `title` is for users who cannot see it.
pub(crate) fn picture(buffer: &Buffer, title: &str) -> String {
    let (columns, rows) = (usize::from(buffer.area.width).max(1), usize::from(buffer.area.height));
    let (w, h) = (columns as f64 * CELL.0 + 2.0 * MARGIN, rows as f64 * CELL.1 + 2.0 * MARGIN);
    // A theme with a background also fills the margin.
    let ground = buffer.content().first().map_or_else(|| PAPER.to_owned(), |cell| name(cell.bg, PAPER));
    let mut shapes = Shapes::default();
    let mut text = String::new();
    for (y, row) in buffer.content().chunks(columns).enumerate() {
        let mut run: Option<Words> = None;
        for (x, cell) in row.iter().enumerate() {
            let (ink, paper) = colours(cell);
            let glyph = cell.symbol().chars().next().unwrap_or(' ');
            let origin = (MARGIN + x as f64 * CELL.0, MARGIN + y as f64 * CELL.1);
            if paper != ground {
                shapes.rectangle(&paper, origin, (0.0, 0.0, 1.0, 1.0));
            }
            let drawn = glyph == ' ' || shapes.glyph(&ink, origin, glyph);
            let bold = cell.modifier.contains(Modifier::BOLD);
            if drawn {
                // A single space does not end the text, so that the words of a sentence stay together.
                match &mut run {
                    Some(words) if glyph == ' ' && !words.text.ends_with(' ') => words.text.push(' '),
                    _ => flush(&mut text, run.take()),
                }
                continue;
            }
            let joins = run.as_ref().is_some_and(|w| w.ink == ink && w.bold == bold && common(glyph));
            if !joins {
                flush(&mut text, run.take());
            }
            let words = run.get_or_insert_with(|| Words { ink, bold, origin, text: String::new() });
            words.text.push(glyph);
            if !common(glyph) {
                flush(&mut text, run.take());
            }
        }
        flush(&mut text, run);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w:.0} {h:.0}\" width=\"{w:.0}\" height=\"{h:.0}\" role=\"img\">\n\
         <title>{}</title>\n<rect width=\"100%\" height=\"100%\" rx=\"10\" fill=\"{ground}\"/>\n{}\
         <g font-family=\"ui-monospace,'JetBrains Mono','SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"14\" \
         xml:space=\"preserve\">\n{text}</g>\n</svg>\n",
        markup(title),
        shapes.paths()
    )
}

/// Adjacent characters with the same style.
struct Words {
    ink: String,
    bold: bool,
    origin: (f64, f64),
    text: String,
}

fn flush(out: &mut String, words: Option<Words>) {
    let Some(words) = words else { return };
    let text = words.text.trim_end();
    let cells = text.chars().count();
    if cells == 0 {
        return;
    }
    let weight = if words.bold { " font-weight=\"bold\"" } else { "" };
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" textLength=\"{:.1}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{}\"{weight}>{}</text>",
        words.origin.0,
        words.origin.1 + CELL.1 * 0.72,
        cells as f64 * CELL.0,
        words.ink,
        markup(text)
    );
}

/// Whether all monospace fonts contain the character with the width of a cell. Other characters are placed
/// separately, so that a fallback font cannot move their neighbours.
fn common(glyph: char) -> bool {
    glyph.is_ascii() || ('\u{a0}'..='\u{17f}').contains(&glyph) || matches!(glyph, '–' | '…' | '‘' | '’' | '“' | '”')
}

fn colours(cell: &Cell) -> (String, String) {
    let mut ink = name(cell.fg, INK);
    let mut paper = name(cell.bg, PAPER);
    if cell.modifier.contains(Modifier::REVERSED) {
        std::mem::swap(&mut ink, &mut paper);
    }
    if cell.modifier.contains(Modifier::DIM) {
        ink = mixed(&ink, &paper);
    }
    (ink, paper)
}

fn name(colour: Color, otherwise: &str) -> String {
    match colour {
        Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
        // Pictures use 24-bit themes. A cell without a colour has the default colour of the terminal.
        _ => otherwise.to_owned(),
    }
}

/// Two thirds of one colour and one third of the other, like dim text in terminals.
fn mixed(ink: &str, paper: &str) -> String {
    let part = |text: &str, at: usize| text.get(at..at + 2).and_then(|p| u32::from_str_radix(p, 16).ok()).unwrap_or(0);
    let blend = |at| (part(ink, at) * 2 + part(paper, at)) / 3;
    format!("#{:02x}{:02x}{:02x}", blend(1), blend(3), blend(5))
}

/// Filled shapes and lines by colour. Backgrounds are first, because they are added first.
#[derive(Default)]
struct Shapes {
    papers: BTreeMap<String, String>,
    fills: BTreeMap<String, String>,
    lines: BTreeMap<String, String>,
}

impl Shapes {
    /// Adds a rectangle. `part` contains fractions of a cell.
    fn rectangle(&mut self, colour: &str, origin: (f64, f64), part: (f64, f64, f64, f64)) {
        let complete = part == (0.0, 0.0, 1.0, 1.0);
        let layer = if complete { &mut self.papers } else { &mut self.fills };
        rectangle(layer.entry(colour.to_owned()).or_default(), origin, part);
    }

    /// Draws a character as a shape. Returns false if the character must be drawn as text.
    fn glyph(&mut self, ink: &str, origin: (f64, f64), glyph: char) -> bool {
        let eighths = |n: u32| f64::from(n) / 8.0;
        let code = glyph as u32;
        let part = match glyph {
            '█' => (0.0, 0.0, 1.0, 1.0),
            '▁'..='▇' => (0.0, 1.0 - eighths(code - 0x2580), 1.0, 1.0),
            '▉'..='▏' => (0.0, 0.0, eighths(0x2590 - code), 1.0),
            '▐' => (0.5, 0.0, 1.0, 1.0),
            '▀' => (0.0, 0.0, 1.0, 0.5),
            '▕' => (0.875, 0.0, 1.0, 1.0),
            '░' | '▒' | '▓' => {
                let shade = if glyph == '░' { mixed(PAPER, ink) } else { mixed(ink, PAPER) };
                rectangle(self.fills.entry(shade).or_default(), origin, (0.0, 0.0, 1.0, 1.0));
                return true;
            }
            '\u{2800}'..='\u{28ff}' => {
                const DOTS: [(f64, f64); 8] =
                    [(0.0, 0.0), (0.0, 1.0), (0.0, 2.0), (1.0, 0.0), (1.0, 1.0), (1.0, 2.0), (0.0, 3.0), (1.0, 3.0)];
                let path = self.fills.entry(ink.to_owned()).or_default();
                for (_, (x, y)) in DOTS.iter().enumerate().filter(|(bit, _)| (code - 0x2800) & (1 << bit) != 0) {
                    rectangle(path, origin, (0.08 + x * 0.5, 0.06 + y * 0.25, 0.42 + x * 0.5, 0.20 + y * 0.25));
                }
                return true;
            }
            _ => return self.line(ink, origin, glyph),
        };
        let path = self.fills.entry(ink.to_owned()).or_default();
        rectangle(path, origin, part);
        true
    }

    fn line(&mut self, ink: &str, (x, y): (f64, f64), glyph: char) -> bool {
        let (w, h) = CELL;
        let (cx, cy) = (x + w / 2.0, y + h / 2.0);
        let across = |from: f64, to: f64| format!("M{:.1} {cy:.1}H{:.1}", x + from * w, x + to * w);
        let down = |from: f64, to: f64| format!("M{cx:.1} {:.1}V{:.1}", y + from * h, y + to * h);
        let path = match glyph {
            '─' | '━' => across(0.0, 1.0),
            '│' | '┃' => down(0.0, 1.0),
            '┄' | '┈' | '╌' => format!("{}{}", across(0.1, 0.4), across(0.6, 0.9)),
            '┆' | '┊' => format!("{}{}", down(0.1, 0.4), down(0.6, 0.9)),
            '┤' => format!("{}{}", down(0.0, 1.0), across(0.0, 0.5)),
            '├' => format!("{}{}", down(0.0, 1.0), across(0.5, 1.0)),
            '┬' => format!("{}{}", across(0.0, 1.0), down(0.5, 1.0)),
            '┴' => format!("{}{}", across(0.0, 1.0), down(0.0, 0.5)),
            '┼' => format!("{}{}", across(0.0, 1.0), down(0.0, 1.0)),
            '╭' => format!("M{cx:.1} {:.1}Q{cx:.1} {cy:.1} {:.1} {cy:.1}", y + h, x + w),
            '╮' => format!("M{cx:.1} {:.1}Q{cx:.1} {cy:.1} {x:.1} {cy:.1}", y + h),
            '╰' => format!("M{cx:.1} {y:.1}Q{cx:.1} {cy:.1} {:.1} {cy:.1}", x + w),
            '╯' => format!("M{cx:.1} {y:.1}Q{cx:.1} {cy:.1} {x:.1} {cy:.1}"),
            '═' => {
                let (a, b) = (cy - 1.5, cy + 1.5);
                format!("M{x:.1} {a:.1}h{w:.1}M{x:.1} {b:.1}h{w:.1}")
            }
            _ => return false,
        };
        self.lines.entry(ink.to_owned()).or_default().push_str(&path);
        true
    }

    fn paths(&self) -> String {
        let mut out = String::new();
        for layer in [&self.papers, &self.fills] {
            for (colour, path) in layer {
                let _ = writeln!(out, "<path fill=\"{colour}\" d=\"{path}\"/>");
            }
        }
        for (colour, path) in &self.lines {
            let _ = writeln!(out, "<path fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.2\" d=\"{path}\"/>");
        }
        out
    }
}

fn rectangle(path: &mut String, (x, y): (f64, f64), (left, top, right, bottom): (f64, f64, f64, f64)) {
    let (w, h) = CELL;
    let _ = write!(
        path,
        "M{:.1} {:.1}h{:.1}v{:.1}h-{:.1}z",
        x + left * w,
        y + top * h,
        (right - left) * w,
        (bottom - top) * h,
        (right - left) * w
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    #[test]
    fn text_is_escaped_and_shapes_are_shapes() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 1));
        buffer.set_string(0, 0, "a<b █⣿╭", Style::new());
        let svg = picture(&buffer, "a & b");
        assert!(svg.contains("<title>a &amp; b</title>") && svg.contains(">a&lt;b</text>"), "{svg}");
        assert!(!svg.contains('█') && !svg.contains('⣿') && !svg.contains('╭') && svg.contains("stroke="));
    }
}
