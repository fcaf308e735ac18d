//! The screens without a terminal: keys go in, frames are drawn into memory. For measuring what a key and a frame cost.

use super::app::{Screen, UiState};
use super::study::AT_ONCE;
use super::theme::Theme;
use super::worker::Worker;
use super::{layout, screens};
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
    worker: Worker,
}

impl Rehearsal {
    /// A terminal of this many columns and rows that shows a screen; the session counts as over.
    #[must_use]
    pub fn new(screen: Screen, columns: u16, rows: u16) -> Self {
        let area = Rect::new(0, 0, columns, rows);
        let small = columns < layout::WIDE || rows < layout::TALL;
        let narrow = columns < layout::SIDE_BY_SIDE;
        let mut ui = UiState { screen, over: true, small, narrow, ..UiState::default() };
        ui.desk.at_once = AT_ONCE;
        let theme = Theme::new(Taste { theme: ThemeName::Dark, depth: ColourDepth::True, ascii: false });
        Self { ui, theme, shown: Buffer::empty(area), next: Buffer::empty(area), worker: Worker::new() }
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

    /// Waits until what the frames asked for has been found out; the next frame shows it.
    pub fn settle(&mut self) {
        while self.ui.desk.is_waiting() {
            let Ok(answer) = self.worker.answers.recv() else { return };
            self.ui.take(answer);
        }
    }

    /// Draws a frame and returns how many cells differ from the one before.
    pub fn frame(&mut self, state: &State) -> usize {
        self.ui.clock_ns = state.now_ns;
        for answer in self.worker.answers.try_iter() {
            self.ui.take(answer);
        }
        self.ui.prepare(state);
        for question in std::mem::take(&mut self.ui.desk.out) {
            if let Some(answer) = self.worker.ask(question) {
                self.ui.take(answer);
            }
        }
        self.next.reset();
        let limits = screens::draw(state, &self.ui, &self.theme, &mut self.next);
        self.ui.hold_to(limits);
        let changed = self.shown.diff(&self.next).len();
        std::mem::swap(&mut self.shown, &mut self.next);
        changed
    }
}

impl Rehearsal {
    /// The last frame as text, a line a row.
    #[must_use]
    pub fn text(&self) -> String {
        let row = |y| (0..self.shown.area.width).filter_map(move |x| Some(self.shown.cell((x, y))?.symbol()));
        (0..self.shown.area.height).map(|y| row(y).collect::<String>() + "\n").collect()
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
        let first = stage.frame(&state);
        stage.settle();
        assert!(first + stage.frame(&state) > 500);
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
