//! The requests of a key or a click to the event loop and to the session.

use crate::config::ThemeName;
use crate::session::Command;

/// The result of an input.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) commands: Vec<Command>,
    pub(crate) quit: bool,
    pub(crate) interrupt: bool,
    pub(crate) suspend: bool,
    pub(crate) repaint: bool,
    /// For the clipboard of the terminal.
    pub(crate) copy: Option<String>,
    pub(crate) export: bool,
    pub(crate) baseline: bool,
    /// Draw with the colours of this theme from now on.
    pub(crate) theme: Option<ThemeName>,
    /// Lend the terminal to sudo first; then these commands are sent.
    pub(crate) lend: Vec<Command>,
}

impl From<Command> for Effect {
    fn from(command: Command) -> Self {
        Self { commands: vec![command], ..Self::default() }
    }
}
