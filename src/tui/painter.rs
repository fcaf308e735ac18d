//! Writes frames to the terminal. It sends only changed cells and never queries the terminal.

use ratatui::backend::Backend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Keeps the last frame and sends only the differences to the terminal.
///
/// `ratatui::Terminal` is not used, because it hides the cursor and resets the style in every frame, even without
/// changes. It also queries the position of the cursor in some of its constructors.
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

    /// Reads the size from the backend (not from the terminal) and redraws everything in the next frame.
    pub(crate) fn measure(&mut self) -> Result<(), B::Error> {
        let size = self.backend.size()?;
        let area = Rect::new(0, 0, size.width, size.height);
        self.shown = Buffer::empty(area);
        self.next = Buffer::empty(area);
        self.fresh = true;
        Ok(())
    }

    /// Width of the terminal in columns.
    pub(crate) fn width(&self) -> u16 {
        self.next.area.width
    }

    /// Height of the terminal in rows.
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

    /// The frame that the terminal shows.
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
