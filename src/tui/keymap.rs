//! The one keymap. It contains the key tables of all screens and of the help, and the keys that work everywhere.
//! Footer, help, dispatch and documents are made from it.

use super::keys::action::Action;
use super::keys::bindings::{Binding, Bindings, Place};
use super::keys::table::specs;
use super::{everywhere, help, screens};
use crate::config::KeySetting;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

/// The keymap.
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
    /// The keymap with the keys of the settings. An action that the settings do not name keeps its keys.
    ///
    /// # Errors
    /// Returns a sentence with file and line for an unknown action or key, with the most similar known one, or for a
    /// key with two meanings on one screen.
    pub fn with(settings: &[KeySetting]) -> Result<Self, String> {
        Ok(Self { bindings: Arc::new(DEFAULT.bindings.with(settings)?) })
    }

    /// The section `[keys]` of a settings file with the default keys, commented out.
    #[must_use]
    pub fn template() -> String {
        let mut text = String::from(
            "\n[keys]\n# ACTION = a key, or a list of keys; [] removes them. A key is one character, a name (up, down, left, right, tab, shift-tab,\n\
             # enter, space, pageup, pagedown, home, end, delete, backspace, f1 to f12) or ctrl- with a letter. Esc always closes, ctrl-c always stops.\n",
        );
        for (action, row) in first_rows() {
            let keys: Vec<String> = row.keys.iter().map(|key| format!("{:?}", key.spelled())).collect();
            let keys = if keys.len() == 1 { keys.concat() } else { format!("[{}]", keys.join(", ")) };
            let _ = writeln!(text, "# {} = {keys}  # {}", action.name(), row.help);
        }
        text
    }

    /// The keys as a section of the manual page, in roff format.
    #[must_use]
    pub fn manual() -> String {
        let safe = |text: &str| text.replace('\\', "\\e").replace('-', "\\-");
        let mut text = String::from(".SH KEYS\nThe settings file gives other keys to these actions.\n");
        for (action, row) in first_rows() {
            let keys: Vec<String> = row.keys.iter().map(|key| safe(&key.spelled())).collect();
            let (keys, name, help) = (keys.join(", "), action.name(), safe(row.help));
            let _ = writeln!(text, ".TP\n\\fB{keys}\\fR (\\fI{name}\\fR)\n{help}");
        }
        text
    }

    /// All actions with their keys, as a table for a document.
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

/// Each action with its first row in the tables.
fn first_rows() -> impl Iterator<Item = (Action, &'static Binding)> {
    let map = &DEFAULT.bindings;
    map.actions().into_iter().filter_map(|action| Some((action, map.iter().find(|row| row.action == action)?)))
}

/// The help texts of an action on all screens that have it.
fn meanings(action: Action) -> String {
    let mut all: Vec<&str> = Vec::new();
    for row in DEFAULT.bindings.iter().filter(|row| row.action == action) {
        if !all.contains(&row.help) {
            all.push(row.help);
        }
    }
    all.join("; ")
}
