//! Key tables. Each row has a binding and a condition.

use super::spec::Spec;
use crate::session::State;
use crate::tui::context::Ui;

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
                keys: const { &[$($key),*] },
                label: $label,
                short: $short,
                help: $help,
            },
            when: $when,
        }
    };
}
pub(crate) use bind;

/// The condition of a row.
pub(crate) type When<S> = fn(&Ui<'_, S>, &State) -> bool;

impl<S> Row<S> {
    /// The same row with another word for the footer. With an empty word the footer does not show the row.
    pub(crate) const fn footer(mut self, short: &'static str) -> Self {
        self.spec.short = short;
        self
    }
}

/// The condition of a row that is always available.
pub(crate) fn always<S>(_: &Ui<'_, S>, _: &State) -> bool {
    true
}

/// The specifications of a table, for the keymap.
pub(crate) fn specs<S>(table: &'static [Row<S>]) -> Vec<&'static Spec> {
    table.iter().map(|row| &row.spec).collect()
}
