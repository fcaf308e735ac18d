//! The one keymap: the tables of all screens, of the help, and of the keys for all screens. Footer, help, dispatch
//! and documents come from it.

use super::keys::action::Action;
use super::keys::bindings::{Binding, Bindings, Place};
use super::keys::table::specs;
use super::{everywhere, help, screens};
use crate::config::KeySetting;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

/// The keys.
#[derive(Clone, Debug)]
pub struct Keymap {
    pub(crate) bindings: Arc<Bindings>,
}

static DEFAULT: LazyLock<Keymap> = LazyLock::new(|| {
    let mut tables = screens::tables();
    tables.push((Place::Help, specs(help::TABLE)));
    tables.push((Place::Everywhere, specs(everywhere::TABLE)));
    Keymap { bindings: Arc::new(Bindings::collected(&tables)) }
});

impl Default for Keymap {
    fn default() -> Self {
        DEFAULT.clone()
    }
}

impl Keymap {
    /// The keys of the tables, with those of the settings in their place. An action that is not named keeps its keys.
    ///
    /// # Errors
    /// A sentence with file and line: an unknown action or key with the nearest known one, or a key that would mean two things on one screen.
    pub fn with(settings: &[KeySetting]) -> Result<Self, String> {
        Ok(Self { bindings: Arc::new(DEFAULT.bindings.with(settings)?) })
    }

    /// The part `[keys]` of a settings file with the keys of the program, commented out.
    #[must_use]
    pub fn template() -> String {
        let mut text = String::from(
            "\n[keys]\n# ACTION = a key, or a list of keys; [] takes them away. A key is one character, a name (up, down, left, right, tab, shift-tab,\n\
             # enter, space, pageup, pagedown, home, end, delete, backspace, f1 to f12) or ctrl- with a letter. Esc always closes, ctrl-c always stops.\n",
        );
        for (action, row) in first_rows() {
            let keys: Vec<String> = row.keys.iter().map(|key| format!("{:?}", key.spelled())).collect();
            let keys = if keys.len() == 1 { keys.concat() } else { format!("[{}]", keys.join(", ")) };
            let _ = writeln!(text, "# {} = {keys}  # {}", action.name(), plain(row.help));
        }
        text
    }

    /// The keys as a section of the manual page, in roff.
    #[must_use]
    pub fn manual() -> String {
        let safe = |text: &str| text.replace('\\', "\\e").replace('-', "\\-");
        let mut text = String::from(".SH KEYS\nThe settings file gives other keys to these actions.\n");
        for (action, row) in first_rows() {
            let keys: Vec<String> = row.keys.iter().map(|key| safe(&key.spelled())).collect();
            let (keys, name, help) = (keys.join(", "), action.name(), safe(plain(row.help)));
            let _ = writeln!(text, ".TP\n\\fB{keys}\\fR (\\fI{name}\\fR)\n{help}");
        }
        text
    }

    /// Every action with its keys, as a table for a document.
    #[must_use]
    pub fn document() -> String {
        let mut text = String::from("| key | action | effect |\n|---|---|---|\n");
        for (action, row) in first_rows() {
            let keys: Vec<String> =
                row.keys.iter().map(|key| format!("`{}`", key.spelled().replace('|', "\\|"))).collect();
            let _ = writeln!(text, "| {} | `{}` | {} |", keys.join(", "), action.name(), meanings(action));
        }
        text
    }
}

/// Every action with the first of its rows.
fn first_rows() -> impl Iterator<Item = (Action, &'static Binding)> {
    let map = &DEFAULT.bindings;
    map.actions().into_iter().filter_map(|action| Some((action, map.iter().find(|row| row.action == action)?)))
}

/// The help of an action, on all screens that have it.
fn meanings(action: Action) -> String {
    let mut all: Vec<&str> = Vec::new();
    for row in DEFAULT.bindings.iter().filter(|row| row.action == action) {
        if !all.contains(&plain(row.help)) {
            all.push(plain(row.help));
        }
    }
    all.join("; ")
}

/// A help text without the note on other keys, which a list of keys has anyway.
fn plain(help: &str) -> &str {
    help.split(" (also ").next().unwrap_or(help)
}
