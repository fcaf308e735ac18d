//! Writes frames to the terminal: only changed cells, and never a query.

use ratatui::backend::Backend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Keeps the last frame and sends the difference.
///
/// `ratatui::Terminal` would do the same but hides the cursor and resets the style in every frame, changed or not, and asks for the cursor's
/// position in some of its ways of starting.
#[derive(Debug)]
pub(crate) struct Painter<B: Backend> {
    backend: B,
    shown: Buffer,
    next: Buffer,
    fresh: bool,
}

impl<B: Backend> Painter<B> {
    pub(crate) fn new(backend: B) -> Result<Self, B::Error> {
        let mut painter =
            Self { backend, shown: Buffer::empty(Rect::ZERO), next: Buffer::empty(Rect::ZERO), fresh: true };
        painter.measure()?;
        Ok(painter)
    }

    /// Asks the backend (not the terminal) for the size and redraws everything in the next frame.
    pub(crate) fn measure(&mut self) -> Result<(), B::Error> {
        let size = self.backend.size()?;
        let area = Rect::new(0, 0, size.width, size.height);
        self.shown = Buffer::empty(area);
        self.next = Buffer::empty(area);
        self.fresh = true;
        Ok(())
    }

    /// Columns.
    pub(crate) fn width(&self) -> u16 {
        self.next.area.width
    }

    /// Rows.
    pub(crate) fn height(&self) -> u16 {
        self.next.area.height
    }

    /// Draws one frame; returns whether anything changed on the terminal.
    pub(crate) fn paint(&mut self, draw: impl FnOnce(&mut Buffer)) -> Result<bool, B::Error> {
        self.next.reset();
        draw(&mut self.next);
        if self.fresh {
            self.backend.hide_cursor()?;
            self.backend.clear()?;
            self.fresh = false;
        } else if self.next == self.shown {
            return Ok(false);
        }
        let changes = self.shown.diff(&self.next);
        self.backend.draw(changes.into_iter())?;
        self.backend.flush()?;
        std::mem::swap(&mut self.shown, &mut self.next);
        Ok(true)
    }

    /// The frame on the terminal.
    #[cfg(test)]
    pub(crate) fn shown(&self) -> &Buffer {
        &self.shown
    }

    /// The backend.
    #[cfg(test)]
    pub(crate) fn backend_mut(&mut self) -> &mut B {
        &mut self.backend
    }
}
