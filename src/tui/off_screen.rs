//! Runs the screens without a terminal: frames are drawn into memory. It is used for pictures, and for measuring the
//! time of keys and frames.

use super::app::App;
use super::context::Context;
use super::jobs::queue::AT_ONCE;
use super::jobs::thread::JobThread;
use super::keymap::Keymap;
use super::screen_id::ScreenId;
use super::svg;
use super::theme::Theme;
use crate::config::{ColourDepth, Taste, ThemeName};
use crate::session::State;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::fmt;
use std::time::Duration;

/// The screens in memory. Each step does the same as the event loop: the action of a key, derived values, the frame,
/// and the comparison with the previous frame.
pub struct OffScreen {
    app: App,
    theme: Theme,
    shown: Buffer,
    next: Buffer,
    thread: JobThread,
}

impl fmt::Debug for OffScreen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OffScreen").field("screen", &self.app.current).finish_non_exhaustive()
    }
}

impl OffScreen {
    /// Creates the screens with this number of columns and rows. They show a session that has ended.
    #[must_use]
    pub fn new(screen: ScreenId, columns: u16, rows: u16) -> Self {
        let area = Rect::new(0, 0, columns, rows);
        let ctx = Context { over: true, keys: Keymap::default().bindings, ..Context::default() };
        let mut app = App::new(screen, ctx);
        app.resize(columns, rows);
        app.jobs.at_once = AT_ONCE;
        let theme = Theme::new(Taste { theme: ThemeName::Dark, depth: ColourDepth::True, ..Taste::default() });
        Self { app, theme, shown: Buffer::empty(area), next: Buffer::empty(area), thread: JobThread::new() }
    }

    /// Presses the key of a character: `\n` is Enter, `\t` Tab, `\u{8}` Backspace, `\u{1b}` Esc.
    pub fn key(&mut self, key: char, state: &State) {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\u{8}' => KeyCode::Backspace,
            '\u{1b}' => KeyCode::Esc,
            key => KeyCode::Char(key),
        };
        self.app.input(&Input::Key(KeyEvent::new(code, KeyModifiers::NONE)), state);
    }

    /// Waits until the jobs of the frames are done. The next frame shows their results.
    pub fn settle(&mut self) {
        while self.app.jobs.is_waiting() {
            let Ok(done) = self.thread.done.recv() else { return };
            self.app.take(done);
        }
    }

    /// Advances animations.
    pub fn pass(&mut self, time: Duration) {
        self.app.tick(time);
    }

    /// Draws a frame and returns the number of cells that differ from the previous frame.
    pub fn frame(&mut self, state: &State) -> usize {
        self.app.ctx.clock_ns = state.now_ns;
        for done in self.thread.done.try_iter() {
            self.app.take(done);
        }
        self.app.prepare(state);
        for job in std::mem::take(&mut self.app.jobs.out) {
            if let Some(done) = self.thread.run(job) {
                self.app.take(done);
            }
        }
        self.next.reset();
        self.app.draw(state, &self.theme, &mut self.next);
        let changed = self.shown.diff(&self.next).len();
        std::mem::swap(&mut self.shown, &mut self.next);
        changed
    }

    /// The last frame as SVG. The title is for users who cannot see the picture.
    #[must_use]
    pub fn svg(&self, title: &str) -> String {
        svg::picture(&self.shown, title)
    }

    /// The last frame as text, one line per row.
    #[must_use]
    pub fn text(&self) -> String {
        let row = |y| (0..self.shown.area.width).filter_map(move |x| Some(self.shown.cell((x, y))?.symbol()));
        (0..self.shown.area.height).map(|y| row(y).collect::<String>() + "\n").collect()
    }
}
