//! The specification of a row in a key table: its action, keys and texts.

use super::action::Action;
use super::key::Key;

/// An action with its default keys.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) action: Action,
    pub(crate) keys: &'static [Key],
    /// The keys as text.
    pub(crate) label: &'static str,
    /// One or two words for the footer. If empty, the action is not in the footer.
    pub(crate) short: &'static str,
    /// The sentence in the help.
    pub(crate) help: &'static str,
}
