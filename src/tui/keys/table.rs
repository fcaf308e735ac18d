//! Key tables. Each row has a binding and a condition.

use super::action::Action;
use super::key::{Key, letter, plain};
use super::spec::Spec;
use crate::session::State;
use crate::tui::context::Ui;
use crossterm::event::KeyCode;

/// A row of a key table. `S` is the state that its condition uses.
#[derive(Debug)]
pub(crate) struct Row<S: 'static> {
    pub(crate) spec: Spec,
    /// Whether the action is available now.
    pub(crate) when: When<S>,
}

/// Creates a row: action, keys, label, word for the footer, sentence for the help, condition.
macro_rules! bind {
    ($action:expr, [$($key:expr),*], $label:literal, $short:literal, $help:literal, $when:expr) => {
        $crate::tui::keys::table::Row {
            spec: $crate::tui::keys::spec::Spec {
                action: $action,
                keys: &[$($key),*],
                label: $label,
                short: $short,
                help: $help,
            },
            when: $when,
        }
    };
}
pub(crate) use bind;

const UP: &[Key] = &[plain(KeyCode::Up), letter('k')];
const DOWN: &[Key] = &[plain(KeyCode::Down), letter('j')];

/// The condition of a row.
pub(crate) type When<S> = fn(&Ui<'_, S>, &State) -> bool;

/// The row for moving up. Its place in the footer stands for both directions.
pub(crate) const fn up<S>(when: When<S>) -> Row<S> {
    Row { spec: Spec { action: Action::Up, keys: UP, label: "↑↓", short: "move", help: "move up (also k)" }, when }
}

/// The row that moves down.
pub(crate) const fn down<S>(when: When<S>) -> Row<S> {
    Row { spec: Spec { action: Action::Down, keys: DOWN, label: "↓", short: "", help: "move down (also j)" }, when }
}

/// The condition of a row that is always available.
pub(crate) fn always<S>(_: &Ui<'_, S>, _: &State) -> bool {
    true
}

/// The specifications of a table, for the keymap.
pub(crate) fn specs<S>(table: &'static [Row<S>]) -> Vec<&'static Spec> {
    table.iter().map(|row| &row.spec).collect()
}
