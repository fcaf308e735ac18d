//! How far a text is scrolled. Its end is known only after it was drawn.

use crate::tui::keys::action::Action;
use std::cell::Cell;

#[derive(Clone, Debug, Default)]
pub(crate) struct Scroll {
    at: Cell<usize>,
    last: Cell<usize>,
}

impl Scroll {
    /// Lines above the first that is shown.
    pub(crate) const fn at(&self) -> usize {
        self.at.get()
    }

    /// How far the last frame could be scrolled.
    pub(crate) const fn last(&self) -> usize {
        self.last.get()
    }

    pub(crate) fn set(&self, at: usize) {
        self.at.set(at);
    }

    /// Scrolls; the next frame holds it back at the end of the text.
    pub(crate) fn act(&self, action: Action) {
        self.set(action.moved(self.at.get(), usize::MAX).unwrap_or(self.at.get()));
    }

    /// Takes from a frame how far its text can be scrolled.
    pub(crate) fn drawn(&self, last: usize) {
        self.last.set(last);
        self.at.set(self.at.get().min(last));
    }
}
