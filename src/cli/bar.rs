//! The progress bar of a command that does not run a session.

use super::args::OutputArgs;
use super::streams;
use super::terminal::headless_options;
use std::io::Write as _;

/// Characters of the bar.
const WIDTH: u64 = 30;

/// A bar on standard error. It is drawn on a terminal only.
pub(super) struct Bar {
    on: bool,
    /// The percentage that is drawn now.
    drawn: Option<u64>,
}

impl Bar {
    /// A bar that has not been drawn yet.
    pub(super) fn new(output: &OutputArgs) -> Self {
        let options = headless_options(output, None);
        Self { on: options.progress && !options.quiet, drawn: None }
    }

    /// Draws the bar and a text after it, if the percentage has changed.
    pub(super) fn show(&mut self, done: u64, total: u64, text: &str) {
        let percent = done.saturating_mul(100).checked_div(total).unwrap_or(100).min(100);
        if !self.on || self.drawn == Some(percent) {
            return;
        }
        self.drawn = Some(percent);
        let full = (percent * WIDTH).div_ceil(100);
        let (on, off) = ("█".repeat(full as usize), "░".repeat((WIDTH - full) as usize));
        let mut err = streams::err();
        let _ = write!(err, "\r\x1b[K{on}{off} {percent:>3} %  {text} ").and_then(|()| err.flush());
    }

    /// Removes the bar, so that a line can be printed.
    pub(super) fn clear(&mut self) {
        if self.drawn.take().is_some() {
            let mut err = streams::err();
            let _ = write!(err, "\r\x1b[K").and_then(|()| err.flush());
        }
    }
}
