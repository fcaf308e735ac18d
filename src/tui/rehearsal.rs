//! The screens without a terminal: keys go in, frames are drawn into memory. For measuring what a key and a frame cost.

use super::app::{Screen, UiState};
use super::screens;
use super::theme::Theme;
use crate::config::{ColourDepth, Taste, ThemeName};
use crate::session::State;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// A user at a terminal that is not there. Every step takes the ways of the real loop: the key's action, what must be computed, the frame,
/// and the comparison with the frame before.
#[derive(Debug)]
pub struct Rehearsal {
    ui: UiState,
    theme: Theme,
    shown: Buffer,
    next: Buffer,
}

impl Rehearsal {
    /// A terminal of this many columns and rows that shows a screen; the session counts as over.
    #[must_use]
    pub fn new(screen: Screen, columns: u16, rows: u16) -> Self {
        let area = Rect::new(0, 0, columns, rows);
        let small = columns < screens::WIDE || rows < screens::TALL;
        let narrow = columns < screens::SIDE_BY_SIDE;
        let ui = UiState { screen, over: true, small, narrow, ..UiState::default() };
        let theme = Theme::new(Taste { theme: ThemeName::Dark, depth: ColourDepth::True, ascii: false });
        Self { ui, theme, shown: Buffer::empty(area), next: Buffer::empty(area) }
    }

    /// Presses the key of a character; `\n` is Enter, `\u{8}` Backspace, `\u{1b}` Esc.
    pub fn key(&mut self, key: char, state: &State) {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\u{8}' => KeyCode::Backspace,
            '\u{1b}' => KeyCode::Esc,
            key => KeyCode::Char(key),
        };
        self.ui.input(&Input::Key(KeyEvent::new(code, KeyModifiers::NONE)), state);
    }

    /// Draws a frame and returns how many cells differ from the one before.
    pub fn frame(&mut self, state: &State) -> usize {
        self.ui.clock_ns = state.now_ns;
        self.ui.prepare(state);
        self.next.reset();
        let limits = screens::draw(state, &self.ui, &self.theme, &mut self.next);
        self.ui.hold_to(limits);
        let changed = self.shown.diff(&self.next).len();
        std::mem::swap(&mut self.shown, &mut self.next);
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::testdata;

    #[test]
    fn an_unchanged_frame_differs_in_nothing_and_a_key_in_something() {
        let state = testdata::many_tensors(500);
        let mut stage = Rehearsal::new(Screen::Tensors, 120, 36);
        assert!(stage.frame(&state) > 500);
        assert_eq!(stage.frame(&state), 0);
        stage.key('s', &state);
        assert!(stage.frame(&state) > 20);
        for key in "/blocks.49\n".chars() {
            stage.key(key, &state);
        }
        stage.frame(&state);
        assert_eq!(stage.ui.tensors.order.len(), 11);
    }
}
