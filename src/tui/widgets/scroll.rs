//! The scroll position of a text. The end of the text is known only after it was drawn.

use crate::tui::keys::action::Action;
use std::cell::Cell;

#[derive(Clone, Debug, Default)]
pub(crate) struct Scroll {
    at: Cell<usize>,
    last: Cell<usize>,
}

impl Scroll {
    /// Number of lines above the first visible line.
    pub(crate) const fn at(&self) -> usize {
        self.at.get()
    }

    /// The maximum position, from the last frame.
    pub(crate) const fn last(&self) -> usize {
        self.last.get()
    }

    pub(crate) fn set(&self, at: usize) {
        self.at.set(at);
    }

    /// Scrolls by an action. The next frame limits the position to the end of the text.
    pub(crate) fn act(&self, action: Action) {
        self.set(action.moved(self.at.get(), usize::MAX).unwrap_or(self.at.get()));
    }

    /// Stores the maximum position after drawing.
    pub(crate) fn drawn(&self, last: usize) {
        self.last.set(last);
        self.at.set(self.at.get().min(last));
    }
}
