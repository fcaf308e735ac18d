//! The effect of a key or a click: requests to the event loop and to the session.

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
    /// Text for the clipboard.
    pub(crate) copy: Option<String>,
    pub(crate) export: bool,
    pub(crate) baseline: bool,
    /// The theme to use from now on.
    pub(crate) theme: Option<ThemeName>,
    /// Commands that need sudo. The terminal is first handed over to sudo, then they are sent.
    pub(crate) lend: Vec<Command>,
}

impl From<Command> for Effect {
    fn from(command: Command) -> Self {
        Self { commands: vec![command], ..Self::default() }
    }
}
