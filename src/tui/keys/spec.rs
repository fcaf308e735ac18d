//! The action, keys and texts of a row in a table of keys.

use super::action::Action;
use super::key::Key;

/// An action with the keys that it has unless the settings name others.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) action: Action,
    pub(crate) keys: &'static [Key],
    /// The keys as shown.
    pub(crate) label: &'static str,
    /// One or two words for the footer; empty keeps it out of there.
    pub(crate) short: &'static str,
    /// A sentence for the help.
    pub(crate) help: &'static str,
}
