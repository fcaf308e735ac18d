//! Finds the terminal's report of its background colour (OSC 11) in the keyboard input.
//!
//! The terminal sends the report through the same stream as keys: `ESC ] 11 ; rgb:RRRR/GGGG/BBBB ESC \`. crossterm
//! decodes this as Alt+], single characters and Alt+\. So the report is assembled from key events here. No frame
//! waits for it.

use crate::config::Background;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};

/// The query. The terminal ends its report with the same end mark.
pub(crate) const QUESTION: &str = "\x1b]11;?\x1b\\";
/// Maximum length of a report. The longest form has 30 characters.
const LONGEST: usize = 40;

/// Finds the report in a stream of inputs.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Delayed inputs that may be part of a report.
    held: Vec<Input>,
    text: String,
}

/// The meaning of an input.
#[derive(Debug, PartialEq)]
pub(crate) enum Heard {
    /// Inputs that are not part of a report. The list is empty while a report may be arriving.
    Inputs(Vec<Input>),
    /// A complete report; `None` if its colour cannot be read.
    Background(Option<Background>),
}

impl Answer {
    /// Processes the next input.
    pub(crate) fn hear(&mut self, input: Input) -> Heard {
        let key = match &input {
            Input::Key(KeyEvent { code: KeyCode::Char(glyph), modifiers, .. }) => Some((*glyph, *modifiers)),
            _ => None,
        };
        let begins = matches!(key, Some((']', KeyModifiers::ALT)));
        if self.held.is_empty() && !begins {
            return Heard::Inputs(vec![input]);
        }
        match key {
            Some((_, KeyModifiers::ALT)) if self.held.is_empty() => self.held.push(input),
            Some(('\\', KeyModifiers::ALT) | ('g', KeyModifiers::CONTROL)) => {
                let background = background(&self.text);
                *self = Self::default();
                return Heard::Background(background);
            }
            Some((glyph, modifiers))
                if self.held.len() < LONGEST
                    && !modifiers.intersects(KeyModifiers::ALT | KeyModifiers::CONTROL)
                    && (glyph.is_ascii_hexdigit() || "rgba:/;".contains(glyph)) =>
            {
                self.held.push(input);
                self.text.push(glyph);
            }
            _ => {
                let mut inputs = std::mem::take(&mut self.held);
                self.text.clear();
                inputs.push(input);
                return Heard::Inputs(inputs);
            }
        }
        Heard::Inputs(Vec::new())
    }
}

/// Parses `11;rgb:RRRR/GGGG/BBBB`. Each part has one to four digits, and an alpha part is allowed.
fn background(text: &str) -> Option<Background> {
    let parts = text.strip_prefix("11;")?;
    let parts = parts.strip_prefix("rgb:").or_else(|| parts.strip_prefix("rgba:"))?;
    let share = |part: &str| {
        let most = 16_u32.checked_pow(u32::try_from(part.len()).ok().filter(|digits| (1..=4).contains(digits))?)? - 1;
        Some(f64::from(u32::from_str_radix(part, 16).ok()?) / f64::from(most))
    };
    let mut shares = parts.split('/').map(share);
    let (red, green, blue) = (shares.next()??, shares.next()??, shares.next()??);
    let luma = 0.299 * red + 0.587 * green + 0.114 * blue;
    Some(if luma > 0.5 { Background::Light } else { Background::Dark })
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use super::*;

    fn key(glyph: char, modifiers: KeyModifiers) -> Input {
        Input::Key(KeyEvent::new(KeyCode::Char(glyph), modifiers))
    }

    /// The inputs that crossterm creates for a report.
    fn answer(text: &str) -> Vec<Input> {
        let inside = text.chars().map(|glyph| key(glyph, KeyModifiers::NONE));
        let (begin, end) = (key(']', KeyModifiers::ALT), key('\\', KeyModifiers::ALT));
        [begin].into_iter().chain(inside).chain([end]).collect()
    }

    fn last(inputs: Vec<Input>) -> Heard {
        let mut found = Answer::default();
        inputs.into_iter().map(|input| found.hear(input)).last().unwrap_or(Heard::Inputs(Vec::new()))
    }

    #[test]
    fn the_answer_gives_the_background_in_all_its_forms() {
        for (text, background) in [
            ("11;rgb:ffff/ffff/ffff", Some(Background::Light)),
            ("11;rgb:fd/f6/e3", Some(Background::Light)),
            ("11;rgb:0000/2b2b/3636", Some(Background::Dark)),
            ("11;rgba:1e1e/1e1e/1e1e/ffff", Some(Background::Dark)),
            ("11;rgb:ffff/ffff", None),
            ("10;rgb:ffff/ffff/ffff", None),
        ] {
            assert_eq!(last(answer(text)), Heard::Background(background), "{text}");
        }
    }

    #[test]
    fn no_key_is_lost_and_no_part_of_an_answer_becomes_a_key() {
        let mut found = Answer::default();
        let typed = [key('j', KeyModifiers::NONE), key(']', KeyModifiers::NONE), key('\\', KeyModifiers::ALT)];
        for input in &typed {
            assert_eq!(found.hear(input.clone()), Heard::Inputs(vec![input.clone()]));
        }
        for input in answer("11;rgb:0/0/0").into_iter().take(9) {
            assert_eq!(found.hear(input), Heard::Inputs(Vec::new()));
        }
        // The key is not part of a report, so all delayed inputs are treated as typed.
        let Heard::Inputs(inputs) = found.hear(key('q', KeyModifiers::NONE)) else { panic!("no answer was complete") };
        assert_eq!(inputs.len(), 10);
    }
}
