//! A key, with its spelling in settings and on screens.

use crate::core::nearest::hint;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A key with or without Ctrl. Shift is part of the character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) code: KeyCode,
    pub(crate) control: bool,
}

pub(crate) const fn plain(code: KeyCode) -> Key {
    Key { code, control: false }
}

pub(crate) const fn letter(c: char) -> Key {
    plain(KeyCode::Char(c))
}

pub(crate) const fn control(c: char) -> Key {
    Key { code: KeyCode::Char(c), control: true }
}

const KEY_NAMES: [(&str, KeyCode); 15] = [
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("tab", KeyCode::Tab),
    ("shift-tab", KeyCode::BackTab),
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("space", KeyCode::Char(' ')),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("delete", KeyCode::Delete),
    ("backspace", KeyCode::Backspace),
];

impl Key {
    /// The key of a terminal event.
    pub(crate) fn pressed(event: KeyEvent) -> Self {
        Self { code: event.code, control: event.modifiers.contains(KeyModifiers::CONTROL) }
    }

    /// Parses a key of the settings file. The error names the problem.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut glyphs = text.chars();
        if let (Some(glyph), None) = (glyphs.next(), glyphs.next())
            && !glyph.is_control()
        {
            return Ok(Key { code: KeyCode::Char(glyph), control: false });
        }
        let lower = text.to_ascii_lowercase();
        if let Some((_, code)) = KEY_NAMES.iter().find(|(name, _)| *name == lower) {
            return Ok(Key { code: *code, control: false });
        }
        if let Some(number) =
            lower.strip_prefix('f').and_then(|n| n.parse::<u8>().ok()).filter(|n| (1..=12).contains(n))
        {
            return Ok(Key { code: KeyCode::F(number), control: false });
        }
        if let Some(glyph) =
            lower.strip_prefix("ctrl-").filter(|rest| rest.len() == 1).and_then(|rest| rest.chars().next())
        {
            if matches!(glyph, 'i' | 'm' | 'j' | 'h' | '[') {
                return Err(format!(
                    "a terminal sends the same code for '{text}' and for tab, enter, backspace or esc"
                ));
            }
            return Ok(Key { code: KeyCode::Char(glyph), control: true });
        }
        let mut known: Vec<&str> = KEY_NAMES.iter().map(|(name, _)| *name).collect();
        known.push("ctrl-a");
        Err(format!("'{text}' is not a key{}", hint(text, &known)))
    }

    /// The spelling of a key in the settings.
    pub(crate) fn spelled(self) -> String {
        if self.control {
            return match self.code {
                KeyCode::Char(glyph) => format!("ctrl-{glyph}"),
                other => format!("{other:?}"),
            };
        }
        if let Some((name, _)) = KEY_NAMES.iter().find(|(_, code)| *code == self.code) {
            return (*name).to_owned();
        }
        match self.code {
            KeyCode::Char(glyph) => glyph.to_string(),
            KeyCode::F(number) => format!("f{number}"),
            other => format!("{other:?}"),
        }
    }

    /// The spelling of a key on screens.
    pub(crate) fn shown(self) -> String {
        if self.control {
            return match self.code {
                KeyCode::Char(glyph) => format!("^{}", glyph.to_ascii_uppercase()),
                other => format!("{other:?}"),
            };
        }
        match self.code {
            KeyCode::Up => "↑".to_owned(),
            KeyCode::Down => "↓".to_owned(),
            KeyCode::Left => "←".to_owned(),
            KeyCode::Right => "→".to_owned(),
            KeyCode::Enter => "⏎".to_owned(),
            KeyCode::Tab => "Tab".to_owned(),
            KeyCode::BackTab => "S-Tab".to_owned(),
            KeyCode::Esc => "Esc".to_owned(),
            KeyCode::PageUp => "PgUp".to_owned(),
            KeyCode::PageDown => "PgDn".to_owned(),
            KeyCode::Home => "Home".to_owned(),
            KeyCode::End => "End".to_owned(),
            KeyCode::Delete => "Del".to_owned(),
            KeyCode::F(number) => format!("F{number}"),
            _ => self.spelled(),
        }
    }
}
