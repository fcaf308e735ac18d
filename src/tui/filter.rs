//! The filter of a screen while it is typed.

use super::app::{Screen, UiState};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

impl UiState {
    /// Keys while a filter is typed; those that are no text fall through.
    pub(super) fn filter_key(&mut self, key: KeyEvent) -> bool {
        match key.code {
            KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => self.filter_mut().clear(),
            KeyCode::Char(_) if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char(c) => self.filter_mut().push(c),
            KeyCode::Backspace => {
                self.filter_mut().pop();
            }
            KeyCode::Enter => self.filtering = false,
            KeyCode::Esc => {
                self.filtering = false;
                self.filter_mut().clear();
            }
            _ => return false,
        }
        self.environment.selected = None;
        self.environment.detail_scroll = 0;
        self.tensors.at = 0;
        true
    }

    /// The filter of the screen.
    pub(super) fn filter_mut(&mut self) -> &mut String {
        match self.screen {
            Screen::Tensors => &mut self.tensors.filter,
            Screen::System => &mut self.system.filter,
            _ => &mut self.environment.filter,
        }
    }

    /// What the filter of the screen says.
    pub(crate) fn filter(&self) -> &str {
        match self.screen {
            Screen::Tensors => &self.tensors.filter,
            Screen::System => &self.system.filter,
            _ => &self.environment.filter,
        }
    }
}
